"""Importing a trace: read every row, collect the bad ones, and turn the others into jobs."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gavelx.errors import InputFileError, OptionError, UserError
from gavelx.files.importers.formats import AUTO, Layout, find_layout
from gavelx.files.importers.recorded import TWICE, Ending, Recorded, implausible, joined
from gavelx.files.importers.steps import REFERENCE, Conversion, SpeedsOf, Width
from gavelx.files.texts import shown
from gavelx.jobs import Job
from gavelx.spelling import meant, nearest
from gavelx.throughputs import Throughputs

SHOWN = 5
"""The most bad rows in an error message."""
WATCHED = 5_000
"""Rows between two reports of progress."""

Watch = Callable[[int], None]


class BadRow(NamedTuple):
    """A row that cannot be used: its line number, and the problem."""

    row: int
    problem: str

    def __str__(self) -> str:
        return f"row {self.row}: {self.problem}"


class Ended(NamedTuple):
    """The jobs of a trace with one ending: their number, their device-seconds, and whether they are kept."""

    jobs: int
    device_s: float
    kept: bool


@dataclass(frozen=True)
class Imported:
    """The jobs of a trace in order of arrival, and an account of every other row.

    ``endings`` counts the jobs that held devices until they ended, kept or not. ``estimated`` has the job types
    and scale factors of jobs whose speed is estimated.
    """

    format: str
    jobs: tuple[Job, ...]
    rows: int
    skipped: tuple[BadRow, ...]
    left_out: dict[str, int]
    endings: dict[Ending, Ended]
    changes: dict[str, int]
    shifted_s: float
    estimated: tuple[Width, ...] = ()

    def device_share(self, ending: Ending) -> float | None:
        """The part of all device-time that jobs with this ending held; None if the file has no durations."""
        total_s = math.fsum(each.device_s for each in self.endings.values())
        return self.endings[ending].device_s / total_s if total_s else None


def import_trace(
    path: str | Path,
    throughputs: Throughputs,
    *,
    format: str = AUTO,
    reference: str = REFERENCE,
    seed: int = 0,
    keep: str = Ending.CANCELLED,
    skip_bad_rows: bool = False,
    estimate: SpeedsOf | None = None,
    watch: Watch = lambda rows: None,
) -> Imported:
    """The jobs of a published or recorded trace, as jobs of a throughput table.

    ``format`` is one of ``FORMATS``, or ``auto``: by what is in the file. How durations become steps is told in
    ``steps``. Bad rows are refused, or with ``skip_bad_rows`` left out and listed in ``skipped``. Jobs that never
    ran are no mistakes: they are counted in ``left_out``, by reason.

    ``keep`` says which jobs that ran are kept: ``completed``, the jobs that ended well; ``cancelled``, also those
    that a user, a time limit or a preemption ended; ``failed``, all of them. Jobs that are not kept are counted in
    ``left_out``, and their device-time in ``endings``.

    With ``estimate`` (such as :class:`gavelx.estimator.GangSpeeds`), gangs of a width that the table does not know
    keep it, at an estimated speed.

    Raises :class:`InputFileError` for bad rows (the first one, with notes on those that follow), for a file of an
    unknown format, and for one that leaves no job; :class:`OptionError` for a format, reference or ``keep`` that
    is none.
    """
    path = Path(path)
    kept = _kept(keep)
    conversion = Conversion(throughputs, reference, seed, estimate)
    layout = find_layout(path, format)
    reading = _Reading(path, layout, throughputs, kept)
    for count, (number, row) in enumerate(layout.rows(path), start=1):
        reading.take(number, row)
        if count % WATCHED == 0:
            watch(count)
    reading.settle(time.time())
    jobs, start_s = reading.convert(conversion)
    skipped = sorted(reading.bad, key=lambda bad: bad[0])
    if skipped and not skip_bad_rows:
        raise _refusal(path, skipped, reading.rows)
    if not jobs:
        raise _nothing(path, layout, skipped, reading.left_out)
    return Imported(
        format=layout.format,
        jobs=jobs,
        rows=reading.rows,
        skipped=tuple(BadRow(number, _problem(path, number, error)) for number, error in skipped),
        left_out=dict(reading.left_out.most_common()),
        endings={
            ending: Ended(len(reading.device_s[ending]), math.fsum(reading.device_s[ending]), ending in kept)
            for ending in Ending
            if ending in reading.device_s
        },
        changes={name: count for name, count in (reading.joins + conversion.changes).items() if count},
        shifted_s=start_s,
        estimated=tuple(conversion.estimated),
    )


def _kept(keep: str) -> tuple[Ending, ...]:
    """The endings of the jobs that are kept."""
    known = tuple(Ending)
    if keep not in known:
        raise OptionError(f"{shown(keep)} is not known", where="--keep", expected=", ".join(known))
    return known[: known.index(Ending(keep)) + 1]


class _Reading:
    """The rows of one file, sorted into jobs, jobs left out, and mistakes."""

    def __init__(self, path: Path, layout: Layout, throughputs: Throughputs, kept: tuple[Ending, ...]) -> None:
        self.path, self.layout, self.kept = path, layout, kept
        self.meant = cache(lambda name: meant(name, throughputs.job_types))
        self.hint = cache(lambda name: nearest(name[:200], throughputs.job_types))
        self.rows = 0
        self.recorded: list[tuple[int, Recorded]] = []
        self.row_of_id: dict[int, int] = {}
        self.ran: list[tuple[int, Recorded]] = []
        self.seen: set[tuple[str, float, float | None]] = set()
        self.joins: Counter[str] = Counter()
        self.bad: list[tuple[int, UserError]] = []
        self.left_out: Counter[str] = Counter()
        self.device_s: defaultdict[Ending, list[float]] = defaultdict(list)

    def take(self, number: int, row: object) -> None:
        """Classify one row."""
        self.rows += 1
        try:
            if isinstance(row, InputFileError):
                raise row
            outcome = self.layout.recorded(row)
            if isinstance(outcome, Recorded) and outcome.name:
                key = outcome.name, outcome.arrival_s, outcome.duration_s
                outcome = TWICE if key in self.seen else outcome
                self.seen.add(key)
            if isinstance(outcome, Recorded):
                self.ran.append((number, outcome))
            else:
                self.left_out[outcome] += 1
        except UserError as error:
            self._refuse(number, error)

    def settle(self, read_s: float) -> None:
        """Check the jobs that ran, and join parts of one. ``read_s``: now, in seconds since 1970."""
        plausible = list[tuple[int, Recorded]]()
        for number, job in self.ran:
            if why := implausible(job, read_s):
                expected = "a duration that can be right"
                self._refuse(number, InputFileError(why, where=f"{self.path}, row {number}", expected=expected))
            else:
                plausible.append((number, job))
        gangs, parts = (
            _joined(plausible, lambda job: job.gang),
            Counter(job.gang for _, job in plausible if job.gang),
        )
        self.joins["gangs_joined"] = sum(count > 1 for count in parts.values())
        for number, job in gangs:
            try:
                self._ended(number, job)
            except UserError as error:
                self._refuse(number, error)
        self.recorded = _joined(self.recorded, lambda job: job.part_of)
        runs = Counter(job.name for _, job in self.recorded if job.name)
        self.joins["run_again"] = sum(count - 1 for count in runs.values())

    def _refuse(self, number: int, error: UserError) -> None:
        self.bad.append((number, error.with_traceback(None)))  # a million of them would keep every frame

    def _ended(self, number: int, job: Recorded) -> None:
        """Keep a job, or leave it out for its ending; either way, count its device-time."""
        if job.ended in self.kept:
            self.recorded.append((number, self._checked(number, job)))
        else:
            self.left_out[job.ended] += 1
        self.device_s[job.ended].append(job.device_s)

    def _checked(self, number: int, job: Recorded) -> Recorded:
        """The job with its type as the table spells it, checked against the table and the other jobs."""
        where = f"{self.path}, row {number}"
        name = self.meant(job.job_type) if job.job_type else ""
        if name is None:
            problem, hint = f"{shown(job.job_type)} is not known", self.hint(job.job_type)
            raise InputFileError(problem, where=f"{where}, column job_type", hint=hint)
        if job.id is not None and (first := self.row_of_id.setdefault(job.id, number)) != number:
            problem = f"job {job.id} is in row {first} already"
            raise InputFileError(problem, where=f"{where}, column job_id", expected="each job once")
        return job if name == job.job_type else replace(job, job_type=name)

    def convert(self, conversion: Conversion) -> tuple[tuple[Job, ...], float]:
        """The jobs in order of arrival, and by how much their clock was shifted."""
        self.recorded.sort(key=lambda entry: entry[1].arrival_s)
        start_s = self.recorded[0][1].arrival_s if self.recorded else 0.0
        jobs: list[Job] = []
        for number, recorded in self.recorded:
            try:
                job_id = len(jobs) if recorded.id is None else recorded.id
                jobs.append(conversion.job(recorded, job_id, start_s))
            except UserError as error:
                where = f"{self.path}, row {number}"
                self.bad.append((number, InputFileError(error.problem, where=where, expected=error.expected)))
        return tuple(jobs), start_s


def _joined(jobs: list[tuple[int, Recorded]], of: Callable[[Recorded], str]) -> list[tuple[int, Recorded]]:
    """One job of the records that are ``of`` the same one, at the row of the first."""
    groups: dict[object, list[tuple[int, Recorded]]] = {}
    for position, (number, job) in enumerate(jobs):
        groups.setdefault(of(job) or position, []).append((number, job))
    return [
        group[0] if len(group) == 1 else (group[0][0], joined([job for _, job in group]))
        for group in groups.values()
    ]


def _problem(path: Path, number: int, error: UserError) -> str:
    """The problem with a row, without file and line number."""
    return error.message().removeprefix(f"{path}, row {number}").lstrip(",: ")


def _refusal(path: Path, bad: list[tuple[int, UserError]], rows: int) -> UserError:
    """The error about the first bad row; further ones are in its notes."""
    _, first = bad[0]
    for other, error in bad[1:SHOWN]:
        first.add_note(str(BadRow(other, _problem(path, other, error))))
    more = f", {len(bad) - SHOWN:,} of them not shown" if len(bad) > SHOWN else ""
    first.add_note(f"{len(bad):,} of {rows:,} rows cannot be used{more}; --skip-bad-rows leaves them out")
    return first


def _nothing(path: Path, layout: Layout, bad: list[tuple[int, UserError]], left_out: Counter[str]) -> UserError:
    """The error about a trace that leaves no job."""
    reasons = [f"{reason}: {count:,}" for reason, count in left_out.most_common()]
    if bad:
        reasons.append(f"cannot be used: {len(bad):,}")
    problem = "the trace has no jobs" + (f" ({', '.join(reasons)})" if reasons else "")
    error = InputFileError(problem, where=str(path), expected=f"at least one job ({layout.format})")
    if bad:
        error.add_note(str(BadRow(bad[0][0], _problem(path, *bad[0]))))
    return error
