"""The least sum of completion times, where no job makes way for another.

Legend: J jobs, Q jobs of the queue, R jobs that run, A accelerator types, C configurations.
"""

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.job_table import column
from gavelx.policies.base import Policy
from gavelx.policies.greedy import NEVER_S, Handout, seconds_JA
from gavelx.snapshot import WAITING, Snapshot
from gavelx.solvers.planning.queue_matching import Plan, match, starts_by_matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MATRIX_MAX = 200_000
"""Entries of the published matrix up to which its choice among equally good plans is made in any case."""
WHY = "the plan gives every job its place in the line of one device, and a gang would stand in several at once"
WORTH, WORTH_S = 1.1, 60.0
"""A running job moves where it is so many times as fast and done so many seconds sooner: it restarts for it."""


class Allox(Policy):
    """Plan which job runs where and in what order so that completion times are least in sum; start the first ones.

    A job that holds a device keeps it until it is done, or until a faster one falls free: that goes to the running
    job that is faster there by the largest factor (a tenth and a minute at least; of equal ones to that with the
    most left), and what this one leaves goes to the next. Without that a job keeps for life what happened to be
    free when it came. The published policy moves no job, but its mechanism does: until the policy is asked again,
    idle devices go to any job, the fastest first.

    Those who wait are assigned to the devices that are free then: the k-th from last on a device of type a delays
    k jobs, so it costs k steps_left_j / T_ja. The first job on each device gets it; the rest wait, and are planned
    anew when something changes. The objective is the sum, in seconds, over the jobs that wait, with nothing but
    these devices.

    Only jobs of one device can be planned, as each has its place in the line of one device: raises
    :class:`PolicyError` for a gang. (The code of Shockwave, NSDI'23, plans a gang as a job of one device and gives
    it 1/s of its time, which is no plan of when its devices are free together.) A job that can run on no type
    with a free device stays out; the published code plans a job where it cannot run, at 1e-10 steps/s, and gives
    it the device. Among equally good plans a short queue takes the one that the published code takes, which hangs
    on the order in which its solver reads a matrix; in a long one the longer of two jobs starts now. Of equal jobs
    it is the older one. Source: AlloX (EuroSys 2020), as the published code of Gavel (OSDI'20) has it, with all
    jobs of the queue (its alpha is 1).
    """

    name = "allox"
    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        started = perf_counter()
        assert_one_device(snapshot)
        handout = Handout(snapshot)
        handout.keep_running()
        length_JA = lengths(snapshot.steps_left_J, handout.T_JA)
        self.move_up(handout)
        type_J, free_A = np.array(handout.type_J, dtype=np.int64), np.array(handout.free_A, dtype=np.int64)
        can_start_J = (length_JA[:, free_A > 0] < np.inf).any(axis=1)
        queue = the_queue(snapshot, (type_J == WAITING) & can_start_J)
        seconds_QA = length_JA[queue]
        plan = match(seconds_QA, free_A)
        type_Q = self.starting(snapshot, queue, seconds_QA, free_A, plan)
        for q, a in zip(queue.tolist(), type_Q.tolist(), strict=True):
            if a != WAITING:
                handout.start(q, a)
        return handout.allocation(
            path="matching", seconds=perf_counter() - started, objective=plan.cost, bound=plan.bound
        )

    def move_up(self, handout: Handout) -> None:
        """Running jobs may move to faster devices that are free."""
        move_up(handout)

    def starting(self, snapshot: Snapshot, queue: Ints, seconds_QA: Floats, free_A: Ints, plan: Plan) -> Ints:
        """The type of each job of the queue that starts now, ``WAITING`` for the others."""
        if len(queue) ** 2 * free_A.sum() <= MATRIX_MAX:
            type_Q = by_matrix(snapshot, queue, seconds_QA, free_A)
        else:
            type_Q = starting(plan, seconds_QA, free_A)
        return older_first(type_Q, seconds_QA)


def move_up(handout: Handout) -> None:
    """Free devices go to jobs that run on slower ones, to whom they are faster by the largest factor first."""
    at_J = np.array(handout.type_J, dtype=np.int64)
    running = np.flatnonzero(at_J != WAITING)
    T_RA, left_s_RA = handout.T_JA[running], seconds_JA(handout.snapshot.steps_left_J, handout.T_JA)[running]
    while len(running) and any(handout.free_A):
        here_R = (np.arange(len(running)), at_J[running])
        saved_s_RA = left_s_RA[here_R][:, None] - np.where(np.array(handout.free_A) > 0, left_s_RA, np.inf)
        factor_RA = np.where(saved_s_RA >= WORTH_S, T_RA / T_RA[here_R][:, None], 0.0)
        if factor_RA.max() < WORTH:
            return
        gain_RA = np.where(factor_RA == factor_RA.max(), saved_s_RA, 0.0)
        r, a = divmod(int(gain_RA.argmax()), len(handout.free_A))
        handout.move(int(running[r]), a)
        at_J[running[r]] = a


def by_matrix(snapshot: Snapshot, queue: Ints, seconds_QA: Floats, free_A: Ints) -> Ints:
    """Who starts where, as the published code reads its matrix: types by name, ages added to the rows."""
    order_A = np.argsort(np.array(snapshot.accelerators))
    type_Q = starts_by_matrix(seconds_QA[:, order_A], free_A[order_A], snapshot.elapsed_s_J[queue])
    return np.where(type_Q == WAITING, WAITING, order_A[type_Q])


def assert_one_device(snapshot: Snapshot) -> None:
    """Raises :class:`PolicyError` naming the first gang."""
    gangs = np.flatnonzero(snapshot.scale_factor_J > 1)
    if len(gangs):
        job = snapshot.jobs[gangs[0]]
        raise PolicyError(
            f"job {job.id} needs {job.scale_factor} devices at once",
            where="allox",
            expected=f"jobs of one device: {WHY}",
            hint="fifo, srtf, optimus or max_min_fairness, which take gangs, or the same jobs with scale factor 1",
        )


def lengths(steps_left_J: Floats, T_JA: Floats) -> Floats:
    """Seconds that each job would still take on each type; infinite where it cannot run, or takes for ever."""
    left_s_JA = seconds_JA(steps_left_J, T_JA)
    return np.where(left_s_JA < NEVER_S, left_s_JA, np.inf)


def the_queue(snapshot: Snapshot, waits_J: NDArray[np.bool_]) -> Ints:
    """The jobs that wait, as indices, the oldest first."""
    waiting = np.flatnonzero(waits_J)
    jobs = [snapshot.jobs[j] for j in waiting.tolist()]
    id_Q, arrival_s_Q = column(jobs, "id"), column(jobs, "arrival_s")
    return waiting[np.lexsort((id_Q, arrival_s_Q, -snapshot.elapsed_s_J[waiting]))]


def starting(plan: Plan, seconds_QA: Floats, free_A: Ints) -> Ints:
    """The type of each job of the queue that runs first on its device, ``WAITING`` for the others.

    Of a type these are all jobs at the highest position and, on the devices that are left, some of the position
    below it: any of them, as a plan does not say who shares a device with whom. The longest are taken, which in
    three reference runs comes nearest to the published completion times (0.3 % above them; shortest: 0.7 %).
    """
    type_Q = np.full(len(plan.type_J), WAITING)
    for a in np.flatnonzero(free_A).tolist():
        jobs = np.flatnonzero(plan.type_J == a)
        order = np.lexsort([-seconds_QA[jobs, a], -plan.position_J[jobs]])
        type_Q[jobs[order[: free_A[a]]]] = a
    return type_Q


def older_first(type_Q: Ints, seconds_QA: Floats) -> Ints:
    """The same starts, given to the older among jobs that are equal in all lengths."""
    if not len(type_Q):
        return type_Q
    order = np.lexsort(seconds_QA.T)
    differs = (seconds_QA[order[1:]] != seconds_QA[order[:-1]]).any(axis=1)
    if differs.all():
        return type_Q
    class_Q = np.concatenate([[0], differs.cumsum()])[: len(order)]
    given = np.empty_like(type_Q)
    given[order] = type_Q[order][np.lexsort([type_Q[order] == WAITING, class_Q])]
    return given
