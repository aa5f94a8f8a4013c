"""What each row of a sum may do: corners, of which all else that it may do is a mix.

At first they are the columns, each for all of the time, and idleness. If a row must have so much at least of
something, such as speed, the corners that have less are cut off. New ones are where the edges between those that
stay and those that go cross the cut. Nothing is said of a row but what it must have, so it may be anything linear
in the row's own shares: less than so much of something is at least so much of its negative.

Legend: G rows, V columns, of which the last is idleness; E corners; N columns that a corner mixes at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gavelx.solvers.price_engine.replies import Floats, Ints

Bools = NDArray[np.bool_]
Bits = NDArray[np.uint64]
EXACT = 1e-12
"""A part of what a row must have that is rounding."""
CHUNK = 2048
"""Rows whose corners are found at a time."""


@dataclass(frozen=True, eq=False)
class Corners:
    """Corner e is one of row ``row_E``, in order: parts ``part_NE`` of the columns ``column_NE``, 1 in all."""

    row_E: Ints
    column_NE: Ints
    part_NE: Floats

    def __len__(self) -> int:
        return len(self.row_E)

    def of_rows(self, index: Ints, rows: int) -> "Corners":
        """Those of some of so many rows, which are numbered anew."""
        number_G = np.full(rows, -1)
        number_G[index] = np.arange(len(index))
        number_E = number_G[self.row_E]
        return replace(self.take(np.flatnonzero(number_E >= 0)), row_E=number_E[number_E >= 0])

    def take(self, e: Ints) -> "Corners":
        return Corners(self.row_E[e], self.column_NE[:, e], self.part_NE[:, e])

    def mixed(self, each_VG: Floats) -> Floats:
        """What is so of each corner, from what is so of columns."""
        return np.asarray((self.part_NE * each_VG[self.column_NE, self.row_E]).sum(axis=0))


def corners(may_VG: Bools, asked: Sequence[tuple[Floats, Floats]]) -> Corners:
    """Those of rows which may use these columns, with ``gain . x >= least`` for each ``gain_VG, least_G`` asked.

    A row has none where it cannot have what is asked.
    """
    found, G = list[Corners](), may_VG.shape[1]
    for start in range(0, G, CHUNK):
        part = slice(start, start + CHUNK)
        row_E, column_E = np.nonzero(may_VG[:, part].T)
        some = Corners(row_E, column_E[None], np.ones((1, len(row_E))))
        loose_E = _bit(column_E)
        for number, (gain_VG, least_G) in enumerate(asked):
            over_E = _over(some, gain_VG[:, part], least_G[part])
            some, loose_E = _cut(some, loose_E, over_E, number, len(may_VG))
        found.append(replace(some, row_E=some.row_E + start))
    if len(found) == 1:
        return found[0]
    parts = zip(*((each.row_E, each.column_NE, each.part_NE) for each in found), strict=True)
    return Corners(*(np.concatenate(part, axis=-1) for part in parts))


def most_corners(V: int, cuts: int) -> int:
    """How many are looked at for one row with so many columns and idleness, and so many cuts, at most."""
    most = V + 1
    for _ in range(cuts):
        most = most + most * most // 4
    return most


def _over(some: Corners, gain_VG: Floats, least_G: Floats) -> Floats:
    """By how much corners have more than they must, in parts of the most that a column has."""
    most_G = np.maximum(np.abs(gain_VG).max(axis=0), np.abs(least_G))
    over_E = (some.mixed(gain_VG) - least_G[some.row_E]) / np.where(most_G > 0, most_G, 1.0)[some.row_E]
    return np.where(np.abs(over_E) <= EXACT, 0.0, over_E)


def _cut(some: Corners, loose_E: Bits, over_E: Floats, number: int, V: int) -> tuple[Corners, Bits]:
    """What is left of the corners, with those that the cut makes, and what is loose in each.

    Loose are columns that it has a part of, and cuts that it does not touch. Two corners have an edge between them
    only if no more is loose in both together than two and the cuts made before (of many columns, not all counted).
    """
    here, there = _pairs(some.row_E, np.flatnonzero(over_E > 0), np.flatnonzero(over_E < 0))
    if number:
        edge = np.bitwise_count(loose_E[here] | loose_E[there]) <= 2 + number
        here, there = here[edge], there[edge]
    stay, apart = np.flatnonzero(over_E >= 0), over_E[here] - over_E[there]
    one, other = np.append(stay, here), np.append(stay, there)
    of_one = np.append(np.ones(len(stay)), -over_E[there] / apart)
    of_other = np.append(np.zeros(len(stay)), over_E[here] / apart)
    above = np.append(over_E[stay] > 0, np.zeros(len(here), dtype=bool))
    found = Corners(
        some.row_E[one],
        np.vstack([some.column_NE[:, one], some.column_NE[:, other]]),
        np.vstack([some.part_NE[:, one] * of_one, some.part_NE[:, other] * of_other]),
    )
    loose = loose_E[one] | loose_E[other] | np.where(above, _bit(np.array(V + number)), np.uint64(0))
    order = np.argsort(found.row_E, kind="stable")
    return found.take(order), loose[order]


def _pairs(row_E: Ints, one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Each of some corners with each of others of its row."""
    first, last = (np.searchsorted(row_E[other], row_E[one], side) for side in ("left", "right"))
    many = last - first
    place = np.arange(many.sum()) + (first - np.cumsum(many) + many).repeat(many)
    return one.repeat(many), other[place]


def _bit(number: Ints) -> Bits:
    """One bit for each number; none for those beyond 63."""
    return np.left_shift(np.uint64(1), number.astype(np.uint64))
