"""First come, first served as a program over effective throughput."""

import numpy as np

from gavelx.policies.program import Maximize
from gavelx.policies.terms import Linear, Sum
from gavelx.policies.view import View
from gavelx.solvers.program.statement import Affine


class QueuePosition(Linear):
    """Effective throughput of each job over its fastest, counted once for itself and each job that came later.

    (M - m) e_j / e_j(fastest) for the m-th of M jobs in order of arrival (Gavel, OSDI'20, section 4.2). An elastic
    job is judged by its fastest type in the size as submitted.
    """

    def linear(self, view: View) -> Affine:
        jobs, fastest_J = view.snapshot.jobs, view.fastest_own_throughput_J
        position_J = np.empty(view.J)
        position_J[sorted(range(view.J), key=lambda j: (jobs[j].arrival_s, jobs[j].id))] = np.arange(view.J)
        return view.throughput.scaled(
            np.divide(view.J - position_J, fastest_J, out=np.zeros(view.J), where=fastest_J > 0)
        )


class FifoProgram(Maximize):
    """First come, first served as a linear program: the earlier a job came, the more its speed counts.

    maximise sum_m (M - m) e_m / e_m(fastest). Unlike ``fifo`` it gives parts of a device's time, packs and places;
    a late job may overtake an early one on a type that the early one does not gain from. Source: Gavel (OSDI'20),
    section 4.2.
    """

    name = "fifo_program"
    ignores = ("weights",)
    promises = ("pareto_efficiency",)

    def __init__(self) -> None:
        super().__init__(Sum(QueuePosition()))
