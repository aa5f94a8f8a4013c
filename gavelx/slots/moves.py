"""Handing a slot out move by move, as a learner does: a job takes one more worker, or its next size, or all stop.

A move is described by numbers without a unit, so that what is learned holds for any jobs, any number of them, and
any cluster: the time that is left, what the move gains and takes, and what all the others want.

Legend: K clusters, J jobs of each, N kinds of jobs, V sizes of a kind, M moves of a job, D coordinates of a size,
F features.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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
    def _goals(self) -> tuple[Floats, Ints]:
        """The most time that any size beyond a move saves, over what it takes (N x W x M); and the size beyond
        each size that saves most of it, ``NONE`` if none saves any (N x W)."""
        N, V = self.sizes.speed_NV.shape
        further_NVVD = self.grade_NVD[:, None, :, :] >= self.grade_NVD[:, :, None, :]
        beyond_NVV: Bools = np.asarray(further_NVVD.all(axis=3))
        saved_NWV = self.time_NW[:, :, None] - self.time_NW[:, None, :V]
        more_NWV = np.maximum(self.part_NW[:, None, :V] - self.part_NW[:, :, None], LEAST)
        on_the_way_NV = (self.grade_NVD < OFF).all(axis=2) & (self.part_NW[:, :V] <= 1.0 + LEAST)
        fits_NV = (self.sizes.speed_NV > 0.0) & on_the_way_NV
        rate_NWV = np.where(fits_NV[:, None, :], np.maximum(saved_NWV / more_NWV, 0.0), 0.0)
        open_NWV = np.concatenate([beyond_NVV, np.ones((N, 1, V), dtype=bool)], axis=1)
        best_NWV = np.where(open_NWV, rate_NWV, 0.0)
        goal_NW = np.where(best_NWV.max(axis=2) > 0.0, best_NWV.argmax(axis=2), NONE)
        reach_NWM = np.empty(self.next_NWM.shape)
        for m in range(self.next_NWM.shape[2]):
            next_NW = self.next_NWM[:, :, m]
            there_NWV = beyond_NVV[np.arange(N)[:, None], next_NW] & (next_NW[:, :, None] != NONE)
            reach_NWM[:, :, m] = np.where(there_NWV, rate_NWV, 0.0).max(axis=2, initial=0.0)
        return reach_NWM, goal_NW

    @cached_property
    def more_NWMR(self) -> Floats:
        """What each move takes of each resource beyond what the job holds."""
        N = len(self.next_NWM)
        use_NWR = np.concatenate([self.sizes.use_NVR, np.zeros((N, 1, len(self.room_R)))], axis=1)
        return np.asarray(self.sizes.use_NVR[np.arange(N)[:, None, None], self.next_NWM] - use_NWR[:, :, None, :])

    @cached_property
    def _of_size(self) -> "OfSize":
        """What features there are of each size of a job, and of each move from there."""
        (reach_NWM, goal_NW), part_NW, time_NW = self._goals, self.part_NW, self.time_NW
        N, _, M = self.next_NWM.shape
        n_N1, n_N11 = np.arange(N)[:, None], np.arange(N)[:, None, None]
        is_NWM = self.next_NWM != NONE
        after_NWM = np.where(is_NWM, time_NW[n_N11, self.next_NWM], time_NW[:, :, None])
        takes_NWM = np.where(is_NWM, part_NW[n_N11, self.next_NWM] - part_NW[:, :, None], 0.0)
        reach_NWM = np.log(np.maximum(reach_NWM, 1e-3))
        most_NW, has_NW = reach_NWM.max(axis=2), goal_NW != NONE
        need_NW = np.where(has_NW, part_NW[n_N1, goal_NW] - part_NW, 0.0)
        saves_NW = np.where(has_NW, time_NW - time_NW[n_N1, goal_NW], 0.0)
        grade_NWMD, goal_NWD = self.grade_NVD[n_N11, self.next_NWM], self.grade_NVD[n_N1, goal_NW]
        of_move = [
            time_NW[:, :, None] - after_NWM, takes_NWM * 10.0, reach_NWM, reach_NWM - most_NW[:, :, None],
            np.log(np.maximum(time_NW[:, :, None] - after_NWM, 1e-4) / np.maximum(takes_NWM, 1e-3)),
            np.broadcast_to(np.arange(M) == 0, is_NWM.shape),
            has_NW[:, :, None] & (grade_NWMD <= goal_NWD[:, :, None, :]).all(axis=3),
        ]  # fmt: skip
        whole_N1 = part_NW[n_N1, self.sizes.speed_NV.argmax(axis=1)[:, None]]
        columns = [1.0 / time_NW, part_NW, most_NW, need_NW, saves_NW, whole_N1 - part_NW]
        return OfSize(np.stack(columns, axis=2), _bounded(np.stack(of_move, axis=3)))

    def allowed_KJM(self, slots: Slots, size_KJ: Ints) -> Bools:
        """The moves that there are, and for which there is room."""
        free_KR = slots.room_KR - slots.use_KR(size_KJ)
        more_KJMR = self.more_NWMR[slots.kind_KJ, size_KJ]
        fits_KJM = (more_KJMR <= free_KR[:, None, None, :] + LEAST).all(axis=3)
        is_KJM = self.next_NWM[slots.kind_KJ, size_KJ] != NONE
        return np.asarray(slots.live_KJ[:, :, None] & is_KJM & fits_KJM)

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
        kind_KJ, live_KJ, of_size = slots.kind_KJ, slots.live_KJ, self._of_size
        free_KR = 1.0 - slots.use_KR(size_KJ) / np.maximum(slots.room_KR, LEAST)
        least_K1, largest_K1 = free_KR.min(axis=1)[:, None], free_KR.max(axis=1)[:, None]
        left_KJ = np.log(np.maximum(slots.left_KJ / self.sizes.best_N[kind_KJ] / slot_s, 1e-3))
        speed_KJ, part_KJ, most_KJ, need_KJ, saves_KJ, wants_KJ = np.moveaxis(
            of_size.job_NWF[kind_KJ, size_KJ], 2, 0
        )
        worth_KJ = np.where(live_KJ, left_KJ + most_KJ, -np.inf)
        first_KJJ = worth_KJ[:, None, :] > worth_KJ[:, :, None]
        wants_KJ = np.where(live_KJ, wants_KJ, 0.0)
        before_KJ = np.maximum((wants_KJ[:, None, :] * first_KJJ).sum(axis=2), 0.0)
        all_K1 = np.maximum(wants_KJ.sum(axis=1)[:, None], 0.0)
        n_K1 = live_KJ.sum(axis=1)[:, None]
        count_K1, waits_KJ = np.maximum(n_K1, 1), size_KJ == NONE
        age_s_KJ = slots.time_s - np.where(np.isfinite(slots.arrival_s_KJ), slots.arrival_s_KJ, 0.0)
        of_job = [
            left_KJ, np.exp(np.minimum(left_KJ, 1.0)), speed_KJ, waits_KJ, part_KJ, most_KJ,
            first_KJJ.sum(axis=2) / count_K1, np.log1p(before_KJ),
            left_KJ - np.where(live_KJ, left_KJ, 0.0).sum(axis=1)[:, None] / count_K1,
            least_K1, largest_K1, n_K1 / 10.0, (live_KJ & waits_KJ).sum(axis=1)[:, None] / count_K1,
            np.log1p(all_K1), age_s_KJ / slot_s / 10.0,
            need_KJ * 10.0, saves_KJ, np.log(np.maximum(least_K1 / np.maximum(need_KJ, 1e-3), 1e-3)),
        ]  # fmt: skip
        job_KJF = np.empty((*kind_KJ.shape, len(of_job)))
        for f, column in enumerate(of_job):
            job_KJF[:, :, f] = column
        features = np.empty((*kind_KJ.shape, self.next_NWM.shape[2], FEATURES), dtype=np.float32)
        features[..., : len(of_job)] = _bounded(job_KJF)[:, :, None, :]
        features[..., len(of_job) :] = of_size.move_NWMF[kind_KJ, size_KJ]
        return features


class OfSize(NamedTuple):
    """What a move is described by as far as it depends on the size of its job alone.

    * ``job_NWF``: speed over the fastest, part, the most that a move reaches, what the goal takes and saves, and
      what the fastest size takes beyond this one;
    * ``move_NWMF``: features of each move, the last ones of :meth:`Moves.features`.
    """

    job_NWF: Floats
    move_NWMF: NDArray[np.float32]


def _bounded(features: Floats) -> NDArray[np.float32]:
    return np.clip(features, -20.0, 20.0).astype(np.float32)
