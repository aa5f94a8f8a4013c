"""Random generators of logical workers: each part draws the same numbers on any process.

Code between two updates has generators of its own (``BETWEEN``), which are the same on all processes.
"""

import random
from collections.abc import Iterable
from typing import Any

import torch

from gavelx.training import randomness

Context = dict[str, Any]
"""The state of all generators, as `gavelx.training.randomness.capture` gives it."""
BETWEEN = -1


class Contexts:
    """The generators of logical workers by number. Those that never ran are seeded with (seed, number)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._states: dict[int, Context] = {}
        self._current: int | None = None

    def enter(self, number: int) -> None:
        """Put the present generators aside, and go on with those of another part."""
        if number == self._current:
            return
        self._put_aside()
        if number in self._states:
            randomness.restore(self._states[number])
        else:
            seed_all(self.seed, number)
        self._current = number

    def of(self, numbers: Iterable[int]) -> dict[int, Context]:
        """The states of some parts, and of the code between; those that never ran are left out."""
        self._put_aside()
        return {number: self._states[number] for number in (BETWEEN, *numbers) if number in self._states}

    def take(self, states: dict[int, Context]) -> None:
        """Take the states of parts that may have run elsewhere."""
        self._put_aside()
        self._states.update(states)
        self._current = None

    def _put_aside(self) -> None:
        if self._current is not None:
            self._states[self._current] = randomness.capture(own_device=True)


def seed_all(*seed: int) -> None:
    """Seed the generators of Python, numpy and torch, each sequence of numbers apart from any other.

    A part is seeded with (``Training(seed=...)``, its number). A script under plain ``DistributedDataParallel``
    that calls it with (seed, rank) before its loop draws the same numbers.
    """
    drawn = random.Random(repr(seed))
    random.seed(drawn.getrandbits(64))
    if numpy := randomness.numpy_in_use():
        numpy.random.seed(drawn.getrandbits(32))
    torch.manual_seed(drawn.getrandbits(63))
