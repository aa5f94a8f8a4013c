"""Slurm's job completion log, which the plugin ``jobcomp/filetxt`` writes without an accounting database.

    JobId=7 UserId=ann(1001) GroupId=lab(100) Name=train lr=0.1 JobState=COMPLETED Partition=gpu ...

A value may have blanks, so a field begins with a blank, a word and ``=``. ``Tres`` is what the job requested
for all its nodes; older versions of Slurm have ``Gres`` instead, also summed over the nodes. Slurm cuts a
record to 1,023 bytes, line end included: then the next one follows on the same line, and the cut one may lack
fields.

Source: Slurm documentation, slurm.conf (JobCompType) and job states.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import (
    NEVER_STARTED,
    NO_GPUS,
    Ending,
    Outcome,
    Recorded,
    either,
    later,
    moment,
    started,
)
from gavelx.files.importers.rows import Item, not_text, numbered_lines
from gavelx.files.importers.slurm import ending, gang, gpus_of
from gavelx.files.texts import shown

BEGINS = re.compile(r"(?<!Array)(?<!Het)JobId=(?=\d+ UserId=)")
FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=")
USER = re.compile(r"(.*)\(\d+\)")  # ann(1001)
NEEDED = ("JobId", "JobState", "StartTime", "EndTime", "SubmitTime")


def matches(head: Sequence[str]) -> bool:
    """Whether a file that begins with these lines is such a log."""
    return any(BEGINS.match(line) and "JobState=" in line for line in head)


def records(path: Path) -> Iterator[Item]:
    """The records of a log, each with the number of the line on which it begins."""
    for number, line in numbered_lines(path):
        if (error := not_text(path, number, line)) is not None:
            yield number, error
            continue
        begins = [found.start() for found in BEGINS.finditer(line)]
        for start, end in zip([0, *begins], [*begins, len(line)], strict=True):
            if text := line[start:end].strip():
                yield number, _record(path, number, text)


def _record(path: Path, number: int, text: str) -> Row | InputFileError:
    where = f"{path}, row {number}"
    fields = list(FIELD.finditer(text))
    if not fields or fields[0][1] != "JobId":
        return InputFileError(f"the record begins with {shown(text, 40)}", where=where, expected="JobId=")
    cells: dict[str, str] = {}
    for field, end in zip(fields, [*(field.start() for field in fields[1:]), len(text)], strict=True):
        if field[1] in cells and field[1] in (*NEEDED, "Tres", "Gres"):
            problem = f"{field[1]} is there twice, perhaps in the name of the job"
            return InputFileError(problem, where=where, expected="each field once")
        value = text[field.end() : end].strip()
        cells[field[1]] = "" if value == "(null)" else value
    lacking = [name for name in NEEDED if name not in cells]
    if not {"Tres", "Gres"} & cells.keys():
        lacking.append("Tres")
    if lacking:
        hint = "sacct, if Slurm is too old for this field or has cut the record"
        return InputFileError(
            f"the record lacks {', '.join(lacking)}", where=where, expected="a whole record", hint=hint
        )
    return Row(path, number, cells)


def completed_job(row: Row) -> Outcome:
    """A job of the log."""
    ended = ending(row, "JobState")
    column = "Tres" if "Tres" in row.cells else "Gres"
    gpus, model = gpus_of(row, column, "TRES" if "/" in row.text(column, "") else "GRES", nodes=1)
    if gpus == 0:
        return NO_GPUS
    if not isinstance(ended, Ending):
        return ended
    arrival_s, start_s = moment(row, "SubmitTime"), started(row, "StartTime")
    if start_s is None:
        return NEVER_STARTED
    duration_s = later(row, start_s, "EndTime", moment(row, "EndTime"))
    if duration_s == 0:
        return NEVER_STARTED
    user = row.text("UserId", "")
    if named := USER.fullmatch(user):
        user = named[1]
    return Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        ended=ended,
        start_s=start_s,
        duration_s=duration_s,
        owner="/".join(filter(None, (row.text("Account", ""), user))),
        accelerator=model,
        gang=gang(row.text(either(row, "HetJobId", "PackJobId"), ""), arrival_s),
        name=row.text("JobId"),
    )
