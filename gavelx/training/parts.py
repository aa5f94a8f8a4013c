"""The parts of an update that one process computes, one after the other; under `workers`, logical workers.

Each logical worker has random generators of its own (`gavelx.training.contexts`). What becomes of the gradients is
in `gavelx.training.sums`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gavelx.errors import UserError
from gavelx.training import randomness
from gavelx.training.contexts import Contexts
from gavelx.training.elastic import Elasticity
from gavelx.training.shards import Deal, Part, Shards


def deal_of(
    elastic: Elasticity, batch_size: int, batch: int, world_size: int, parts_of_rank: tuple[int, ...] = ()
) -> Deal:
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
        return Deal(whole, elastic.parts, world_size, alike=True, parts_of_rank=parts_of_rank)
    batch = batch or elastic.batch
    return Deal(batch, world_size * -(-batch // (world_size * batch_size)), world_size)


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
        return batches

    def _one(self, part: Part, batches: Iterator[Any]) -> Iterator[tuple[Part, Any]]:
        """One part and its batch, which is loaded with its generators, and they go on until others are entered."""
        if self.contexts is not None:
            self.contexts.enter(part.number)
        yield part, next(batches)
