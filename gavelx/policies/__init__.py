"""Policies: how to share a cluster, written as formulas.

Take one by name (`load_policy`), compose your own from terms (`Maximize`, `Worst`, `Cost`, ...), or subclass
`Policy`.
"""

from gavelx.policies.agnostic import agnostic
from gavelx.policies.base import Policy
from gavelx.policies.baselines.allox import Allox
from gavelx.policies.baselines.drf import Drf
from gavelx.policies.baselines.gandiva import Gandiva
from gavelx.policies.baselines.las_2d import Las2d, Las2dGittins
from gavelx.policies.baselines.optimus import Optimus
from gavelx.policies.baselines.random_assignment import RandomAssignment
from gavelx.policies.baselines.run_to_completion import Backfill, GangFifo
from gavelx.policies.baselines.srtf import Srtf
from gavelx.policies.baselines.tetris import Tetris
from gavelx.policies.baselines.themis import Themis
from gavelx.policies.budgets import OwnerCost, budgeted
from gavelx.policies.catalog import catalog, load_policy, modifiers, split_policies
from gavelx.policies.convex import Convex, ConvexView
from gavelx.policies.deadlines import Deadlines
from gavelx.policies.fifo import Fifo
from gavelx.policies.fifo_program import FifoProgram, QueuePosition
from gavelx.policies.finish_time_fairness import FinishTimeFairness
from gavelx.policies.formula import read_formula
from gavelx.policies.hierarchical import Owner, hierarchical
from gavelx.policies.isolated import Isolated
from gavelx.policies.judged import optimistic, robust
from gavelx.policies.makespan import Makespan
from gavelx.policies.max_min_fairness import MaxMinFairness
from gavelx.policies.max_sum_throughput import MaxSumThroughput
from gavelx.policies.min_cost import MinCost, MinCostSlo
from gavelx.policies.modifiers import Modifier, packed, placed, with_constraints
from gavelx.policies.nash_welfare import NashWelfare, StrategyProof
from gavelx.policies.partitioned import partitioned
from gavelx.policies.program import Maximize, Minimize
from gavelx.policies.proportional import Proportional
from gavelx.policies.shared_cloud_cost_fairness import (
    Overpaid,
    SharedCloudCostFairness,
    SharedCloudCostFairnessAlg51,
)
from gavelx.policies.terms import (
    Constraint,
    Cost,
    CostRatio,
    Devices,
    FinishTimeRatio,
    Fractional,
    Largest,
    Linear,
    Log,
    NeededThroughput,
    NormalizedThroughput,
    Sum,
    SumThroughput,
    Term,
    ThesisCostRatio,
    Throughput,
    ThroughputPerDollar,
    TimeLeft,
    TimeShare,
    Worst,
)
from gavelx.policies.view import View
from gavelx.policies.water_filling import WaterFilling

__all__ = [
    "Allox",
    "Backfill",
    "Constraint",
    "Convex",
    "ConvexView",
    "Cost",
    "CostRatio",
    "Deadlines",
    "Devices",
    "Drf",
    "Fifo",
    "FifoProgram",
    "FinishTimeFairness",
    "FinishTimeRatio",
    "Fractional",
    "Gandiva",
    "GangFifo",
    "Isolated",
    "Largest",
    "Las2d",
    "Las2dGittins",
    "Linear",
    "Log",
    "Makespan",
    "MaxMinFairness",
    "MaxSumThroughput",
    "Maximize",
    "MinCost",
    "MinCostSlo",
    "Minimize",
    "Modifier",
    "NashWelfare",
    "NeededThroughput",
    "NormalizedThroughput",
    "Optimus",
    "Overpaid",
    "Owner",
    "OwnerCost",
    "Policy",
    "Proportional",
    "QueuePosition",
    "RandomAssignment",
    "SharedCloudCostFairness",
    "SharedCloudCostFairnessAlg51",
    "Srtf",
    "StrategyProof",
    "Sum",
    "SumThroughput",
    "Term",
    "Tetris",
    "Themis",
    "ThesisCostRatio",
    "Throughput",
    "ThroughputPerDollar",
    "TimeLeft",
    "TimeShare",
    "View",
    "WaterFilling",
    "Worst",
    "agnostic",
    "budgeted",
    "catalog",
    "hierarchical",
    "load_policy",
    "modifiers",
    "optimistic",
    "packed",
    "partitioned",
    "placed",
    "read_formula",
    "robust",
    "split_policies",
    "with_constraints",
]
