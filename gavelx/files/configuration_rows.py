"""Configurations one by one, as a file lists them, and as the arrays that policies work on.

Legend: A accelerator types, C configurations, J jobs, M memberships.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gavelx.configurations import Configurations


class ConfigurationRow(NamedTuple):
    """Jobs (indices; a pair shares the devices), accelerator type (an index), devices, steps/s of each job.

    ``ranges`` are (lower, upper) of each where speeds are estimated; left out, they are exact. ``batch`` and
    ``own`` are as in :class:`~gavelx.configurations.Configurations`; ``others`` are further types (indices) of a
    mix, each with its devices.
    """

    jobs: tuple[int, ...]
    accelerator: int
    devices: int
    steps_per_second: tuple[float, ...]
    spread: bool = False
    ranges: tuple[tuple[float, float], ...] = ()
    batch: int = 0
    own: bool = True
    others: tuple[tuple[int, int], ...] = ()

    @property
    def uses(self) -> tuple[tuple[int, int], ...]:
        """Every accelerator type (an index) with its devices."""
        return ((self.accelerator, self.devices), *self.others)


def configurations_of(rows: Sequence[ConfigurationRow], shape: tuple[int, int]) -> Configurations:
    """The table with these rows; ``shape`` is the number of jobs and of accelerator types (J, A)."""
    exact = [(speed, speed) for row in rows for speed in row.steps_per_second]
    told = [bounds for row in rows for bounds in row.ranges or [(speed, speed) for speed in row.steps_per_second]]
    range_M2 = np.array(told, dtype=float) if told != exact else None
    others_CA = np.zeros((len(rows), shape[1] if any(row.others for row in rows) else 0), dtype=np.int64)
    for c, row in enumerate(rows):
        for a, devices in row.others:
            others_CA[c, a] = devices
    return Configurations(
        shape=shape,
        accelerator_C=np.array([row.accelerator for row in rows], dtype=np.int64),
        devices_C=np.array([row.devices for row in rows], dtype=np.int64),
        job_M=np.array([job for row in rows for job in row.jobs], dtype=np.int64),
        configuration_M=np.repeat(np.arange(len(rows)), [len(row.jobs) for row in rows]).astype(np.int64),
        throughput_M=np.array([speed for row in rows for speed in row.steps_per_second], dtype=float),
        spread_C=np.array([row.spread for row in rows], dtype=bool),
        batch_C=np.array([row.batch for row in rows], dtype=np.int64),
        own_C=np.array([row.own for row in rows], dtype=bool),
        others_CA=others_CA,
        lower_M=None if range_M2 is None else range_M2[:, 0],
        upper_M=None if range_M2 is None else range_M2[:, 1],
    )


def rows_of(table: Configurations) -> Iterator[ConfigurationRow]:
    """Each configuration of a table in its order, with its members in theirs."""
    order_M = np.argsort(table.configuration_M, kind="stable")
    job_M, speed_M = table.job_M[order_M].tolist(), table.throughput_M[order_M].tolist()
    in_doubt = table.lower_M is not None
    ends = (table.at(end).throughput_M[order_M].tolist() for end in ("lower", "upper"))
    range_M = list(zip(*ends, strict=True)) if in_doubt else []
    first = 0
    columns = (
        *(table.accelerator_C, table.devices_C, table.spread_C),
        *(table.batch_C, table.own_C, table.members_C, table.others_CA),
    )
    for *how, members, counts in zip(*(c.tolist() for c in columns), strict=True):
        end = first + members
        jobs, speeds, ranges = (tuple(column[first:end]) for column in (job_M, speed_M, range_M))
        accelerator, devices, spread, batch, own = how
        others = tuple((a, count) for a, count in enumerate(counts) if count)
        yield ConfigurationRow(jobs, accelerator, devices, speeds, spread, ranges, batch, own, others)
        first = end
