"""The size in which each job speeds up most, against a fair share: the fitness of Pollux, without its search.

Legend: V choices (a configuration of one job).
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.policies.baselines.goodput import Goodput
from gavelx.policies.choices import Choices

Floats = NDArray[np.float64]
UNSERVED = 1e-3
"""The speed-up of a job without devices."""


class Pollux(Goodput):
    """Give each job the size in which it speeds up most, or none, so that the harmonic mean is best: Pollux.

    Maximise the power mean (p = -1) of ``r s + 0.001``, with s a job's speed over that of a fair share of the
    cluster, and r as in `Goodput`. That is the sum of one cost for each job, so the integer program of `Goodput`
    finds the best answer; the paper looks for it by a genetic search, whose result depends on its seed.

    Source: Pollux (OSDI'21), section 4.2. Kept: fitness, fair share, restart factor, rounds of a minute. Not kept:
    the search, and that no two jobs on several servers share one.
    """

    name = "pollux"

    def __init__(self, restart_s: float = 30.0, interval_s: float = 60.0, *, doubling: bool = False) -> None:
        super().__init__(-1.0, 1.0 / UNSERVED, restart_s, interval_s, doubling=doubling)

    def worth_V(self, choices: Choices) -> Floats:
        return choices.speed_V / choices.fair_speed_J()[choices.job_V]

    def cost_V(self, worth_V: Floats) -> Floats:
        return np.asarray(1.0 / (worth_V + UNSERVED))
