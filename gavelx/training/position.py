"""The position in the data: iterate over a loader, and resume in the middle of an epoch.

At the beginning of an epoch the state of all generators is kept. To resume after ``seen`` batches, that state is
restored, the epoch begins again without the seen batches, and then the generators get their state of the
checkpoint. So shuffling is the same for any kind of loader, without any configuration.
"""

import copy
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from gavelx.errors import UserError
from gavelx.training import randomness


class Reader:
    """Reads the loader of a rigid job, and continues in the middle of an epoch.

    ``states`` are those of all generators now and when the epoch began.
    """

    def __init__(self) -> None:
        self._generators: list[torch.Generator] = []
        self._epoch_began: dict[str, Any] | None = None
        self._resumed: dict[str, Any] | None = None

    def begin(self, loader: Iterable[Any], epoch: int, seen: int, replay: bool) -> Iterator[Any]:
        """The batches of an epoch after the first ``seen``."""
        self._generators = generators_of(loader)
        set_epoch(loader, epoch)
        resumed, self._resumed = self._resumed, None
        if seen and resumed is None:  # a loop that was left by break, and is started again
            resumed = randomness.capture(self._generators)
        if resumed is not None:
            randomness.restore(self._epoch_began or resumed, self._generators)
        if self._epoch_began is None:
            self._epoch_began = randomness.capture(self._generators)
        iterator = begin(loader, seen, replay)
        if resumed is not None and seen:
            randomness.restore(resumed, self._generators)
        return iterator

    def next_epoch(self) -> None:
        self._epoch_began = None

    def states(self) -> dict[str, Any]:
        return {"now": randomness.capture(self._generators), "epoch_began": self._epoch_began}

    def take(self, states: dict[str, Any]) -> None:
        """Continue with the states of a checkpoint."""
        self._resumed, self._epoch_began = states["now"], states["epoch_began"]
        randomness.restore(states["now"])

    def begin_anew(self) -> None:
        """Continue with the present generators, where a checkpoint has none for this process."""
        self._resumed = self._epoch_began = randomness.capture()


def generators_of(loader: Iterable[Any]) -> list[torch.Generator]:
    """The generators of a loader, each once."""
    found = [getattr(owner, "generator", None) for owner in _with_samplers(loader)]
    return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())


def set_epoch(loader: Iterable[Any], epoch: int) -> None:
    """Set the epoch of samplers that shuffle by its number, such as torch's ``DistributedSampler``."""
    for owner in _with_samplers(loader):
        if hasattr(owner, "set_epoch"):
            owner.set_epoch(epoch)


def _with_samplers(loader: Any) -> list[Any]:
    batch_sampler = getattr(loader, "batch_sampler", None)
    return [loader, getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)]


def begin(loader: Iterable[Any], seen: int = 0, replay: bool = False) -> Iterator[Any]:
    """Begin an epoch, without the first ``seen`` batches.

    A ``DataLoader`` over a dataset with an index does not load them; any other loader is iterated again. With
    ``replay``, every loader is: set it for a dataset that draws from generators of its own, or in processes of its
    own.
    """
    if isinstance(loader, Iterator):
        raise UserError(
            "batches() was given an iterator",
            expected="an object that can be iterated again in each epoch",
            hint="the DataLoader itself, or a list",
        )
    if seen and not replay and _has_index(loader):
        return _begin_after(loader, seen)
    if isinstance(loader, DataLoader) and loader._iterator is not None:
        # its processes persist; a restart begins others, for whose seed torch takes one number
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
    iterator = iter(loader)
    for _ in islice(iterator, seen):
        pass
    return iterator


def _has_index(loader: Iterable[Any]) -> bool:
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
    )


def _begin_after(loader: Any, seen: int) -> Iterator[Any]:
    """A copy of the loader whose sampler starts after the seen batches. The copy shares everything else."""
    rest_of = copy.copy(loader)
    which = "sampler" if loader.batch_sampler is None else "batch_sampler"
    rest = _Rest(getattr(loader, which), seen)
    rest_of.__dict__.update({which: rest, "_iterator": None})
    iterator: Iterator[Any] = iter(rest_of)
    rest.begin()  # now, because a sampler draws its seed at its first use
    return iterator


class _Rest:
    """A sampler without its first ``seen`` items."""

    def __init__(self, sampler: Any, seen: int) -> None:
        self.sampler, self.seen = sampler, seen
        self._iterator: Iterator[Any] | None = None

    def begin(self) -> Iterator[Any]:
        if self._iterator is None:
            self._iterator = iter(self.sampler)
            for _ in islice(self._iterator, self.seen):
                pass
        return self._iterator

    def __iter__(self) -> Iterator[Any]:
        yield from self.begin()

    def __len__(self) -> int:
        return len(self.sampler) - self.seen
