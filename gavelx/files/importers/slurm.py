"""Slurm's accounting, as ``sacct --parsable2`` prints it: a header, then fields between bars; or its ``--json``.

    sacct --allusers --parsable2 --starttime 2024-01-01 \\
      --format JobID,User,Account,State,Submit,Start,ElapsedRaw,ReqTRES,AllocTRES

``JobID`` or ``JobIDRaw``, ``Submit``, one of ``ElapsedRaw`` and ``Elapsed``, and one of ``AllocTRES``,
``ReqTRES``, ``AllocGRES`` and ``ReqGRES`` are needed; GRES counts are per node, so ``NNodes`` multiplies them.
Steps of a job (``123.batch``) are passed over; elements of an array (``123_4``) are jobs; the components of a
heterogeneous job (``123+0``, ``123+1``) are one job. Without ``State`` all count as completed. Duplicates, as in
overlapping lists, are one job; each run of a requeued job is a job. The header shows what stands between the
columns, so any ``--delimiter`` will do. Slurm leaves the time for which a job was ``Suspended`` out of
``Elapsed``. The owner is ``Account/User``. The requested type of GPU is that of ``ReqTRES`` or ``ReqGRES`` where
it is there, or else that of what the job got. ``Priority`` is a place in the queue, not a share, and is dropped:
every job has weight 1.

Source: Slurm documentation, sacct (job states, TRES, Elapsed).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import NUMBER, Row
from gavelx.files.importers.recorded import (
    NEVER_STARTED,
    NO_GPUS,
    STILL_RUNNING,
    Ending,
    Outcome,
    Recorded,
    either,
    lasted,
    moment,
    one_of,
    ran,
    seconds,
    started,
)
from gavelx.files.importers.rows import Item, json_elements
from gavelx.files.jsons import Node
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.texts import shown
from gavelx.jobs import ARRIVAL_S_MAX

STATES: dict[str, Ending | str] = {
    "COMPLETED": Ending.COMPLETED,
    **dict.fromkeys(
        ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REVOKED", "REQUEUED"),
        Ending.CANCELLED,
    ),
    **dict.fromkeys(("FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "LAUNCH_FAILED"), Ending.FAILED),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "RESIZING", "COMPLETING", "SIGNALING", "STAGE_OUT"), STILL_RUNNING),
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUE_HOLD", "SPECIAL_EXIT"), NEVER_STARTED),
}
"""How a job in each state ended, or the reason why it is left out."""

STEP = "step of a job"
ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(\.\d+)?", re.ASCII)
TRES = re.compile(r"gres/gpu(?::(?P<model>[^:=]+))?=(?P<count>\d{1,10})", re.ASCII)
GPU = r"(?:gres[:/])?(?:gpu|7696487)"  # the letters gpu as a number, where sacct knows no name for it
GRES = re.compile(GPU + r"(?::(?P<model>[^:=]+))??(?:[:=](?P<count>\d{1,10}))?", re.ASCII)
FORMS = {"TRES": (re.compile(r"gres/gpu(?!\w)"), TRES), "GRES": (re.compile(GPU + r"(?!\w)"), GRES)}
"""Prefix of a part about GPUs (not about their memory), and its pattern; a part without a count means one GPU."""
EXAMPLES = {"TRES": "gres/gpu=4 or gres/gpu:a100=4", "GRES": "gpu:4 or gpu:a100:4"}
SOCKETS = re.compile(r"\([^)]*\)")  # gpu:2(S:0-1)


def slurm_job(row: Row) -> Outcome:
    """A job of Slurm's accounting."""
    name = row.text(either(row, "JobID", "JobIDRaw"))
    if "." in name:
        return STEP
    ended = ending(row, "State", "COMPLETED")
    gpus, model = gpus_of(row, either(row, "AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"))
    if gpus == 0:
        return NO_GPUS
    if not isinstance(ended, Ending):
        return ended
    column = either(row, "ElapsedRaw", "Elapsed")
    arrival_s, duration_s = moment(row, "Submit"), _seconds(row, column)
    if duration_s == 0:
        return NEVER_STARTED
    start_s, away_s = started(row, "Start"), _seconds(row, "Suspended") if row.has("Suspended") else 0.0
    asked = next((column for column in ("ReqTRES", "ReqGRES") if row.has(column)), None)
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        ended=ended,
        start_s=start_s,
        duration_s=lasted(row, column, duration_s, start_s, end="End", away_s=away_s),
        owner="/".join(row.text(column) for column in ("Account", "User") if row.has(column)),
        accelerator=gpus_of(row, asked)[1] if asked else model,
        name=name,
        gang=gang(name.partition("+")[0] if "+" in name else "", arrival_s),
    )


def gang(het_job: str, arrival_s: float) -> str:
    """What the components of one run of a heterogeneous job have in common; nothing for any other job."""
    return f"{het_job} {arrival_s}" if het_job else ""


def json_rows(path: Path) -> Iterator[Item]:
    """The jobs of ``sacct --json``, as rows with the columns of ``sacct --parsable2``."""
    for number, item in json_elements(path, "jobs"):
        try:
            yield number, Row(path, number, _cells(item))
        except InputFileError as error:
            yield number, error


def _cells(job: Node) -> dict[str, str]:
    """The columns of a job; its times are seconds since 1970, 0 where there is none."""
    time, state = job["time"], job["state"]
    if isinstance(state.value, dict):
        state = state["current"]
    if isinstance(state.value, list):
        state = next(iter(state.elements()), state)
    cells = {
        "JobID": _named(job),
        "User": job["user"].text("") if "user" in job else "",
        "Account": job["account"].text("") if "account" in job else "",
        "State": state.text(),
        "ElapsedRaw": _number(time, "elapsed"),
        "Suspended": _number(time, "suspended"),
    }
    for column, key in (("Submit", "submission"), ("Start", "start"), ("End", "end")):
        cells[column] = _number(time, key).removeprefix("0")
    for column, key in (("ReqTRES", "requested"), ("AllocTRES", "allocated")):
        tres = job["tres"][key].elements() if key in job["tres"] else []
        cells[column] = ",".join(_counted(one) for one in tres)
    return cells


def _named(job: Node) -> str:
    """The number of a job as sacct prints it: 7, 7_3 of an array, 7+1 of a heterogeneous job."""
    for of, key, part, joint in (("array", "job_id", "task_id", "_"), ("het", "job_id", "job_offset", "+")):
        if of in job and (base := _number(job[of], key)) not in ("", "0") and (n := _number(job[of], part)):
            return f"{base}{joint}{n}"
    return _number(job, "job_id")


def _number(node: Node, key: str) -> str:
    """A number, which newer versions write as ``{"set": true, "infinite": false, "number": 3}``; else nothing."""
    if key not in node:
        return ""
    value = node[key].value
    if isinstance(value, dict):
        return str(value.get("number", "")) if value.get("set") else ""
    return str(value)


def _counted(tres: Node) -> str:
    """A resource, as in ``gres/gpu:a100=4``."""
    name = tres["name"].text("") if "name" in tres else ""
    return f"{tres['type'].text()}{'/' if name else ''}{name}={_number(tres, 'count')}"


def ending(row: Row, column: str, default: str | None = None) -> Ending | str:
    """How a job ended, by Slurm's word for its state, or the reason why it is left out."""
    state = row.text(column, default).partition(" ")[0].rstrip("+")  # CANCELLED by 1000
    if state not in STATES:
        raise row.mistake(column, f"{shown(state)} is not known", expected="a state of Slurm, such as COMPLETED")
    return STATES[state]


def gpus_of(row: Row, column: str, kind: str = "", nodes: int | None = None) -> tuple[int, str]:
    """Devices of the whole job, 0 if no GPU is named, and their type, empty if none is named or several are.

    ``kind`` is the notation, by default that of the column's name; ``nodes`` the nodes that a GRES count is for.
    """
    text, kind = row.text(column, ""), kind or column[-4:]
    begins, form = FORMS[kind]
    counts: list[tuple[str, int]] = []
    for part in map(str.strip, SOCKETS.sub("", text).split(",")):
        if not begins.match(part):
            continue
        if (found := form.fullmatch(part)) is None:
            raise row.mistake(column, f"{shown(part)} cannot be used", expected=EXAMPLES[kind])
        counts.append((found["model"] or "", int(found["count"] or 1)))
    if kind == "TRES":  # the total stands beside the counts by type: gres/gpu=4,gres/gpu:a100=4
        gpus = sum(n for model, n in counts if not model) or sum(n for _, n in counts)
    else:
        nodes = nodes or (row.whole("NNodes", low=1, default=1) if counts else 1)
        gpus = sum(n for _, n in counts) * nodes
    if gpus > SCALE_FACTOR_MAX:
        raise row.mistake(column, f"{shown(text)} has {gpus} GPUs", expected=f"{SCALE_FACTOR_MAX} at most")
    return gpus, one_of({model for model, _ in counts})


def _seconds(row: Row, column: str) -> float:
    """A time span: a number of seconds, or [days-][hours:]minutes:seconds."""
    text = row.text(column)
    if NUMBER.fullmatch(text):
        return seconds(row, column)
    if not (parts := ELAPSED.fullmatch(text)) or len(text) > 30:
        raise row.mistake(column, f"{shown(text)} cannot be used", expected="[D-]HH:MM:SS")
    days, hours, minutes, rest, fraction = parts.groups(default="0")
    span_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(rest) + float(fraction)
    if span_s > ARRIVAL_S_MAX:
        raise row.mistake(column, f"{shown(text)} cannot be used", expected=f"{ARRIVAL_S_MAX:g} s at most")
    return span_s
