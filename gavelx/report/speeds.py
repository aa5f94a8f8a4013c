"""Which speeds of a run are measured, which are estimated, and how wide their ranges are."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from gavelx.jobs import Job
from gavelx.throughputs import Setting, Throughputs


@dataclass(frozen=True)
class SpeedsOfType:
    """The speeds of a run's jobs on one accelerator type, counted by job type and width.

    ``times_wider`` is the typical (median) upper end of an estimate over its middle: 1.5 means that half of them
    may be off by a factor of 1.5 or less. ``cannot_run`` holds reasons, each with an example.
    """

    accelerator: str
    measured: int
    estimated: int
    cannot_run: int
    unknown: int
    times_wider: float | None
    widest: float | None
    reasons: tuple[str, ...] = ()


def speeds_used(jobs: Iterable[Job], accelerators: Sequence[str], table: Throughputs) -> tuple[SpeedsOfType, ...]:
    """A summary for each accelerator type; nothing if every speed is measured."""
    kinds = list(dict.fromkeys((job.job_type, job.scale_factor) for job in jobs))
    rows = tuple(_of_type([Setting(name, on, width) for name, width in kinds], on, table) for on in accelerators)
    return rows if any(row.estimated or row.reasons for row in rows) else ()


def _of_type(ways: Sequence[Setting], accelerator: str, table: Throughputs) -> SpeedsOfType:
    factors = [table.ranges[way][1] / table.isolated[way] for way in ways if way in table.ranges]
    speeds = [table.isolated.get(way) for way in ways]
    reasons = dict.fromkeys(f"{way.job_type}: {table.reasons[way]}" for way in ways if way in table.reasons)
    return SpeedsOfType(
        accelerator,
        measured=sum(bool(speed) for speed in speeds) - len(factors),
        estimated=len(factors),
        cannot_run=sum(speed == 0 for speed in speeds),
        unknown=sum(speed is None for speed in speeds),
        times_wider=median(factors) if factors else None,
        widest=max(factors, default=None),
        reasons=tuple(reasons),
    )


def speeds_to_json(rows: Sequence[SpeedsOfType]) -> dict[str, Any]:
    """The summary as a key of JSON; no key if every speed is measured."""
    return {"speeds": [asdict(row) | {"reasons": list(row.reasons)} for row in rows]} if rows else {}


def factor(value: float | None) -> str:
    """A factor each way.

    >>> factor(1.5), factor(None)
    ('x/÷ 1.50', '')
    """
    return "" if value is None or math.isnan(value) else f"x/÷ {value:.2f}"
