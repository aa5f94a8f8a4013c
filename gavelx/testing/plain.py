"""Time, devices and throughput of shares, computed row by row from the table of configurations.

It is independent of the package's own checks, which multiply sparse matrices.

Legend: J jobs, A accelerator types, C configurations.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.configurations import Configurations
from gavelx.files.configuration_rows import ConfigurationRow, rows_of
from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
Key = tuple[tuple[int, ...], tuple[tuple[int, int], ...], bool]
"""The name of a configuration: job ids, accelerator types (indices) with their devices, spread."""


@dataclass(frozen=True, eq=False)
class Use:
    """Time of each job, devices of each type, steps/s of each job."""

    time_J: Floats
    devices_A: Floats
    throughput_J: Floats


def use(table: Configurations, share_C: Floats) -> Use:
    """Time, devices and throughput of these shares."""
    J, A = table.shape
    found = Use(np.zeros(J), np.zeros(A), np.zeros(J))
    for row, share in zip(rows_of(table), share_C.tolist(), strict=True):
        for a, devices in row.uses:
            found.devices_A[a] += devices * share
        for job, speed in zip(row.jobs, row.steps_per_second, strict=True):
            found.time_J[job] += share
            found.throughput_J[job] += speed * share
    return found


def rows_by_key(snapshot: Snapshot, table: Configurations) -> dict[Key, ConfigurationRow]:
    """Each configuration of a table under its name."""
    return {key(snapshot, row): row for row in rows_of(table)}


def key(snapshot: Snapshot, row: ConfigurationRow) -> Key:
    """The name of a configuration, with members in order of their ids, so independent of the order of jobs."""
    return tuple(sorted(snapshot.jobs[j].id for j in row.jobs)), row.uses, row.spread


def shares_by_key(allocation: Allocation) -> dict[Key, float]:
    """The share of every configuration under its name."""
    snapshot = allocation.snapshot
    rows = rows_of(snapshot.configurations)
    return {key(snapshot, row): share for row, share in zip(rows, allocation.share_C.tolist(), strict=True)}


def in_the_order_of(allocation: Allocation, snapshot: Snapshot) -> Floats:
    """The shares as an array over the configurations of another snapshot of the same jobs."""
    shares = shares_by_key(allocation)
    return np.array([shares.get(key(snapshot, row), 0.0) for row in rows_of(snapshot.configurations)])


def can_run(snapshot: Snapshot, row: ConfigurationRow) -> bool:
    """Whether every member makes progress and its types have enough devices."""
    enough = all(devices <= snapshot.devices_A[a] for a, devices in row.uses)
    return enough and min(row.steps_per_second) > 0
