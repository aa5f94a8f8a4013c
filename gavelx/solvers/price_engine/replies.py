"""What every row would do at given prices: the cheapest way to the throughput it needs, in closed form.

A row must reach a need r_g(t) that rises with the level t. At prices p its cheapest mix of types lies on the
lower convex hull of the points (0, 0) and (gain_ga, p_a): one type and idleness, or two types, whatever its scale.
The hull is walked from the cheapest type per unit of gain upwards, all rows at once, at most A steps.

By duality, ``cost of all replies at t > p.W`` proves that no shares reach t: the root t(p) of the difference is an
upper bound on the level for any p >= 0, and the least such bound over all prices is the optimum.

Gains are divided by the row's largest one here, so that needs lie in [0, 1]. A row's need stops rising where it is
limited by its own best type (it is *saturated*): cap_G, the level at which this happens.

Legend: G rows, A accelerator types, n rows of one chunk.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.int8]
Bools = NDArray[np.bool_]
CHUNK = 16384
"""Rows worked on at a time: what a chunk needs stays in the cache."""
BLOCK = 16384
"""Gains looked at in one operation where each row's best column is asked for: more would leave the cache."""
KEPT = 1 << 20
"""Gains up to which the hulls at the last prices are kept: they are asked for again at other levels."""
TINY = 1e-250
ROUNDING = 1e-9
"""Part by which a row's best may be below what it must have."""
T = TypeVar("T")


class Need(Protocol):
    """The part of its best gain that each row needs at a level, and how fast that rises; convex in the level."""

    def __call__(self, level: float) -> tuple[Floats, Floats]: ...

    @property
    def cap_G(self) -> Floats: ...

    @property
    def rises_G(self) -> Bools:
        """Rows whose need depends on the level."""
        ...

    def reached(self, part_G: Floats) -> Floats:
        """The level that each row reaches with this part of its best gain."""
        ...

    def bent_G(self, low: float, high: float) -> Bools:
        """Rows whose need does not rise evenly between these levels."""
        ...

    def take(self, index: Ints) -> "Need": ...


@dataclass(frozen=True, eq=False)
class LinearNeed:
    """``gain >= slope * level - constant``, and at least the floor; ``best_G`` is the largest gain of each row."""

    constant_G: Floats
    slope_G: Floats
    best_G: Floats
    floor_G: Floats

    def __call__(self, level: float) -> tuple[Floats, Floats]:
        gain_G = self.slope_G * level - self.constant_G
        need_G = np.maximum(gain_G, self.floor_G) / self._unit_G
        return need_G, np.where(gain_G >= self.floor_G, self._rise_G, 0.0)

    @cached_property
    def _unit_G(self) -> Floats:
        return np.where(self.best_G > 0, self.best_G, 1.0)

    @cached_property
    def _rise_G(self) -> Floats:
        return self.slope_G / self._unit_G

    @cached_property
    def cap_G(self) -> Floats:
        room_G = self.best_G + self.constant_G
        enough_G = (room_G >= -ROUNDING * np.abs(self.constant_G)) | self.rises_G
        enough_G &= self.floor_G <= self.best_G * (1.0 + ROUNDING)
        return np.where(enough_G, self._level(room_G), -np.inf)

    @property
    def rises_G(self) -> Bools:
        return self.slope_G > 0

    def reached(self, part_G: Floats) -> Floats:
        return self._level(part_G * self.best_G + self.constant_G)

    def bent_G(self, low: float, high: float) -> Bools:
        bent_G: Bools = (low < self.cap_G) & (self.cap_G < high)
        if (self.floor_G > -np.inf).any():
            from_G = self._level(self.floor_G + self.constant_G)
            bent_G |= (low < from_G) & (from_G < high)
        return bent_G

    def _level(self, value_G: Floats) -> Floats:
        level_G: Floats = np.divide(value_G, self.slope_G, out=np.full(len(value_G), np.inf), where=self.rises_G)
        return level_G

    def take(self, index: Ints) -> "LinearNeed":
        parts = (self.constant_G, self.slope_G, self.best_G, self.floor_G)
        return LinearNeed(*(part[index] for part in parts))


@dataclass(frozen=True, eq=False)
class RatioNeed:
    """``(elapsed e + steps) / (deadline e) <= -level`` as a need: e >= steps / (-level deadline - elapsed)."""

    elapsed_G: Floats
    steps_G: Floats
    deadline_G: Floats
    best_G: Floats

    def __call__(self, level: float) -> tuple[Floats, Floats]:
        slack_G = -level * self.deadline_G - self.elapsed_G
        positive_G = slack_G > 0
        slack_G = np.where(positive_G, slack_G, 1.0)
        need_G = np.where(positive_G, self.steps_G / (slack_G * self.best_G), np.inf)
        return need_G, np.where(positive_G, need_G * self.deadline_G / slack_G, 0.0)

    @cached_property
    def cap_G(self) -> Floats:
        return -(self.elapsed_G + self.steps_G / self.best_G) / self.deadline_G

    @property
    def rises_G(self) -> Bools:
        return np.ones(len(self.steps_G), dtype=bool)

    def reached(self, part_G: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return -(self.elapsed_G + self.steps_G / (part_G * self.best_G)) / self.deadline_G

    def bent_G(self, low: float, high: float) -> Bools:
        return np.ones(len(self.steps_G), dtype=bool)

    def take(self, index: Ints) -> "RatioNeed":
        parts = (self.elapsed_G, self.steps_G, self.deadline_G, self.best_G)
        return RatioNeed(*(part[index] for part in parts))


def capped(need: Need, top_G: Floats, level: float) -> tuple[Floats, Floats]:
    """Need and its rise, where a row never needs more than its best type gives."""
    need_G, rise_G = need(level)
    saturated_G = need.cap_G < level
    return np.where(saturated_G, top_G, np.minimum(need_G, top_G)), np.where(saturated_G, 0.0, rise_G)


@dataclass(frozen=True, eq=False)
class Replies:
    """Each row's cheapest mix: a share ``part_G`` of type ``upper_G``, the rest of ``lower_G`` (-1: idle).

    ``margin_G``: by which part of the prices' widths the prices may move before the mix can change.
    """

    lower_G: Bytes
    upper_G: Bytes
    part_G: Floats
    rise_G: Floats
    price_G: Floats
    margin_G: Floats

    def take(self, index: Ints) -> "Replies":
        return Replies(
            self.lower_G[index],
            self.upper_G[index],
            self.part_G[index],
            self.rise_G[index],
            self.price_G[index],
            self.margin_G[index],
        )


@dataclass(frozen=True, eq=False)
class Sizes:
    """The columns of rows whose jobs run in several sizes: a type, and so many of its devices."""

    type_V: Ints
    devices_V: Floats


@dataclass(frozen=True, eq=False)
class Rows:
    """Gains in [0, 1] (columns first), devices of a full share, devices there are.

    A column is a type; with ``sizes``, it is a type and a number of devices, and ``load_G`` counts jobs.
    """

    gain_VG: Floats
    load_G: Floats
    devices_A: Floats
    need: Need
    sizes: Sizes | None = None

    def __len__(self) -> int:
        return len(self.load_G)

    @property
    def A(self) -> int:
        return len(self.devices_A)

    @property
    def V(self) -> int:
        return len(self.gain_VG)

    def per_column(self, price_A: Floats) -> Floats:
        """What a full share of each column costs a row with a load of 1."""
        return price_A if self.sizes is None else price_A[self.sizes.type_V] * self.sizes.devices_V

    def per_type(self, load_V: Floats) -> Floats:
        """Devices of each type that so much of each column takes."""
        if self.sizes is None:
            return load_V
        return np.bincount(self.sizes.type_V, load_V * self.sizes.devices_V, self.A).astype(float)

    @property
    def type_V(self) -> Ints:
        return np.arange(self.A) if self.sizes is None else self.sizes.type_V

    @property
    def devices_V(self) -> Floats:
        """Devices of a full share of each column, of a row with a load of 1."""
        return np.ones(self.A) if self.sizes is None else self.sizes.devices_V

    @cached_property
    def top_G(self) -> Floats:
        return np.where(self.gain_VG.max(axis=0) > 0, 1.0, 0.0)

    def take(self, index: Ints, devices_A: Floats) -> "Rows":
        gain_VG = np.ascontiguousarray(self.gain_VG[:, index])
        return Rows(gain_VG, self.load_G[index], devices_A, self.need.take(index), self.sizes)

    def worth(self, price_A: Floats) -> float:
        """What all devices are worth at these prices."""
        return float((price_A * self.devices_A).sum())

    def used(self, share_GV: Floats) -> Floats:
        """Devices of each type that these shares take."""
        return self.per_type(np.asarray(np.einsum("G,GA->A", self.load_G, share_GV)))

    def parts(self, share_GV: Floats) -> Floats:
        """The part of its best gain that each row has with these shares."""
        return np.asarray(np.einsum("VG,GV->G", self.gain_VG, share_GV))

    def needs(self, level: float) -> tuple[Floats, Floats]:
        """Need and its rise; a saturated row needs all of its best type, whatever the level."""
        if level not in self._needs:
            self._needs.clear()
            self._needs[level] = capped(self.need, self.top_G, level)
        return self._needs[level]

    @cached_property
    def _needs(self) -> dict[float, tuple[Floats, Floats]]:
        """Those at the last level, which are asked for again."""
        return {}

    def saturated_G(self, level: float) -> Bools:
        """The rows that are at their best below this level."""
        return self.need.rises_G & (self.need.cap_G < level)

    def excess(self, price_A: Floats, level: float) -> tuple[float, float]:
        """Cost of all replies minus the worth of all devices, and how fast it rises with the level."""
        price_V = self.per_column(price_A)
        parts = _each_chunk(partial(_cost, self, price_V, self.needs(level)), len(self))
        cost, rise = (float(np.sum(part)) for part in zip(*parts, strict=True))
        return cost - self.worth(price_A), rise

    def replies(
        self, price_A: Floats, width_A: Floats, level: float, level_width: float, *, once: bool = False
    ) -> Replies:
        """Every row's mix; prices may move by their widths and the level by its own within a margin of one.

        ``once``: these prices will not be asked for again.
        """
        moves = self._moves(price_A, width_A, level_width)
        work = partial(_reply, self, moves, self.needs(level), once=once)
        parts = zip(*_each_chunk(work, len(self)), strict=True)
        return Replies(*(np.concatenate(part) for part in parts))

    def usage(self, price_A: Floats, level: float) -> tuple[Floats, Floats]:
        """Devices of each type that all replies use, and how fast that rises with the level."""
        (need_G, rise_G), price_V = self.needs(level), self.per_column(price_A)
        mix, runs_G = self.mix(need_G, price_V), need_G > 0
        part_G, more_G = (need_G - mix.start_n) / mix.span_n, rise_G / mix.span_n
        load_G = self.load_G * runs_G
        use_V = np.bincount(mix.upper_n, load_G * part_G, self.V).astype(float)
        rise_V = np.bincount(mix.upper_n, load_G * more_G, self.V).astype(float)
        mixed = np.flatnonzero(mix.lower_n >= 0)
        use_V += np.bincount(mix.lower_n[mixed], (load_G * (1.0 - part_G))[mixed], self.V)
        rise_V -= np.bincount(mix.lower_n[mixed], (load_G * more_G)[mixed], self.V)
        return self.per_type(use_V), self.per_type(rise_V)

    def mix(self, need_n: Floats, price_V: Floats, part: slice = slice(None), *, once: bool = False) -> "_Segment":
        """The part of each hull at these prices of columns that holds the need; of the rows in this part."""
        if once or self.gain_VG.size > KEPT or len(self) > CHUNK:
            return _walk(self.gain_VG[:, part], need_n, price_V)
        prices = price_V.tobytes()
        if prices not in self._hulls:
            self._hulls.clear()
            self._hulls[prices] = _Hulls(self.gain_VG, price_V)
        return self._hulls[prices].segment(need_n)

    @cached_property
    def _hulls(self) -> dict[bytes, "_Hulls"]:
        return {}

    def _moves(self, price_A: Floats, width_A: Floats, level_width: float) -> "_Moves":
        type_V = None if self.sizes is None else self.sizes.type_V
        return _Moves(self.per_column(price_A), self.per_column(width_A), level_width, type_V)

    def cheapest(self, price_A: Floats, level: float) -> Floats:
        """Every row's cheapest shares at this level, G x V."""
        need_G, every, price_V = self.needs(level)[0], np.arange(len(self)), self.per_column(price_A)
        mix, share_GV = self.mix(need_G, price_V), np.zeros((len(self), self.V))
        part_G = np.maximum(need_G - mix.start_n, 0.0) / mix.span_n
        share_GV[every, mix.upper_n] = part_G
        mixed_G = np.flatnonzero(mix.lower_n >= 0)
        share_GV[mixed_G, mix.lower_n[mixed_G]] = 1.0 - part_G[mixed_G]
        return share_GV

    def in_reach(self, price_A: Floats, width_A: Floats, level: float, level_width: float, size: float) -> Bools:
        """The columns that each row may use, V x G, while prices and level move by at most ``size`` widths.

        Where its mix may change with the level that may be any; of many sizes, those near its hull at three needs.
        """
        need_G, rise_G = self.needs(level)
        moves, pinned_G = self._moves(price_A, width_A, level_width), (rise_G <= 0) & (need_G >= 1.0)
        needs = [need_G]
        if self.sizes is None:
            mix = self.mix(need_G, moves.price_A)
            may_VG = np.tile(_level_margins(mix, need_G, rise_G, moves)[1] <= size, (self.V, 1))
        else:
            lowest_G = np.maximum(need_G - rise_G * size * level_width, 0.0)
            may_VG, needs = np.zeros(self.gain_VG.shape, dtype=bool), [need_G, (need_G + lowest_G) / 2.0, lowest_G]
        for need_at_G in needs:
            mix = self.mix(need_at_G, moves.price_A)
            for a_K1, height_KG in _heights(self.gain_VG, mix, moves, pinned_G):
                if a_K1[0] >= 0:
                    may_VG[a_K1.ravel()] |= (height_KG <= size) | (mix.lower_n == a_K1) | (mix.upper_n == a_K1)
        return may_VG & (self.gain_VG > 0)


def _each_chunk(work: Callable[[slice], T], G: int) -> list[T]:
    """Results in the order of the chunks, so that sums come out the same on any number of threads.

    Every second chunk is for this thread: it is whose processor time is budgeted.
    """
    results: list[Any] = list(slices(G)) or [slice(0, 0)]
    if len(results) == 1:
        return [work(results[0])]
    with ThreadPoolExecutor(1) as pool:
        others = pool.map(work, results[1::2])
        results[::2] = map(work, results[::2])
        results[1::2] = others
    return results


def slices(G: int) -> Iterator[slice]:
    """The chunks of so many rows."""
    return (slice(start, min(start + CHUNK, G)) for start in range(0, G, CHUNK))


@dataclass(frozen=True, eq=False)
class _Segment:
    """The part of each row's hull that holds its need: types and gains of its ends, price per gain along it."""

    lower_n: Bytes
    upper_n: Bytes
    start_n: Floats
    end_n: Floats
    slope_n: Floats

    @cached_property
    def span_n(self) -> Floats:
        return np.where(self.end_n > self.start_n, self.end_n - self.start_n, 1.0)


@dataclass(frozen=True, eq=False)
class _Moves:
    """The prices of columns, and how far they and the level may move within a margin of one.

    Columns of one type move together; without ``type_V`` each is a type of its own.
    """

    price_A: Floats
    width_A: Floats
    level_width: float
    type_V: Ints | None = None


def _cost(rows: Rows, price_A: Floats, needs: tuple[Floats, Floats], part: slice) -> tuple[float, float]:
    need_n, rise_n, load_n = needs[0][part], needs[1][part], rows.load_G[part]
    mix, runs_n = rows.mix(need_n, price_A, part), need_n > 0
    base_n = price_A[mix.lower_n] * (mix.lower_n >= 0)
    cost_n = (base_n + mix.slope_n * (need_n - mix.start_n)) * runs_n
    # Sums, not dot products: those start threads of their own, which get in each other's way here.
    return float(np.sum(load_n * cost_n)), float(np.sum(load_n * (mix.slope_n * rise_n * runs_n)))


def _walk(gain_An: Floats, need_n: Floats, price_A: Floats) -> _Segment:
    n, every = len(need_n), np.arange(len(need_n))
    upper_n = _cheapest_per_gain(gain_An, 1.0 / np.maximum(price_A, TINY))
    end_n = gain_An[upper_n, every]
    slope_n = price_A[upper_n] / np.where(end_n > 0, end_n, 1.0)
    lower_n, start_n = np.full(n, -1, dtype=np.int8), np.zeros(n)
    short = np.flatnonzero((end_n < need_n) & (need_n > 0))
    while len(short):
        lower_n[short], start_n[short] = upper_n[short], end_n[short]
        slope_n[short], upper_n[short], end_n[short] = _next(gain_An[:, short], upper_n[short], price_A)
        short = short[end_n[short] < need_n[short]]
    slope_n[end_n <= 0] = 0.0  # rows that can run nowhere
    return _Segment(lower_n, upper_n, start_n, end_n, slope_n)


class _Hulls:
    """The corners of each row's hull at some prices, as far up as was asked: any needs are looked up in there.

    Legend: S corners, from idleness on; a column, its gain, and the price per gain on the way there.
    """

    def __init__(self, gain_An: Floats, price_A: Floats) -> None:
        self._gain_An, self._price_A, n = gain_An, price_A, gain_An.shape[1]
        upper_n = _cheapest_per_gain(gain_An, 1.0 / np.maximum(price_A, TINY))
        end_n = gain_An[upper_n, np.arange(n)]
        slope_n = np.where(end_n > 0, price_A[upper_n] / np.where(end_n > 0, end_n, 1.0), 0.0)
        self._column_Sn = np.stack([np.full(n, -1, dtype=np.int8), upper_n])
        self._gain_Sn, self._slope_Sn = np.stack([np.zeros(n), end_n]), np.stack([np.zeros(n), slope_n])

    def segment(self, need_n: Floats) -> "_Segment":
        runs_n, every_n = need_n > 0, np.arange(len(need_n))
        self._extend(need_n, runs_n)
        step_n = ((self._gain_Sn[1:] < need_n) & runs_n).sum(axis=0)
        low, up = (step_n, every_n), (step_n + 1, every_n)
        return _Segment(
            self._column_Sn[low], self._column_Sn[up], self._gain_Sn[low], self._gain_Sn[up], self._slope_Sn[up]
        )

    def _extend(self, need_n: Floats, runs_n: Bools) -> None:
        """More corners of all rows, until no row needs more."""
        corners = [(self._slope_Sn[-1], self._column_Sn[-1], self._gain_Sn[-1])]
        while (runs_n & (corners[-1][2] < need_n)).any():
            corners.append(_next(self._gain_An, corners[-1][1], self._price_A))
        if len(corners) > 1:
            slopes, columns, found = zip(*corners[1:], strict=True)
            self._slope_Sn = np.vstack([self._slope_Sn, *slopes])
            self._column_Sn = np.vstack([self._column_Sn, *columns])
            self._gain_Sn = np.vstack([self._gain_Sn, *found])


def _cheapest_per_gain(gain_An: Floats, per_price_A: Floats) -> Bytes:
    """The column where each row gets most for its money; the first of several."""
    if gain_An.size <= BLOCK:
        return np.asarray((gain_An * per_price_A[:, None]).argmax(axis=0), dtype=np.int8)
    n = gain_An.shape[1]
    best_n, upper_n = gain_An[0] * per_price_A[0], np.zeros(n, dtype=np.int8)
    gain_n, better_n = np.empty(n), np.empty(n, dtype=bool)
    for a in range(1, len(per_price_A)):
        np.multiply(gain_An[a], per_price_A[a], out=gain_n)
        np.greater(gain_n, best_n, out=better_n)
        np.maximum(best_n, gain_n, out=best_n)
        np.maximum(upper_n, better_n.view(np.int8) * np.int8(a), out=upper_n)  # quicker than a masked copy
    return upper_n


def _next(gain_An: Floats, from_n: Bytes, price_A: Floats) -> tuple[Floats, Bytes, Floats]:
    """One step up the hull, for rows that have a larger gain than where they are."""
    block = max(1, BLOCK // len(price_A))
    if len(from_n) > block:
        parts = (slice(first, first + block) for first in range(0, len(from_n), block))
        steps = zip(*(_next(gain_An[:, part], from_n[part], price_A) for part in parts), strict=True)
        slope_n, upper_n, end_n = map(np.concatenate, steps)
        return slope_n, upper_n, end_n
    every = np.arange(len(from_n))
    base_n, start_n = price_A[from_n], gain_An[from_n, every]
    gap_An = gain_An - start_n
    with np.errstate(divide="ignore", invalid="ignore"):  # in half the time of a masked division
        slope_An = np.where(gap_An > 0, (price_A[:, None] - base_n) / gap_An, np.inf)
    upper_n = slope_An.argmin(axis=0)
    slope_n, end_n = slope_An[upper_n, every], gain_An[upper_n, every]
    top_n = slope_n == np.inf
    return slope_n, np.where(top_n, from_n, upper_n).astype(np.int8), np.where(top_n, np.inf, end_n)


def _reply(
    rows: Rows, moves: _Moves, needs: tuple[Floats, Floats], part: slice, *, once: bool = False
) -> tuple[Bytes, Bytes, Floats, Floats, Floats, Floats]:
    """The fields of `Replies` for one chunk. No need, no reply: such rows are idle and have no multiplier."""
    gain_An, need_n, rise_n = rows.gain_VG[:, part], needs[0][part], needs[1][part]
    mix = rows.mix(need_n, moves.price_A, part, once=once)
    part_n, margin_n = _level_margins(mix, need_n, rise_n, moves)
    rises_n = rise_n > 0
    for a_K1, height_Kn in _heights(gain_An, mix, moves, ~rises_n & (need_n >= 1.0)):
        height_Kn[(mix.lower_n == a_K1) | (mix.upper_n == a_K1)] = np.inf
        np.minimum(margin_n, height_Kn.min(axis=0), out=margin_n)
    margin_n[~rises_n & (need_n <= 0)] = np.inf
    part_n[need_n < 0] = 0.0
    price_n = np.where(need_n > 0, mix.slope_n, 0.0)
    return mix.lower_n, mix.upper_n, part_n, np.where(need_n < 0, 0.0, rise_n / mix.span_n), price_n, margin_n


def _level_margins(mix: _Segment, need_n: Floats, rise_n: Floats, moves: _Moves) -> tuple[Floats, Floats]:
    """Where each need is in its mix, from 0 to 1, and how many widths the level can move within that mix."""
    part_n = (need_n - mix.start_n) / mix.span_n
    room_n = np.minimum(np.abs(part_n), 1.0 - part_n) * mix.span_n
    rises_n = rise_n > 0
    return part_n, np.where(rises_n, room_n / (np.where(rises_n, rise_n, 1.0) * moves.level_width), np.inf)


def _heights(gain_An: Floats, mix: _Segment, moves: _Moves, pinned_n: Bools) -> Iterator[tuple[Ints, Floats]]:
    """How far each type's price is above the line through the mix, in units of what the widths can make up.

    Some types at once, as a column of their numbers and a row of heights for each. Type -1 is idleness; infinite
    where a row cannot use the type. The line at gain T is (1 - z) price_lower + z price_upper with z = (T - start)
    / span, and moves accordingly. A saturated row is at the line's upper end: only another type with the very same
    gain can take its place.
    """
    price_A, width_A, mixed_n = moves.price_A, moves.width_A, mix.lower_n >= 0
    price_low_n, width_low_n = price_A[mix.lower_n] * mixed_n, width_A[mix.lower_n] * mixed_n
    rise_n, width_up_n = price_A[mix.upper_n] - price_low_n, width_A[mix.upper_n]
    block, any_pinned = max(1, BLOCK // max(1, gain_An.shape[1])), pinned_n.any()
    for first in (-1, *range(0, len(price_A), block)):
        a_K1 = np.arange(first, 0 if first < 0 else min(first + block, len(price_A)))[:, None]
        price_K1, width_K1 = (np.where(a_K1 < 0, 0.0, of_A[a_K1]) for of_A in (price_A, width_A))
        gain_Kn = gain_An[first : first + block] if first >= 0 else np.zeros((1, gain_An.shape[1]))
        z_Kn = (gain_Kn - mix.start_n) / mix.span_n
        height_Kn = (price_K1 - price_low_n) - z_Kn * rise_n
        if moves.type_V is None:
            reach_Kn = np.abs(z_Kn) * width_up_n
            np.subtract(1.0, z_Kn, out=z_Kn)
            np.abs(z_Kn, out=z_Kn)
            z_Kn *= width_low_n
            reach_Kn += z_Kn
            reach_Kn += width_K1 + TINY
        else:
            ends = (1.0 - z_Kn) * width_low_n, z_Kn * width_up_n
            reach_Kn = _reach(moves.type_V, a_K1, width_K1, mix, ends)
        height_Kn /= reach_Kn
        if first >= 0 and (cannot_Kn := gain_Kn <= 0.0).any():
            height_Kn[cannot_Kn] = np.inf
        if any_pinned:
            height_Kn[pinned_n & (gain_Kn < 1.0)] = np.inf
        yield a_K1, height_Kn


def _reach(type_V: Ints, a_K1: Ints, width_K1: Floats, mix: _Segment, ends_2Kn: tuple[Floats, Floats]) -> Floats:
    """By how much columns' prices can change against the line through the mix, as types' prices change.

    ``ends_2Kn`` are the changes at the lower and the upper end of the mix.
    """
    (low_Kn, up_Kn), of_a_K1 = ends_2Kn, np.where(a_K1 >= 0, type_V[a_K1], -1)
    of_low_n, of_up_n = np.where(mix.lower_n >= 0, type_V[mix.lower_n], -1), type_V[mix.upper_n]
    low_here_Kn, up_here_Kn, up_as_low_n = of_low_n == of_a_K1, of_up_n == of_a_K1, of_up_n == of_low_n
    reach_Kn: Floats = np.abs(width_K1 - low_Kn * low_here_Kn - up_Kn * up_here_Kn)
    reach_Kn += np.abs(low_Kn + up_Kn * up_as_low_n) * ~low_here_Kn
    reach_Kn += np.abs(up_Kn) * ~(up_here_Kn | up_as_low_n)
    return reach_Kn + TINY
