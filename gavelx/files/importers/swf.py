"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a job, between blanks.

Lines that begin with ``;`` are comments; ``; UnixStartTime: 893664000`` says when the clock of the file began.
-1 stands for an unknown number. A job has as many devices as it was allocated processors, or else as it
requested. It starts when it has waited, and takes its run time; without a wait, its start is not known. Jobs that
never ran (cancelled before) have no run time. The parts of a job that was swapped out (statuses 2 to 4) are in
the line of the whole job, with the status 0 or 1.

Source: S. Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers (JSSPP 1999), and
the definition of version 2.2 at the archive.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import NUMBER, Row
from gavelx.files.importers.recorded import (
    NEVER_STARTED,
    NO_GPUS,
    Ending,
    Outcome,
    Recorded,
    clock,
    ran,
    seconds,
)
from gavelx.files.importers.rows import BLANKS, Item, numbered_lines, row_of
from gavelx.files.limits import SCALE_FACTOR_MAX

COLUMNS = (
    *("job_number", "submit_time", "wait_time", "run_time", "allocated_processors", "average_cpu_time"),
    *("used_memory", "requested_processors", "requested_time", "requested_memory", "status", "user_id"),
    *("group_id", "application", "queue", "partition", "preceding_job", "think_time"),
)
PART = "part of a job"
STATUSES: dict[int, Ending | str] = {
    -1: Ending.COMPLETED,
    0: Ending.FAILED,
    1: Ending.COMPLETED,
    **dict.fromkeys((2, 3, 4), PART),
    5: Ending.CANCELLED,
}
BEGAN = "UnixStartTime:"


def matches(head: Sequence[str]) -> bool:
    """Whether a file that begins with these lines has this format."""
    rows = [line.split() for line in head if not line.lstrip().startswith(";")]
    if not rows:
        return any(BEGAN in line for line in head)
    return len(rows[0]) == len(COLUMNS) and all(map(NUMBER.fullmatch, rows[0]))


def jobs(path: Path) -> Iterator[Item]:
    """The jobs of a file, with the start of its clock as a further cell."""
    began_s = ""
    for number, line in numbered_lines(path):
        if not line.lstrip().startswith(";"):
            row = row_of(path, number, line, BLANKS, COLUMNS)
            if isinstance(row, Row):
                row.cells["began"] = began_s
            yield number, row
            continue
        name, said, text = line.lstrip("; \t").partition(":")
        if said and name.strip() == BEGAN[:-1] and (text := text.strip()) != "-1":
            if not NUMBER.fullmatch(text):
                yield number, InputFileError(f"{BEGAN} {text[:40]} is no number", where=f"{path}, row {number}")
            else:
                began_s = text


def swf_job(row: Row) -> Outcome:
    """A job of the format."""
    ended = STATUSES[row.whole("status", low=-1, high=5)]
    asked = (row.whole(column, low=-1, high=SCALE_FACTOR_MAX) for column in COLUMNS[4:8:3])
    gpus = next((count for count in asked if count > 0), 0)
    if gpus == 0:
        return NO_GPUS
    if not isinstance(ended, Ending):
        return ended
    if _unknown(row, "run_time"):
        return NEVER_STARTED
    began_s = seconds(row, "began") if row.has("began") else 0.0
    arrival_s, duration_s = began_s + clock(row, "submit_time"), seconds(row, "run_time")
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        ended=ended,
        start_s=None if _unknown(row, "wait_time") else arrival_s + seconds(row, "wait_time"),
        duration_s=duration_s,
        owner="" if _unknown(row, "user_id") else row.text("user_id"),
        name=row.text("job_number"),
    )


def _unknown(row: Row, column: str) -> bool:
    return row.number(column) == -1
