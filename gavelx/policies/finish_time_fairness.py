"""No job should be slower than with an equal share."""

from gavelx.policies.program import Minimize
from gavelx.policies.terms import FinishTimeRatio, Largest


class FinishTimeFairness(Minimize):
    """Make the worst ratio of completion time to completion time with an equal share as small as possible.

    minimise max_j rho_j, and then, at that level, let jobs finish as far ahead of it as possible,
    lexicographically. Source: Themis (NSDI'20), section 3; over effective throughput in Gavel (OSDI'20), section
    4.2. The published program takes any allocation that reaches the level; its simulator's policy without ``perf``
    gives every type the speed of a V100, which is not reproduced. Priority weights play no role, as published.
    """

    name = "finish_time_fairness"
    ignores = ("weights",)
    promises = ("pareto_efficiency",)

    def __init__(self) -> None:
        super().__init__(Largest(FinishTimeRatio()))
