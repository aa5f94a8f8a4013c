"""Very many rows in a small box of prices and levels: only those near a tie are looked at one by one.

A row whose mix of types cannot change in the box costs what its devices cost, and these rise evenly with the
level. So all such rows are 2 A numbers. One look at all rows finds them; whatever is asked within the box after
that, of the search for prices and of the bound that they prove, is asked of the few others. Outside the box all
rows are asked.

Legend: G rows, A accelerator types, K rows near a tie.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gavelx.solvers.price_engine.replies import Floats, Ints, Need, Replies, Rows

MANY = 4096
"""Rows from which on it is worth it."""
PART = 0.25
"""The most that may be near a tie, as a part of all rows."""
WIDER = 2.0
"""By how much more than what was asked for one looks around."""


@dataclass(frozen=True, eq=False)
class Box:
    """Prices within ``size`` widths of ``price_A``, levels within ``size`` widths of ``level``."""

    price_A: Floats
    width_A: Floats
    level: float
    level_width: float
    size: float

    @property
    def edges_A(self) -> tuple[Floats, Floats]:
        reach_A = self.size * self.width_A
        return np.maximum(self.price_A - reach_A, 0.0), self.price_A + reach_A

    @property
    def levels(self) -> tuple[float, float]:
        reach = self.size * self.level_width
        return self.level - reach, self.level + reach

    def holds(self, price_A: Floats, level: float) -> bool:
        """Whether it is in here."""
        (low, high), (low_A, high_A) = self.levels, self.edges_A
        return low <= level <= high and bool(((low_A <= price_A) & (price_A <= high_A)).all())

    def replies(self, rows: Rows, *, once: bool = False) -> Replies:
        """What rows do in the middle; a margin of ``size`` is that of a row that cannot change in here."""
        return rows.replies(self.price_A, self.width_A, self.level, self.level_width, once=once)


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Rows ``index_K`` of all are near a tie in a box; the others use ``use_A`` in its middle, and ``rise_A`` more
    a level. ``index_K`` may be all rows; then nothing is known of the box but what they reply in its middle."""

    whole: Rows
    box: Box
    replies: Replies
    index_K: Ints

    @staticmethod
    def to(box: Box, rows: Rows) -> "Narrowed":
        """One look at all rows; for a box that is wider, so that the next one is in it."""
        wider = replace(box, size=WIDER * box.size)
        bent_G = rows.need.bent_G(*wider.levels) if len(rows) >= MANY else np.ones(len(rows), dtype=bool)
        replies = box.replies(rows, once=not bent_G.all())
        if not bent_G.all():
            index_K = np.flatnonzero((replies.margin_G <= wider.size) | bent_G)
            if len(index_K) <= PART * len(rows):
                return Narrowed(rows, wider, replies, index_K)
        return Narrowed(rows, wider, replies, np.arange(len(rows)))

    @cached_property
    def rows(self) -> Rows:
        """Those near a tie."""
        return self.whole if self.all_of_them else self.whole.take(self.index_K, self.whole.devices_A)

    @property
    def all_of_them(self) -> bool:
        return len(self.index_K) == len(self.whole)

    @property
    def need(self) -> Need:
        return self.whole.need

    def worth(self, price_A: Floats) -> float:
        return self.whole.worth(price_A)

    def answers(self, box: Box) -> bool:
        """Whether it knows what rows do anywhere in this box."""
        corners = zip(box.edges_A, box.levels, strict=True)
        return not self.all_of_them and all(self.box.holds(*corner) for corner in corners)

    def replies_in(self, box: Box) -> Replies:
        """What the rows near a tie do in the middle of a box."""
        if box.price_A is not self.box.price_A or box.level != self.box.level:
            return box.replies(self.rows)
        return self.replies if self.all_of_them else self.replies.take(self.index_K)

    def excess(self, price_A: Floats, level: float) -> tuple[float, float]:
        """As that of all rows."""
        if self.all_of_them or not self.box.holds(price_A, level):
            return self.whole.excess(price_A, level)
        excess, rise = self.rows.excess(price_A, level)
        use_A, rise_A = self.others(level)
        return excess + float((price_A * use_A).sum()), rise + float((price_A * rise_A).sum())

    def others(self, level: float) -> tuple[Floats, Floats]:
        """What all other rows use at a level in the box, and how fast that rises with it."""
        use_A, rise_A = self._others
        return use_A + (level - self.box.level) * rise_A, rise_A

    @cached_property
    def _others(self) -> tuple[Floats, Floats]:
        if self.all_of_them:
            nothing_A = np.zeros(self.whole.A)
            return nothing_A, nothing_A
        all_A, own_A = usage(self.whole, self.replies), usage(self.rows, self.replies.take(self.index_K))
        return all_A[0] - own_A[0], all_A[1] - own_A[1]

    def shares(self, level: float, share_KV: Floats) -> Floats:
        """The shares of all rows at a level in the box: these, and the mixes of the others."""
        if self.all_of_them:
            return share_KV
        part_G = self.replies.part_G + self.replies.rise_G * (level - self.box.level)
        share_GV = replied(self.replies, part_G, self.whole.V)
        share_GV[self.index_K] = share_KV
        return share_GV


def replied(replies: Replies, part_G: Floats, V: int) -> Floats:
    """The mixes as shares, with this part of the upper type in each."""
    share_GV = np.zeros((len(part_G), V))
    share_GV[np.arange(len(part_G)), replies.upper_G] = part_G
    mixed_G = np.flatnonzero(replies.lower_G >= 0)
    share_GV[mixed_G, replies.lower_G[mixed_G]] = 1.0 - part_G[mixed_G]
    return share_GV


def usage(rows: Rows, replies: Replies) -> tuple[Floats, Floats]:
    """Devices of each type that the rows hold, and how fast that rises with the level."""
    load_G, upper_G, part_G = rows.load_G, replies.upper_G, replies.part_G
    use_V = np.bincount(upper_G, load_G * part_G, rows.V).astype(float)
    rise_V = np.bincount(upper_G, load_G * replies.rise_G, rows.V).astype(float)
    mixed = np.flatnonzero(replies.lower_G >= 0)
    lower, load = replies.lower_G[mixed], load_G[mixed]
    use_V += np.bincount(lower, load * (1.0 - part_G[mixed]), rows.V)
    rise_V -= np.bincount(lower, load * replies.rise_G[mixed], rows.V)
    return rows.per_type(use_V), rows.per_type(rise_V)
