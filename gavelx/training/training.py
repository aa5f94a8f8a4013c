"""A training loop that can be stopped at any step and continue elsewhere with the same result.

    with Training(model=model, optimizer=optimizer, total_steps=10_000) as training:
        for batch in training.batches(loader):
            loss = step(batch)
            training.done(loss=loss)

A step ends with ``done``. Between two steps, when the loop asks for its next batch, we report, save if it is due,
and leave with ``SystemExit(0)`` when the lease ends. So code after the block runs only after training is complete.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from gavelx.errors import UserError
from gavelx.training import objects
from gavelx.training.between import Between
from gavelx.training.checkpoints import CheckpointError, Checkpoints, Saved
from gavelx.training.curve import Curve
from gavelx.training.determinism import Bits
from gavelx.training.gang import Gang, unwrapped
from gavelx.training.launch import Launch, seconds_since_start
from gavelx.training.lease import Lease
from gavelx.training.position import Reader
from gavelx.training.progress import Progress
from gavelx.training.reports import Reports
from gavelx.training.resizable import Resizable
from gavelx.training.saving import Saving
from gavelx.training.shards import Part
from gavelx.training.state import State
from gavelx.training.updates import Updates
from gavelx.training_report import Determinism, Order


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
    * ``warmup_epochs``: the time over which an elastic job reaches twice its learning rate, and again for the next
      doubling;
    * ``determinism``: the level of `gavelx.training.determinism` that is promised: a restart that cannot keep it
      is refused. Without it, bits are kept as far as possible, and a warning says when they are not;
    * ``order``: in which gradients are added (`gavelx.training.ordered`); by default that of
      ``DistributedDataParallel`` over gloo, if it is known, and on GPUs by rank.

    ``complete`` is true after the block, ``restart_s`` the seconds from the start of the process to the first
    batch.
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
        warmup_epochs: float = 0.25,
        determinism: Determinism | None = None,
        order: Order | None = None,
        environment: Mapping[str, str] = os.environ,
        **parts: Any,
    ) -> None:
        self.parts = {name: unwrapped(part) for name, part in parts.items()}
        for name, part in self.parts.items():
            objects.check(name, part)
        _check_number("keep", keep, isinstance(keep, int) and keep >= 1, "a whole number of at least 1")
        _check_number("every_s", every_s, every_s >= 0, "seconds, 0 or more")
        launch = Launch.of(environment)
        launch.check(gang)
        self.total_steps = launch.total_steps or total_steps  # the scheduler counts by its own
        self.every_s = every_s
        self.complete = False
        self.restart_s: float | None = None
        self._by_epoch = False
        self._at, self._reader, self._curve = Progress(), Reader(), Curve()
        self._lease, bits = Lease(launch.lease_file), Bits.of(determinism, gang)
        updates = None
        if gang is not None and gang.elastic:
            updates = Updates(
                gang, self._at, level=bits.level, order=order, seed=seed, warmup_epochs=warmup_epochs
            )
        self._state = State(self.parts, self._at, self._reader, self._curve, bits, updates)
        self._elastic = Resizable(updates, self._state, self._lease) if updates is not None else None
        self._saving = Saving(Checkpoints(launch.folder / folder, keep), self._state, seed)
        reports = Reports(launch.report_file, launch.lease_id)
        self._between = Between(self._lease, reports, self._saving, self._elastic, told=self._told)

    @property
    def step(self) -> float:
        """Steps done since the job began, of the job as submitted.

        In an elastic job whose batch changes, an update of M samples counts M/M0 x efficiency(M) steps
        (`gavelx.training.noise`).
        """
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
        """The part of an update to which the present batch of an elastic job belongs, and its samples."""
        return self._elastic.updates.part if self._elastic else None

    @property
    def checkpoint(self) -> Saved | None:
        """The last one that this process made (path, bytes, seconds)."""
        return self._saving.newest

    @property
    def resize_s(self) -> float | None:
        """Seconds that the last live resize took."""
        return self._elastic.resize_s if self._elastic else None

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.total_steps is not None and self.step >= self.total_steps - 1e-9

    # -- the block ------------------------------------------------------------------------------------------

    def __enter__(self) -> "Training":
        self._lease.__enter__()
        if self._elastic is not None:
            optimizers = (one for one in self.parts.values() if isinstance(one, torch.optim.Optimizer))
            self._elastic.updates.attach(optimizers)
        self._between.begin()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self._complete()
        finally:
            if self._elastic is not None:
                self._elastic.regroup.cancel()
            self._lease.__exit__()

    def _complete(self) -> None:
        """Save at the end of training. Raises :class:`CheckpointError` if that fails."""
        if not self._between.save():
            raise CheckpointError(f"training is complete at step {self.step}, but could not be saved")
        self.complete = True
        self._between.report()

    # -- the loop -------------------------------------------------------------------------------------------

    def batches(self, loader: Iterable[Any], *, replay: bool = False) -> Iterator[Any]:
        """The batches of a loader: epoch after epoch until all steps are done; of one epoch within :meth:`epochs`.

        ``replay``: see `gavelx.training.position.begin`.
        """
        self._between.check_begun()
        if self.total_steps is None and not self._by_epoch:
            raise UserError(
                "no total number of steps is given",
                where="Training",
                expected="total_steps, or a loop over epochs",
                hint="Training(total_steps=...), or: for epoch in training.epochs(10)",
            )
        while not self.finished:
            for batch in self._epoch(loader, replay) if self._elastic is None else self._dealt_epoch(loader):
                self._began()
                yield batch
            if self._by_epoch or self.finished:
                return
            self._next_epoch()

    def epochs(self, count: int | None = None) -> Iterator[int]:
        """Numbers of epochs, from the current one. Code after the batches of an epoch runs once for each."""
        self._by_epoch = True
        while not self.finished and (count is None or self.epoch < count):
            yield self.epoch
            self._saving.changed = True
            if self.finished:
                return  # maybe in the middle of an epoch: with more steps it would continue there
            self._next_epoch()

    def steps(self) -> Iterator[int]:
        """Numbers of steps, for loops that make their own data; until all are done."""
        if self._elastic is not None:
            raise UserError(
                "steps() in an elastic job",
                expected="batches() of a DataLoader, whose samples can be dealt to any number of processes",
                hint="submit it without --workers A:B and --batch A:B",
            )
        self._between.check_begun()
        while not self.finished:
            before = self.step
            self._began()
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
        if self._elastic is None or self.part is None:
            loss.backward()  # type: ignore[no-untyped-call]
            return True
        return self._elastic.updates.backward(loss)

    def done(self, loss: Any = None, accuracy: float | None = None) -> int:
        """Call this after each step, when parameters are updated. ``loss`` is reported, without waiting for it.

        So is the accuracy on validation data (0 to 1), whenever there is a new one. Both tell the scheduler how
        much is left of a job whose length it was not told.

        The number of whole steps that this completes: 1, but for an elastic job whose batch changes. A scheduler
        of the learning rate that counts steps is called so many times.
        """
        before = self.step
        if self._elastic is None:
            self._at.step += 1
        else:
            updates = self._elastic.updates
            loss = updates.first_loss(loss)
            self._at.step += updates.share()
            updates.end()
        self._saving.changed = True
        self._curve.step(loss, accuracy)
        return int(self.step + 1e-9) - int(before + 1e-9)

    def _began(self) -> None:
        if self.restart_s is None:
            self.restart_s = seconds_since_start()

    def _next_epoch(self) -> None:
        self._at.next_epoch()
        self._reader.next_epoch()

    def _epoch(self, loader: Iterable[Any], replay: bool) -> Iterator[Any]:
        """The rest of an epoch."""
        at = self._at
        self._state.count_batches(loader, self._between.agreement.world_size)
        self._curve.reads(loader)
        whole, began_at = at.batch == 0, self.step
        for batch in self._reader.begin(loader, at.epoch, at.batch, replay):
            before = self.step
            at.batch += 1
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
        """The rest of an epoch of an elastic job, of which each process gets its part."""
        elastic = self._elastic
        assert elastic is not None
        self._curve.reads(loader)
        if elastic.joins:
            yield from elastic.updates.warm_up(loader)
            self._between.join()
        self._state.count_samples(loader)
        whole, began_at = self._at.seen == 0, self.step
        for batches in elastic.rest(loader):
            before = self.step
            yield from batches
            elastic.updates.end()
            if self.step > before:
                self._between_steps()
            if self.finished:
                break
        if self._at.seen == 0:
            raise UserError(
                "an epoch has no batches",
                where="batches()",
                expected="at least one",
                hint=f"drop_last=False, as a step takes {elastic.updates.batch} of {len(loader.dataset)} samples",
            )
        if whole:
            _check_progress(began_at, self.step, "epoch")

    def _between_steps(self) -> None:
        self._between.steps(self.every_s, finished=self.finished)

    def _told(self) -> dict[str, Any]:
        """What reports say."""
        return {
            "steps_done": self.step,
            "saved_steps": self.saved_steps,
            "total_steps": self.total_steps,
            "complete": self.complete,
            "restart_s": self.restart_s,
            "epoch": self.epoch,
            **self._curve.report(self.epoch, self._at.batch, self._at.seen),
            **self._state.bits.report(),
        }


def _check_number(name: str, seen: float, fine: bool, expected: str) -> None:
    """Raises :class:`UserError` for a number with which nothing, or everything for ever, would be saved."""
    if not fine:
        raise UserError(f"{seen!r} cannot be used", where=f"Training({name}=...)", expected=expected)


def _check_progress(before: float, after: float, what: str) -> None:
    if after == before:
        raise UserError(
            f"a whole {what} went by without training.done()", where="Training", expected="one after each step"
        )
