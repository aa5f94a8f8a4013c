"""Max-min fairness over effective throughput."""

from gavelx.policies.program import Maximize
from gavelx.policies.terms import NormalizedThroughput, Worst


class MaxMinFairness(Maximize):
    """Help the job that is worst off against its proportional slice, then the next (least attained service).

    maximise min_j s_j e_j / (p_j e_j(proportional)), lexicographically: e is effective throughput, s the scale
    factor, p the weight. Source: Gavel (OSDI'20), section 4.1. The published program stops after the first
    level, where it leaves devices unused and its answer depends on the solver; this one goes on to the
    lexicographic optimum (its section 4.3, water filling), which is Pareto efficient and unique in throughput.
    """

    name = "max_min_fairness"
    promises = ("sharing_incentive", "pareto_efficiency")

    def __init__(self) -> None:
        super().__init__(Worst(NormalizedThroughput()))
