"""Slurm's accounting, as ``sacct --parsable2`` prints it: a header, then fields between bars.

    sacct --allusers --parsable2 --starttime 2024-01-01 \\
      --format JobID,User,Account,State,Submit,Start,ElapsedRaw,ReqTRES,AllocTRES

``JobID``, ``Submit``, one of ``ElapsedRaw`` and ``Elapsed``, and one of ``AllocTRES``, ``ReqTRES``,
``AllocGRES`` and ``ReqGRES`` are needed; GRES counts are per node, so ``NNodes`` multiplies them. Steps of a
job (``123.batch``) are passed over; elements of an array (``123_4``) are jobs. Without ``State`` all count as
completed. Duplicates, as in overlapping lists, are one job; each run of a requeued job is a job. The owner is
``Account/User``. The requested type of GPU is that of ``ReqTRES`` or ``ReqGRES`` where it is there, or else
that of what the job got. ``Priority`` is a place in the queue, not a share, and is dropped: every job has
weight 1.

Source: Slurm documentation, sacct (job states, TRES, Elapsed).
"""

import re

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import (
    NEVER_STARTED,
    NO_GPUS,
    STILL_RUNNING,
    Ending,
    Outcome,
    Recorded,
    either,
    moment,
    once,
    one_of,
    ran,
    seconds,
    started,
)
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
    if "." in row.text("JobID"):
        return STEP
    ended = ending(row, "State", "COMPLETED")
    gpus, model = gpus_of(row, either(row, "AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"))
    if gpus == 0:
        return NO_GPUS
    if not isinstance(ended, Ending):
        return ended
    arrival_s, duration_s = moment(row, "Submit"), _elapsed_s(row)
    if duration_s == 0:
        return NEVER_STARTED
    asked = next((column for column in ("ReqTRES", "ReqGRES") if row.has(column)), None)
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        ended=ended,
        start_s=started(row, "Start"),
        duration_s=duration_s,
        owner="/".join(row.text(column) for column in ("Account", "User") if row.has(column)),
        accelerator=gpus_of(row, asked)[1] if asked else model,
        told=once(row.text("JobID"), arrival_s, duration_s),
    )


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


def _elapsed_s(row: Row) -> float:
    """Seconds from start to end: a number, or [days-][hours:]minutes:seconds."""
    if row.has("ElapsedRaw"):
        return seconds(row, "ElapsedRaw")
    text = row.text("Elapsed")
    if not (parts := ELAPSED.fullmatch(text)) or len(text) > 30:
        raise row.mistake("Elapsed", f"{shown(text)} cannot be used", expected="[D-]HH:MM:SS")
    days, hours, minutes, rest, fraction = parts.groups(default="0")
    elapsed_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(rest) + float(fraction)
    if elapsed_s > ARRIVAL_S_MAX:
        raise row.mistake("Elapsed", f"{shown(text)} cannot be used", expected=f"{ARRIVAL_S_MAX:g} s at most")
    return elapsed_s
