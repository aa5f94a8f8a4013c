"""Look ahead: play what could be done now, and then one greedy schedule or another to the end; do what ends best.

Legend: K clusters, J jobs of each, C choices for the slot that begins, B greedy schedules for all later ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gavelx.slots.greedy import Greedy, Steps, Weights
from gavelx.slots.model import Floats, Ints, Slots

CANDIDATES = (*(Weights(power) for power in (0.0, 0.5, 1.0, 2.0)), Weights(2.0, 1.0))
"""Optimus over all sizes, and schedules that favour short jobs more and more; the last lets some of them wait."""
GROWTH = 2.0
"""Beyond those asked for, each slot is so much longer than the one before, so that all plans come to an end."""
Values = Callable[[Slots], Floats]


@dataclass(frozen=True, eq=False)
class Ahead:
    """A schedule: each of the candidates for one slot, then each of them to the end; that is done which ends best.

    What is best is the least sum of completion times, times weights, of the jobs that are there; of later arrivals
    nothing is known. ``slots`` of ``slot_s`` seconds are played as they will be, and later ones are longer and
    longer, each by ``GROWTH``.

    The plan that is carried out is one of those in which a candidate is followed from beginning to end or, at most
    once, changed for another. So by induction no candidate ends better, on what the model knows, if it is asked in
    every slot: each time the rest of the best plan is still among the plans (rollout; Bertsekas, "Rollout
    algorithms for discrete optimization", 1997).
    """

    steps: Steps
    slot_s: float
    candidates: Sequence[Weights] = CANDIDATES
    slots: int = 64

    def __call__(self, slots: Slots) -> Ints:
        """The sizes of the best plan, on each cluster."""
        first_CKJ = self.first_CKJ(slots)
        best_K = self.values_CK(slots, [slots.speed_KJ(size_KJ) for size_KJ in first_CKJ]).argmin(axis=0)
        return np.asarray(first_CKJ[best_K, np.arange(len(best_K))])

    def first_CKJ(self, slots: Slots) -> Ints:
        """What each candidate would do in the slot that begins."""
        C, K = len(self.candidates), len(slots.kind_KJ)
        together = Greedy(self.steps, [one for one in self.candidates for _ in range(K)])
        return together(slots.take(np.tile(np.arange(K), C))).reshape(C, K, -1)

    def values_CK(self, slots: Slots, speed_CKJ: Sequence[Floats]) -> Floats:
        """The weighted sum of completion times, seconds from now, of the best plan that begins with each choice.

        A choice is what each job makes in this slot, in steps/s.
        """
        different_CKJ, which_C = np.unique(np.asarray(speed_CKJ), axis=0, return_inverse=True)
        C, B, K = len(different_CKJ), len(self.candidates), len(slots.kind_KJ)
        plans = slots.take(np.tile(np.arange(K), C * B))
        speed_KJ = np.concatenate([np.tile(one, (B, 1)) for one in different_CKJ])
        cost_K, now_s = np.zeros(len(speed_KJ)), slots.time_s
        rest = Greedy(self.steps, [one for _ in range(C) for one in self.candidates for _ in range(K)])
        plans, slot_s = plans.at_speeds(speed_KJ, self.slot_s), self.slot_s
        rows, n = np.arange(len(cost_K)), 1
        while True:
            cost_K[rows] += np.where(
                np.isnan(plans.done_s_KJ), 0.0, plans.weight_KJ * (plans.done_s_KJ - now_s)
            ).sum(axis=1)
            live_K = np.flatnonzero(plans.live_KJ.any(axis=1))
            if not len(live_K):
                return np.asarray(cost_K.reshape(C, B, K).min(axis=1)[which_C.ravel()])
            rows = rows[live_K]
            plans, _ = replace(
                plans.take(live_K), done_s_KJ=np.full((len(live_K), plans.kind_KJ.shape[1]), np.nan)
            ).live()
            slot_s *= GROWTH if n >= self.slots else 1.0
            size_KJ = replace(rest, weights=[rest.weights[row] for row in rows.tolist()])(plans)
            plans, n = plans.advance(size_KJ, slot_s), n + 1
