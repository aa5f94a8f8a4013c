"""The ways in which each job can run by itself: on one accelerator type, or on a mix of several."""

from collections.abc import Mapping
from typing import NamedTuple

from gavelx.snapshot import Snapshot

Uses = tuple[tuple[int, int], ...]
"""Accelerator types (indices), each with a number of devices."""


class Way(NamedTuple):
    """A way to run: so many devices in all, steps/s on them, its configuration, its first type and all types."""

    devices: int
    speed: float
    configuration: int
    type: int
    uses: Uses

    @property
    def is_mixed(self) -> bool:
        """Whether its devices are of several types."""
        return len(self.uses) > 1


def ways_alone(snapshot: Snapshot) -> dict[int, list[Way]]:
    """The ways in which each job can run alone and consolidated, or on a mix, by number of devices."""
    table = snapshot.configurations
    alone_C = (table.members_C == 1) & ~table.spread_C & snapshot.usable_C
    columns = table.accelerator_C.tolist(), table.devices_C.tolist(), table.others_CA.tolist()
    every = list(zip(*columns, strict=True))
    found: dict[int, list[Way]] = {}
    for j, c, speed in zip(
        table.job_M.tolist(), table.configuration_M.tolist(), table.throughput_M.tolist(), strict=True
    ):
        if alone_C[c]:
            a, devices, others = every[c]
            uses = ((a, devices), *((b, count) for b, count in enumerate(others) if count))
            found.setdefault(j, []).append(Way(devices + sum(others), speed, c, a, uses))
    return {j: sorted(ways) for j, ways in found.items()}


def is_within(uses: Uses, those: Mapping[int, int]) -> bool:
    """Whether these devices are some of those, or all."""
    return all(devices <= those.get(a, 0) for a, devices in uses)
