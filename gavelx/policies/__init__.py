"""Policies: how to share a cluster, written as formulas.

Take one by name (`load_policy`), compose your own from terms (`Maximize`, `Worst`, `Cost`, ...), or subclass
`Policy`.
"""

from gavelx.policies.agnostic import agnostic as agnostic
from gavelx.policies.base import Policy as Policy
from gavelx.policies.budgets import OwnerCost as OwnerCost
from gavelx.policies.budgets import budgeted as budgeted
from gavelx.policies.catalog import *
from gavelx.policies.convex import Convex as Convex
from gavelx.policies.convex import ConvexView as ConvexView
from gavelx.policies.dl2 import Dl2 as Dl2
from gavelx.policies.fifo_program import QueuePosition as QueuePosition
from gavelx.policies.formula import read_formula as read_formula
from gavelx.policies.hierarchical import Owner as Owner
from gavelx.policies.hierarchical import hierarchical as hierarchical
from gavelx.policies.judged import optimistic as optimistic
from gavelx.policies.judged import robust as robust
from gavelx.policies.learned import Learned as Learned
from gavelx.policies.loading import catalog as catalog
from gavelx.policies.loading import load_policy as load_policy
from gavelx.policies.loading import modifiers as modifiers
from gavelx.policies.loading import split_policies as split_policies
from gavelx.policies.lookahead import guarded as guarded
from gavelx.policies.lookahead import lookahead as lookahead
from gavelx.policies.modifiers import Modifier as Modifier
from gavelx.policies.modifiers import elastic as elastic
from gavelx.policies.modifiers import packed as packed
from gavelx.policies.modifiers import placed as placed
from gavelx.policies.modifiers import with_constraints as with_constraints
from gavelx.policies.partitioned import partitioned as partitioned
from gavelx.policies.program import Maximize as Maximize
from gavelx.policies.program import Minimize as Minimize
from gavelx.policies.shared_cloud_cost_fairness import Overpaid as Overpaid
from gavelx.policies.terms import Constraint as Constraint
from gavelx.policies.terms import Cost as Cost
from gavelx.policies.terms import CostRatio as CostRatio
from gavelx.policies.terms import Devices as Devices
from gavelx.policies.terms import FinishTimeRatio as FinishTimeRatio
from gavelx.policies.terms import Fractional as Fractional
from gavelx.policies.terms import Largest as Largest
from gavelx.policies.terms import Linear as Linear
from gavelx.policies.terms import Log as Log
from gavelx.policies.terms import NeededThroughput as NeededThroughput
from gavelx.policies.terms import NormalizedThroughput as NormalizedThroughput
from gavelx.policies.terms import Sum as Sum
from gavelx.policies.terms import SumThroughput as SumThroughput
from gavelx.policies.terms import Term as Term
from gavelx.policies.terms import ThesisCostRatio as ThesisCostRatio
from gavelx.policies.terms import Throughput as Throughput
from gavelx.policies.terms import ThroughputPerDollar as ThroughputPerDollar
from gavelx.policies.terms import TimeLeft as TimeLeft
from gavelx.policies.terms import TimeShare as TimeShare
from gavelx.policies.terms import Worst as Worst
from gavelx.policies.view import View as View
