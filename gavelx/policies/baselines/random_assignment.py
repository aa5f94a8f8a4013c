"""A random assignment, the baseline of all."""

from random import Random

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import Handout, by_arrival
from gavelx.snapshot import Snapshot


class RandomAssignment(Policy):
    """Draw an order of the jobs; each takes a type at random among those with enough free devices for it.

    What a policy must beat to be worth its name. Drawn anew every ``round_s`` seconds, so that chance wears off
    within a run; the same seed and instant give the same draw.
    """

    name = "random"
    ignores = ("weights",)

    def __init__(self, seed: int = 0, round_s: float = 360.0) -> None:
        self.seed, self.round_s = seed, round_s

    def allocate(self, snapshot: Snapshot) -> Allocation:
        chance = Random(f"{self.seed}:{snapshot.time_s}")
        handout, jobs = Handout(snapshot), by_arrival(snapshot)
        chance.shuffle(jobs)
        for j in jobs:
            if room := handout.room(j):
                handout.start(j, chance.choice(room))
        return handout.allocation(Execution(knows_types=False, refresh_s=self.round_s))
