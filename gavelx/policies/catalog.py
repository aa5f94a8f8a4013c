"""The policies that come with this package: a line each, and nothing else has to be said of one."""

from gavelx.policies.base import Policy
from gavelx.policies.baselines.allox import Allox as Allox
from gavelx.policies.baselines.drf import Drf as Drf
from gavelx.policies.baselines.easyscale import EasyScale as EasyScale
from gavelx.policies.baselines.gandiva import Gandiva as Gandiva
from gavelx.policies.baselines.goodput import Goodput as Goodput
from gavelx.policies.baselines.las_2d import Las2d as Las2d
from gavelx.policies.baselines.las_2d import Las2dGittins as Las2dGittins
from gavelx.policies.baselines.ones import Ones as Ones
from gavelx.policies.baselines.ones import OnesPublished as OnesPublished
from gavelx.policies.baselines.optimus import Optimus as Optimus
from gavelx.policies.baselines.pollux import Pollux as Pollux
from gavelx.policies.baselines.random_assignment import RandomAssignment as RandomAssignment
from gavelx.policies.baselines.run_to_completion import Backfill as Backfill
from gavelx.policies.baselines.run_to_completion import GangFifo as GangFifo
from gavelx.policies.baselines.run_to_completion import SerialFifo as SerialFifo
from gavelx.policies.baselines.srtf import Srtf as Srtf
from gavelx.policies.baselines.tetris import Tetris as Tetris
from gavelx.policies.baselines.themis import Themis as Themis
from gavelx.policies.deadlines import Deadlines as Deadlines
from gavelx.policies.fifo import Fifo as Fifo
from gavelx.policies.fifo_program import FifoProgram as FifoProgram
from gavelx.policies.finish_time_fairness import FinishTimeFairness as FinishTimeFairness
from gavelx.policies.isolated import Isolated as Isolated
from gavelx.policies.makespan import Makespan as Makespan
from gavelx.policies.max_min_fairness import MaxMinFairness as MaxMinFairness
from gavelx.policies.max_sum_throughput import MaxSumThroughput as MaxSumThroughput
from gavelx.policies.max_sum_throughput import MaxSumThroughputPerDollar as MaxSumThroughputPerDollar
from gavelx.policies.min_cost import MinCost as MinCost
from gavelx.policies.min_cost import MinCostSlo as MinCostSlo
from gavelx.policies.nash_welfare import NashWelfare as NashWelfare
from gavelx.policies.nash_welfare import StrategyProof as StrategyProof
from gavelx.policies.proportional import Proportional as Proportional
from gavelx.policies.shared_cloud_cost_fairness import SharedCloudCostFairness as SharedCloudCostFairness
from gavelx.policies.shared_cloud_cost_fairness import SharedCloudCostFairnessAlg51 as SharedCloudCostFairnessAlg51
from gavelx.policies.srtf_program import SrtfProgram as SrtfProgram
from gavelx.policies.value_fair_share import ValueFairShare as ValueFairShare
from gavelx.policies.water_filling import WaterFilling as WaterFilling


def ours() -> dict[str, Policy]:
    """The policies that come with this package, by name."""
    kinds = [each for each in globals().values() if isinstance(each, type) and issubclass(each, Policy)]
    return {kind.name: kind() for kind in sorted(kinds, key=lambda kind: kind.name) if kind.name}
