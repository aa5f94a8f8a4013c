"""Packing and shortness in one score: Tetris.

Legend: J jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.policies.greedy import Handout, by_arrival, seconds_JA
from gavelx.snapshot import WAITING, Snapshot

Floats = NDArray[np.float64]


class Tetris(Policy):
    """Start the job that fits best into what is free, unless another is nearly done: both in one score.

    Jobs that run are left alone. Again and again the pair of a waiting job and a type with room for it is taken
    that has the largest score a_ja - m (mean a / mean p) p_ja:

    * alignment a_ja = (s_j / W_a) (free_a / W_a), demand times what is free, as parts of the type: it favours wide
      gangs, and types with much free;
    * remaining work p_ja = (s_j / W_a) steps_left_j / T_ja, demand times time.

    ``shortness`` is m, 1 in the paper. Source: Tetris (SIGCOMM'14), sections 3.2 and 3.3, with an accelerator type
    for a machine and devices for its one resource. Its fairness knob and its barrier hints are left out: jobs here
    have neither queues nor stages.
    """

    name = "tetris"
    ignores = ("weights",)

    def __init__(self, shortness: float = 1.0) -> None:
        self.shortness = shortness

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = Handout(snapshot)
        handout.keep_running()
        jobs = np.array([j for j in by_arrival(snapshot) if handout.type_J[j] == WAITING], dtype=np.int64)
        demand_JA = snapshot.scale_factor_J[jobs][:, None] / np.maximum(1, snapshot.devices_A)
        work_JA = demand_JA * seconds_JA(snapshot.steps_left_J, handout.T_JA)[jobs]
        self._fill(handout, jobs, demand_JA, work_JA)
        return handout.allocation()

    def _fill(self, handout: Handout, jobs: NDArray[np.int64], demand_JA: Floats, work_JA: Floats) -> None:
        """Start the best of these jobs until no one has room; only the column of the type in question changes."""
        devices_A = np.maximum(1, handout.snapshot.devices_A)
        scale_J, waits_J = handout.snapshot.scale_factor_J[jobs], np.ones(len(jobs), dtype=bool)
        alignment_JA = demand_JA * handout.free_A / devices_A
        fits_JA = (work_JA < np.inf) & (scale_J[:, None] <= np.array(handout.free_A))
        if not fits_JA.any():
            return
        work = work_JA[fits_JA].mean()
        rate = self.shortness * alignment_JA[fits_JA].mean() / work if work > 0 else 0.0
        cost_JA = rate * np.where(work_JA < np.inf, work_JA, 0.0)
        score_JA = np.where(fits_JA, alignment_JA - cost_JA, -np.inf)
        while score_JA.max() > -np.inf:
            q, a = (int(place) for place in np.unravel_index(score_JA.argmax(), score_JA.shape))
            handout.start(int(jobs[q]), a)
            waits_J[q], score_JA[q] = False, -np.inf
            fits_J = waits_J & (work_JA[:, a] < np.inf) & (scale_J <= handout.free_A[a])
            now_J = demand_JA[:, a] * handout.free_A[a] / devices_A[a] - cost_JA[:, a]
            score_JA[:, a] = np.where(fits_J, now_J, -np.inf)
