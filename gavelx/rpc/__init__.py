"""The protocol between service, agents and users, and the code that they share.

``wire.proto`` is the contract; ``wire_pb2`` and ``wire_pb2_grpc`` are made from it by ``make proto``.
"""
