"""Traces in the form that the published Gavel scheduler reads and writes, taken over as jobs.

One job a line and ten fields between tabs: job type, command, working directory, name of the argument for the
number of steps, needs a data folder (0 or 1), total steps, scale factor, priority weight, SLO (negative: none),
arrival in seconds. Jobs are numbered 0, 1, 2... in the order of the lines, as that scheduler does. Commands and
folders are not kept: what a job runs is its job type.
"""

from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.texts import read_lines
from gavelx.files.traces import out_of_order
from gavelx.jobs import Job

FIELDS = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "slo",
    "arrival_s",
)


def read_gavel_trace(path: str | Path) -> tuple[Job, ...]:
    """The jobs of a trace in the published form, in the order of the file.

    Raises :class:`InputFileError` naming row and field.
    """
    jobs: list[Job] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        fields = line.rstrip("\r\n").split("\t")
        if len(fields) != len(FIELDS):
            where, expected = f"{path}, row {number}", f"{len(FIELDS)}: " + ", ".join(FIELDS)
            problem = f"the line has {len(fields)} fields between tabs"
            raise InputFileError(problem, where=where, expected=expected)
        row = Row(path, number, dict(zip(FIELDS, map(str.strip, fields), strict=True)))
        job = _job(row, len(jobs))
        if jobs and job.arrival_s < jobs[-1].arrival_s:
            raise row.mistake("arrival_s", **out_of_order(job.arrival_s, jobs[-1].arrival_s))
        jobs.append(job)
    if not jobs:
        raise InputFileError("the trace has no jobs", where=str(path), expected="at least one line")
    return tuple(jobs)


def _job(row: Row, job_id: int) -> Job:
    slo = row.number("slo")
    return Job(
        id=job_id,
        job_type=row.text("job_type"),
        total_steps=row.number("total_steps", above=0),
        scale_factor=row.whole("scale_factor", low=1, high=SCALE_FACTOR_MAX),
        weight=row.number("priority_weight", above=0),
        arrival_s=row.number("arrival_s", low=0),
        slo=slo if slo > 0 else None,
    )
