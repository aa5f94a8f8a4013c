"""The outcome of a lease, from the shim's exit file and the job's own report.

| the lease                                       | outcome                                                |
|-------------------------------------------------|--------------------------------------------------------|
| had no folder to run in, or lapsed before that  | stopped: it is not the job's fault                     |
| could not be started, or a rank failed unasked  | failed                                                 |
| said so in its report                           | complete                                               |
| exited with 0, unasked, and reports nothing     | complete, with all of its steps, or as many as it      |
|                                                 | printed where the user did not say how many they are   |
| exited with 0, unasked, and has saved more      | stopped by itself in time: what is saved counts        |
| the same, with nothing more saved               | failed: otherwise it would be launched for ever        |
| the same, as it was to stop or to lapse anyway  | stopped                                                |
| was asked to stop because it made no step       | failed: what is saved counts                           |
| was asked to stop, whatever its exit code       | stopped: what is saved counts                          |
| was asked by its shim, and not by the agent     | stopped if it has saved more, else failed              |
| is of an elastic job, and its processes left it | stopped, and left: the job goes on in another lease    |
| is of one that failed to change its size        | stopped if it has saved more, else failed              |
| has no exit file, as its shim was killed        | failed                                                 |
| has no exit file, as its folder was removed     | failed                                                 |
| has no exit file, as its shim could not start   | stopped: it is not the job's fault                     |
"""

import signal
from dataclasses import dataclass
from typing import Any

from gavelx.training_report import NO_BITS_SAID, Reproducibility, TrainingReport
from gavelx.worker.shim import CANNOT_RUN, LEFT

Json = dict[str, Any]
STEPS_MAX = 1e15
SIZES_MAX = 1 << 30
CODES = 1 << 31
"""Every exit code of a process is smaller."""
RESIZE_FAILED = 80
"""Exit status of a process of an elastic job that misses another one in a change of size."""


@dataclass(frozen=True)
class Said:
    """A job's own report, without values that are not numbers."""

    steps_done: float = 0.0
    saved_steps: float = 0.0
    complete: bool = False
    total_steps: float = 0.0
    """The last step by its own word; 0 if it says none."""
    sizes: int = 0
    """How many sizes it has had since its launch, of a job that can be resized while it runs."""
    saving: bool = False
    """It writes a checkpoint."""
    training: TrainingReport | None = None
    bits: Reproducibility = NO_BITS_SAID

    @staticmethod
    def of(report: Json | None) -> "Said | None":
        if report is None:
            return None
        saved = _steps(report.get("saved_steps"))
        done, total = _steps(report.get("steps_done")), _steps(report.get("total_steps"))
        generation = report.get("generation")
        sizes = generation + 1 if isinstance(generation, int) and 0 <= generation < SIZES_MAX else 0
        complete = report.get("complete") is True
        training, bits = TrainingReport.of(report), Reproducibility.of(report)
        return Said(max(saved, done), saved, complete, total, sizes, report.get("saving") is True, training, bits)


def _steps(value: object) -> float:
    good = isinstance(value, int | float) and 0 <= value <= STEPS_MAX  # neither NaN nor an int that is no float
    return float(value) if good else 0.0  # type: ignore[arg-type]


def is_exit(exit: Json) -> bool:
    """Whether this has the form of a shim's exit file; a job that kills its shim can write anything."""
    ended_s, codes, failed = (exit.get(name) for name in ("ended_s", "exit_codes", "failed"))
    return (
        isinstance(ended_s, float)
        and isinstance(exit.get("asked"), str)
        and isinstance(exit.get("killed"), bool)
        and isinstance(codes, dict)
        and all(code is None or _is_code(code) for code in codes.values())
        and (failed is None or _is_failure(failed))
    )


def _is_failure(failed: object) -> bool:
    return (
        isinstance(failed, dict)
        and isinstance(failed.get("rank"), int | None)
        and isinstance(failed.get("reason"), str)
        and _is_code(failed.get("exit_code"))
    )


def _is_code(code: object) -> bool:
    return isinstance(code, int) and abs(code) < CODES


@dataclass(frozen=True)
class Outcome:
    steps_done: float
    failed: bool
    complete: bool
    exit_code: int
    reason: str
    left: bool = False


def outcome(  # noqa: PLR0911  # one a row of the table
    launch: Json,
    exit: Json | None,
    report: Json | None,
    last_words: str = "",
    *,
    began: bool = True,
    leaving: bool = False,
    printed: float = 0.0,
    hung: str = "",
) -> Outcome:
    """The outcome of one lease. ``last_words`` is the end of the job's output, for the message.

    ``began``: its processes were started, as far as we know. ``leaving``: it was to stop or about to expire, as
    far as the agent knows. The job may have seen that before the shim did, and the shim may have read wrong values
    in files that the job can write. ``printed``: the steps that it had done by its output. ``hung``: why the agent
    asked it to stop, if it made no step.
    """
    said = Said.of(report)
    saved = max(float(launch["saved_steps"]), said.saved_steps if said else 0.0)
    if said and said.complete:
        return Outcome(max(saved, said.steps_done), False, True, 0, "complete")
    if hung:
        return Outcome(saved, True, False, -signal.SIGKILL, hung)
    if never_began(exit, began=began):
        why = "this server could not begin it" if exit is None else str(exit["failed"]["reason"])
        return Outcome(saved, False, False, CANNOT_RUN, why)
    if exit is None:
        why = "its keeper was killed, its folder removed, or the machine restarted"
        return Outcome(saved, True, False, -signal.SIGKILL, why)
    elastic, codes = launch.get("elastic", False), [code for code in exit["exit_codes"].values() if code]
    if exit["failed"] is not None:
        code = int(exit["failed"]["exit_code"])
        if elastic and code == RESIZE_FAILED and saved > float(launch["saved_steps"]):
            return Outcome(saved, False, False, code, "it could not go over to another size, and restarts")
        return Outcome(saved, True, False, code, _why_failed(exit["failed"], last_words))
    if elastic and not exit["asked"] and codes and set(codes) == {LEFT}:
        return Outcome(saved, False, False, LEFT, "its processes here left, and the job goes on", left=True)
    code = next(iter(codes), 0)
    if (exit["asked"] or said) and (saved > float(launch["saved_steps"]) or leaving):
        killed = "; it did not exit in time and was killed" if exit["killed"] else ""
        why = f"stopped: {exit['asked']}{killed}" if exit["asked"] else "it stopped by itself, to go on later"
        return Outcome(saved, False, False, code, why)
    if exit["asked"] or said:
        why = f"it ended with exit code {code}, is not complete, and has saved nothing beyond step {saved:g}"
        why = f"stopped, and not by the scheduler: {exit['asked']}" if exit["asked"] else why
        return Outcome(saved, True, False, code, why)
    steps = printed if launch["until_step"] is None else float(launch["until_step"])
    return Outcome(max(saved, steps), False, True, 0, "complete")


def never_began(exit: Json | None, *, began: bool) -> bool:
    """Whether no process of a lease was started, through no fault of its job."""
    return not began and (exit is None or (exit["failed"] is not None and exit["failed"]["rank"] is None))


def _why_failed(failed: Json, last_words: str) -> str:
    if failed["reason"]:
        return str(failed["reason"])
    code = int(failed["exit_code"])
    how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
    return f"its process of rank {failed['rank']} {how}" + (f": {last_words}" if last_words else "")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
