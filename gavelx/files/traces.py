"""Traces: the list of jobs that a simulation runs, as a CSV file.

=========================  ========================================================================================
``job_id``                 a whole number, unique
``arrival_s``              seconds; no job arrives before the one above it
``job_type``               a name of the throughput table
``scale_factor``           devices that the job needs at once
``total_steps``            optimizer steps, above 0; may be fractional
``priority_weight``        1e-9 to 1e12; 1 where the column or the cell is missing
``slo``                    optional: a multiple of ``duration_s`` that the job should be done in
``duration_s``             optional: seconds that the job needs on the reference device
``owner``                  optional: a path such as ``team/user``
``preemptible``            optional: ``yes``, ``no`` or ``auto`` (default): whether it may be stopped for others
``checkpoints``            optional: ``yes`` (default), or ``no``: after a stop, the job begins anew
``elasticity``             optional: other sizes to run in, as ``workers:1-8`` or ``batch:1-8/64-512``
``recorded_start_s``       optional: seconds, on the clock of ``arrival_s``: the first start of a recorded job
``requested_accelerator``  optional: the accelerator type that a recorded job asked for, as its log spells it
=========================  ========================================================================================

Simulations do not read the last two. Further columns are ignored. Numbers are written so that reading gives the
same float.
"""

import csv
import io
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from gavelx.elastic import Elastic
from gavelx.errors import InputFileError, UserError, did_you_mean
from gavelx.files.atomic import write_atomically
from gavelx.files.csvs import Row, read_rows
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.locate import data_path, names
from gavelx.files.texts import exists, shown
from gavelx.jobs import ARRIVAL_S_MAX, PREEMPTIBLE, WEIGHT_MAX, WEIGHT_MIN, Job, Preemptible

REQUIRED = ("job_id", "arrival_s", "job_type", "scale_factor", "total_steps")
COLUMNS = (*REQUIRED, "priority_weight")
OPTIONAL = (
    *("slo", "duration_s", "owner", "preemptible", "checkpoints", "elasticity"),
    *("recorded_start_s", "requested_accelerator"),
)


def find_trace(name_or_path: str | Path) -> Path:
    """The file of a trace: a path, or the bare name of a trace that gavelx ships (``gavel_msr_0e4a51``).

    Raises :class:`InputFileError`, with the nearest shipped name, if there is neither.
    """
    path, name = Path(name_or_path), str(name_or_path)
    if name in (shipped := names("traces")) and not path.is_file():
        return data_path("traces", name)
    if exists(path):
        return path
    hint = did_you_mean(path.stem[:100], shipped, "gavelx trace show")
    raise InputFileError("there is no such file or shipped trace", where=shown(name, 200), hint=hint)


def read_trace(path: str | Path, known_job_types: Collection[str] | None = None) -> tuple[Job, ...]:
    """The jobs of a trace, in the order of the file, which is that of arrival.

    With ``known_job_types`` (of the throughput table), any other job type is an error, and another spelling is
    replaced by the table's. A column whose name is nearly that of a known one is an error; others are ignored.
    Raises :class:`InputFileError` that names row and column.
    """
    jobs: list[Job] = []
    line_of: dict[int, int] = {}
    for row in read_rows(path, REQUIRED, hint="gavelx trace import, for the traces of others"):
        if not jobs:
            _check_columns(row)
        job = job_of(row, known_job_types)
        if (first := line_of.setdefault(job.id, row.line)) != row.line:
            raise row.mistake("job_id", f"job {job.id} is in row {first} already", expected="each job once")
        if jobs and job.arrival_s < jobs[-1].arrival_s:
            raise row.mistake("arrival_s", **out_of_order(job.arrival_s, jobs[-1].arrival_s))
        jobs.append(job)
    if not jobs:
        raise InputFileError("the trace has no jobs", where=str(path), expected="at least one row")
    return tuple(jobs)


def _check_columns(row: Row) -> None:
    """A column that is nearly spelled as one of ours is meant to be that one, and must not be ignored."""
    known = (*COLUMNS, *OPTIONAL)
    for column in row.cells.keys() - set(known):
        words = {name: name for name in known} | {word: name for name in known for word in name.split("_")}
        near = get_close_matches(column.strip().casefold(), words, n=1, cutoff=0.85)
        if near and words[near[0]] not in row.cells:
            problem = f"column {shown(column)} is not known"
            raise InputFileError(problem, where=str(row.path), hint=f"did you mean {words[near[0]]}?")


def write_trace(path: str | Path, jobs: Iterable[Job]) -> None:
    """Write jobs as a trace that :func:`read_trace` reads back exactly.

    Optional columns are written if some job needs them. Raises :class:`OptionError` if the file cannot be written.
    """
    cells = [_cells(job) for job in jobs]
    columns = (*COLUMNS, *(name for name in OPTIONAL if any(row[name] != DEFAULTS[name] for row in cells)))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[column] for column in columns] for row in cells)
    write_atomically(path, text.getvalue())


def out_of_order(arrival_s: float, before_s: float) -> dict[str, str]:
    """The parts of the message about a job that arrives before the one above it."""
    problem = f"the job arrives at {arrival_s:.15g} s, before the job above it at {before_s:.15g} s"
    return {"problem": problem, "expected": "arrivals in order", "hint": "sort the rows by arrival"}


def job_of(row: Row, known_job_types: Collection[str] | None = None) -> Job:
    """The job of one row. Raises :class:`InputFileError` naming row and column."""
    arrival_s = row.number("arrival_s", low=0, high=ARRIVAL_S_MAX)
    return Job(
        id=row.whole("job_id", low=0),
        job_type=row.job_type("job_type", known_job_types),
        total_steps=row.number("total_steps", above=0),
        scale_factor=row.whole("scale_factor", low=1, high=SCALE_FACTOR_MAX),
        weight=row.number("priority_weight", low=WEIGHT_MIN, high=WEIGHT_MAX, default=1.0),
        arrival_s=arrival_s,
        slo=row.number("slo", above=0) if row.has("slo") else None,
        duration_s=row.number("duration_s", above=0) if row.has("duration_s") else None,
        owner=row.text("owner", ""),
        preemptible=cast(Preemptible, _one_of(row, "preemptible", PREEMPTIBLE)),
        checkpoints=_one_of(row, "checkpoints", ("yes", "no")) == "yes",
        elastic=_elastic(row) if row.has("elasticity") else None,
        recorded_start_s=_start_s(row, arrival_s) if row.has("recorded_start_s") else None,
        requested_accelerator=row.text("requested_accelerator", ""),
    )


def _elastic(row: Row) -> Elastic:
    try:
        return Elastic.of(row.text("elasticity"))
    except UserError as error:
        raise row.mistake("elasticity", error.problem, expected=error.expected) from None


def _start_s(row: Row, arrival_s: float) -> float:
    start_s = row.number("recorded_start_s", low=0, high=ARRIVAL_S_MAX)
    if start_s < arrival_s:
        problem = f"the job starts at {start_s:.15g} s, before it arrives at {arrival_s:.15g} s"
        raise row.mistake("recorded_start_s", problem, expected="a start at or after the arrival")
    return start_s


def _one_of(row: Row, column: str, words: Sequence[str]) -> str:
    """The cell as one of these words; the first word if it is empty."""
    if (word := row.text(column, words[0])) not in words:
        raise row.mistake(column, f"{shown(word)} is not known", expected=" or ".join(words))
    return word


def _cells(job: Job) -> dict[str, object]:
    return {
        "job_id": job.id,
        "arrival_s": repr(float(job.arrival_s)),
        "job_type": job.job_type,
        "scale_factor": job.scale_factor,
        "total_steps": repr(float(job.total_steps)),
        "priority_weight": repr(float(job.weight)),
        "slo": "" if job.slo is None else repr(float(job.slo)),
        "duration_s": "" if job.duration_s is None else repr(float(job.duration_s)),
        "owner": job.owner,
        "preemptible": job.preemptible,
        "checkpoints": "yes" if job.checkpoints else "no",
        "elasticity": "" if job.elastic is None else str(job.elastic),
        "recorded_start_s": "" if job.recorded_start_s is None else repr(float(job.recorded_start_s)),
        "requested_accelerator": job.requested_accelerator,
    }


DEFAULTS = _cells(Job(0, ""))
"""What a cell holds where its column may be left out."""
