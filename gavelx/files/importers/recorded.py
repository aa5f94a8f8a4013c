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
LONGEST_S = 2.0**30
"""The greatest duration, 34 years: a longer one is 2^32 s less a bit, or a number that stands for none."""
DIFFER_S, DIFFER = 60.0, 0.01
"""By how many seconds, or by which part, a duration may differ from the time between start and end."""
DAY_S, YEAR_S = 86_400.0, 31_557_600.0
EARLIEST_S = 1e8
"""The least time (1973); a smaller number is rather a year, or a date without its dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One job of a recorded trace, on the clock of its file.

    Its work is one of three: ``total_steps`` of ``job_type``; ``duration_s`` on ``gpus`` devices, which may be a
    fraction; or ``samples`` to train on. ``batch_size`` is that of one device. ``deadline_s`` is a time on the
    clock of the file, ``slo`` a multiple of the duration; ``start_s`` is its first start on that clock,
    ``accelerator`` the type that it asked for, ``elastic`` what its scheduler may change while it runs. ``name``
    is its name in the log: records with the same name and times are duplicates, and records with the same name
    are runs of one job. Records with the same ``gang`` ran at the same time, as one job; of those with the same
    ``part_of``, the ones that are kept are one job. A job without an ``id`` is numbered by its arrival.
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
    gang: str = ""
    name: str = ""

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
    endings, starts = tuple(Ending), [part.start_s for part in parts if part.start_s is not None]
    return Recorded(
        arrival_s=min(part.arrival_s for part in parts),
        gpus=gpus,
        ended=max((part.ended for part in parts), key=endings.index),
        start_s=min(starts, default=None),
        duration_s=device_s / gpus,
        owner=parts[0].owner,
        accelerator=one_of({part.accelerator for part in parts}),
        name=parts[0].gang or parts[0].part_of,
    )


def one_of(names: set[str]) -> str:
    """The only name that is not empty; empty if there are several, or none."""
    names = names - {""}
    return names.pop() if len(names) == 1 else ""


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
    return None if row.text(column, "").lower() in ("", "unknown", "none", "n/a", "nan") else moment(row, column)


def parsed_moment(text: str) -> float | None:
    """Seconds since 1970 of a date with a time, in UTC without a zone; None for any other text."""
    time = utc_time(text)
    return None if time is None else time.timestamp()


def later(row: Row, start_s: float, column: str, end_s: float) -> float:
    """The seconds from a start to the end in a column, which must not come before it."""
    if end_s < start_s:
        raise row.mistake(column, f"{shown(row.text(column))} comes before the start", expected="a time after it")
    return end_s - start_s


def lasted(
    row: Row, column: str, duration_s: float, start_s: float | None, *, end: str, away_s: float = 0.0
) -> float:
    """The duration in a column: it must be the time from the start to the end, where the file has both.

    They may differ by ``DIFFER_S`` seconds, or by the part ``DIFFER`` of the longer. ``away_s`` seconds of that
    time the job was suspended, which its duration may leave out.
    """
    if start_s is None or (end_s := started(row, end)) is None:
        return duration_s
    between_s = later(row, start_s, end, end_s)
    for expected_s in (between_s, between_s - away_s):
        if abs(duration_s - expected_s) <= max(DIFFER_S, DIFFER * max(duration_s, expected_s)):
            return duration_s
    problem = f"{shown(row.text(column))} is {duration_s:,.15g} s, but from start to end it is {between_s:,.15g} s"
    raise row.mistake(column, problem, expected=f"the same, within {DIFFER_S:g} s or {100 * DIFFER:g} %")


def implausible(job: Recorded, read_s: float) -> str:
    """Why the duration of a job cannot be right, at a time of reading in seconds since 1970; empty if it can."""
    if job.duration_s is None or job.total_steps is not None:
        return ""
    if job.duration_s > LONGEST_S:
        years = job.duration_s / YEAR_S
        return f"the job lasts {job.duration_s:,.15g} s ({years:,.0f} years), as where a counter has wrapped"
    begins_s = job.arrival_s if job.start_s is None else job.start_s
    if EARLIEST_S <= begins_s <= read_s < begins_s + job.duration_s - DAY_S:
        return f"the job lasts {job.duration_s:,.15g} s from its start, and would end after today"
    return ""


def either(row: Row, *columns: str, default: str = "") -> str:
    """The first of these columns that is not empty in this row, or else that the file has, or else ``default``."""
    there = [column for column in columns if column in row.cells] or [default]
    return next(filter(row.has, there), there[0])
