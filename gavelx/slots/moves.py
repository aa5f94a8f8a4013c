"""Handing a slot out move by move, as a learner does: a job takes one more worker, or its next size, or all stop.

A move is described by numbers without a unit, so that what is learned holds for any jobs, any number of them, and
any cluster: the time that is left, what the move gains and takes, and what all the others want.

Legend: K clusters, J jobs of each, N kinds of jobs, V sizes of a kind, M moves of a job, D coordinates of a size,
F features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gavelx.slots.greedy import Steps
from gavelx.slots.model import NONE, Bools, Floats, Ints, Sizes, Slots

LEAST, MOST = 1e-6, 1e6
OFF = 10_000
"""The coordinates of a size to which no move leads."""
FEATURES = 25
"""Numbers that describe a move."""


@dataclass(frozen=True, eq=False)
class Moves:
    """How a job of each kind may grow.

    * ``next_NWM``: the size after each move, ``NONE`` where there is no such move; W is V, and a last row for a
      job that waits;
    * ``grade_NVD``: coordinates of a size, its workers and servers, say: a move is on the way to a size if it
      passes it in none of them;
    * ``room_R``: of each resource, what parts are parts of.
    """

    sizes: Sizes
    next_NWM: Ints
    grade_NVD: Ints
    room_R: Floats

    @staticmethod
    def along(steps: Steps) -> "Moves":
        """A move for each group of sizes: a job begins there in its least size, and goes from step to step."""
        sizes, size_NGH = steps.sizes, steps.size_NGH
        (N, V), (_, G, H) = sizes.speed_NV.shape, size_NGH.shape
        next_NWM, grade_NVD = np.full((N, V + 1, G), NONE), np.full((N, V, G), OFF)
        next_NWM[:, -1] = size_NGH[:, :, 0]
        later_NGH = np.concatenate([size_NGH[:, :, 1:], np.full((N, G, 1), NONE)], axis=2)
        for g in range(G):
            for h in range(H):
                n_X = np.flatnonzero(size_NGH[:, g, h] != NONE)
                v_X = size_NGH[n_X, g, h]
                next_NWM[n_X, v_X, g] = later_NGH[n_X, g, h]
                grade_NVD[n_X, v_X] = 0
                grade_NVD[n_X, v_X, g] = h + 1
        return Moves(sizes, next_NWM, grade_NVD, steps.room_R)

    @cached_property
    def part_NW(self) -> Floats:
        """The largest part of any resource that each size takes; 0 for a job that waits."""
        part_NV = (self.sizes.use_NVR / np.maximum(self.room_R, LEAST)).max(axis=2)
        return np.concatenate([part_NV, np.zeros((len(part_NV), 1))], axis=1)

    @cached_property
    def time_NW(self) -> Floats:
        """The time of each size over that of the fastest; of a job that waits, twice its slowest start."""
        speed_NV, best_N1 = self.sizes.speed_NV, self.sizes.best_N[:, None]
        time_NV = np.where(speed_NV > 0.0, best_N1 / np.where(speed_NV > 0.0, speed_NV, 1.0), MOST)
        first_NM = self.next_NWM[:, -1]
        start_NM = np.where(first_NM != NONE, np.take_along_axis(time_NV, np.maximum(first_NM, 0), axis=1), 0.0)
        return np.concatenate([time_NV, 2.0 * start_NM.max(axis=1, keepdims=True)], axis=1)

    @cached_property
    def reach_NWM(self) -> Floats:
        """The most time that any size beyond a move saves, over what it takes."""
        beyond_NWM = self._goals[0]
        return np.asarray(beyond_NWM)

    @cached_property
    def goal_NW(self) -> Ints:
        """The size beyond each size that saves most time for what it takes, ``NONE`` if none saves any."""
        return self._goals[1]

    @cached_property
    def _goals(self) -> tuple[Floats, Ints]:
        N, V = self.sizes.speed_NV.shape
        reach_NWM, goal_NW = np.zeros(self.next_NWM.shape), np.full((N, V + 1), NONE)
        for n in range(N):
            beyond_VV = (self.grade_NVD[n][None, :, :] >= self.grade_NVD[n][:, None, :]).all(axis=2)
            saved_WV = self.time_NW[n][:, None] - self.time_NW[n][None, :V]
            more_WV = np.maximum(self.part_NW[n][None, :V] - self.part_NW[n][:, None], LEAST)
            fits_V = (
                (self.sizes.speed_NV[n] > 0.0)
                & (self.grade_NVD[n] < OFF).all(axis=1)
                & (self.part_NW[n][:V] <= 1.0 + LEAST)
            )
            rate_WV = np.where(fits_V, np.maximum(saved_WV / more_WV, 0.0), 0.0)
            open_WV = np.concatenate([beyond_VV, np.ones((1, V), dtype=bool)])
            best_WV = np.where(open_WV, rate_WV, 0.0)
            goal_NW[n] = np.where(best_WV.max(axis=1) > 0.0, best_WV.argmax(axis=1), NONE)
            for m in range(self.next_NWM.shape[2]):
                next_W = self.next_NWM[n, :, m]
                there_WV = beyond_VV[next_W] & (next_W != NONE)[:, None]
                reach_NWM[n, :, m] = np.where(there_WV, rate_WV, 0.0).max(axis=1, initial=0.0)
        return reach_NWM, goal_NW

    def allowed_KJM(self, slots: Slots, size_KJ: Ints) -> Bools:
        """The moves that there are, and for which there is room."""
        next_KJM = self.next_NWM[slots.kind_KJ, size_KJ]
        free_KR = slots.room_KR - slots.use_KR(size_KJ)
        use_KJR = np.where((size_KJ != NONE)[:, :, None], self.sizes.use_NVR[slots.kind_KJ, size_KJ], 0.0)
        more_KJMR = self.sizes.use_NVR[slots.kind_KJ[:, :, None], next_KJM] - use_KJR[:, :, None, :]
        fits_KJM = (more_KJMR <= free_KR[:, None, None, :] + LEAST).all(axis=3)
        return np.asarray(slots.live_KJ[:, :, None] & (next_KJM != NONE) & fits_KJM)

    def towards_KJM(self, slots: Slots, size_KJ: Ints, target_KJ: Ints) -> Bools:
        """The moves on the way to these sizes."""
        next_KJM = self.next_NWM[slots.kind_KJ, size_KJ]
        next_KJMD = self.grade_NVD[slots.kind_KJ[:, :, None], next_KJM]
        passes_KJM = (next_KJMD > self.grade_NVD[slots.kind_KJ, target_KJ][:, :, None, :]).any(axis=3)
        return np.asarray(
            slots.live_KJ[:, :, None] & (next_KJM != NONE) & (target_KJ != NONE)[:, :, None] & ~passes_KJM
        )

    def features(self, slots: Slots, size_KJ: Ints, slot_s: float) -> NDArray[np.float32]:
        """Each move in numbers (K x J x M x ``FEATURES``), float32."""
        kind_KJ, live_KJ = slots.kind_KJ, slots.live_KJ
        M = self.next_NWM.shape[2]
        next_KJM = self.next_NWM[kind_KJ, size_KJ]
        free_KR = 1.0 - slots.use_KR(size_KJ) / np.maximum(slots.room_KR, LEAST)
        left_KJ = np.log(np.maximum(slots.left_KJ / self.sizes.best_N[kind_KJ] / slot_s, 1e-3))
        time_KJ, part_KJ = self.time_NW[kind_KJ, size_KJ], self.part_NW[kind_KJ, size_KJ]
        after_KJM = np.where(next_KJM != NONE, self.time_NW[kind_KJ[:, :, None], next_KJM], time_KJ[:, :, None])
        takes_KJM = np.where(
            next_KJM != NONE, self.part_NW[kind_KJ[:, :, None], next_KJM] - part_KJ[:, :, None], 0.0
        )
        reach_KJM = np.log(np.maximum(self.reach_NWM[kind_KJ, size_KJ], 1e-3))
        most_KJ = reach_KJM.max(axis=2)
        worth_KJ = np.where(live_KJ, left_KJ + most_KJ, -np.inf)
        ahead_KJ = (worth_KJ[:, None, :] > worth_KJ[:, :, None]).sum(axis=2)
        wants_KJ = np.where(live_KJ, self._whole_N[kind_KJ] - part_KJ, 0.0)
        before_KJ = (wants_KJ[:, None, :] * (worth_KJ[:, None, :] > worth_KJ[:, :, None])).sum(axis=2)
        goal_KJ = self.goal_NW[kind_KJ, size_KJ]
        has_KJ = goal_KJ != NONE
        need_KJ = np.where(has_KJ, self.part_NW[kind_KJ, goal_KJ] - part_KJ, 0.0)
        saves_KJ = np.where(has_KJ, time_KJ - self.time_NW[kind_KJ, goal_KJ], 0.0)
        next_KJMD = self.grade_NVD[kind_KJ[:, :, None], next_KJM]
        to_goal_KJM = has_KJ[:, :, None] & (next_KJMD <= self.grade_NVD[kind_KJ, goal_KJ][:, :, None, :]).all(
            axis=3
        )
        fits_KJ = free_KR.min(axis=1)[:, None] / np.maximum(need_KJ, 1e-3)
        n_K1 = live_KJ.sum(axis=1)[:, None]
        mean_K1 = np.where(live_KJ, left_KJ, 0.0).sum(axis=1)[:, None] / np.maximum(n_K1, 1)
        waits_K1 = (live_KJ & (size_KJ == NONE)).sum(axis=1)[:, None]
        ones_KJ = np.ones(kind_KJ.shape)
        of_job = [
            left_KJ, np.exp(np.minimum(left_KJ, 1.0)), 1.0 / time_KJ, size_KJ == NONE, part_KJ, most_KJ,
            ahead_KJ / np.maximum(n_K1, 1), np.log1p(before_KJ), left_KJ - mean_K1,
            ones_KJ * free_KR.min(axis=1)[:, None], ones_KJ * free_KR.max(axis=1)[:, None], ones_KJ * n_K1 / 10.0,
            ones_KJ * waits_K1 / np.maximum(n_K1, 1), np.log1p(ones_KJ * wants_KJ.sum(axis=1)[:, None]),
            (slots.time_s - np.where(np.isfinite(slots.arrival_s_KJ), slots.arrival_s_KJ, 0.0)) / slot_s / 10.0,
            need_KJ * 10.0, saves_KJ, np.log(np.maximum(fits_KJ, 1e-3)),
        ]  # fmt: skip
        first_M = np.arange(M) == 0
        of_move = [
            time_KJ[:, :, None] - after_KJM, takes_KJM * 10.0, reach_KJM, reach_KJM - most_KJ[:, :, None],
            np.log(np.maximum(time_KJ[:, :, None] - after_KJM, 1e-4) / np.maximum(takes_KJM, 1e-3)),
            np.broadcast_to(first_M, after_KJM.shape), to_goal_KJM,
        ]  # fmt: skip
        columns = [np.broadcast_to(np.asarray(one)[:, :, None], after_KJM.shape) for one in of_job] + of_move
        return np.asarray(np.clip(np.stack(columns, axis=3), -20.0, 20.0), dtype=np.float32)

    @cached_property
    def _whole_N(self) -> Floats:
        """The part that each kind takes in its fastest size."""
        return np.asarray(self.part_NW[np.arange(len(self.part_NW)), self.sizes.speed_NV.argmax(axis=1)])


Score = Callable[[NDArray[np.floating]], NDArray[np.floating]]
"""How good moves are, from their features (... x F): above 0, better than to stop."""


def handed_out(slots: Slots, moves: Moves, score: Score, slot_s: float) -> Ints:
    """The sizes after the best moves, one after the other, until none is better than to stop."""
    size_KJ = np.full(slots.kind_KJ.shape, NONE)
    rows = np.arange(len(size_KJ))
    while len(rows):
        part = slots.take(rows)
        allowed_KJM = moves.allowed_KJM(part, size_KJ[rows])
        value_KJM = np.full(allowed_KJM.shape, -np.inf)
        features = moves.features(part, size_KJ[rows], slot_s)
        value_KJM[allowed_KJM] = score(features[allowed_KJM])
        flat_K = value_KJM.reshape(len(rows), -1).argmax(axis=1)
        goes_K = np.take_along_axis(value_KJM.reshape(len(rows), -1), flat_K[:, None], axis=1)[:, 0] > 0.0
        j_K, m_K = np.divmod(flat_K, allowed_KJM.shape[2])
        rows, j_K, m_K, kind_KJ = rows[goes_K], j_K[goes_K], m_K[goes_K], part.kind_KJ[goes_K]
        size_KJ[rows, j_K] = moves.next_NWM[kind_KJ[np.arange(len(rows)), j_K], size_KJ[rows, j_K], m_K]
    return size_KJ
