"""The parts of an update that one process computes, one after the other; under `workers`, logical workers.

Each logical worker has random generators of its own, so that it draws the same numbers on any process.
(``ordered.py``, which adds up their gradients in an order that does not depend on the processes, is not there yet:
a process accumulates the gradients of its parts, and the processes average.)
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from gavelx.errors import UserError
from gavelx.training import randomness
from gavelx.training.elastic import Elasticity
from gavelx.training.shards import Deal, Part, Shards

Context = dict[str, Any]
"""The state of all generators, as `gavelx.training.randomness.capture` gives it."""


def deal_of(elastic: Elasticity, batch_size: int, batch: int, world_size: int) -> Deal:
    """How updates are made now. ``batch_size``: of a device at once; ``batch``: of an update, 0 as submitted.

    Raises :class:`UserError` if the loader's batches are not those of the logical workers.
    """
    if elastic.what == "workers":
        whole = batch_size * elastic.parts
        if elastic.batch not in (0, whole):
            raise UserError(
                f"a batch_size of {batch_size}, with {elastic.parts} logical workers",
                where="batches()",
                expected=f"{elastic.batch / elastic.parts:g}: a step was submitted with {elastic.batch} samples",
            )
        return Deal(whole, elastic.parts, world_size)
    batch = batch or elastic.batch
    return Deal(batch, world_size * -(-batch // (world_size * batch_size)), world_size)


class Contexts:
    """The generators of logical workers by number. Those that never ran are seeded with (seed, number)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.states: dict[int, Context] = {}

    def enter(self, number: int) -> None:
        if number in self.states:
            randomness.restore(self.states[number])
        else:
            seed_all(self.seed, number)

    def leave(self, number: int) -> None:
        self.states[number] = randomness.capture()

    def of(self, numbers: Iterable[int]) -> dict[int, Context]:
        """The states of some; those that never ran are left out."""
        return {number: self.states[number] for number in numbers if number in self.states}


def seed_all(*seed: int) -> None:
    """Seed the generators of Python, numpy and torch, each sequence of numbers apart from any other."""
    drawn = random.Random(repr(seed))
    random.seed(drawn.getrandbits(64))
    if numpy := randomness.numpy_in_use():
        numpy.random.seed(drawn.getrandbits(32))
    torch.manual_seed(drawn.getrandbits(63))


@dataclass(frozen=True)
class Rest:
    """The rest of an epoch, from the sample ``seen`` on, for one process."""

    shards: Shards
    deal: Deal
    epoch: int
    seen: int
    rank: int
    contexts: Contexts | None

    def __iter__(self) -> Iterator[list[Iterator[tuple[Part, Any]]]]:
        """For each update its parts with their batches, in their order.

        A batch is loaded when its turn comes, with the generators of its part (all the same without ``contexts``).
        """
        lanes = list(self.deal.mine(self.rank)) if self.contexts else [None]
        streams = {lane: self._stream(lane) for lane in lanes}
        for parts in self._updates():
            yield [self._one(part, streams[part.number if self.contexts else None]) for part in parts]

    def _updates(self) -> Iterator[list[Part]]:
        return self.shards.updates(self.deal, self.epoch, self.seen, self.rank)

    def _stream(self, lane: int | None) -> Iterator[Any]:
        """The batches of one logical worker, or of all parts. In the middle of an epoch no generator moves."""
        parts = (part for update in self._updates() for part in update if lane is None or part.number == lane)
        if self.contexts is not None and lane is not None:
            self.contexts.enter(lane)
        before = randomness.capture() if self.seen else None
        batches = self.shards.load(parts)
        if before is not None:
            randomness.restore(before)
        if self.contexts is not None and lane is not None:
            self.contexts.leave(lane)
        return batches

    def _one(self, part: Part, batches: Iterator[Any]) -> Iterator[tuple[Part, Any]]:
        """One part and its batch; its generators are put aside when the loop asks for the next one, or ends."""
        if self.contexts is None:
            yield part, next(batches)
            return
        self.contexts.enter(part.number)
        try:
            yield part, next(batches)
        finally:
            self.contexts.leave(part.number)


def square(parameters: Iterable[torch.Tensor]) -> float:
    """The squared norm of the gradients."""
    found = [p.grad.detach().float().square().sum() for p in parameters if p.grad is not None]
    return float(torch.stack(found).double().sum()) if found else 0.0
