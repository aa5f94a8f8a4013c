"""A recorded job: the result of every importer for a row, before the job has a job type of ours."""

import math
from dataclasses import dataclass
from enum import StrEnum

from gavelx.elastic import Elastic
from gavelx.files.csvs import NUMBER, Row
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.moments import utc_time
from gavelx.files.texts import shown
from gavelx.jobs import ARRIVAL_S_MAX, Preemptible

NO_GPUS = "no GPUs"
NEVER_STARTED = "never started"
STILL_RUNNING = "still running"
NO_TIME = "took no time"
NO_END = "failed, without a start or an end"
TWICE = "there already"
"""Reasons to leave a job out. These are facts about the job, not mistakes in the file."""


class Ending(StrEnum):
    """How a job ended that held devices. Cancelled: by a user, a time limit or a preemption."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


SHORTEST_S = 1e-3
"""The least duration in seconds; a shorter one counts as 0."""
EARLIEST_S = 1e8
"""The least time (1973); a smaller number is rather a year, or a date without its dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One job of a recorded trace, on the clock of its file.

    Its work is one of three: ``total_steps`` of ``job_type``; ``duration_s`` on ``gpus`` devices, which may be a
    fraction; or ``samples`` to train on. ``batch_size`` is that of one device. ``deadline_s`` is a time on the
    clock of the file, ``slo`` a multiple of the duration; ``start_s`` is its first start on that clock,
    ``accelerator`` the type that it asked for, ``elastic`` what its scheduler may change while it runs. Records
    with the same ``part_of`` are one job. A job without an ``id`` is numbered by its arrival. Records with the
    same ``told`` are duplicates.
    """

    arrival_s: float
    gpus: float
    ended: Ending = Ending.COMPLETED
    start_s: float | None = None
    duration_s: float | None = None
    total_steps: float | None = None
    samples: float | None = None
    id: int | None = None
    job_type: str = ""
    model: str = ""
    batch_size: float | None = None
    weight: float = 1.0
    slo: float | None = None
    deadline_s: float | None = None
    owner: str = ""
    preemptible: Preemptible = "auto"
    checkpoints: bool = True
    accelerator: str = ""
    elastic: Elastic | None = None
    part_of: str = ""
    told: str = ""

    @property
    def device_s(self) -> float:
        """Device-seconds that it held; 0 if the file does not say for how long it ran."""
        return self.gpus * (self.duration_s or 0.0)


Outcome = Recorded | str
"""A job, or the reason why it is left out."""


def ran(gpus: float, duration_s: float) -> str:
    """The reason why a job that has ended is left out; empty if it is not."""
    if gpus <= 0:
        return NO_GPUS
    return NO_TIME if duration_s < SHORTEST_S else ""


def joined(parts: list[Recorded]) -> Recorded:
    """One job from all its parts: the sum of their devices, from the first start, with their total device-time."""
    gpus = math.fsum(part.gpus for part in parts)
    device_s = math.fsum(part.device_s for part in parts)
    return Recorded(
        arrival_s=min(part.arrival_s for part in parts),
        gpus=gpus,
        duration_s=device_s / gpus,
        owner=parts[0].owner,
        accelerator=one_of({part.accelerator for part in parts}),
    )


def one_of(names: set[str]) -> str:
    """The only name that is not empty; empty if there are several, or none."""
    names = names - {""}
    return names.pop() if len(names) == 1 else ""


def once(name: str, *times_s: float) -> str:
    """A key of a record to find duplicates: its name and its times; empty if it has no name."""
    return " ".join([name, *map(str, times_s)]) if name else ""


def seconds(row: Row, column: str) -> float:
    """A duration, or a time on a clock of seconds."""
    return row.number(column, low=0, high=ARRIVAL_S_MAX)


def clock(row: Row, column: str) -> float:
    """A time on a clock of seconds, which may be before its 0."""
    return row.number(column, low=-ARRIVAL_S_MAX, high=ARRIVAL_S_MAX)


def deadline(row: Row, column: str, arrival_s: float) -> float | None:
    """The deadline in a column, on the clock of the arrival; None without one."""
    if not row.has(column):
        return None
    if (deadline_s := clock(row, column)) <= arrival_s:
        raise row.mistake(column, f"{deadline_s:.15g} s is not after the arrival", expected="a later time")
    return deadline_s


def devices(row: Row, column: str) -> int:
    """A number of devices, 0 included."""
    return row.whole(column, low=0, high=SCALE_FACTOR_MAX)


def moment(row: Row, column: str) -> float:
    """A date with a time, as seconds since 1970; a number from 1e8 (1973) is such seconds already."""
    text = row.text(column)
    time_s = seconds(row, column) if NUMBER.fullmatch(text) else parsed_moment(text)
    if time_s is None or time_s < EARLIEST_S:
        raise row.mistake(column, f"{shown(text)} cannot be used", expected="a time such as 2017-10-07 01:12:09")
    return time_s


def started(row: Row, column: str) -> float | None:
    """The moment in a column of the first start; None where the log says that there was none."""
    return None if row.text(column, "").lower() in ("", "unknown", "none", "n/a") else moment(row, column)


def parsed_moment(text: str) -> float | None:
    """Seconds since 1970 of a date with a time, in UTC without a zone; None for any other text."""
    time = utc_time(text)
    return None if time is None else time.timestamp()


def later(row: Row, start_s: float, column: str, end_s: float) -> float:
    """The seconds from a start to the end in a column, which must not come before it."""
    if end_s < start_s:
        raise row.mistake(column, f"{shown(row.text(column))} comes before the start", expected="a time after it")
    return end_s - start_s


def either(row: Row, *columns: str, default: str = "") -> str:
    """The first of these columns that is not empty in this row, or else that the file has, or else ``default``."""
    there = [column for column in columns if column in row.cells] or [default]
    return next(filter(row.has, there), there[0])
