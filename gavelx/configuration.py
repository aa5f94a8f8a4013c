"""A configuration: one way to run. It is the same thing, with the same key, from the snapshot's table to a lease.

To add a property, add a field to :class:`Configuration` and a column to :class:`ConfigurationSet`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
ALONE = -1
"""In place of a partner: the job runs alone."""
ABSENT = -1
"""In place of a configuration's index: it is not one of them."""
AS_ASKED = 0
"""In place of a number of devices in an older file that lacks it: as many as the job asked for."""


class Configuration(NamedTuple):
    """Jobs, number of devices and accelerator type; on the fewest servers that can hold them, or ``spread``.

    ``members`` are job ids in rising order; two of them share the devices. ``batch`` is the number of samples in
    an update of all devices together; 0: as submitted. ``others`` are further types, each with its number of
    devices, of a job whose devices are mixed.
    """

    members: tuple[int, ...]
    accelerator: str
    devices: int
    spread: bool = False
    batch: int = 0
    others: tuple[tuple[str, int], ...] = ()

    @property
    def uses(self) -> tuple[tuple[str, int], ...]:
        """Every accelerator type with its number of devices."""
        return ((self.accelerator, self.devices), *self.others)

    @property
    def types(self) -> str:
        """Its accelerator type, or several as ``v100+k80``."""
        return "+".join(name for name, _ in self.uses)

    @property
    def devices_in_all(self) -> int:
        """Devices of all types."""
        return self.devices + sum(devices for _, devices in self.others) if self.others else self.devices


def _ints() -> Ints:
    return np.zeros(0, dtype=np.int64)


def _no_types() -> Ints:
    return np.zeros((0, 0), dtype=np.int64)


def _bools() -> Bools:
    return np.zeros(0, dtype=bool)


@dataclass(eq=False)
class ConfigurationSet:
    """Configurations as columns, one entry each.

    Members and types are numbers; the owner of the set decides whether these are ids or rows. ``job`` is a member,
    ``partner`` the member with the higher number that shares its devices, or ``ALONE``. ``others`` are the devices
    of further types, a column for each type; no columns where no configuration has any.
    """

    job: Ints = field(default_factory=_ints)
    partner: Ints = field(default_factory=_ints)
    type: Ints = field(default_factory=_ints)
    devices: Ints = field(default_factory=_ints)
    spread: Bools = field(default_factory=_bools)
    batch: Ints = field(default_factory=_ints)
    others: Ints = field(default_factory=_no_types)

    def __post_init__(self) -> None:
        if len(self.others) != len(self.job):
            self.others = np.zeros((len(self.job), 0), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.job)

    @classmethod
    def alone(cls, job: Ints, type_: Ints, devices: Ints) -> Self:
        """Configurations of one job each, not spread, with the batch as submitted."""
        together, own = np.zeros(len(job), dtype=bool), np.zeros(len(job), dtype=np.int64)
        return cls(job, np.full(len(job), ALONE), type_, devices, together, own)

    @classmethod
    def of(  # noqa: PLR0917  # its columns
        cls,
        job: Ints,
        partner: Ints,
        type_: Ints,
        devices: Ints,
        spread: Bools,
        batch: Ints,
        others: Ints | None = None,
    ) -> Self:
        """Configurations of these members; the two of a pair may be in either order."""
        swap = (partner != ALONE) & (partner < job)
        if swap.any():
            job, partner = np.where(swap, partner, job), np.where(swap, job, partner)
        more = (others,) if others is not None else ()
        return cls(job, partner, type_, devices, spread, batch, *more)

    @classmethod
    def to(cls, configurations: "ConfigurationSet", **more: Any) -> Self:
        """These configurations, with the columns that a subclass adds."""
        return cls(*configurations.columns(), **more)

    def columns(self) -> tuple[Any, ...]:
        """What a configuration is, without what a subclass adds."""
        return self.job, self.partner, self.type, self.devices, self.spread, self.batch, self.others

    @property
    def has_mixes(self) -> bool:
        """Whether any of them has devices of several types."""
        return bool(self.others.size and self.others.any())

    @property
    def mixed(self) -> Bools:
        """Which of them have devices of several types."""
        return np.asarray(self.others.any(axis=1))

    def fits(self, free_A: Ints) -> Bools:
        """Which of them find as many devices as they need, of each of their types."""
        fits: Bools = self.devices <= free_A[self.type]
        if self.others.shape[1]:
            fits &= (widened(self.others, len(free_A)) <= free_A).all(axis=1)
        return fits

    def devices_A(self, types: int) -> Ints:
        """Devices of each type in all of them together."""
        in_all_A = np.bincount(self.type, self.devices, types).astype(np.int64)
        if self.others.shape[1]:
            in_all_A += widened(self.others, types).sum(axis=0)
        return in_all_A

    def take(self, chosen: Ints | Bools) -> Self:
        """The chosen configurations: indices, or a mask."""
        if chosen.dtype == bool:
            chosen = chosen.nonzero()[0]
        return type(self)(*[column.take(chosen, axis=0) for column in vars(self).values()])

    def joined(self, more: Self) -> Self:
        """These configurations followed by ``more``."""
        pairs = zip(vars(self).values(), vars(more).values(), strict=True)
        return type(self)(*[np.concatenate(pair if pair[0].ndim == 1 else equally_wide(pair)) for pair in pairs])

    def find(self, wanted: "ConfigurationSet") -> Ints:
        """The index of each wanted configuration in this set, or ``ABSENT``."""
        if not len(self):
            return np.full(len(wanted), ABSENT)
        key, wanted_key = keys(self, wanted)
        order = np.argsort(key, kind="stable")
        found = order[np.minimum(np.searchsorted(key, wanted_key, sorter=order), len(key) - 1)]
        return np.where(key[found] == wanted_key, found, ABSENT)

    def named(self, accelerators: Sequence[str]) -> list[Configuration]:
        """A list of :class:`Configuration`; members must be job ids, types indices into ``accelerators``."""
        return [
            Configuration(
                (job,) if partner == ALONE else (job, partner),
                *(accelerators[a], devices, spread, batch),
                tuple((accelerators[b], count) for b, count in enumerate(others) if count),
            )
            for job, partner, a, devices, spread, batch, others in zip(
                *(column.tolist() for column in self.columns()), strict=True
            )
        ]


def equally_wide(several: Sequence[Ints]) -> list[Ints]:
    """Devices of further types of several sets, with as many columns in each."""
    types = max(others.shape[1] for others in several)
    return [widened(others, types) for others in several]


def widened(others: Ints, types: int) -> Ints:
    """Devices of further types, with a column for each of so many types."""
    missing = types - others.shape[1]
    return np.pad(others, ((0, 0), (0, missing))) if missing else others


def _floats() -> Floats:
    return np.zeros(0)


@dataclass(eq=False)
class PromisedSet(ConfigurationSet):
    """Configurations and the ``share`` of time that each was promised; members are rows of jobs."""

    share: Floats = field(default_factory=_floats)

    def share_J(self, jobs: int) -> Floats:
        """Total share of each of ``jobs`` rows over its configurations; a pair's share counts in full for both."""
        pairs = self.partner != ALONE
        total = np.bincount(self.job, self.share, jobs)
        if pairs.any():
            total = total + np.bincount(self.partner[pairs], self.share[pairs], jobs)
        return np.asarray(total, dtype=float)

    def in_order(self, *, merged: bool) -> Self:
        """Jobs alone in their order, then pairs; ``merged`` makes duplicates one entry with the sum of shares."""
        ways = self.take(np.lexsort([self.type, self.job, self.partner != ALONE]))
        if not merged:
            return ways
        _, first, index = np.unique(keys(ways)[0], return_index=True, return_inverse=True)
        ways.share = np.asarray(np.bincount(index, ways.share)[index], dtype=float)
        return ways.take(np.sort(first))


def keys(*several: ConfigurationSet) -> list[Ints]:
    """A number for each configuration, equal for equal configurations. Members must be rows."""
    spread, batch, devices, type_, partner, job = (
        np.concatenate([getattr(each, name) for each in several])
        for name in ("spread", "batch", "devices", "type", "partner", "job")
    )
    key, room = spread.astype(np.int64), 2
    if np.count_nonzero(batch):  # they are few and large: their ranks will do
        ranks = np.unique(batch, return_inverse=True)[1]
        key, room = key + ranks * room, room * (1 + int(ranks.max()))
    if any(each.has_mixes for each in several):  # and so are mixes
        rows = np.concatenate(equally_wide([each.others for each in several]))
        ranks = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        key, room = key + ranks * room, room * (1 + int(ranks.max()))
    for column in (devices, type_, partner, job):
        if (most := int(column.max(initial=ALONE))) != ALONE:
            key += (column + 1) * room
            room *= 2 + most
        assert room < 2**63, "members are numbered by rows, not by ids"
    ends = accumulate(map(len, several))
    return [key[end - len(each) : end] for each, end in zip(several, ends, strict=True)]
