"""Shortest remaining time first, as an integer program over the sizes of jobs.

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
HOUR_S, SOON_S = 3600.0, 1.0
"""Times count in hours. A job that is complete sooner than ``SOON_S`` counts as one that takes so long."""


class SrtfProgram(Policy):
    """Give devices to those who are soonest done with them, in the sizes in which most jobs come near their end.

    maximise ``sum_j w_j t_j^-power`` over whole devices: t_j is the hours that job j has left in the size that it
    gets, with ``restart_s`` in any size but the present one, and a job without devices adds nothing. With a large
    ``power`` the shortest job takes all that helps it, and others wait; with a small one many jobs share the
    devices. Sizes are those of `goodput`; outside of ``elastic(...)`` each job has its own.

    Ours. ONES (SC'21, section 3.2) scores the running jobs by devices times remaining time; here each job counts
    by how soon it is done with its devices, and the answer is exact instead of evolved.
    """

    name = "srtf_program"
    uses = frozenset[Kind]({"sizes", "mixes"})

    def __init__(self, power: float = 0.5, restart_s: float = 30.0, interval_s: float = 60.0) -> None:
        if not (power > 0.0 and restart_s >= 0.0 and interval_s > 0.0):
            told = f"power={power:g}, restart_s={restart_s:g}, interval_s={interval_s:g}"
            expected = "power and interval_s above 0, restart_s not below"
            raise PolicyError(told, where="SrtfProgram(...)", expected=expected)
        self.power, self.restart_s, self.interval_s = power, restart_s, interval_s

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s = perf_counter()
        choices = Choices.of(snapshot)
        execution = Execution(refresh_s=self.interval_s, whole_devices=True)
        return choices.best(-choices.weight_V * self.worth_V(choices), execution, begin_s)

    def gain(self, snapshot: Snapshot, share_C: Floats) -> float:
        """The sum that is to be large."""
        choices = Choices.of(snapshot)
        return float(
            np.einsum("V,V,V->", choices.weight_V, self.worth_V(choices), share_C[choices.configuration_V])
        )

    def worth_V(self, choices: Choices) -> Floats:
        """What each size adds to the sum."""
        left_s_V = np.maximum(choices.snapshot.steps_left_J[choices.job_V] / choices.speed_V, SOON_S)
        now_V = choices.now_V()
        left_s_V[choices.of_jobs(choices.job_V[now_V]) & ~now_V] += self.restart_s
        return np.asarray((HOUR_S / left_s_V) ** self.power)
