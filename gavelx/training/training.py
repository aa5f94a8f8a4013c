"""A training loop that can be stopped at any step and continue elsewhere with the same result.

    with Training(model=model, optimizer=optimizer, total_steps=10_000) as training:
        for batch in training.batches(loader):
            loss = step(batch)
            training.done(loss=loss)

A step ends with ``done``. Between two steps, when the loop asks for its next batch, we report, save if it is due,
and leave with ``SystemExit(0)`` when the lease ends. So code after the block runs only after training is complete.
"""

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch

from gavelx.errors import UserError
from gavelx.training import position, randomness
from gavelx.training.checkpoints import CheckpointError, Checkpoints, Saved, TrainingWarning
from gavelx.training.gang import Agreement, unwrapped
from gavelx.training.lease import Lease
from gavelx.training.reports import Reports, finite

FORMAT = 1
VOTE_EVERY_S = 1.0
"""Seconds between votes of several processes; a vote takes a fraction of a millisecond."""
SPARE_S = 1.0
"""Seconds kept free before the end of a lease, besides the time to save."""


class Training:
    """Makes a PyTorch loop lease-aware.

    ``parts`` are the objects to save, under names of your choice: models, optimizers, schedulers, scalers,
    anything with ``state_dict()`` and ``load_state_dict()``, and ``torch.Generator``. On entering, they are
    restored from the newest good checkpoint, together with every generator (Python, numpy, torch, CUDA) and the
    position in the data.

    * ``total_steps``: the step at which training is complete. The submitted number (GAVELX_TOTAL_STEPS) has
      precedence;
    * ``every_s``: seconds between checkpoints; one is always made before leaving;
    * ``folder``: for checkpoints; a relative one is in the job's folder (GAVELX_JOB_DIR) or, outside of gavelx, in
      the working directory;
    * ``keep``: the number of checkpoints to keep.

    ``step`` counts the steps done since the job began, ``epoch`` the passes through the data, ``complete`` is
    true after the block. ``checkpoint`` is the last one made (path, bytes, seconds), ``restart_s`` the seconds
    from the start of the process to the first batch.
    """

    def __init__(
        self,
        *,
        total_steps: int | None = None,
        every_s: float = 300.0,
        folder: str | Path = "checkpoints",
        keep: int = 2,
        environment: Mapping[str, str] = os.environ,
        **parts: Any,
    ) -> None:
        self.parts = {name: unwrapped(part) for name, part in parts.items()}
        self.total_steps = _total_steps(environment.get("GAVELX_TOTAL_STEPS"), total_steps)
        self.every_s = every_s
        self.step = self.epoch = self.saved_steps = 0
        self.complete = False
        self.checkpoint: Saved | None = None
        self.restart_s: float | None = None
        self._checkpoints = Checkpoints(Path(environment.get("GAVELX_JOB_DIR", ".")) / folder, keep)
        self._lease = Lease(_path(environment.get("GAVELX_LEASE_FILE")))
        self._reports = Reports(_path(environment.get("GAVELX_REPORT_FILE")), environment.get("GAVELX_LEASE_ID"))
        self._loss: Any = None
        self._batch = 0  # handed out in this epoch
        self._by_epoch = False
        self._changed = False  # since the last checkpoint
        self._generators: list[torch.Generator] = []
        self._epoch_began: dict[str, Any] | None = None  # the generators then
        self._resumed: dict[str, Any] | None = None  # the generators when the checkpoint was made
        self._vote_at = 0
        for name, part in self.parts.items():
            _check_part(name, part)

    # -- the block ------------------------------------------------------------------------------------------

    def __enter__(self) -> "Training":
        self._lease.__enter__()
        self._gang = Agreement()
        if self._gang.rank > 0:
            self._reports = Reports(None, None)
        self._resume()
        self._voted_s = self._saved_s = time.monotonic()
        self._voted_step = self.step
        self._report()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            self._lease.__exit__()

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.total_steps is not None and self.step >= self.total_steps

    # -- the loop -------------------------------------------------------------------------------------------

    def batches(self, loader: Iterable[Any], *, replay: bool = False) -> Iterator[Any]:
        """The batches of a loader: epoch after epoch until all steps are done; of one epoch within :meth:`epochs`.

        ``replay``: see `gavelx.training.position.begin`.
        """
        if self.total_steps is None and not self._by_epoch:
            raise UserError(
                "no total number of steps is given",
                where="Training",
                expected="total_steps, or a loop over epochs",
                hint="Training(total_steps=...), or: for epoch in training.epochs(10)",
            )
        while not self.finished:
            yield from self._epoch(loader, replay)
            if self._by_epoch or self.finished:
                return
            self._next_epoch()

    def epochs(self, count: int | None = None) -> Iterator[int]:
        """Numbers of epochs, from the current one. Code after the batches of an epoch runs once for each."""
        self._by_epoch = True
        while not self.finished and (count is None or self.epoch < count):
            yield self.epoch
            self._changed = True
            if self.finished:
                return  # maybe in the middle of an epoch: with more steps it would continue there
            self._next_epoch()

    def steps(self) -> Iterator[int]:
        """Numbers of steps, for loops that make their own data; until all are done."""
        while not self.finished:
            before = self.step
            self._first_batch_is_out()
            yield self.step
            _check_progress(before, self.step, "step")
            self._between_steps()

    def done(self, loss: Any = None) -> None:
        """Call this after each step, when parameters are updated. ``loss`` is reported, without waiting for it."""
        self.step += 1
        self._changed = True
        self._loss = loss.detach() if isinstance(loss, torch.Tensor) else loss

    def _epoch(self, loader: Iterable[Any], replay: bool) -> Iterator[Any]:
        """The rest of an epoch."""
        whole, began_at = self._batch == 0, self.step
        for batch in self._begin_epoch(loader, replay):
            before = self.step
            self._batch += 1
            self._first_batch_is_out()
            yield batch
            if self.step > before:  # otherwise the step takes several batches
                self._between_steps()
            if self.finished:
                return
        if self._batch == 0:
            raise UserError("an epoch has no batches", where="batches()", expected="at least one")
        if whole:
            _check_progress(began_at, self.step, "epoch")

    def _begin_epoch(self, loader: Iterable[Any], replay: bool) -> Iterator[Any]:
        self._generators = position.generators_of(loader)
        position.set_epoch(loader, self.epoch)
        resumed, self._resumed = self._resumed, None
        if self._batch and resumed is None:  # a loop that was left by break, and is started again
            resumed = randomness.capture(self._generators)
        if resumed is not None:
            randomness.restore(self._epoch_began or resumed, self._generators)
        if self._epoch_began is None:
            self._epoch_began = randomness.capture(self._generators)
        iterator = position.begin(loader, self._batch, replay)
        if resumed is not None and self._batch:
            randomness.restore(resumed, self._generators)
        return iterator

    def _next_epoch(self) -> None:
        self.epoch += 1
        self._batch, self._epoch_began = 0, None

    def _first_batch_is_out(self) -> None:
        if self.restart_s is None:
            self.restart_s = _seconds_since_start()

    # -- between two steps ----------------------------------------------------------------------------------

    def _between_steps(self) -> None:
        """Report, save and leave, if these are due and all processes agree."""
        if self._reports.due():
            self._report()
        if self.step < self._vote_at:
            return
        now_s = time.monotonic()
        step_s = (now_s - self._voted_s) / max(1, self.step - self._voted_step)
        stop, save, within = self._gang.vote(
            self._lease.over(self.step, self._need_s(step_s)),
            now_s - self._saved_s >= self.every_s,
            self._steps_until_vote(step_s),
        )
        self._voted_s, self._voted_step, self._vote_at = now_s, self.step, self.step + within
        if self.finished:
            return  # the end of the block saves
        if stop:
            self._leave()
        if save:
            self._save()

    def _need_s(self, step_s: float) -> float:
        """Seconds of a lease that must be left for one more step and for saving."""
        return 1.5 * (self.checkpoint.seconds if self.checkpoint else 0.0) + 2 * step_s + SPARE_S

    def _steps_until_vote(self, step_s: float) -> int:
        """One process votes at every step; several about once a second, and not beyond the lease's last step."""
        if self._gang.world_size == 1:
            return 1
        left = self._lease.until_step - self.step
        return int(max(1, min(VOTE_EVERY_S / max(step_s, 1e-6), left, 1000)))

    def _leave(self) -> NoReturn:
        self._save()
        raise SystemExit(0)

    def _finish(self) -> None:
        """Save at the end of training. Raises :class:`CheckpointError` if that fails."""
        if self._changed and not self._save():
            raise CheckpointError(f"training is complete at step {self.step}, but could not be saved")
        self.complete = True
        self._report()

    def _report(self) -> None:
        saved = self.checkpoint
        self._reports.write(
            steps_done=self.step,
            saved_steps=self.saved_steps,
            total_steps=self.total_steps,
            complete=self.complete,
            loss=finite(self._loss),
            restart_s=self.restart_s,
            checkpoint_s=saved.seconds if saved else None,
            checkpoint_bytes=saved.bytes if saved else None,
        )

    # -- checkpoints ----------------------------------------------------------------------------------------

    def _save(self) -> bool:
        """Save, unless nothing changed, and return whether it succeeded. The first process writes for all."""
        if not self._changed:
            return True
        chance = {"now": randomness.capture(self._generators), "epoch_began": self._epoch_began}
        everyone = self._gang.gather(chance)
        saved = self._gang.from_first(self._write(everyone) if self._gang.rank == 0 else None)
        self._saved_s = time.monotonic()  # also after a failure: a full disk is not tried at every step
        if saved is not None:
            self.checkpoint, self.saved_steps, self._changed = saved, self.step, False
        self._report()
        return saved is not None

    def _write(self, chance_of_ranks: list[Any]) -> Saved | None:
        content = {
            "format": FORMAT,
            "step": self.step,
            "epoch": self.epoch,
            "batch": self._batch,
            "parts": {name: _state_of(part) for name, part in self.parts.items()},
            "chance": chance_of_ranks,
            "made_with": _made_with(),
        }
        try:
            return self._checkpoints.save(content, self.step)
        except OSError as error:
            warnings.warn(
                f"no checkpoint at step {self.step}: {error.strerror or error}; "
                f"training continues, and {self.saved_steps} steps are safe",
                TrainingWarning,
                stacklevel=2,
            )
            return None

    def _resume(self) -> None:
        """Restore the newest good checkpoint; all processes use the same one."""
        found = None
        if self._gang.rank == 0:
            self._checkpoints.clean()
            found = self._checkpoints.newest()
        name = self._gang.from_first(found[0].name if found else None)
        if name is None:
            return
        content = found[1] if found else self._checkpoints.read(name)
        self._check_fits(name, content)
        for part, state in content["parts"].items():
            _put_state(self.parts[part], state)
        self.step = self.saved_steps = content["step"]
        self.epoch, self._batch = content["epoch"], content["batch"]
        chance = content["chance"][self._gang.rank]
        self._resumed, self._epoch_began = chance["now"], chance["epoch_began"]
        randomness.restore(chance["now"])

    def _check_fits(self, name: str, content: dict[str, Any]) -> None:
        if content.get("format") != FORMAT:
            raise CheckpointError(f"{name} is of format {content.get('format')}; this gavelx knows {FORMAT}")
        if content["parts"].keys() != self.parts.keys():
            here, there = ", ".join(self.parts), ", ".join(content["parts"])
            raise CheckpointError(f"{name} holds {there}; this script saves {here}")
        if (count := len(content["chance"])) != self._gang.world_size:
            raise CheckpointError(f"{name} was made by {count} processes; here are {self._gang.world_size}")
        here_now = _made_with()
        if changed := [key for key, value in content["made_with"].items() if value != here_now[key]]:
            now_and_then = ", ".join(
                f"{key} {content['made_with'][key]} then, {here_now[key]} now" for key in changed
            )
            warnings.warn(f"not the same bits as before: {now_and_then}", TrainingWarning, stacklevel=4)


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None


def _total_steps(submitted: str | None, in_script: int | None) -> int | None:
    """The scheduler's number, because it counts progress; otherwise the script's."""
    if not submitted:
        return in_script
    try:
        return int(float(submitted)) or in_script
    except (ValueError, OverflowError):
        raise UserError(repr(submitted), where="GAVELX_TOTAL_STEPS", expected="a number of steps") from None


def _check_part(name: str, part: Any) -> None:
    if isinstance(part, torch.Generator) or (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
        return
    raise UserError(
        f"a {type(part).__name__} has no state_dict() and load_state_dict()",
        where=f"Training({name}=...)",
        expected="a model, an optimizer, a scheduler, anything that has both, or a torch.Generator",
    )


def _check_progress(before: int, after: int, what: str) -> None:
    if after == before:
        raise UserError(
            f"a whole {what} went by without training.done()", where="Training", expected="one after each step"
        )


def _state_of(part: Any) -> Any:
    return part.get_state() if isinstance(part, torch.Generator) else part.state_dict()


def _put_state(part: Any, state: Any) -> None:
    if isinstance(part, torch.Generator):
        part.set_state(state)
    else:
        part.load_state_dict(state)
    if isinstance(part, torch.optim.Optimizer):
        # without this, schedulers warn that their first step comes before the optimizer's
        part._opt_called = True  # type: ignore[attr-defined]


def _made_with() -> dict[str, Any]:
    """The versions and the device on which the bits of a result depend."""
    return {
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_initialized() else "cpu",  # type: ignore[no-untyped-call]
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }


def _seconds_since_start() -> float:
    """Seconds since this process started, on Linux; elsewhere since its clock began."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return time.process_time()
