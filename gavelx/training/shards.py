"""The position in the data, in samples: which samples of an epoch come next, and which process has them.

An epoch is a permutation by (seed, epoch). ``seen`` samples are done; an update takes the next ones, and deals
them to its parts by turns, as torch's ``DistributedSampler`` does. So under any sequence of sizes each sample
comes once an epoch, and with a fixed number of parts each part has its own fixed sequence, that of this sampler.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from gavelx.errors import UserError


@dataclass(frozen=True)
class Part:
    """A part of an update that one process computes at once.

    ``number`` of ``count``. ``samples`` are indices of the dataset. ``weight`` makes the average over processes
    the mean over all samples of the update. ``loaded`` are the samples of the batch: a process without samples
    gets some with weight 0, so that it takes part, and logical workers are filled up to be alike.
    """

    number: int
    count: int
    samples: tuple[int, ...]
    loaded: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Deal:
    """How updates are made: ``batch`` samples in ``parts`` parts, on ``world_size`` processes.

    ``alike``: all parts of an update have equally many samples, some of them once more, as torch's
    ``DistributedSampler`` does at the end of an epoch. ``parts_of_rank``: how many parts each process computes;
    empty: about equally many.
    """

    batch: int
    parts: int
    world_size: int = 1
    alike: bool = False
    parts_of_rank: tuple[int, ...] = ()

    def mine(self, rank: int) -> range:
        """The parts of a process: a run of neighbours, as many as others have or one more or less."""
        if self.parts_of_rank:
            first = sum(self.parts_of_rank[:rank])
            return range(first, first + self.parts_of_rank[rank])
        return range(-(-rank * self.parts // self.world_size), -(-(rank + 1) * self.parts // self.world_size))

    def update(self, order: Sequence[int], seen: int, rank: int) -> list[Part]:
        """The parts of the next update that this process computes: at least one."""
        block = order[seen : seen + self.batch]
        if self.alike:
            return self._alike(block, order, rank)
        found = []
        for number in self.mine(rank):
            if samples := tuple(block[number :: self.parts]):
                weight = self.world_size * len(samples) / len(block)
                found.append(Part(number, self.parts, samples, samples, weight))
        filler = Part(self.mine(rank)[0], self.parts, (), (block[0],), 0.0)
        return found or [filler]

    def _alike(self, block: Sequence[int], order: Sequence[int], rank: int) -> list[Part]:
        missing = self.fill(len(block))
        filled = [*block, *islice(cycle(order), missing)]
        return [
            Part(
                number,
                self.parts,
                samples=tuple(block[number :: self.parts]),
                loaded=tuple(filled[number :: self.parts]),
                weight=self.world_size / self.parts,
            )
            for number in self.mine(rank)
        ]

    def fill(self, samples: int) -> int:
        """How many samples come once more, so that all parts have equally many."""
        return -samples % self.parts if self.alike else 0


def order(samples: int, seed: int, epoch: int, shuffled: bool = True) -> list[int]:
    """The indices of an epoch in their order; ``DistributedSampler`` makes the same ones of the same seed."""
    if not shuffled:
        return list(range(samples))
    chance = torch.Generator().manual_seed(seed + epoch)
    indices: list[int] = torch.randperm(samples, generator=chance).tolist()
    return indices


class Shards:
    """A user's ``DataLoader``, dealt anew in each generation. Its ``batch_size`` is what a device gets at once."""

    def __init__(self, loader: Any, seed: int) -> None:
        _check(loader)
        self.loader = loader
        self.samples = len(loader.dataset)
        self.batch_size: int = loader.batch_size
        sampler = loader.sampler
        self._shuffled = getattr(sampler, "shuffle", isinstance(sampler, RandomSampler))
        self._seed = getattr(sampler, "seed", seed)
        self._order: tuple[int, list[int]] = (-1, [])

    def order(self, epoch: int) -> list[int]:
        if self._order[0] != epoch:
            self._order = (epoch, order(self.samples, self._seed, epoch, self._shuffled))
        return self._order[1]

    def updates(self, deal: Deal, epoch: int, seen: int, rank: int) -> Iterator[list[Part]]:
        """The rest of an epoch. With the loader's ``drop_last``, an incomplete update is left out."""
        indices = self.order(epoch)
        end = self.samples
        if self.loader.drop_last:
            end += deal.fill(self.samples) - (deal.batch - 1)
        for at in range(seen, end, deal.batch):
            yield deal.update(indices, at, rank)

    def load(self, parts: Iterator[Part]) -> Iterator[Any]:
        """The batches of some parts, by a copy of the loader that shares everything else with it."""
        copied = copy.copy(self.loader)
        copied.__dict__.update(batch_sampler=_Indices(parts), _iterator=None)
        return iter(copied)


class _Indices:
    def __init__(self, parts: Iterator[Part]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[list[int]]:
        return (list(part.loaded) for part in self.parts)


def _check(loader: Any) -> None:
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        seen = f"a {type(loader).__name__}" + (" of a stream" if isinstance(loader, DataLoader) else "")
    elif loader.batch_size is None:
        seen = "a DataLoader without a batch_size"
    elif not isinstance(loader.sampler, RandomSampler | SequentialSampler | DistributedSampler) or getattr(
        loader.sampler, "replacement", False
    ):
        seen = f"a DataLoader with a {type(loader.sampler).__name__} of your own"
    elif len(loader.dataset) == 0:  # type: ignore[arg-type]
        raise UserError("an epoch has no batches", where="batches()", expected="at least one")
    else:
        return
    raise UserError(
        f"batches() was given {seen}",
        expected="a DataLoader over a dataset with an index, with batch_size, and with shuffle or without",
        hint="in an elastic job gavelx deals the samples, because the number of processes changes",
    )
