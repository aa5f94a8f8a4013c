"""Jobs on many small clusters, in arrays, and what a slot does to them.

In each slot a job runs in one of its sizes, or waits. Devices change hands between slots alone: those of a job
that is complete in the middle of one stay idle until its end. On the same sizes in the same slots the simulator
gives the same completion times; what it has beyond that (restarts, failures, servers, shares of time) is left out.

Legend: K clusters, J jobs of each, N kinds of jobs, V sizes of a kind, R resources.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NONE = -1
"""In place of a size: the job waits."""
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Sizes:
    """The sizes in which each kind of job may run.

    * ``use_NVR``: what a job holds of each resource in each size, an accelerator type, say;
    * ``speed_NV``: steps/s, 0 where a kind has no such size (kinds may have unequally many);
    * ``group_NV``: sizes between which a job may grow: those on one accelerator type; default: all.
    """

    use_NVR: Floats
    speed_NV: Floats
    group_NV: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    def __post_init__(self) -> None:
        if not self.group_NV.size:
            object.__setattr__(self, "group_NV", np.zeros(self.speed_NV.shape, dtype=np.int64))
        assert self.use_NVR.shape[:2] == self.speed_NV.shape == self.group_NV.shape

    @property
    def best_N(self) -> Floats:
        """Steps/s of each kind in its fastest size."""
        return np.asarray(self.speed_NV.max(axis=1))


@dataclass(frozen=True, eq=False)
class Slots:
    """K clusters at the beginning of a slot.

    * ``room_KR``: what there is of each resource;
    * ``kind_KJ``, ``arrival_s_KJ``, ``weight_KJ``: of each job; one that never arrives has an arrival of infinity;
    * ``left_KJ``: steps that are left, 0 if the job is complete;
    * ``pace_KJ``: how fast a job really is over what its kind is believed to be;
    * ``done_s_KJ``: when jobs were complete, NaN for the others;
    * ``time_s``: now, on every cluster.
    """

    sizes: Sizes
    room_KR: Floats
    kind_KJ: Ints
    left_KJ: Floats
    arrival_s_KJ: Floats
    weight_KJ: Floats
    pace_KJ: Floats
    done_s_KJ: Floats
    time_s: float = 0.0

    @staticmethod
    def of(
        sizes: Sizes,
        room_R: Floats,
        kind_KJ: Ints,
        left_KJ: Floats,
        *,
        arrival_s_KJ: Floats | None = None,
        weight_KJ: Floats | None = None,
        pace_KJ: Floats | None = None,
    ) -> "Slots":
        """Clusters that are all as large; without times of arrival the jobs are there at 0."""
        shape = kind_KJ.shape
        ones_KJ = np.ones(shape)
        return Slots(
            sizes,
            np.broadcast_to(room_R, (shape[0], sizes.use_NVR.shape[2])),
            kind_KJ,
            np.asarray(left_KJ, dtype=float),
            np.zeros(shape) if arrival_s_KJ is None else arrival_s_KJ,
            ones_KJ if weight_KJ is None else weight_KJ,
            ones_KJ if pace_KJ is None else pace_KJ,
            np.full(shape, np.nan),
        )

    @property
    def live_KJ(self) -> Bools:
        """Whether each job is there and not complete."""
        return np.asarray((self.left_KJ > 0.0) & (self.arrival_s_KJ <= self.time_s * (1.0 + ROUNDING)))

    @property
    def over_K(self) -> Bools:
        """Whether all jobs of a cluster are complete."""
        return np.asarray(~((self.left_KJ > 0.0) & np.isfinite(self.arrival_s_KJ)).any(axis=1))

    @property
    def jct_s_KJ(self) -> Floats:
        """Seconds from arrival to completion."""
        return self.done_s_KJ - self.arrival_s_KJ

    def speed_KJ(self, size_KJ: Ints) -> Floats:
        """Steps/s of each job in its size."""
        speed_KJ = self.sizes.speed_NV[self.kind_KJ, size_KJ]
        return np.where((size_KJ != NONE) & self.live_KJ, speed_KJ * self.pace_KJ, 0.0)

    def use_KR(self, size_KJ: Ints) -> Floats:
        """What is in use of each resource."""
        use_KJR = self.sizes.use_NVR[self.kind_KJ, size_KJ]
        return np.asarray(np.where((size_KJ != NONE)[:, :, None], use_KJR, 0.0).sum(axis=1))

    def advance(self, size_KJ: Ints, slot_s: float) -> "Slots":
        """The clusters at the end of a slot in which the jobs run in these sizes.

        Sizes that need more than there is are a mistake of the schedule, and an assertion.
        """
        assert (self.use_KR(size_KJ) <= self.room_KR * (1.0 + ROUNDING)).all(), (
            "a schedule holds more than there is"
        )
        return self.at_speeds(self.speed_KJ(size_KJ), slot_s)

    def at_speeds(self, speed_KJ: Floats, slot_s: float) -> "Slots":
        """The same for jobs that make so many steps/s, shares of time, say."""
        run_s_KJ = np.full(speed_KJ.shape, np.inf)
        np.divide(self.left_KJ, speed_KJ, out=run_s_KJ, where=speed_KJ > 0.0)
        ends_KJ = self.live_KJ & (run_s_KJ <= slot_s * (1.0 + ROUNDING))
        return replace(
            self,
            left_KJ=np.where(ends_KJ, 0.0, self.left_KJ - speed_KJ * slot_s),
            done_s_KJ=np.where(ends_KJ, self.time_s + run_s_KJ, self.done_s_KJ),
            time_s=self.time_s + slot_s,
        )

    def take(self, k_K: Ints) -> "Slots":
        """Some of the clusters, or one of them several times."""
        columns = ("room_KR", "kind_KJ", "left_KJ", "arrival_s_KJ", "weight_KJ", "pace_KJ", "done_s_KJ")
        taken: dict[str, Any] = {name: getattr(self, name)[k_K] for name in columns}
        return replace(self, **taken)

    def live(self) -> "tuple[Slots, Ints]":
        """The clusters with just the jobs that are there, in fewer columns, and the job of each column.

        Columns are filled up with jobs that are not live.
        """
        live_KJ = self.live_KJ
        most = int(live_KJ.sum(axis=1).max(initial=0))
        job_KL = np.argsort(~live_KJ, axis=1, kind="stable")[:, :most]
        columns = ("kind_KJ", "left_KJ", "arrival_s_KJ", "weight_KJ", "pace_KJ", "done_s_KJ")
        short: dict[str, Any] = {name: np.take_along_axis(getattr(self, name), job_KL, axis=1) for name in columns}
        return replace(self, **short), job_KL


Schedule = Callable[[Slots], Ints]
"""The size of each job in the slot that begins, ``NONE`` for those that wait."""


def play(slots: Slots, schedule: Schedule, slot_s: float, most: int = 100_000) -> Slots:
    """Slot after slot until all jobs are complete, or so many slots have passed.

    The schedule sees the live jobs alone; on clusters without any, the slots pass.
    """
    for _ in range(most):
        if slots.over_K.all():
            break
        slots = slots.advance(chosen(slots, schedule), slot_s)
    return slots


def chosen(slots: Slots, schedule: Schedule) -> Ints:
    """The size of each job; the schedule is asked about those that are live, at the speeds that are believed."""
    return chosen_at(replace(slots, pace_KJ=np.ones(slots.pace_KJ.shape)), schedule)


def chosen_at(slots: Slots, schedule: Schedule) -> Ints:
    """The same at the speeds that jobs really have."""
    seen, job_KL = slots.live()
    size_KJ = np.full(slots.kind_KJ.shape, NONE)
    if job_KL.shape[1]:
        np.put_along_axis(size_KJ, job_KL, np.where(seen.live_KJ, schedule(seen), NONE), axis=1)
    return size_KJ
