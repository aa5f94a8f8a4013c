"""What the present allocation promises: every way to run that somebody may claim, and what each is owed.

A way to run is a job alone on an accelerator type, or a pair of jobs on it. Legend: V ways, J live jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import NO_WAY, LiveJobs
from gavelx.promises import NOBODY, Promises

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def _ints() -> Ints:
    return np.zeros(0, dtype=np.int64)


def _floats() -> Floats:
    return np.zeros(0)


@dataclass
class Ways:
    """Ways to run as columns; ``job`` and ``partner`` are rows of the live jobs (``NOBODY``: alone).

    ``share`` is the promised share of time, ``credit_s`` the time promised and not received.
    """

    job: Ints = field(default_factory=_ints)
    partner: Ints = field(default_factory=_ints)
    type: Ints = field(default_factory=_ints)
    share: Floats = field(default_factory=_floats)
    credit_s: Floats = field(default_factory=_floats)

    def __len__(self) -> int:
        return len(self.job)

    @staticmethod
    def of(job: Ints, partner: Ints, type_: Ints, share: Floats) -> "Ways":
        """Ways to run that are owed nothing."""
        return Ways(job, partner, type_, share, np.zeros(len(job)))

    def take(self, chosen: Ints | Bools) -> "Ways":
        """These of the ways."""
        return Ways(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def joined(self, more: "Ways") -> "Ways":
        """These ways, then those."""
        pairs = ((getattr(self, column.name), getattr(more, column.name)) for column in fields(self))
        return Ways(*(np.concatenate(pair) for pair in pairs))

    def moved(self, row_J: Ints) -> "Ways":
        """The same ways after rows were renumbered (-1: gone), without those of jobs that are gone."""
        job, partner = row_J[self.job], np.where(self.partner == NOBODY, NOBODY, row_J[self.partner])
        stays = (job >= 0) & ((partner >= 0) | (self.partner == NOBODY))
        moved = self.take(stays)
        moved.job, moved.partner = job[stays], partner[stays]
        return moved

    def per_job(self, value: Floats, J: int) -> Floats:
        """A value per way, summed for each job; a pair counts in full for both."""
        total = np.bincount(self.job, value, J)
        if (self.partner != NOBODY).any():
            shared = self.partner != NOBODY
            total = total + np.bincount(self.partner[shared], value[shared], J)
        return np.asarray(total, dtype=float)

    def keys(self, J: int, A: int) -> Ints:
        """A number for who runs where."""
        return (self.job * (J + 1) + self.partner + 1) * A + self.type

    def find(self, wanted: Ints, J: int, A: int) -> Ints:
        """Where the ways with these numbers stand, or ``NO_WAY``."""
        keys = self.keys(J, A)
        order = np.argsort(keys)
        place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        if not len(keys):
            return np.full(len(wanted), NO_WAY)
        found = order[place]
        return np.where(keys[found] == wanted, found, NO_WAY)


def promised_ways(live: LiveJobs, promises: Promises, accelerators: Sequence[str]) -> Ways:
    """What was promised to jobs that are still here and run there: jobs alone in their order, then pairs.

    The same way over several servers counts with it: where a gang goes is up to the placement.
    """
    type_A = np.array([accelerators.index(name) for name in promises.accelerators], dtype=np.int64)
    row = live.index
    job = np.array([row.get(i, -1) for i in promises.first_P.tolist()], dtype=np.int64)
    partner = np.array([row.get(i, -1) for i in promises.second_P.tolist()], dtype=np.int64)
    alone = promises.second_P == NOBODY
    type_ = type_A[promises.accelerator_P]
    here = (job >= 0) & (alone | (partner >= 0))
    here[here] &= live.throughput[job[here], type_[here]] > 0
    ways = Ways.of(job[here], np.where(alone, NOBODY, partner)[here], type_[here], promises.share_P[here])
    order = np.lexsort([ways.type, ways.job, ways.partner != NOBODY])
    ways = ways.take(order)
    if promises.spread_P.any():
        _, first, index = np.unique(ways.keys(len(live), live.types), return_index=True, return_inverse=True)
        ways.share = np.asarray(np.bincount(index, ways.share)[index], dtype=float)
        ways = ways.take(np.sort(first))
    return ways
