"""The most throughput for the money, with deadlines or without."""

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.policies.program import Maximize
from gavelx.policies.terms import NeededThroughput, Sum, Throughput, ThroughputPerDollar
from gavelx.policies.view import View
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import Statement, solve, using
from gavelx.solvers.program.statement import Requirement, Worst

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
SPARE = 0.2
"""Part by which jobs run faster than their deadlines ask for, where they can."""
ALL_MET = 1.0 - 1e-9
"""The part of what jobs need, from which on it is all of it."""


class MinCost(Maximize):
    """Run as many steps per second and dollar as the cluster can, of whatever job.

    maximise sum_j sum_c T_jc x_c / price_c. Source: Gavel (OSDI'20), section 4.2, cost policies. Like
    ``max_sum_throughput`` it favours jobs with small steps and may leave others waiting; a fast type may stay idle
    because it is dear.
    """

    name = "min_cost"
    ignores = ("weights",)

    def __init__(self) -> None:
        super().__init__(Sum(ThroughputPerDollar()))


class MinCostSlo(Policy):
    """``min_cost`` in which every job with a deadline runs fast enough to meet it.

    ... with e_j >= (1 + spare) steps_left_j / (deadline_j - now), or as fast as the job can run if that is slower:
    something is kept in hand, for rounds and turns make jobs later than planned, and the policy wants to be asked
    again before it is used up. Where not all can have it no job does. A deadline that cannot be met is given up
    alone, and ``allocation.notes`` names it: first those that the job could not meet with the whole cluster to
    itself; then, while the others cannot all be met, one at a time out of those that stand in each other's way
    (the ones at the least level of max-min fairness over deadlines): the lowest priority, of these the one that
    needs most devices. Source: Gavel (OSDI'20), section 4.2, which keeps nothing in hand; its code drops all
    deadlines when they cannot all be met.
    """

    name = "min_cost_slo"
    ignores = ("weights",)
    uses = frozenset[Kind]({"pairs", "placements", "sizes", "mixes"})

    def __init__(self, spare: float = SPARE) -> None:
        self.spare = spare

    def allocate(self, snapshot: Snapshot) -> Allocation:
        view = View(snapshot)
        needed_J = view.needed_throughput_J
        due_J, notes = needed_J > 0, []
        for j in np.flatnonzero(needed_J > view.fastest_throughput_J).tolist():
            due_J[j] = False
            notes.append(_alone(view, j))
        speed_J = np.where(due_J, np.minimum((1.0 + self.spare) * needed_J, view.fastest_throughput_J), 1.0)
        if _blocked(view, due_J, speed_J).any():
            speed_J = np.where(due_J, needed_J, 1.0)
        while (blocked_J := _blocked(view, due_J, speed_J)).any():
            j = _given_up(view, blocked_J)
            due_J[j] = False
            notes.append(f"the deadline of job {snapshot.jobs[j].id} cannot be met beside those of other jobs")
        program = Maximize(Sum(ThroughputPerDollar()), [Throughput() >= NeededThroughput()])
        needed = view.throughput.scaled(due_J.astype(float)).shifted(np.where(due_J, -speed_J, 0.0))
        statement = Maximize(Sum(ThroughputPerDollar())).state(snapshot)
        assert isinstance(statement, Statement)
        deadlines = Requirement(needed, repr(program.constraints[0]))
        answer = solve(Statement(snapshot, (), statement.linear, (deadlines,), repr(program)))
        return answer.with_notes(notes).with_execution(refresh_s=_refresh_s(view, due_J, answer, self.spare))


def _refresh_s(view: View, due_J: Bools, answer: Allocation, spare: float) -> float | None:
    """Half of what the job with the nearest deadline has in hand, if it could run faster: then see where it is."""
    speed_J, need_J = answer.throughput_J, view.needed_throughput_J
    near_J = (
        due_J & (speed_J < need_J * (1.0 + 2.0 * spare)) & (speed_J < view.fastest_throughput_J * (1.0 - 1e-9))
    )
    left_s_J = view.steps_left_J[near_J] / need_J[near_J]
    return float(left_s_J.min()) * spare / 2.0 if spare and len(left_s_J) else None


def _alone(view: View, j: int) -> str:
    job, needed = view.snapshot.jobs[j], view.needed_throughput_J[j]
    if np.isinf(needed):
        return f"the deadline of job {job.id} has passed"
    return (
        f"the deadline of job {job.id} cannot be met: it needs {needed:.4g} steps/s "
        f"and runs at most at {view.fastest_throughput_J[j]:.4g}"
    )


def _blocked(view: View, due_J: Bools, speed_J: Floats) -> Bools:
    """The jobs with a deadline of which not all can run at these speeds; none if all can."""
    met = view.throughput.scaled(due_J / speed_J).shifted(np.where(due_J, 0.0, 2.0))
    program = Statement(view.snapshot, (Worst(1.0, met),), view.nothing, (), "deadlines")
    with using(lexicographic=False):
        if met(solve(program).share_C).min(initial=2.0) >= ALL_MET:
            return np.zeros(len(due_J), dtype=bool)
    met_J = met(solve(program).share_C)
    level = met_J.min(initial=2.0)
    return due_J & (met_J <= level * (1.0 + 1e-7)) if level < ALL_MET else np.zeros(len(due_J), dtype=bool)


def _given_up(view: View, blocked_J: Bools) -> int:
    """The least important of these deadlines."""
    devices_J = view.scale_factor_J * view.needed_throughput_J / np.maximum(view.fastest_throughput_J, 1e-300)
    return min(np.flatnonzero(blocked_J).tolist(), key=lambda j: (view.weight_J[j], -devices_J[j], j))
