"""The most steps per second in all, or the most for the money of each."""

from gavelx.policies.program import Maximize
from gavelx.policies.terms import Sum, SumThroughput, ThroughputPerDollar


class MaxSumThroughput(Maximize):
    """Run as many steps per second as the cluster can, of whatever job.

    maximise sum_j e_j in raw steps/s. Source: Gavel (OSDI'20), section 4.2. It favours jobs with small steps and
    may leave others waiting until those are done; use it as an upper limit on throughput rather than in service.
    """

    name = "max_sum_throughput"
    ignores = ("weights",)
    promises = ("pareto_efficiency",)

    def __init__(self) -> None:
        super().__init__(SumThroughput())


class MaxSumThroughputPerDollar(Maximize):
    """Run as many steps per second as the cluster can, each counted by what a device of its type costs.

    maximise sum_ja T_ja x_ja / price_a, raw steps/s over dollars/hour. Source: Gavel (OSDI'20), section 4.2, and
    ``max_sum_throughput_normalized_by_cost_perf`` of its simulator. It is a preference for cheap types, not the
    least cost (see ``min_cost``): the dollars that are spent are no part of it, and a job may be
    slower than devices that are left idle would let it be.
    """

    name = "max_sum_throughput_per_dollar"
    ignores = ("weights",)

    def __init__(self) -> None:
        super().__init__(Sum(ThroughputPerDollar()))
