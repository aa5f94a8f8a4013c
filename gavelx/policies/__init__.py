"""Policies: how to share a cluster, written as formulas.

Take one by name (`load_policy`), compose your own from terms (`Maximize`, `Worst`, `Cost`, ...), or subclass
`Policy`.
"""

from gavelx.policies.base import Policy
from gavelx.policies.catalog import catalog, load_policy, modifiers, split_policies
from gavelx.policies.convex import Convex, ConvexView
from gavelx.policies.fifo import Fifo
from gavelx.policies.finish_time_fairness import FinishTimeFairness
from gavelx.policies.isolated import Isolated
from gavelx.policies.makespan import Makespan
from gavelx.policies.max_min_fairness import MaxMinFairness
from gavelx.policies.max_sum_throughput import MaxSumThroughput
from gavelx.policies.modifiers import agnostic
from gavelx.policies.program import Maximize, Minimize
from gavelx.policies.terms import (
    Constraint,
    Cost,
    Devices,
    FinishTimeRatio,
    Fractional,
    Largest,
    Linear,
    NormalizedThroughput,
    Sum,
    SumThroughput,
    Term,
    Throughput,
    TimeLeft,
    TimeShare,
    Worst,
)
from gavelx.policies.view import View

__all__ = [
    "Constraint",
    "Convex",
    "ConvexView",
    "Cost",
    "Devices",
    "Fifo",
    "FinishTimeFairness",
    "FinishTimeRatio",
    "Fractional",
    "Isolated",
    "Largest",
    "Linear",
    "Makespan",
    "MaxMinFairness",
    "MaxSumThroughput",
    "Maximize",
    "Minimize",
    "NormalizedThroughput",
    "Policy",
    "Sum",
    "SumThroughput",
    "Term",
    "Throughput",
    "TimeLeft",
    "TimeShare",
    "View",
    "Worst",
    "agnostic",
    "catalog",
    "load_policy",
    "modifiers",
    "split_policies",
]
