"""Finish all jobs as early as possible."""

from gavelx.policies.program import Minimize
from gavelx.policies.terms import Largest, NormalizedThroughput, TimeLeft, Worst


class Makespan(Minimize):
    """Make the time until the last of the present jobs completes as short as possible.

    minimise max_j steps_left_j / e_j; ``certificate.objective`` gives it in seconds. What that leaves free is
    shared by max-min fairness, so that jobs do not all complete at the very end. Source: Gavel (OSDI'20), section
    4.2, which bisects to within 5 % and shares nothing further.
    """

    name = "makespan"
    promises = ("pareto_efficiency",)

    def __init__(self) -> None:
        super().__init__(Largest(TimeLeft()), then=Worst(NormalizedThroughput()))
