"""Whole-device schedulers: what others run or have published, to compare with.

Each is an order of the jobs, in which they take devices (:mod:`gavelx.policies.greedy`); ``allox`` plans queues.
"""
