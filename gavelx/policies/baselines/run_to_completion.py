"""What cluster managers do that do not know about training: jobs run where they were put until they are done."""

from dataclasses import dataclass

import numpy as np

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import Floats, Handout, by_arrival, seconds_JA
from gavelx.snapshot import WAITING, Snapshot


class GangFifo(Policy):
    """Start jobs in order of arrival, whole gangs, wherever they can run; no job is preempted, none overtakes.

    The first job that finds too few free devices on every type that it can run on holds up the queue; only a job
    that can run nowhere in the cluster is passed over. Of the types with room it gets the one with the largest
    free part: the policy knows where a job can run, not how fast. Unlike ``fifo`` it leaves jobs where they are
    and never looks at speeds. Source: YARN-CS, the baseline of Tiresias (NSDI'19), section 5.1.
    """

    name = "gang_fifo"
    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = Handout(snapshot)
        waiting = start_until_one_waits(handout)
        return handout.allocation(Execution(backfill=False, knows_types=False, later_jobs_wait=bool(waiting)))


class SerialFifo(Policy):
    """Run one job at a time, in order of arrival, each to its end on its fastest type; all other devices idle.

    It is what EasyScale (SC'23) calls YARN-CS, and compares its completion times with: the simulator of its
    artifact stops after the head of the queue. Clusters do as `GangFifo` and `Backfill` do.
    """

    name = "serial_fifo"
    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = Handout(snapshot)
        runs_J = snapshot.running_J != WAITING
        for j in by_arrival(snapshot, ~runs_J):
            if room := handout.room(j):
                held = int(snapshot.running_J[j])
                handout.start(j, held if held in room else handout.fastest(j, room))
                break
        return handout.allocation(Execution(backfill=False, may_move=False))


class Backfill(Policy):
    """``gang_fifo`` in which later jobs may start early, as long as they do not delay the first one that waits.

    The head of the queue is promised the first instant at which enough devices of one type are free, going by the
    ends of the running jobs, steps_left_j / T_ja. A later job starts where it has room if it is on another type,
    done by then, or fits beside the head at that instant. Only the head has such a promise. Source: EASY backfill
    (Lifka, JSSPP'95; Mu'alem and Feitelson, IEEE TPDS 2001), as in Slurm. Slurm goes by the run times that users
    name; here they are known to the step, which flatters the policy, but for gangs that have to be spread over
    several servers: they take longer than that, and may delay the head.
    """

    name = "backfill"
    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = Handout(snapshot)
        waiting = start_until_one_waits(handout)
        if waiting:
            left_s_JA = seconds_JA(snapshot.steps_left_J, handout.T_JA)
            _backfill(handout, reserve(handout, waiting[0], left_s_JA), waiting[1:], left_s_JA)
        return handout.allocation(Execution(backfill=False, knows_types=False))


def start_until_one_waits(handout: Handout) -> list[int]:
    """Keep who runs, start jobs in order of arrival; the jobs that wait, the one that holds up the rest first."""
    handout.keep_running()
    can_run_J = handout.T_JA.max(axis=1, initial=0.0) > 0
    queue = [j for j in by_arrival(handout.snapshot) if handout.type_J[j] == WAITING and can_run_J[j]]
    for place, j in enumerate(queue):
        if not (room := handout.room(j)):
            return queue[place:]
        handout.start(j, handout.emptiest(room))
    return []


@dataclass
class Reservation:
    """Enough devices of one type for the head of the queue in ``after_s`` seconds, and ``spare`` more."""

    accelerator: int
    after_s: float
    spare: int


def reserve(handout: Handout, head: int, left_s_JA: Floats) -> Reservation:
    """The first instant at which the head of the queue can start; of equal types the one with most to spare.

    A job that ends at that very instant makes room as well.
    """
    snapshot, type_J = handout.snapshot, np.array(handout.type_J)
    scale = int(snapshot.scale_factor_J[head])
    found = []
    for a in np.flatnonzero(handout.T_JA[head] > 0).tolist():
        running = np.flatnonzero(type_J == a)
        end_s = left_s_JA[running, a]
        order = end_s.argsort(kind="stable")
        free = handout.free_A[a] + snapshot.scale_factor_J[running[order]].cumsum()
        after_s = float(end_s[order][int((free >= scale).argmax())])
        at_that_time = int(free[end_s[order] <= after_s][-1])
        found.append(Reservation(a, after_s, at_that_time - scale))
    return min(found, key=lambda r: (r.after_s, -r.spare))


def _backfill(handout: Handout, head: Reservation, jobs: list[int], left_s_JA: Floats) -> None:
    """Start those of these jobs that do not delay the head."""
    scale_J = handout.snapshot.scale_factor_J.tolist()
    for j in jobs:
        ends_before = left_s_JA[j, head.accelerator] <= head.after_s
        room = [a for a in handout.room(j) if a != head.accelerator or ends_before or scale_J[j] <= head.spare]
        if room:
            a = handout.emptiest(room)
            handout.start(j, a)
            if a == head.accelerator and not ends_before:
                head.spare -= scale_J[j]
