"""The size in which goodput is worth most, for each job, by an integer program: Sia.

Legend: V choices (a configuration of one job).
"""

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.choices import Choices
from gavelx.snapshot import Kind, Snapshot

Floats = NDArray[np.float64]
LEAST = 1e-9
"""A size is worth that at least, also to a job that has just come."""


class Goodput(Policy):
    """Give each job the size in which goodput is worth most, or none, so that the sum is best: Sia.

    Minimise ``sum_j w_j c_j`` over whole devices, with ``c_j = (r g)^p`` for the size that job j gets, and
    ``idle`` if it gets none. ``g`` is its speed in that size over the least that it may have, per device of
    that one; ``r = T / (T + restart_s)`` holds for any size but the present one, with the seconds T since its
    arrival, so that young jobs are restarted rarely.

    Sizes are powers of two in one server, and whole servers beyond that, so that they can be placed. Outside of
    ``elastic(...)`` each job has its own size, and the program chooses its type.

    ``power``: p, below 0: the lower, the more the slow ones count. ``doubling``: a job begins in its least size,
    and has at most twice the devices that it has now.

    Source: Sia (SOSP'23), sections 3.3 and 3.4. Kept: the program, its normalisation, the power -0.5 and the
    price 1.1 of idleness, the restart factor, rounds of a minute. Not kept: costs are not rounded to 0.01, which
    makes many unequal answers equal; the factor does not count restarts, as the mechanism itself changes a size
    only where that gains more than it costs; speeds are those of the table. Jobs have weights here.
    """

    name = "goodput"
    uses = frozenset[Kind]({"sizes", "mixes"})

    def __init__(
        self,
        power: float = -0.5,
        idle: float = 1.1,
        restart_s: float = 30.0,
        interval_s: float = 60.0,
        *,
        doubling: bool = False,
    ) -> None:
        if not power < 0.0:
            raise PolicyError(f"power={power:g}", where="Goodput(...)", expected="a power below 0, such as -0.5")
        if not (idle > 0.0 and restart_s >= 0.0 and interval_s > 0.0):
            told = f"idle={idle:g}, restart_s={restart_s:g}, interval_s={interval_s:g}"
            raise PolicyError(
                told, where="Goodput(...)", expected="idle and interval_s above 0, restart_s not below"
            )
        self.power, self.idle, self.restart_s, self.interval_s = power, idle, restart_s, interval_s
        self.doubling = doubling

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s = perf_counter()
        choices, cost_V = self._choices(snapshot)
        execution = Execution(refresh_s=self.interval_s, whole_devices=True)
        return choices.best(choices.weight_V * (cost_V - self.idle), execution, begin_s)

    def gain(self, snapshot: Snapshot, share_C: Floats) -> float:
        """What these shares save of the cost of letting all jobs wait."""
        choices, cost_V = self._choices(snapshot)
        saved_V = choices.weight_V * (self.idle - cost_V)
        return float(np.einsum("V,V->", saved_V, share_C[choices.configuration_V]))

    def _choices(self, snapshot: Snapshot) -> tuple[Choices, Floats]:
        """The sizes that may be given, and what each adds to the sum."""
        choices = Choices.of(snapshot)
        now_V = choices.now_V()
        worth_V = self.worth_V(choices)
        age_V = snapshot.elapsed_s_J[choices.job_V]
        restarts_V = choices.of_jobs(choices.job_V[now_V]) & ~now_V
        worth_V[restarts_V] *= (age_V / (age_V + self.restart_s))[restarts_V]
        if self.doubling:
            in_reach_V = choices.in_reach_V(now_V)
            choices, worth_V = choices.take(in_reach_V), worth_V[in_reach_V]
        return choices, self.cost_V(worth_V)

    def worth_V(self, choices: Choices) -> Floats:
        """What each size is worth to its job: of the slowest one, its devices."""
        slowest_V = choices.slowest_V()
        return choices.speed_V / choices.speed_V[slowest_V] * choices.devices_V[slowest_V]

    def cost_V(self, worth_V: Floats) -> Floats:
        """What a size adds to the sum, for one that is worth so much."""
        return np.maximum(worth_V, LEAST) ** self.power
