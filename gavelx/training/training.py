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
from gavelx.training import position, randomness, transfer
from gavelx.training.checkpoints import CheckpointError, Checkpoints, Saved, TrainingWarning
from gavelx.training.curve import Curve
from gavelx.training.elastic import VARIABLE
from gavelx.training.gang import Agreement, Gang, Vote, unwrapped
from gavelx.training.lease import Lease
from gavelx.training.noise import NoiseScale
from gavelx.training.parts import Contexts, Rest, deal_of, seed_all, square
from gavelx.training.rates import Rates
from gavelx.training.regroup import Regroup, ending_as_failed
from gavelx.training.reports import Reports
from gavelx.training.shards import Deal, Part, Shards

FORMAT = 2
READABLE = (1, 2)
"""Format 1 has no position in samples; its number of processes is the number of generator states."""
NOISE_EVERY = 4
"""Updates between measurements of the noise scale."""
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
    * ``warmup_epochs``: the time over which an elastic job reaches a larger learning rate.

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
        environment: Mapping[str, str] = os.environ,
        **parts: Any,
    ) -> None:
        self.parts = {name: unwrapped(part) for name, part in parts.items()}
        self.total_steps = _total_steps(environment.get("GAVELX_TOTAL_STEPS"), total_steps)
        self.every_s = every_s
        self.step: float = 0
        self.saved_steps: float = 0
        self.epoch = self.samples = 0
        self.part: Part | None = None
        self.complete = False
        self.checkpoint: Saved | None = None
        self.restart_s: float | None = None
        self._checkpoints = Checkpoints(Path(environment.get("GAVELX_JOB_DIR", ".")) / folder, keep)
        self._lease = Lease(_path(environment.get("GAVELX_LEASE_FILE")))
        self._reports = Reports(_path(environment.get("GAVELX_REPORT_FILE")), environment.get("GAVELX_LEASE_ID"))
        self._curve = Curve()
        self._batch = 0  # handed out in this epoch
        self._by_epoch = False
        self._changed = False  # since the last checkpoint
        self._generators: list[torch.Generator] = []
        self._epoch_began: dict[str, Any] | None = None  # the generators then
        self._resumed: dict[str, Any] | None = None  # the generators when the checkpoint was made
        self._vote_at: float = 0
        self._begin_elastic(gang, seed, warmup_epochs, environment)
        for name, part in self.parts.items():
            _check_part(name, part)

    def _begin_elastic(
        self, gang: Gang | None, seed: int, warmup_epochs: float, environment: Mapping[str, str]
    ) -> None:
        self._gang, self._elastic = gang, gang.elastic if gang else None
        if gang is None and environment.get(VARIABLE):
            raise UserError(
                "the job is elastic, and its processes are not known",
                where="Training",
                expected="Training(gang=gang, ...)",
                hint="with gavelx.training.Gang() as gang: ... around all of it",
            )
        self._regroup = Regroup(gang, self._lease) if gang and gang.elastic else None
        self._seed, self._warmup_epochs = seed, warmup_epochs
        self._rates = Rates(self._elastic.rates if self._elastic else "none")
        self._noise = NoiseScale()
        self._contexts = Contexts(seed) if self._elastic and self._elastic.what == "workers" else None
        self._shards: tuple[Any, Shards] | None = None
        self._seen = 0  # samples of this epoch
        self._coming = 0  # samples of the update that is being computed
        self._last_part = True
        self._squares: tuple[float, float] | None = None  # of a gradient, and of how many samples
        self._updates = 0
        self._backward = True
        self._batch_now = 0
        self._kept_gradients = self._measuring = False
        self._ranks_then = 1
        self.resize_s: float | None = None

    # -- the block ------------------------------------------------------------------------------------------

    def __enter__(self) -> "Training":
        self._lease.__enter__()
        for part in self.parts.values():
            if self._elastic and self._elastic.what == "batch" and isinstance(part, torch.optim.Optimizer):
                self._rates.attach(part)
        self._saved_s = self._voted_s = time.monotonic()
        self._voted_step = self.step
        if self._gang and self._gang.joins:
            return self  # it resumes nothing: it gets its state from the others, in its first epoch
        self._agreement = Agreement()
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
        assert self._gang is not None
        self._check_kept()
        self._backward = True
        weight = self.part.weight
        (loss if weight == 1.0 else loss * weight).backward()  # type: ignore[no-untyped-call]
        if self._gang.joins:
            self._clear()  # it only warms up
            return False
        self._measure_noise()
        return self._last_part

    def done(self, loss: Any = None, accuracy: float | None = None) -> int:
        """Call this after each step, when parameters are updated. ``loss`` is reported, without waiting for it.

        So is the accuracy on validation data (0 to 1), whenever there is a new one. Both tell the scheduler how
        much is left of a job whose length it was not told.

        The number of whole steps that this completes: 1, but for an elastic job whose batch changes. A scheduler
        of the learning rate that counts steps is called so many times.
        """
        before = self.step
        self.step += self._share()
        self._end_update()
        self._changed = True
        self._curve.step(loss, accuracy)
        return int(self.step + 1e-9) - int(before + 1e-9)

    def _epoch(self, loader: Iterable[Any], replay: bool) -> Iterator[Any]:
        """The rest of an epoch."""
        if self._seen:  # a checkpoint of an elastic job
            at_once = (getattr(loader, "batch_size", None) or 1) * self._agreement.world_size
            self._batch, self._seen = self._seen // at_once, 0
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

    # -- an epoch of an elastic job -------------------------------------------------------------------------

    def _dealt_epoch(self, loader: Any) -> Iterator[Any]:
        """The rest of an epoch, dealt anew whenever the job changes its size."""
        shards = self._shards_of(loader)
        assert self._gang is not None and self._regroup is not None
        if self._gang.joins:
            yield from self._warm_up(shards)
            self._join()
        whole, began_at = self._seen == 0, self.step
        generation = None
        while not self.finished and generation != self._regroup.size.generation:
            generation = self._regroup.size.generation
            deal = self._deal(shards)
            rest = Rest(shards, deal, self.epoch, self._seen, self._gang.rank, self._contexts)
            for update in rest:
                yield from self._update(update, deal, shards)
                if self.finished or generation != self._regroup.size.generation:
                    break
        if whole:
            _check_progress(began_at, self.step, "epoch")

    def _update(self, update: list[Iterator[tuple[Part, Any]]], deal: Deal, shards: Shards) -> Iterator[Any]:
        """The parts of one update that this process computes; then what is due between two steps."""
        assert self._gang is not None
        before = self.step
        self._coming = min(deal.batch, shards.samples - self._seen)
        self._begin_update(shards)
        for index, one in enumerate(update):
            self._last_part = index == len(update) - 1
            self._gang.sync(self._last_part)
            for self.part, batch in one:
                self._first_batch_is_out()
                self._backward = False
                yield batch
                self._check_backward()
        self.part = None
        self._end_update()
        if self.step > before:
            self._between_steps()

    def _begin_update(self, shards: Shards) -> None:
        submitted = self._elastic.batch if self._elastic else 0
        self._rates.warmup = self._warmup_epochs * shards.samples
        if submitted and self._elastic and self._elastic.what == "batch":
            batch = self._batch_now
            self._rates.update(batch / submitted, self._noise.efficiency(batch, submitted), self.samples)
        self._squares = None
        self._ask_for_squares(self._updates % NOISE_EVERY == 0)

    def _end_update(self) -> None:
        """Its samples are done; once for each update."""
        self._updates += self._coming > 0
        self._seen += self._coming
        self.samples += self._coming
        self._coming = 0

    def _share(self) -> float:
        """The steps of the job as submitted that this update is worth."""
        elastic = self._elastic
        if elastic is None or elastic.what == "workers" or self._batch_now == elastic.batch:
            return 1
        return self._coming / elastic.batch * self._noise.efficiency(self._coming, elastic.batch)

    def _deal(self, shards: Shards) -> Deal:
        assert self._elastic is not None and self._regroup is not None
        size = self._regroup.size
        deal = deal_of(self._elastic, shards.batch_size, size.batch, size.world_size)
        self._batch_now = deal.batch
        return deal

    def _shards_of(self, loader: Any) -> Shards:
        if self._shards is None or self._shards[0] is not loader:
            self._shards = (loader, Shards(loader, self._seed))
            self._curve.reads(loader)
        shards = self._shards[1]
        if self._batch:  # a checkpoint of a rigid job
            self._seen, self._batch = min(shards.samples, self._batch * shards.batch_size * self._ranks_then), 0
        return shards

    def _check_backward(self) -> None:
        if not self._backward:
            raise UserError(
                "a batch went by without training.backward(loss)",
                where="Training",
                expected="if training.backward(loss): optimizer.step(); optimizer.zero_grad(); training.done()",
                hint="a process of an elastic job computes several parts of a step, and adds their gradients",
            )

    def _check_kept(self) -> None:
        """Gradients of the parts before are still there."""
        if self._kept_gradients and all(p.grad is None for p in self._parameters()):
            raise UserError(
                "the gradients of other parts of this step were cleared",
                where="Training.backward",
                expected="optimizer.zero_grad() after optimizer.step() alone",
                hint="if training.backward(loss): optimizer.step(); optimizer.zero_grad(); training.done()",
            )
        self._kept_gradients = not self._last_part

    def _parameters(self) -> Iterator[torch.nn.Parameter]:
        for part in self.parts.values():
            if isinstance(part, torch.nn.Module):
                yield from part.parameters()

    def _clear(self) -> None:
        for parameter in self._parameters():
            parameter.grad = None

    # -- the noise scale ------------------------------------------------------------------------------------

    def _ask_for_squares(self, asked: bool) -> None:
        assert self._gang is not None
        self._measuring = asked
        for model in self._gang.models:
            if model.squares is not None:
                model.squares.asked, model.squares.square = asked, 0.0

    def _measure_noise(self) -> None:
        """Compare the gradient of our first part with that of the whole update, when it is there."""
        part = self.part
        assert part is not None and self._gang is not None
        if not self._measuring:
            return
        if self._squares is None and part.samples:
            if not self._last_part:
                self._squares = (square(self._parameters()) / part.weight**2, len(part.samples))
            elif self._gang.world_size > 1 and all(model.squares for model in self._gang.models):
                squares = sum(model.squares.square for model in self._gang.models if model.squares)
                self._squares = (squares / part.weight**2, len(part.samples))
        if self._last_part:
            small, samples = self._squares or (0.0, 0.0)
            ours = 1.0 if self._squares else 0.0
            large = square(self._parameters()) / self._gang.world_size
            smalls, b, count, large = self._agreement.total(small, samples, ours, large)
            if count:
                self._noise.add(smalls / count, b / count, large, self._coming)

    # -- a resize -------------------------------------------------------------------------------------------

    def _warm_up(self, shards: Shards) -> Iterator[Any]:
        """One batch for a process that joins, so that its first real step is a quick one; nothing comes of it."""
        indices = tuple(range(min(shards.batch_size, shards.samples)))
        self.part, self._last_part = Part(0, 1, (), indices, 1.0), False
        for batch in shards.load(iter([self.part])):
            self._first_batch_is_out()
            yield batch
        self.part, self._kept_gradients = None, False
        self._clear()

    def _join(self) -> None:
        """As a joiner: wait for the pause, then take the state of the others."""
        assert self._regroup is not None and self._gang is not None
        self._regroup.join(self._stopping)
        with ending_as_failed("the state"):
            self._agreement = Agreement()
            lengths, skeleton = self._agreement.from_first(None)
            flat = transfer.empty(lengths)
            self._agreement.receive(list(flat.values()))
            self._take(transfer.unpacked(skeleton, flat), new=True)
            self._gang.wrap()
        self._begin_generation()

    def _stopping(self) -> bool:
        return self._lease.over(0, 0.0)

    def _change_size(self) -> None:
        """Between two steps, which all agreed on."""
        assert self._regroup is not None and self._gang is not None
        begin_s = time.monotonic()
        if self._contexts is not None:
            for states in self._agreement.everyone(self._own_contexts()):
                self._contexts.states.update(states)
        joiners = self._regroup.regroup()
        with ending_as_failed("the state"):
            self._agreement = Agreement()
            if joiners:
                self._give_state(joiners)
            self._gang.wrap()
        self.resize_s = time.monotonic() - begin_s
        self._begin_generation()

    def _give_state(self, joiners: list[int]) -> None:
        if self._agreement.rank == 0:
            skeleton, flat = transfer.packed(self._content([]) | {"contexts": self._all_contexts()})
            self._agreement.from_first(({dtype: len(one) for dtype, one in flat.items()}, skeleton))
            self._agreement.send(list(flat.values()), joiners)
        else:
            self._agreement.from_first(None)

    def _begin_generation(self) -> None:
        if self._lease.lease_id is not None:
            self._reports.lease_id = self._lease.lease_id
        self._voted_s, self._voted_step, self._vote_at = time.monotonic(), self.step, self.step
        self._report()

    def _all_contexts(self) -> dict[int, Any]:
        return self._contexts.states if self._contexts else {}

    def _own_contexts(self) -> dict[int, Any]:
        assert self._contexts is not None and self._elastic is not None
        deal = Deal(1, self._elastic.parts, self._agreement.world_size)
        return self._contexts.of(deal.mine(self._agreement.rank))

    # -- an epoch of a rigid job ----------------------------------------------------------------------------

    def _begin_epoch(self, loader: Iterable[Any], replay: bool) -> Iterator[Any]:
        self._generators = position.generators_of(loader)
        self._curve.reads(loader)
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
        self._batch, self._seen, self._epoch_began = 0, 0, None

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
            **self._curve.report(self.epoch, self._batch, self._seen),
            **self._elastic_report(),
        )

    def _elastic_report(self) -> dict[str, Any]:
        if self._regroup is None:
            return {}
        return {
            "samples": self.samples,
            "batch": self._batch_now or None,
            "noise_scale": self._noise.value,
            "generation": self._regroup.size.generation,
            "world_size": self._agreement.world_size,
            "resize_s": self.resize_s,
        }

    # -- checkpoints ----------------------------------------------------------------------------------------

    def _save(self) -> bool:
        """Save, unless nothing changed, and return whether it succeeded. The first process writes for all."""
        if not self._changed:
            return True
        everyone = self._agreement.gather(self._own_chance())
        saved = self._agreement.from_first(self._write(everyone) if self._agreement.rank == 0 else None)
        self._saved_s = time.monotonic()  # also after a failure: a full disk is not tried at every step
        if saved is not None:
            self.checkpoint, self.saved_steps, self._changed = saved, self.step, False
        self._report()
        return saved is not None

    def _own_chance(self) -> dict[str, Any]:
        """The generators of this process, and of the logical workers that it computes."""
        return {
            "now": randomness.capture(self._generators),
            "epoch_began": self._epoch_began,
            "contexts": self._own_contexts() if self._contexts else {},
        }

    def _content(self, chance_of_ranks: list[Any]) -> dict[str, Any]:
        contexts = {number: one for chance in chance_of_ranks for number, one in chance.pop("contexts").items()}
        return {
            "format": FORMAT,
            "step": self.step,
            "saved_steps": self.saved_steps,
            "epoch": self.epoch,
            "batch": self._batch,
            "seen": self._seen,
            "samples": self.samples,
            "updates": self._updates,
            "curve": self._curve.state_dict(),
            "parts": {name: _state_of(part) for name, part in self.parts.items()},
            "chance": chance_of_ranks,
            "contexts": contexts,
            "world_size": self._agreement.world_size,
            "rates": self._rates.state_dict(),
            "noise": self._noise.state_dict(),
            "made_with": _made_with(),
        }

    def _write(self, chance_of_ranks: list[Any]) -> Saved | None:
        content = self._content(chance_of_ranks)
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
            return
        content = found[1] if found else self._checkpoints.read(name)
        self._check_fits(name, content)
        self._take(content, new=False)
        self._take_chance(content["chance"])

    def _take(self, content: dict[str, Any], new: bool) -> None:
        """Take the state of a checkpoint, or as a joiner (``new``) that of the others."""
        for part, state in content["parts"].items():
            _put_state(self.parts[part], state)
        self.step = content["step"]
        self.saved_steps = content["saved_steps"] if new else content["step"]
        self.epoch, self._batch = content["epoch"], content["batch"]
        self._seen, self.samples = content.get("seen", 0), content.get("samples", 0)
        self._updates = content.get("updates", 0)
        self._curve.load_state_dict(content.get("curve", {}))
        self._ranks_then = content.get("world_size") or len(content["chance"])
        if "rates" in content:
            self._rates.load_state_dict(content["rates"])
            self._noise.load_state_dict(content["noise"])
        if self._contexts is not None:
            self._contexts.states = dict(content.get("contexts", {}))
        self._changed = new

    def _take_chance(self, chance: list[dict[str, Any]]) -> None:
        """Our generators, if there was a process of our rank; others are seeded anew."""
        rank, now = self._agreement.rank, self._agreement.world_size
        if len(chance) != now:
            self._batch = self._batch * len(chance) // now
        if rank < len(chance):
            self._resumed, self._epoch_began = chance[rank]["now"], chance[rank]["epoch_began"]
            randomness.restore(chance[rank]["now"])
        else:
            seed_all(self._seed, int(self.step), rank)
            self._resumed = self._epoch_began = randomness.capture()

    def _check_fits(self, name: str, content: dict[str, Any]) -> None:
        if content.get("format") not in READABLE:
            known = " and ".join(map(str, READABLE))
            raise CheckpointError(f"{name} is of format {content.get('format')}; this gavelx knows {known}")
        if content["parts"].keys() != self.parts.keys():
            here, there = ", ".join(self.parts), ", ".join(content["parts"])
            raise CheckpointError(f"{name} holds {there}; this script saves {here}")
        then, here_now = dict(content["made_with"]), _made_with()
        if self._elastic is None:
            then["processes"], here_now["processes"] = len(content["chance"]), self._agreement.world_size
        if changed := [key for key, value in then.items() if value != here_now[key]]:
            now_and_then = ", ".join(f"{key} {then[key]} then, {here_now[key]} now" for key in changed)
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


def _check_progress(before: float, after: float, what: str) -> None:
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
