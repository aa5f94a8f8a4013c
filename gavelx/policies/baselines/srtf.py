"""Shortest remaining time first."""

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.policies.greedy import by_arrival, soonest_s_J
from gavelx.policies.greedy_sizes import handout_of
from gavelx.snapshot import Kind, Snapshot


class Srtf(Policy):
    """Give devices to the jobs that could be done soonest; the others make way for them.

    Jobs in order of min_a steps_left_j / T_ja, over the types that have enough devices for the job; each takes the
    fastest type with enough free devices. A gang that finds too few is passed over. Least mean completion time on
    one device (Schrage, 1968), a good rule on many; long jobs may wait for as long as short ones keep coming. A
    published form orders by the *fraction* of steps left, which puts a month that is nearly done before a minute
    that has just begun; this one does not. Priority weights play no role.
    """

    name = "srtf"
    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes", "mixes"})

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = handout_of(snapshot)
        handout.in_order(by_arrival(snapshot, soonest_s_J(snapshot.steps_left_J, handout.T_JA)))
        return handout.allocation()
