"""First come, first served."""

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import by_arrival
from gavelx.policies.greedy_sizes import handout_of
from gavelx.snapshot import WAITING, Kind, Snapshot


class Fifo(Policy):
    """Give jobs, in order of arrival, the fastest type that still has enough free devices.

    The first job that finds too few free devices everywhere ends the queue: no job overtakes it. A job that
    cannot run on any type with enough free devices is passed over. Among equally fast types the job stays where
    it runs; a new one takes the type with the largest free part. Source: the heterogeneity-aware FIFO of Gavel
    (OSDI'20), section 4.2, placed anew at every call.
    """

    name = "fifo"
    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes", "mixes"})

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout, one_waits = handout_of(snapshot), False
        for j in by_arrival(snapshot):
            if (a := handout.choice(j)) != WAITING:
                handout.start(j, a)
            elif max(handout.free_A, default=0) < handout.needs(j):
                one_waits = True
                break
        return handout.allocation(Execution(backfill=False, later_jobs_wait=one_waits))
