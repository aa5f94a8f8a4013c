"""The wire: what service and agents say to each other, and all that they share.

``wire.proto`` is the contract; ``wire_pb2`` and ``wire_pb2_grpc`` are made from it by ``make proto``.
"""
