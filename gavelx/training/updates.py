"""The updates of an elastic job: which samples come next, in which parts, and when the optimizer may step."""

from collections.abc import Iterator
from typing import Any

import torch

from gavelx.errors import UserError
from gavelx.training.averaged import Averaged
from gavelx.training.contexts import BETWEEN, Contexts
from gavelx.training.elastic import Elasticity, Size
from gavelx.training.gang import Agreement, Gang
from gavelx.training.noise import NoiseScale
from gavelx.training.parts import Rest, deal_of
from gavelx.training.progress import Progress
from gavelx.training.rates import Rates
from gavelx.training.shards import Deal, Part, Shards
from gavelx.training.sums import Ordered, Sums
from gavelx.training_report import Determinism, Order


class Updates:
    """What this process computes of each update. ``part`` is the one that it is at.

    The loop gets the batches of an update from :meth:`rest`, calls :meth:`backward` for each, and :meth:`end` when
    the parameters are updated.
    """

    def __init__(
        self,
        gang: Gang,
        progress: Progress,
        *,
        level: Determinism = "none",
        order: Order | None = None,
        seed: int = 0,
        warmup_epochs: float = 0.25,
    ) -> None:
        assert gang.elastic is not None
        self.gang, self.progress = gang, progress
        self.part: Part | None = None
        self.batch = 0
        self.rates, self.noise = Rates(gang.elastic.rates), NoiseScale()
        self.contexts = Contexts(seed) if gang.elastic.what == "workers" else None
        self.sums: Sums = (
            Averaged(gang, self.noise)
            if level == "none"
            else Ordered(gang, gang.elastic.parts, order, apart=level != "fixed")
        )
        self._seed, self._warmup_epochs = seed, warmup_epochs
        self._shards: tuple[Any, Shards] | None = None
        self._coming = 0  # samples of the update that is being computed
        self._index, self._last, self._went = 0, True, True
        self._first: torch.Tensor | None = None  # the loss of our first part
        self._newest: torch.Tensor | None = None  # and of the last one

    @property
    def elastic(self) -> Elasticity:
        """How the job may change, with its present size."""
        assert self.gang.elastic is not None
        return self.gang.elastic

    def attach(self, optimizers: Iterator[torch.optim.Optimizer]) -> None:
        """Multiply their rates while they step, if the batch changes."""
        if self.elastic.what == "batch":
            for optimizer in optimizers:
                self.rates.attach(optimizer)

    def join(self, agreement: Agreement) -> None:
        """The processes are those of ``agreement`` from now on."""
        self._agreement = agreement
        self.sums.join(agreement)

    def rest(self, loader: Any, size: Size) -> Iterator[Iterator[Any]]:
        """The rest of the epoch as it is dealt to processes of this size: for each update its batches here."""
        shards = self._shards_of(loader)
        deal = deal_of(self.elastic, shards.batch_size, size.batch, size.world_size, size.parts_of_rank)
        self.batch = deal.batch
        at = self.progress
        for parts in Rest(shards, deal, at.epoch, at.seen, self.gang.rank, self.contexts):
            self._begin(shards, len(parts))
            yield self._batches(parts)

    def _begin(self, shards: Shards, parts: int) -> None:
        self._coming = min(self.batch, shards.samples - self.progress.seen)
        self.rates.warmup = self._warmup_epochs * shards.samples
        if self.elastic.what == "batch":
            efficiency = self.noise.efficiency(self.batch, self.elastic.batch)
            self.rates.update(self.batch / self.elastic.batch, efficiency, self.progress.samples)
        self.sums.begin(parts, self._coming)

    def _batches(self, parts: list[Iterator[tuple[Part, Any]]]) -> Iterator[Any]:
        for self._index, one in enumerate(parts):
            self._last = self._index == len(parts) - 1
            for self.part, batch in one:
                self.sums.enter(self._index, self._last)
                self._went = False
                yield batch
                self._check_went()
        self.part = None

    def warm_up(self, loader: Any) -> Iterator[Any]:
        """One batch for a process that joins, so that its first real step is a quick one; nothing comes of it."""
        shards = self._shards_of(loader)
        indices = tuple(range(min(shards.batch_size, shards.samples)))
        self.part = Part(0, 1, (), indices, 1.0)
        yield from shards.load(iter([self.part]))
        self.part = None
        self._clear()

    def backward(self, loss: torch.Tensor) -> bool:
        """The gradients of a part; whether the update has all of its gradients now."""
        assert self.part is not None
        self._went = True
        if self.gang.joins:
            loss.backward()  # type: ignore[no-untyped-call]
            self._clear()
            return False
        self.sums.backward(loss, self.part, self._index, self._last)
        self._newest = loss
        if self._index == 0:
            self._first = loss.detach()
        if self._last and self.contexts is not None:
            self.contexts.enter(BETWEEN)
        return self._last

    def end(self) -> None:
        """The samples of the update are done; once for each, however often it is called."""
        self.progress.seen += self._coming
        self.progress.samples += self._coming
        self._coming, self._first, self._newest = 0, None, None

    def share(self) -> float:
        """The steps of the job as submitted that the present update is worth."""
        if self.elastic.what == "workers" or self.batch == self.elastic.batch:
            return 1
        return self._coming / self.elastic.batch * self.noise.efficiency(self._coming, self.elastic.batch)

    def first_loss(self, loss: Any) -> Any:
        """The loss of part 0 in the place of that of the last part here, which depends on the processes."""
        return self._first if loss is not None and loss is self._newest else loss

    def generators(self) -> dict[int, Any]:
        """The generators of the parts that this process computes."""
        if self.contexts is None:
            return {}
        spread = self.elastic.parts_of_rank(self._agreement.world_size)
        deal = Deal(1, self.elastic.parts, self._agreement.world_size, parts_of_rank=spread)
        return self.contexts.of(deal.mine(self._agreement.rank))

    def share_generators(self) -> None:
        """Before a resize: each process may compute any part afterwards."""
        if self.contexts is not None:
            for states in self._agreement.everyone(self.generators()):
                self.contexts.take(states)

    def all_generators(self) -> dict[int, Any]:
        """Those of all parts, after :meth:`share_generators`."""
        return self.contexts.of(range(self.elastic.parts)) if self.contexts else {}

    def state_dict(self) -> dict[str, Any]:
        return {
            "rates": self.rates.state_dict(),
            "noise": self.noise.state_dict(),
            "sums": self.sums.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the state of a checkpoint; that of a rigid job has little of it."""
        if "rates" in state:
            self.rates.load_state_dict(state["rates"])
            self.noise.load_state_dict(state["noise"])
        if state.get("sums"):
            self.sums.load_state_dict(state["sums"])
        if self.contexts is not None:
            self.contexts.take(state.get("contexts", {}))

    def _shards_of(self, loader: Any) -> Shards:
        if self._shards is None or self._shards[0] is not loader:
            self._shards = (loader, Shards(loader, self._seed))
        return self._shards[1]

    def _check_went(self) -> None:
        if not self._went:
            raise UserError(
                "a batch went by without training.backward(loss)",
                where="Training",
                expected="if training.backward(loss): optimizer.step(); optimizer.zero_grad(); training.done()",
                hint="a process of an elastic job computes several parts of a step, and adds their gradients",
            )

    def _clear(self) -> None:
        for parameter in self.gang.parameters():
            parameter.grad = None
