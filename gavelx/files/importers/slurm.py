"""Slurm's accounting, as ``sacct --parsable2`` prints it: a header, then fields between bars.

    sacct --allusers --parsable2 --starttime 2024-01-01 \\
      --format JobID,User,Account,State,Submit,ElapsedRaw,AllocTRES

``JobID``, ``Submit``, one of ``ElapsedRaw`` and ``Elapsed``, and one of ``AllocTRES``, ``ReqTRES``, ``AllocGRES``
and ``ReqGRES`` are needed; GRES counts are per node, so ``NNodes`` multiplies them. Steps of a job (``123.batch``)
are passed over; elements of an array (``123_4``) are jobs. Jobs that were cancelled or ran into their time limit
held their devices until then, and are kept; failed ones are left out; without ``State`` all count as completed.
Duplicates, as in overlapping lists, are one job; each run of a requeued job is a job. The owner is
``Account/User``. ``Priority`` is a place in the queue, not a share, and is dropped: every job has weight 1.

Source: Slurm documentation, sacct (job states, TRES, Elapsed).
"""

import re

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import (
    FAILED,
    NEVER_STARTED,
    NO_GPUS,
    STILL_RUNNING,
    Outcome,
    Recorded,
    either,
    moment,
    once,
    ran,
    seconds,
)
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.texts import shown
from gavelx.jobs import ARRIVAL_S_MAX

STATES = {
    **dict.fromkeys(("COMPLETED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REVOKED", "REQUEUED"), ""),
    **dict.fromkeys(("FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "LAUNCH_FAILED"), FAILED),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "RESIZING", "COMPLETING", "SIGNALING", "STAGE_OUT"), STILL_RUNNING),
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUE_HOLD", "SPECIAL_EXIT"), NEVER_STARTED),
}
"""The treatment of a job in each state: kept, or the reason why it is left out."""

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
    state = row.text("State", "COMPLETED").partition(" ")[0].rstrip("+")  # CANCELLED by 1000
    if state not in STATES:
        raise row.mistake("State", f"{shown(state)} is not known", expected="a state of Slurm, such as COMPLETED")
    gpus = _gpus(row)
    if gpus == 0:
        return NO_GPUS
    if reason := STATES[state]:
        return reason
    arrival_s = moment(row, "Submit")
    duration_s = _elapsed_s(row)
    if duration_s == 0:
        return NEVER_STARTED
    owner = "/".join(row.text(column) for column in ("Account", "User") if row.has(column))
    told = once(row.text("JobID"), arrival_s, duration_s)
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s, gpus=gpus, duration_s=duration_s, owner=owner, told=told
    )


def _gpus(row: Row) -> int:
    """Devices of the whole job: allocated, or else requested; 0 if no GPU is named."""
    column = either(row, "AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")
    text, kind = row.text(column, ""), column[-4:]
    begins, form = FORMS[kind]
    counts: list[tuple[str | None, int]] = []
    for part in map(str.strip, SOCKETS.sub("", text).split(",")):
        if not begins.match(part):
            continue
        if (found := form.fullmatch(part)) is None:
            raise row.mistake(column, f"{shown(part)} cannot be used", expected=EXAMPLES[kind])
        counts.append((found["model"], int(found["count"] or 1)))
    if kind == "TRES":  # the total stands beside the counts by type: gres/gpu=4,gres/gpu:a100=4
        gpus = sum(n for model, n in counts if not model) or sum(n for _, n in counts)
    else:
        gpus = sum(n for _, n in counts) * (row.whole("NNodes", low=1, default=1) if counts else 1)
    if gpus > SCALE_FACTOR_MAX:
        raise row.mistake(column, f"{shown(text)} has {gpus} GPUs", expected=f"{SCALE_FACTOR_MAX} at most")
    return gpus


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
