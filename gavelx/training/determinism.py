"""Which bits are promised, and on what they depend.

| level             |    | the same bits                                                           |
|-------------------|----|-------------------------------------------------------------------------|
| ``none``          |    | no promise: gradients are added as is fastest                           |
| ``fixed``         | D0 | on the same number of processes, across restarts                        |
| ``elastic``       | D1 | on any number of processes: those of the submitted number               |
| ``heterogeneous`` | D2 | on any type of processor as well; refused where we cannot keep it       |

(D0 to D2 as in EasyScale, SC'23, section 3.3.) Bits also depend on what :meth:`Bits.made_with` says, which is in
checkpoints. A restart with anything else is refused if the script named a level; otherwise a warning says it.
"""

import os
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from gavelx.errors import UserError
from gavelx.training.checkpoints import CheckpointError, TrainingWarning
from gavelx.training.gang import Gang
from gavelx.training.recurrent import drop_without_cudnn
from gavelx.training_report import LEVELS, Determinism

PORTABLE = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
"""With these, the kernels of torch, MKL and oneDNN are the same on any x86 processor, say their manuals."""
REMEDIES = {
    "torch": "torch=={then}",
    "threads": "torch.set_num_threads({then}) at the top of the script, or OMP_NUM_THREADS={then}",
    "device": "a {then}",
    "cpu": "a processor with {then}, or ATEN_CPU_CAPABILITY=default from the first launch on",
    "processes": "{then} processes",
    "parts": "the job as it was submitted, in {then} parts",
}


def level_of(asked: Determinism | None, changes: str) -> Determinism:
    """The level of a job in which ``changes`` (``workers``, ``batch``, or nothing) may change.

    Raises :class:`UserError` for a level that cannot be kept.
    """
    if asked is None:
        return "elastic" if changes == "workers" else "none"
    if asked not in LEVELS:
        raise _mistake(f"{asked!r:.40} is not known", "one of " + ", ".join(LEVELS))
    if changes == "batch" and asked != "none":
        raise _mistake(f"{asked!r} in a job whose batch size changes", "'none'; or submit it with --workers alone")
    if asked == "heterogeneous":
        _check_portable()
    return asked


def _check_portable() -> None:
    if torch.cuda.is_available():
        raise _mistake("'heterogeneous' on a GPU", "'elastic': GPUs of two types round differently")
    if missing := [f"{name}={value}" for name, value in PORTABLE.items() if os.environ.get(name) != value]:
        raise _mistake("'heterogeneous' with kernels that are chosen by the processor", "'elastic'", missing)


def _mistake(problem: str, expected: str, missing: list[str] | None = None) -> UserError:
    hint = " ".join(missing) + " in the environment of the job" if missing else ""
    return UserError(problem, where="Training(determinism=...)", expected=expected, hint=hint)


def prepare_gpu() -> None:
    """Ask for kernels that give the same bits in each run, where a level is named.

    (https://docs.pytorch.org/docs/stable/notes/randomness.html)
    """
    if torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)
        drop_without_cudnn()


def still_kept(name: str, then: Mapping[str, Any], now: Mapping[str, Any], refuse: bool) -> bool:
    """Whether a run can continue to the same bits as the one that saved ``name``; it is said if not.

    Raises :class:`CheckpointError`, with what to do, if it is to ``refuse``.
    """
    changed = [key for key, value in then.items() if key in now and value != now[key]]
    if not changed:
        return True
    now_and_then = ", ".join(f"{key} {then[key]} then, {now[key]} now" for key in changed)
    message = f"not the same bits as before: {now_and_then}"
    if refuse:
        remedies = "; ".join(REMEDIES[key].format(then=then[key]) for key in changed)
        raise CheckpointError(
            f"{name}: {message}. Needed: {remedies}. Training(determinism='none') continues to other bits"
        )
    warnings.warn(message, TrainingWarning, stacklevel=5)
    return False


class Bits:
    """What is promised of a job, and whether it was kept so far.

    ``named``: the script named a level, so what would break it is refused. ``of_any_size``: the batch of the job
    changes with its processes, so another number of these is no news.
    """

    def __init__(self, level: Determinism, named: bool, parts: int = 0, *, of_any_size: bool = False) -> None:
        self.level, self.named, self.parts, self.of_any_size = level, named, parts, of_any_size
        self.kept = True

    @classmethod
    def of(cls, asked: Determinism | None, gang: Gang | None) -> "Bits":
        elastic = gang.elastic if gang else None
        changes = elastic.what if elastic else ""
        level = level_of(asked, changes)
        named = asked not in (None, "none")
        if named:
            prepare_gpu()
        parts = elastic.parts if elastic and changes == "workers" else 0
        return cls(level, named, parts, of_any_size=changes == "batch")

    def made_with(self, processes: int) -> dict[str, Any]:
        """The versions, the threads and the device on which the bits of a result depend."""
        found: dict[str, Any] = {
            "torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name() if torch.cuda.is_initialized() else "cpu",  # type: ignore[no-untyped-call]
            "cpu": torch.backends.cpu.get_cpu_capability(),
        }
        if self.parts:
            found["parts"] = self.parts
        if self.level == "fixed" or not (self.parts or self.of_any_size):
            found["processes"] = processes
        return found

    def check_wrapper(self, processes: int) -> None:
        """Refuse a named level where torch's own wrapper cannot keep it."""
        if self.named and not self.parts and processes > 2:
            raise UserError(
                f"{self.level!r} on {processes} processes of a rigid job: DistributedDataParallel adds up in"
                " another order after a restart",
                where="Training(determinism=...)",
                expected="'none'",
                hint=f"gavelx submit --workers {processes} --parts {processes}, and training.backward in the loop",
            )

    def check(self, name: str, then: Mapping[str, Any], now: Mapping[str, Any], kept: bool) -> None:
        """Whether the bits of ``name`` can be continued; ``kept``: whether they were those promised until then."""
        continued = still_kept(name, then, now, self.named)
        self.kept = kept and continued

    def report(self) -> dict[str, Any]:
        return {"determinism": self.level if self.kept else "none"}
