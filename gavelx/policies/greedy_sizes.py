"""Whole devices for elastic jobs: each begins in a size that fits, and what is left goes where it saves most time.

Legend: J jobs, C configurations.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from gavelx.allocation import Allocation
from gavelx.execution import DEFAULT, Execution
from gavelx.policies.greedy import Handout
from gavelx.policies.ways import Uses, Way, is_within, ways_alone
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


class SizedHandout(Handout):
    """Devices being handed out to jobs that may run in several sizes.

    A job begins on one type, and may grow into a mix of that and others. One that can run on mixes alone begins in
    one of them.
    """

    def __init__(self, snapshot: Snapshot, *, least_first: bool = False) -> None:
        super().__init__(snapshot)
        self._least_first = least_first
        self._way_J: list[Way | None] = [None] * len(snapshot.jobs)
        self._with: dict[tuple[int, int], list[Way]] = {}  # the ways of a job that use a type
        self._starts: dict[tuple[int, int], list[Way]] = {}  # and those of them in which it may begin
        for j, ways in ways_alone(snapshot).items():
            mixed = all(way.is_mixed for way in ways)
            for way in ways:
                for a, _ in way.uses:
                    self._with.setdefault((j, a), []).append(way)
                    if way.is_mixed == mixed:
                        self._starts.setdefault((j, a), []).append(way)
        for (j, a), ways in self._starts.items():
            if self.T_JA[j, a] == 0.0:  # on fewer devices than submitted, or several types
                self.T_JA[j, a] = ways[-1].speed

    def needs(self, j: int) -> int:
        ways = [way for (i, _), ways in self._starts.items() if i == j for way in ways]
        if ways and ways[0].is_mixed:  # no devices of one type are enough
            return sum(self._devices_A) + 1
        return min((way.devices for way in ways), default=super().needs(j))

    def room(self, j: int) -> list[int]:
        return [a for a in range(len(self.free_A)) if any(map(self._fits, self._starts.get((j, a), ())))]

    def choice(self, j: int) -> int:
        return self.fastest(j, room) if (room := self.room(j)) else WAITING

    def start(self, j: int, a: int) -> None:
        assert self.type_J[j] == WAITING
        fitting = [way for way in self._starts[j, a] if self._fits(way)]
        own = [way for way in fitting if way.devices <= self._scale_J[j]]
        self.type_J[j] = a
        self._give(j, fitting[0] if self._least_first or not own else own[-1])

    def _fits(self, way: Way) -> bool:
        return all(devices <= self.free_A[a] for a, devices in way.uses)

    def _give(self, j: int, way: Way) -> None:
        """The job has these devices, instead of those that it had."""
        if (before := self._way_J[j]) is not None:
            for a, devices in before.uses:
                self.free_A[a] += devices
        for a, devices in way.uses:
            self.free_A[a] -= devices
        self._way_J[j] = way

    def grow(self) -> None:
        """Give what is left to those whose time left it shortens most, in seconds per device.

        All larger sizes of a job are looked at, not only the next one, since a step that gains little may lead to
        one that gains much; and all mixes with the devices that it has. Source: the marginal gain of Optimus
        (EuroSys'18), section 4.1, which adds one worker at a time.
        """
        left_J = self.snapshot.steps_left_J.tolist()
        while best := max(self._larger(left_J), default=None):
            self._give(*best[2:])

    def _larger(self, left_J: list[float]) -> list[tuple[float, int, int, Way]]:
        """Every larger size that fits: the seconds that a device of it saves, and whose it is."""
        found = []
        for j, now in enumerate(self._way_J):
            if now is None:
                continue
            left_s = left_J[j] / now.speed
            for way in self._with[j, self.type_J[j]]:
                more = way.devices - now.devices
                saved_s = left_s - left_J[j] / way.speed
                if more > 0 and saved_s > WORTH_IT * left_s and self._has_room(now.uses, dict(way.uses)):
                    found.append((saved_s / more, -self.snapshot.jobs[j].id, j, way))
        return found

    def _has_room(self, has: Uses, wanted: dict[int, int]) -> bool:
        """Whether a job that has these devices can have those, all of its own among them."""
        own = dict(has)
        return is_within(has, wanted) and all(n - own.get(a, 0) <= self.free_A[a] for a, n in wanted.items())

    def allocation(self, execution: Execution = DEFAULT, **facts: Any) -> Allocation:
        self.grow()
        share_C = np.zeros(len(self.snapshot.configurations))
        share_C[[way.configuration for way in self._way_J if way is not None]] = 1.0
        execution = replace(execution, later_jobs_wait=False)  # sizes go by the steps left: ask again at any event
        return self.certified(share_C, execution, **facts)
