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
from gavelx.training import objects, transfer
from gavelx.training.checkpoints import CheckpointError, Checkpoints, Saved, TrainingWarning
from gavelx.training.curve import Curve
from gavelx.training.determinism import Bits
from gavelx.training.elastic import VARIABLE
from gavelx.training.gang import Agreement, Gang, Vote, unwrapped
from gavelx.training.lease import Lease
from gavelx.training.position import Reader
from gavelx.training.progress import Progress
from gavelx.training.regroup import Regroup, ending_as_failed
from gavelx.training.reports import Reports
from gavelx.training.shards import Part
from gavelx.training.state import State
from gavelx.training.updates import Updates
from gavelx.training_report import Determinism, Order

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
    * ``keep``: the number of checkpoints to keep;
    * ``gang``: the `gavelx.training.Gang`, which an elastic job needs;
    * ``seed``: of the order of samples in an elastic job, and of its logical workers;
    * ``warmup_epochs``: the time over which an elastic job reaches a larger learning rate;
    * ``determinism``: the level of `gavelx.training.determinism` that is promised: a restart that cannot keep it
      is refused. Without it, bits are kept as far as possible, and a warning says when they are not;
    * ``order``: in which gradients are added (`gavelx.training.ordered`); by default that of
      ``DistributedDataParallel``, if it is known.

    ``step`` counts the steps done since the job began, ``epoch`` the passes through the data, ``complete`` is
    true after the block. A step is one of the job as submitted: in an elastic job whose batch changes, an update
    of M samples counts M/M0 x efficiency(M) steps (`gavelx.training.noise`). ``part`` tells which samples the
    present batch of an elastic job has, ``samples`` counts those that are done.

    ``checkpoint`` is the last one made (path, bytes, seconds), ``restart_s`` the seconds
    from the start of the process to the first batch.
    """

    def __init__(
        self,
        *,
        total_steps: int | None = None,
        every_s: float = 300.0,
        folder: str | Path = "checkpoints",
        keep: int = 2,
        gang: Gang | None = None,
        seed: int = 0,
        warmup_epochs: float = 1.0,
        determinism: Determinism | None = None,
        order: Order | None = None,
        environment: Mapping[str, str] = os.environ,
        **parts: Any,
    ) -> None:
        self.parts = {name: unwrapped(part) for name, part in parts.items()}
        for name, part in self.parts.items():
            objects.check(name, part)
        self.total_steps = _total_steps(environment.get("GAVELX_TOTAL_STEPS"), total_steps)
        self.every_s, self._seed = every_s, seed
        self.complete = False
        self.checkpoint: Saved | None = None
        self.restart_s: float | None = None
        self.resize_s: float | None = None
        self._at = Progress()
        self._reader = Reader()
        self._checkpoints = Checkpoints(Path(environment.get("GAVELX_JOB_DIR", ".")) / folder, keep)
        self._lease = Lease(_path(environment.get("GAVELX_LEASE_FILE")))
        self._reports = Reports(_path(environment.get("GAVELX_REPORT_FILE")), environment.get("GAVELX_LEASE_ID"))
        self._curve = Curve()
        self._by_epoch = False
        self._changed = False  # since the last checkpoint
        self._vote_at: float = 0
        self._begin_elastic(gang, environment)
        self._bits = Bits.of(determinism, gang)
        self._updates: Updates | None = None
        if self._regroup is not None:
            assert gang is not None
            self._updates = Updates(
                gang, self._at, level=self._bits.level, order=order, seed=seed, warmup_epochs=warmup_epochs
            )
        self._state = State(self.parts, self._at, self._reader, self._curve, self._bits, self._updates)

    def _begin_elastic(self, gang: Gang | None, environment: Mapping[str, str]) -> None:
        if gang is None and environment.get(VARIABLE):
            raise UserError(
                "the job is elastic, and its processes are not known",
                where="Training",
                expected="Training(gang=gang, ...)",
                hint="with gavelx.training.Gang() as gang: ... around all of it",
            )
        self._gang = gang
        self._regroup = Regroup(gang, self._lease) if gang and gang.elastic else None

    @property
    def step(self) -> float:
        """Steps done since the job began."""
        return self._at.step

    @property
    def saved_steps(self) -> float:
        """Steps that are safe in a checkpoint."""
        return self._at.saved_steps

    @property
    def epoch(self) -> int:
        """Passes through the data that are done."""
        return self._at.epoch

    @property
    def samples(self) -> int:
        """Samples that an elastic job has done since it began."""
        return self._at.samples

    @property
    def part(self) -> Part | None:
        """The part of an update to which the present batch of an elastic job belongs."""
        return self._updates.part if self._updates else None

    # -- the block ------------------------------------------------------------------------------------------

    def __enter__(self) -> "Training":
        self._lease.__enter__()
        if self._updates is not None:
            self._updates.attach(part for part in self.parts.values() if isinstance(part, torch.optim.Optimizer))
        self._begin_timing()
        if self._gang and self._gang.joins:
            return self  # it resumes nothing: it gets its state from the others, in its first epoch
        self._agree()
        self._bits.check_wrapper(self._agreement.world_size)
        self._resume()
        self._begin_timing()
        self._report()
        return self

    def _begin_timing(self) -> None:
        self._saved_s = self._voted_s = time.monotonic()
        self._voted_step = self.step

    def _agree(self) -> None:
        """With the processes that there are now."""
        self._agreement = Agreement()
        if self._updates is not None:
            self._updates.join(self._agreement)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            if self._regroup is not None:
                self._regroup.cancel()
            self._lease.__exit__()

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.total_steps is not None and self.step >= self.total_steps - 1e-9

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
            yield from self._epoch(loader, replay) if self._regroup is None else self._dealt_epoch(loader)
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
        if self._regroup is not None:
            raise UserError(
                "steps() in an elastic job",
                expected="batches() of a DataLoader, whose samples can be dealt to any number of processes",
                hint="submit it without --workers A:B and --batch A:B",
            )
        while not self.finished:
            before = self.step
            self._first_batch_is_out()
            yield int(self.step)
            _check_progress(before, self.step, "step")
            self._between_steps()

    def backward(self, loss: torch.Tensor) -> bool:
        """Compute gradients; whether the step has all of its gradients now, so that the optimizer may step.

            if training.backward(loss):
                optimizer.step()
                optimizer.zero_grad()
                training.done(loss=loss)

        It is ``loss.backward()`` and True in a rigid job. A process of an elastic job may compute several parts of
        a step; ``loss`` is the mean over the samples of the part.
        """
        if self.part is None:
            loss.backward()  # type: ignore[no-untyped-call]
            return True
        assert self._updates is not None
        return self._updates.backward(loss)

    def done(self, loss: Any = None, accuracy: float | None = None) -> int:
        """Call this after each step, when parameters are updated. ``loss`` is reported, without waiting for it.

        So is the accuracy on validation data (0 to 1), whenever there is a new one. Both tell the scheduler how
        much is left of a job whose length it was not told.

        The number of whole steps that this completes: 1, but for an elastic job whose batch changes. A scheduler
        of the learning rate that counts steps is called so many times.
        """
        before = self.step
        if self._updates is not None:
            loss = self._updates.first_loss(loss)
            self._at.step += self._updates.share()
            self._updates.end()
        else:
            self._at.step += 1
        self._changed = True
        self._curve.step(loss, accuracy)
        return int(self.step + 1e-9) - int(before + 1e-9)

    def _epoch(self, loader: Iterable[Any], replay: bool) -> Iterator[Any]:
        """The rest of an epoch."""
        at = self._at
        if at.seen:  # a checkpoint of an elastic job
            at_once = (getattr(loader, "batch_size", None) or 1) * self._agreement.world_size
            at.batch, at.seen = at.seen // at_once, 0
        self._curve.reads(loader)
        whole, began_at = at.batch == 0, self.step
        for batch in self._reader.begin(loader, at.epoch, at.batch, replay):
            before = self.step
            at.batch += 1
            self._first_batch_is_out()
            yield batch
            if self.step > before:  # otherwise the step takes several batches
                self._between_steps()
            if self.finished:
                return
        if at.batch == 0:
            raise UserError("an epoch has no batches", where="batches()", expected="at least one")
        if whole:
            _check_progress(began_at, self.step, "epoch")

    def _dealt_epoch(self, loader: Any) -> Iterator[Any]:
        """The rest of an epoch of an elastic job, dealt anew whenever the job changes its size."""
        updates, regroup = self._updates, self._regroup
        assert self._gang is not None and updates is not None and regroup is not None
        self._curve.reads(loader)
        if self._gang.joins:
            for batch in updates.warm_up(loader):
                self._first_batch_is_out()
                yield batch
            self._join()
        if self._at.batch:  # a checkpoint of a rigid job
            seen = self._at.batch * loader.batch_size * self._state.processes_then
            self._at.seen, self._at.batch = min(len(loader.dataset), seen), 0
        whole, began_at = self._at.seen == 0, self.step
        generation = None
        while not self.finished and generation != regroup.size.generation:
            generation = regroup.size.generation
            for batches in updates.rest(loader, regroup.size):
                before = self.step
                for batch in batches:
                    self._first_batch_is_out()
                    yield batch
                updates.end()
                if self.step > before:
                    self._between_steps()
                if self.finished or generation != regroup.size.generation:
                    break
        if whole:
            _check_progress(began_at, self.step, "epoch")

    # -- a resize -------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """As a joiner: wait for the pause, then take the state of the others."""
        assert self._regroup is not None and self._gang is not None
        self._regroup.join(self._stopping)
        with ending_as_failed("the state"):
            self._agree()
            content = transfer.take(self._agreement)
            self._state.check_bits("the running job", content, self._agreement)
            self._state.put(content)
            self._changed = True
            self._gang.wrap()
        self._begin_generation()

    def _stopping(self) -> bool:
        return self._lease.over(0, 0.0)

    def _change_size(self) -> None:
        """Between two steps, which all agreed on."""
        assert self._regroup is not None and self._gang is not None and self._updates is not None
        begin_s = time.monotonic()
        self._updates.share_generators()
        joiners = self._regroup.regroup()
        with ending_as_failed("the state"):
            self._agree()
            if joiners:
                everyone = self._updates.all_generators()
                content = self._state.content([], everyone, self._agreement.world_size)
                transfer.give(self._agreement, content, joiners)
                self._state.check_bits("the running job", content, self._agreement)
            self._gang.wrap()
        self.resize_s = time.monotonic() - begin_s
        self._begin_generation()

    def _begin_generation(self) -> None:
        if self._lease.lease_id is not None:
            self._reports.lease_id = self._lease.lease_id
        self._voted_s, self._voted_step, self._vote_at = time.monotonic(), self.step, self.step
        self._report()

    def _next_epoch(self) -> None:
        self._at.next_epoch()
        self._reader.next_epoch()

    def _first_batch_is_out(self) -> None:
        if self.restart_s is None:
            self.restart_s = _seconds_since_start()

    # -- between two steps ----------------------------------------------------------------------------------

    def _between_steps(self) -> None:
        """Report, save, leave and change the size, if these are due and all processes agree."""
        if self._agreement.rank == 0 and self._reports.due():
            self._report()
        if self.step < self._vote_at:
            return
        now_s = time.monotonic()
        step_s = (now_s - self._voted_s) / max(1, self.step - self._voted_step)
        stops = self._lease.over(self.step, self._need_s(step_s))
        regroup = self._regroup
        all_ = self._agreement.vote(
            Vote(
                stop=stops,
                save=now_s - self._saved_s >= self.every_s,
                within=self._steps_until_vote(step_s),
                ready=regroup is not None and regroup.ready(),
                generation=regroup.heard if regroup else 0,
            )
        )
        self._voted_s, self._voted_step, self._vote_at = now_s, self.step, self.step + all_.within
        if self.finished:
            return  # the end of the block saves
        if all_.stop:
            self._leave()
        if all_.save:
            self._save()
        if regroup is not None and all_.ready and all_.generation > regroup.size.generation:
            self._change_size()

    def _need_s(self, step_s: float) -> float:
        """Seconds of a lease that must be left for one more step and for saving."""
        return 1.5 * (self.checkpoint.seconds if self.checkpoint else 0.0) + 2 * step_s + SPARE_S

    def _steps_until_vote(self, step_s: float) -> int:
        """One process votes at every step; several about once a second, and not beyond the lease's last step."""
        if self._agreement.world_size == 1:
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
        if self._agreement.rank > 0:
            return
        saved = self.checkpoint
        self._reports.write(
            steps_done=self.step,
            saved_steps=self.saved_steps,
            total_steps=self.total_steps,
            complete=self.complete,
            restart_s=self.restart_s,
            checkpoint_s=saved.seconds if saved else None,
            checkpoint_bytes=saved.bytes if saved else None,
            epoch=self.epoch,
            **self._curve.report(self.epoch, self._at.batch, self._at.seen),
            **self._bits.report(),
            **self._elastic_report(),
        )

    def _elastic_report(self) -> dict[str, Any]:
        updates = self._updates
        if self._regroup is None or updates is None:
            return {}
        return {
            "samples": self.samples,
            "batch": updates.batch or None,
            "noise_scale": updates.noise.value,
            "order": updates.sums.order,
            "generation": self._regroup.size.generation,
            "world_size": self._agreement.world_size,
            "resize_s": self.resize_s,
        }

    # -- checkpoints ----------------------------------------------------------------------------------------

    def _save(self) -> bool:
        """Save, unless nothing changed, and return whether it succeeded. The first process writes for all."""
        if not self._changed:
            return True
        everyone = self._agreement.gather(self._state.generators())
        saved = self._agreement.from_first(self._write(everyone) if self._agreement.rank == 0 else None)
        self._saved_s = time.monotonic()  # also after a failure: a full disk is not tried at every step
        if saved is not None:
            self.checkpoint, self._at.saved_steps, self._changed = saved, self.step, False
        self._report()
        return saved is not None

    def _write(self, generators: list[Any]) -> Saved | None:
        content = self._state.saved(generators, self._agreement.world_size)
        try:
            return self._checkpoints.save(content, int(self.step))
        except OSError as error:
            warnings.warn(
                f"no checkpoint at step {self.step}: {error.strerror or error}; "
                f"training continues, and {self.saved_steps:g} steps are safe",
                TrainingWarning,
                stacklevel=2,
            )
            return None

    def _resume(self) -> None:
        """Restore the newest good checkpoint; all processes use the same one."""
        found = None
        if self._agreement.rank == 0:
            self._checkpoints.clean()
            found = self._checkpoints.newest()
        name = self._agreement.from_first(found[0].name if found else None)
        if name is None:
            first = self._agreement.from_first(self._bits.made_with(self._agreement.world_size))
            self._state.check_bits("the first process", {"made_with": first}, self._agreement)
            return
        content = found[1] if found else self._checkpoints.read(name)
        self._state.check_fits(name, content)
        self._state.check_bits(name, content, self._agreement)
        self._state.put(content)
        self._state.put_generators(content["chance"], self._agreement, self._seed)
        self._at.saved_steps, self._changed = self.step, False


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


def _check_progress(before: float, after: float, what: str) -> None:
    if after == before:
        raise UserError(
            f"a whole {what} went by without training.done()", where="Training", expected="one after each step"
        )


def _seconds_since_start() -> float:
    """Seconds since this process started, on Linux; elsewhere since its clock began."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return time.process_time()
