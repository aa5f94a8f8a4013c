"""Whole devices for elastic jobs: each begins in a size that fits, and what is left goes where it saves most time.

Legend: J jobs, A accelerator types, C configurations.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gavelx.allocation import Allocation
from gavelx.execution import DEFAULT, Execution
from gavelx.policies.greedy import Handout
from gavelx.snapshot import WAITING, Snapshot

WORTH_IT = 1e-9
"""More devices must take more than this part of its time left off a job; less is rounding."""


def handout_of(snapshot: Snapshot, *, least_first: bool = False) -> Handout:
    """Devices to hand out; in all sizes if they are open to the policy.

    ``least_first``: jobs begin in their least size; else as submitted, or if too few devices are free, in the
    largest size that fits.
    """
    if snapshot.configurations.own_C.all():
        return Handout(snapshot)
    return SizedHandout(snapshot, least_first=least_first)


class Size(NamedTuple):
    """So many devices, steps/s on them, and the configuration."""

    devices: int
    speed: float
    configuration: int


class SizedHandout(Handout):
    """Devices being handed out to jobs that may run in several sizes."""

    def __init__(self, snapshot: Snapshot, *, least_first: bool = False) -> None:
        super().__init__(snapshot)
        self._least_first = least_first
        self._sizes = sizes_alone(snapshot)
        self._size_J: list[Size | None] = [None] * len(snapshot.jobs)
        for (j, a), sizes in self._sizes.items():
            if self.T_JA[j, a] == 0.0:  # on fewer devices than submitted
                self.T_JA[j, a] = sizes[-1].speed
        self._speeds = self.T_JA.tolist()

    def needs(self, j: int) -> int:
        return min((sizes[0].devices for (i, _), sizes in self._sizes.items() if i == j), default=super().needs(j))

    def room(self, j: int) -> list[int]:
        return [
            a
            for a, free in enumerate(self.free_A)
            if (j, a) in self._sizes and self._sizes[j, a][0].devices <= free
        ]

    def start(self, j: int, a: int) -> None:
        assert self.type_J[j] == WAITING
        fitting = [size for size in self._sizes[j, a] if size.devices <= self.free_A[a]]
        own = [size for size in fitting if size.devices <= self._scale_J[j]]
        size = fitting[0] if self._least_first or not own else own[-1]
        self.type_J[j], self._size_J[j] = a, size
        self.free_A[a] -= size.devices

    def grow(self) -> None:
        """Give what is left to those whose time left it shortens most, in seconds per device.

        All larger sizes of a job are looked at, not only the next one, since a step that gains little may lead to
        one that gains much. Source: the marginal gain of Optimus (EuroSys'18), section 4.1, which adds one worker
        at a time.
        """
        left_J = self.snapshot.steps_left_J.tolist()
        while best := max(self._larger(left_J), default=None):
            _, _, j, size = best
            before = self._size_J[j]
            assert before is not None
            self.free_A[self.type_J[j]] += before.devices - size.devices
            self._size_J[j] = size

    def _larger(self, left_J: list[float]) -> list[tuple[float, int, int, Size]]:
        """Every larger size that fits: the seconds that a device of it saves, and whose it is."""
        found = []
        for j, now in enumerate(self._size_J):
            if now is None:
                continue
            free, left_s = self.free_A[self.type_J[j]], left_J[j] / now.speed
            for size in self._sizes[j, self.type_J[j]]:
                more = size.devices - now.devices
                saved_s = left_s - left_J[j] / size.speed
                if 0 < more <= free and saved_s > WORTH_IT * left_s:
                    found.append((saved_s / more, -self.snapshot.jobs[j].id, j, size))
        return found

    def allocation(self, execution: Execution = DEFAULT, **facts: Any) -> Allocation:
        self.grow()
        share_C = np.zeros(len(self.snapshot.configurations))
        share_C[[size.configuration for size in self._size_J if size is not None]] = 1.0
        execution = replace(execution, later_jobs_wait=False)  # sizes go by the steps left: ask again at any event
        return self.certified(share_C, execution, **facts)


def sizes_alone(snapshot: Snapshot) -> dict[tuple[int, int], list[Size]]:
    """The sizes in which a job can run alone and consolidated on a type, by number of devices."""
    table = snapshot.configurations
    alone_C = (table.members_C == 1) & ~table.spread_C & snapshot.usable_C
    found: dict[tuple[int, int], list[Size]] = {}
    for j, c, speed in zip(
        table.job_M.tolist(), table.configuration_M.tolist(), table.throughput_M.tolist(), strict=True
    ):
        if alone_C[c]:
            size = Size(int(table.devices_C[c]), speed, c)
            found.setdefault((j, int(table.accelerator_C[c])), []).append(size)
    return {place: sorted(sizes) for place, sizes in found.items()}
