"""The most steps per second in all."""

from gavelx.policies.program import Maximize
from gavelx.policies.terms import SumThroughput


class MaxSumThroughput(Maximize):
    """Run as many steps per second as the cluster can, whoever's they are.

    maximise sum_j e_j in raw steps/s. Source: Gavel (OSDI'20), section 4.2. It favours jobs with small steps and
    may leave others waiting until those are done; use it as an upper limit on throughput rather than in service.
    """

    name = "max_sum_throughput"
    promises = ("pareto_efficiency",)

    def __init__(self) -> None:
        super().__init__(SumThroughput())
