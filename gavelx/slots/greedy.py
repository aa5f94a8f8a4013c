"""Greedy schedules: the jobs begin in their least sizes, and what is left goes where it is worth most.

Legend: K clusters, J jobs of each, N kinds of jobs, V sizes of a kind, R resources, G groups of sizes, H steps
from a size to the next larger one that is worth looking at, S steps of all jobs of a cluster, by their worth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gavelx.slots.model import NONE, Bools, Floats, Ints, Sizes, Slots

FITS = 1.0 + 1e-9
FIRST = 1e30
"""What it is worth that a job runs at all, where every job is to run before any runs well."""
SHORTEST_S = 1e-3
LEAST, NEVER = 1e-12, 1e100
ROUNDS, CHANGE, SLOWEST = 8, (0.05, 5.0), 0.3
"""Of finding prices: how often they change, by how much at most, and how fast at the end."""


@dataclass(frozen=True, eq=False)
class Steps:
    """From its least size, the steps by which a job of each kind may grow.

    ``size_NGH`` is the size to which each step leads, in each group; ``NONE`` beyond the last. ``room_R`` is what
    there is of each resource.
    """

    sizes: Sizes
    room_R: Floats
    size_NGH: Ints

    @staticmethod
    def hull(sizes: Sizes, room_R: Floats) -> "Steps":
        """Steps that are each worth less than the one before, for what they take.

        Of all sizes of a group these are the corners of the lower hull of time a step over the largest part of any
        resource: a size between two corners takes more than it is worth. So the best next step is the next one,
        and a greedy choice need not look further ahead.
        """
        part_NV = (sizes.use_NVR / np.maximum(room_R, LEAST)).max(axis=2)
        fits_NV = (sizes.speed_NV > 0.0) & (part_NV <= FITS)
        time_NV = 1.0 / np.where(fits_NV, sizes.speed_NV, np.inf)
        group_NGV = sizes.group_NV[:, None, :] == np.arange(1 + sizes.group_NV.max(initial=0))[:, None]
        open_NGV = fits_NV[:, None, :] & group_NGV
        part_NGV = np.where(open_NGV, part_NV[:, None, :], np.inf)
        least_NGV = open_NGV & (part_NGV == part_NGV.min(axis=2, keepdims=True))
        size_NG = np.where(least_NGV, -time_NV[:, None, :], -np.inf).argmax(axis=2)
        there_NG, n_N1 = open_NGV.any(axis=2), np.arange(len(part_NV))[:, None]
        corners: list[Ints] = []
        while there_NG.any() or not corners:
            corners.append(np.where(there_NG, size_NG, NONE))
            saved_NGV = time_NV[n_N1, size_NG][:, :, None] - time_NV[:, None, :]
            more_NGV = part_NV[:, None, :] - part_NV[n_N1, size_NG][:, :, None]
            slope_NGV = np.where(open_NGV, saved_NGV / np.maximum(more_NGV, LEAST), 0.0)
            best_NG1 = slope_NGV.max(axis=2, keepdims=True)
            there_NG &= best_NG1[:, :, 0] > 0.0
            size_NG = np.where(open_NGV & (slope_NGV >= best_NG1), part_NGV, -1.0).argmax(axis=2)
        return Steps(sizes, room_R, np.stack(corners, axis=2))

    @staticmethod
    def along(sizes: Sizes, room_R: Floats, paths: Sequence[Sequence[Sequence[int]]]) -> "Steps":
        """Steps along these sizes, by kind and group."""
        most = max((len(path) for row in paths for path in row), default=0)
        size_NGH = np.full((len(paths), len(paths[0]) if paths else 1, max(1, most)), NONE)
        for n, row in enumerate(paths):
            for g, path in enumerate(row):
                size_NGH[n, g, : len(path)] = path
        return Steps(sizes, room_R, size_NGH)

    def grown(self, slots: Slots, group_KJ: Ints, worth_KJH: Floats) -> Ints:
        """The size of each job, in its group: steps are taken by what they are worth, while there is room.

        A step is worth no more than the one before it.
        """
        kind_KJ, H = slots.kind_KJ, self.size_NGH.shape[2]
        there_KJ = slots.live_KJ & (group_KJ != NONE)
        size_KJH = np.where(there_KJ[:, :, None], self.size_NGH[kind_KJ, group_KJ], NONE)
        worth_KJH = np.where(size_KJH != NONE, np.minimum.accumulate(worth_KJH, axis=2), 0.0)
        steps_KJ = taken(worth_KJH, self.use_NGHR[kind_KJ, group_KJ], slots.room_KR).sum(axis=2)
        last_KJ = np.clip(steps_KJ - 1, 0, H - 1)
        return np.where(steps_KJ > 0, np.take_along_axis(size_KJH, last_KJ[:, :, None], axis=2)[:, :, 0], NONE)

    @cached_property
    def use_NGHR(self) -> Floats:
        """What each step takes beyond the size before."""
        N = len(self.size_NGH)
        use_NGHR = self.sizes.use_NVR[np.arange(N)[:, None, None], self.size_NGH]
        use_NGHR = np.where((self.size_NGH != NONE)[..., None], use_NGHR, 0.0)
        return np.diff(use_NGHR, axis=2, prepend=0.0)

    @cached_property
    def gain_NGH(self) -> Floats:
        """How much of the time at its fastest each step takes off, for the part of a resource that it takes.

        Infinite for the first step, before which the job does not run; 0 beyond the last.
        """
        N = len(self.size_NGH)
        speed_NGH = self.sizes.speed_NV[np.arange(N)[:, None, None], self.size_NGH]
        there_NGH = self.size_NGH != NONE
        time_NGH = self.sizes.best_N[:, None, None] / np.where(there_NGH, speed_NGH, np.inf)
        part_NGH = np.maximum((self.use_NGHR / np.maximum(self.room_R, LEAST)).max(axis=3), LEAST)
        gain_NGH = -np.diff(time_NGH, axis=2, prepend=0.0) / part_NGH
        gain_NGH[:, :, 0] = np.where(there_NGH[:, :, 0], time_NGH[:, :, 0] / part_NGH[:, :, 0], 0.0)
        return np.where(there_NGH, gain_NGH, 0.0)

    @cached_property
    def times_and_uses(self) -> tuple[Floats, Floats]:
        """Of every size along all steps, the time over that of the fastest, and what it holds."""
        size_NS = self.size_NGH.reshape(len(self.size_NGH), -1)
        row_N1 = np.arange(len(size_NS))[:, None]
        there_NS = size_NS != NONE
        speed_NS = np.where(there_NS, self.sizes.speed_NV[row_N1, size_NS], 1.0)
        time_NS = np.where(there_NS, self.sizes.best_N[:, None] / speed_NS, 1e150)
        return time_NS, np.where(there_NS[:, :, None], self.sizes.use_NVR[row_N1, size_NS], 0.0)

    @cached_property
    def holds(self) -> list[tuple[Ints, Floats]]:
        """The same uses, one resource of each size at a time (S, and N x S); mostly no size has a second one."""
        _, use_NSR = self.times_and_uses
        used_SR: Bools = np.asarray(use_NSR.any(axis=0))
        most = int(used_SR.sum(axis=1).max(initial=0))
        r_Si, s_S = np.argsort(~used_SR, axis=1, kind="stable")[:, :most], np.arange(len(used_SR))
        return [(r_S, use_NSR[:, s_S, r_S]) for r_S in r_Si.T]


class Weights(NamedTuple):
    """What a greedy schedule holds to be worth more.

    * ``power``: a step is worth the seconds that it takes off a job, times (seconds left)^-power. At 0 seconds
      count alike, as in Optimus; at 2 short jobs come first;
    * ``serve``: what it is worth that a job runs at all, as so many times its time in its least size; infinite:
      every job runs before any runs well.
    """

    power: float
    serve: float = np.inf


@dataclass(frozen=True, eq=False)
class Greedy:
    """A schedule for each of K clusters, with a row of ``weights`` for each of them, or one for all.

    Of several groups of sizes (types of accelerators) a job takes one by prices, and grows on it.
    """

    steps: Steps
    weights: Sequence[Weights]

    def __call__(self, slots: Slots) -> Ints:
        """The size of each job."""
        worth_KJ, first_KJ = self._worth(slots)
        group_KJ = self._groups(slots, worth_KJ, first_KJ)
        worth_KJH = worth_KJ[:, :, None] * self.steps.gain_NGH[slots.kind_KJ, group_KJ]
        worth_KJH[:, :, 0] = first_KJ
        return self.steps.grown(slots, group_KJ, worth_KJH)

    def group_KJ(self, slots: Slots) -> Ints:
        """The group of each job, ``NONE`` where none has room."""
        return self._groups(slots, *self._worth(slots))

    def _worth(self, slots: Slots) -> tuple[Floats, Floats]:
        """What it is worth to take a job's time off, and what its first step is worth."""
        best_KJ = self.steps.sizes.best_N[slots.kind_KJ]
        left_s_KJ = np.maximum(slots.left_KJ / np.maximum(best_KJ, 1e-300), SHORTEST_S)
        power_K1, serve_K1 = (
            np.broadcast_to(np.array(column, dtype=float), len(best_KJ))[:, None]
            for column in zip(*self.weights, strict=True)
        )
        worth_KJ = slots.weight_KJ * left_s_KJ ** (1.0 - power_K1)
        runs_KJ = worth_KJ * self.steps.gain_NGH[slots.kind_KJ, :, 0].max(axis=2)
        first_KJ = np.where(
            np.isinf(serve_K1), FIRST * slots.weight_KJ / left_s_KJ, runs_KJ * np.minimum(serve_K1, FIRST)
        )
        return worth_KJ, first_KJ

    def _groups(self, slots: Slots, worth_KJ: Floats, first_KJ: Floats) -> Ints:
        """The group of each job, ``NONE`` where none has room for its least size.

        Resources have prices, by which each job would take the size that costs it least, its time included. Prices
        of what too many want rise until that is about what there is. What a job then wants says on which group
        it is; jobs that find no room there for their least size take another one.
        """
        if self.steps.size_NGH.shape[1] == 1:
            return np.zeros(first_KJ.shape, dtype=np.int64)
        kind_KJ, live_KJ = slots.kind_KJ, slots.live_KJ
        worth_KJ, room_KR = np.where(live_KJ, worth_KJ, 0.0), np.maximum(slots.room_KR, LEAST)
        time_NS, use_NSR = self.steps.times_and_uses
        time_KJS = worth_KJ[:, :, None] * time_NS[kind_KJ]
        holds = [(r_S, use_NS[kind_KJ]) for r_S, use_NS in self.steps.holds]
        price_KR = (worth_KJ * time_NS.min(axis=1)[kind_KJ]).sum(axis=1)[:, None] / room_KR
        for n in range(ROUNDS):
            cost_KJS = time_KJS
            for r_S, use_KJS in holds:
                cost_KJS = cost_KJS + use_KJS * price_KR[:, None, r_S]
            wanted_KJR = np.where(live_KJ[:, :, None], use_NSR[kind_KJ, cost_KJS.argmin(axis=2)], 0.0)
            used_KR = wanted_KJR.sum(axis=1)
            price_KR = price_KR * np.clip(used_KR / room_KR, *CHANGE) ** max(SLOWEST, 0.8**n)
        cost_KJGH = cost_KJS.reshape(*kind_KJ.shape, *self.steps.size_NGH.shape[1:])
        return self._with_room(slots, np.minimum.reduce(np.moveaxis(cost_KJGH, 3, 0).copy()), first_KJ)

    def _with_room(self, slots: Slots, cost_KJG: Floats, first_KJ: Floats) -> Ints:
        """Jobs in order; each takes the group where it costs least that still has room for its least size.

        Where one does not find room in the group that costs it least, it and those after it go one by one.
        """
        use_KJGR = self.steps.use_NGHR[slots.kind_KJ, :, 0]
        best_KJ = cost_KJG.argmin(axis=2)
        can_KJ = slots.live_KJ & (np.take_along_axis(cost_KJG, best_KJ[:, :, None], axis=2)[:, :, 0] < NEVER)
        needs_KJR = np.take_along_axis(use_KJGR, best_KJ[:, :, None, None], axis=2)[:, :, 0]
        needs_KJR = np.where(can_KJ[:, :, None], needs_KJR, 0.0)
        group_KJ = np.where(can_KJ, best_KJ, NONE)
        short_K = np.flatnonzero((needs_KJR.sum(axis=1) > slots.room_KR * FITS).any(axis=1))
        if not len(short_K):
            return group_KJ
        rows, room_K1R = np.arange(len(short_K)), slots.room_KR[short_K, None]
        order_KJ = np.argsort(-first_KJ[short_K], axis=1, kind="stable")
        free_KJR = room_K1R - np.cumsum(needs_KJR[short_K[:, None], order_KJ], axis=1)
        begin = int((free_KJR < room_K1R * (1.0 - FITS)).any(axis=2).argmax(axis=1).min())
        free_KR = free_KJR[:, begin - 1] if begin else room_K1R[:, 0].astype(float)
        for j_K in order_KJ[:, begin:].T:
            use_KGR, cost_KG = use_KJGR[short_K, j_K], cost_KJG[short_K, j_K]
            fits_KG = (cost_KG < NEVER) & (use_KGR <= free_KR[:, None, :] * FITS).all(axis=2)
            g_K = np.where(fits_KG, cost_KG, np.inf).argmin(axis=1)
            gets_K = fits_KG[rows, g_K] & can_KJ[short_K, j_K]
            group_KJ[short_K, j_K] = np.where(gets_K, g_K, NONE)
            free_KR = free_KR - np.where(gets_K[:, None], use_KGR[rows, g_K], 0.0)
        return group_KJ


def taken(worth_KJH: Floats, use_KJHR: Floats, room_KR: Floats) -> Ints:
    """Which steps are taken: in order of their worth while they fit; a job whose next one does not stays there."""
    K, J, H = worth_KJH.shape
    some = int((worth_KJH > 0.0).sum(axis=(1, 2)).max(initial=0))
    order_KS = np.argsort(-worth_KJH.reshape(K, -1), axis=1, kind="stable")[:, :some]
    use_RKS = np.ascontiguousarray(
        np.moveaxis(use_KJHR.reshape(K, J * H, -1), 2, 0)[:, np.arange(K)[:, None], order_KS]
    )
    open_KS: Bools = np.take_along_axis(worth_KJH.reshape(K, -1), order_KS, axis=1) > 0.0
    taken_KS, k_K, free_RK = np.zeros((K, J * H), dtype=np.int64), np.arange(K), room_KR.T
    while True:
        used_RKS = np.cumsum(np.where(open_KS, use_RKS, 0.0), axis=2)
        over_KS: Bools = open_KS & (used_RKS > free_RK[:, :, None] * FITS).any(axis=0)
        over_K: Bools = np.asarray(over_KS.any(axis=1))
        done_K = ~over_K
        taken_KS[k_K[done_K][:, None], order_KS[done_K]] = open_KS[done_K]
        if done_K.all():
            return taken_KS.reshape(K, J, H)
        if done_K.any():
            k_K, order_KS, open_KS, over_KS = k_K[over_K], order_KS[over_K], open_KS[over_K], over_KS[over_K]
            use_RKS, used_RKS, free_RK = use_RKS[:, over_K], used_RKS[:, over_K], free_RK[:, over_K]
        rows, first_K = np.arange(len(k_K)), over_KS.argmax(axis=1)
        if settled := int(first_K.min()):
            taken_KS[k_K[:, None], order_KS[:, :settled]] = open_KS[:, :settled]
            free_RK = free_RK - used_RKS[:, :, settled - 1]
            used_RKS = used_RKS[:, :, settled:] - used_RKS[:, :, settled - 1, None]
            order_KS, open_KS, use_RKS = order_KS[:, settled:], open_KS[:, settled:], use_RKS[:, :, settled:]
            first_K = first_K - settled
        left_RK = free_RK - (used_RKS[:, rows, first_K] - use_RKS[:, rows, first_K])
        later_KS: Bools = np.arange(order_KS.shape[1]) >= first_K[:, None]
        shut_KS: Bools = later_KS & (use_RKS > left_RK[:, :, None] * FITS + 1e-12).any(axis=0)
        shut_KS[rows, first_K] = True
        shut_KJH = np.zeros((len(rows), J * H), dtype=bool)
        shut_KJH[rows[:, None], order_KS] = shut_KS
        shut_KJH = np.asarray(np.logical_or.accumulate(shut_KJH.reshape(-1, J, H), axis=2)).reshape(len(rows), -1)
        open_KS = open_KS & ~shut_KJH[rows[:, None], order_KS]
