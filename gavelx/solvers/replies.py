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

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.int8]
CHUNK = 16384
"""Rows worked on at a time: what a chunk needs stays in the cache."""
TINY = 1e-250
THREADS = min(2, os.cpu_count() or 1)
T = TypeVar("T")


class Need(Protocol):
    """The part of its best gain that each row needs at a level, and how fast that rises; convex in the level."""

    def __call__(self, level: float) -> tuple[Floats, Floats]: ...

    @property
    def cap_G(self) -> Floats: ...

    @property
    def rises_G(self) -> NDArray[np.bool_]:
        """Rows whose need depends on the level."""
        ...

    def reached(self, part_G: Floats) -> Floats:
        """The level that each row reaches with this part of its best gain."""
        ...

    def take(self, index: Ints) -> "Need": ...


@dataclass(frozen=True, eq=False)
class LinearNeed:
    """``gain >= slope * level - constant``, with ``best_G`` the largest gain of each row."""

    constant_G: Floats
    slope_G: Floats
    best_G: Floats

    def __call__(self, level: float) -> tuple[Floats, Floats]:
        unit_G = np.where(self.best_G > 0, self.best_G, 1.0)
        return (self.slope_G * level - self.constant_G) / unit_G, self.slope_G / unit_G

    @cached_property
    def cap_G(self) -> Floats:
        room_G = self.best_G + self.constant_G
        never_G = np.where(room_G >= -1e-9 * np.abs(self.constant_G), np.inf, -np.inf)
        return np.where(self.slope_G > 0, room_G / np.where(self.slope_G > 0, self.slope_G, 1.0), never_G)

    @property
    def rises_G(self) -> NDArray[np.bool_]:
        return self.slope_G > 0

    def reached(self, part_G: Floats) -> Floats:
        room_G = part_G * self.best_G + self.constant_G
        return np.where(self.slope_G > 0, room_G / np.where(self.slope_G > 0, self.slope_G, 1.0), np.inf)

    def take(self, index: Ints) -> "LinearNeed":
        return LinearNeed(self.constant_G[index], self.slope_G[index], self.best_G[index])


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
    def rises_G(self) -> NDArray[np.bool_]:
        return np.ones(len(self.steps_G), dtype=bool)

    def reached(self, part_G: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return -(self.elapsed_G + self.steps_G / (part_G * self.best_G)) / self.deadline_G

    def take(self, index: Ints) -> "RatioNeed":
        parts = (self.elapsed_G, self.steps_G, self.deadline_G, self.best_G)
        return RatioNeed(*(part[index] for part in parts))


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
        parts = (self.lower_G, self.upper_G, self.part_G, self.rise_G, self.price_G, self.margin_G)
        return Replies(*(part[index] for part in parts))


@dataclass(frozen=True, eq=False)
class Rows:
    """Gains in [0, 1] (types first), devices of a full share, devices there are."""

    gain_AG: Floats
    load_G: Floats
    devices_A: Floats
    need: Need

    def __len__(self) -> int:
        return len(self.load_G)

    @property
    def A(self) -> int:
        return len(self.devices_A)

    @cached_property
    def top_G(self) -> Floats:
        return np.where(self.gain_AG.max(axis=0) > 0, 1.0, 0.0)

    def take(self, index: Ints, devices_A: Floats) -> "Rows":
        gain_AG = np.ascontiguousarray(self.gain_AG[:, index])
        return Rows(gain_AG, self.load_G[index], devices_A, self.need.take(index))

    def needs(self, level: float) -> tuple[Floats, Floats]:
        """Need and its rise; a saturated row needs all of its best type, whatever the level."""
        need_G, rise_G = self.need(level)
        saturated_G = self.need.cap_G < level
        return np.where(saturated_G, self.top_G, np.minimum(need_G, self.top_G)), np.where(
            saturated_G, 0.0, rise_G
        )

    def excess(self, price_A: Floats, level: float) -> tuple[float, float]:
        """Cost of all replies minus the worth of all devices, and how fast it rises with the level."""
        need_G, rise_G = self.needs(level)
        parts = _each_chunk(partial(_cost, self, price_A, need_G, rise_G), len(self))
        cost, rise = (float(np.sum(part)) for part in zip(*parts, strict=True))
        return cost - float(price_A @ self.devices_A), rise

    def replies(self, price_A: Floats, width_A: Floats, level: float, level_width: float) -> Replies:
        """Every row's mix; prices may move by their widths and the level by its own within a margin of one."""
        need_G, rise_G = self.needs(level)
        work = partial(_reply, self, price_A, width_A, need_G, rise_G, level_width)
        parts = zip(*_each_chunk(work, len(self)), strict=True)
        return Replies(*(np.concatenate(part) for part in parts))


def _each_chunk(work: Callable[[slice], T], G: int) -> list[T]:
    """Results in the order of the chunks, so that sums come out the same on any number of threads."""
    slices = list(_slices(G))
    if len(slices) == 1:
        return [work(slices[0])]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, slices))


def _slices(G: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, G)) for start in range(0, G, CHUNK))


def _cost(rows: Rows, price_A: Floats, need_G: Floats, rise_G: Floats, part: slice) -> tuple[float, float]:
    need, load = np.maximum(need_G[part], 0.0), rows.load_G[part]
    lower, _, start, _, slope = _walk(rows.gain_AG[:, part], need, price_A)
    base = np.where(lower >= 0, price_A[lower], 0.0)
    cost = base + slope * (need - start)
    cost[need <= 0] = 0.0
    slope[need <= 0] = 0.0
    slope *= rise_G[part]
    # Sums, not dot products: those start threads of their own, which get in each other's way here.
    return float(np.sum(load * cost)), float(np.sum(load * slope))


def _walk(gain_An: Floats, need_n: Floats, price_A: Floats) -> tuple[Bytes, Bytes, Floats, Floats, Floats]:
    """The hull's segment above each need: its two types, their gains and its slope (price per gain)."""
    n, every = len(need_n), np.arange(len(need_n))
    per_price_A = 1.0 / np.maximum(price_A, TINY)
    best, upper = gain_An[0] * per_price_A[0], np.zeros(n, dtype=np.int8)
    candidate, better = np.empty(n), np.empty(n, dtype=bool)
    for a in range(1, len(price_A)):
        np.multiply(gain_An[a], per_price_A[a], out=candidate)
        np.greater(candidate, best, out=better)
        np.maximum(best, candidate, out=best)
        np.maximum(upper, better.view(np.int8) * np.int8(a), out=upper)  # quicker than a masked copy
    end = gain_An[upper, every]
    slope = price_A[upper] / np.where(end > 0, end, 1.0)
    lower, start = np.full(n, -1, dtype=np.int8), np.zeros(n)
    short = np.flatnonzero(end < need_n)
    while len(short):
        lower[short], start[short] = upper[short], end[short]
        slope[short], upper[short], end[short] = _next(gain_An[:, short], upper[short], end[short], price_A)
        short = short[end[short] < need_n[short]]
    slope[end <= 0] = 0.0  # rows that can run nowhere
    return lower, upper, start, end, slope


def _next(gain_An: Floats, from_n: Bytes, start: Floats, price_A: Floats) -> tuple[Floats, Bytes, Floats]:
    """One step up the hull, for rows that have a larger gain than where they are."""
    slope, upper, end = np.full(len(start), np.inf), from_n.copy(), np.full(len(start), np.inf)
    base = price_A[from_n]
    for a, price in enumerate(price_A):
        gap = gain_An[a] - start
        candidate = np.where(gap > 0, (price - base) / np.where(gap > 0, gap, 1.0), np.inf)
        better = candidate < slope
        slope[better], upper[better], end[better] = candidate[better], a, gain_An[a][better]
    return slope, upper, end


def _reply(
    rows: Rows,
    price_A: Floats,
    width_A: Floats,
    need_G: Floats,
    rise_G: Floats,
    level_width: float,
    part: slice,
) -> tuple[Bytes, Bytes, Floats, Floats, Floats, Floats]:
    gain, need, rise = rows.gain_AG[:, part], need_G[part], rise_G[part]
    lower, upper, start, end, slope = _walk(gain, np.maximum(need, 0.0), price_A)
    span = np.where(end > start, end - start, 1.0)
    share = (need - start) / span
    room = np.minimum(np.abs(share), 1.0 - share) * span
    margin = np.where(rise > 0, room / (np.where(rise > 0, rise, 1.0) * level_width), np.inf)
    pinned = (rise == 0) & (need >= 1.0)
    _price_margins(gain, lower, upper, start, span, price_A, width_A, pinned, margin)
    margin[(rise == 0) & (need <= 0)] = np.inf
    idle = need < 0
    share[idle] = 0.0
    slope[need <= 0] = 0.0
    rise_of_share = np.where(idle, 0.0, rise / span)
    return lower, upper, share, rise_of_share, slope, margin


def _price_margins(
    gain: Floats,
    lower: Bytes,
    upper: Bytes,
    start: Floats,
    span: Floats,
    price_A: Floats,
    width_A: Floats,
    pinned: NDArray[np.bool_],
    margin: Floats,
) -> None:
    """How far each type's price is above the line through the mix, in units of what the widths can make up.

    The line at gain T is (1 - z) price_lower + z price_upper with z = (T - start) / span, and moves accordingly.
    A saturated row is at the line's upper end: only another type with the very same gain can take its place.
    """
    real = lower >= 0
    price_low, width_low = price_A[lower] * real, width_A[lower] * real
    rise, width_up = price_A[upper] - price_low, width_A[upper]
    for a in range(-1, len(price_A)):
        gain_a = gain[a] if a >= 0 else 0.0
        z = (gain_a - start) / span
        height = z * rise
        np.subtract((price_A[a] if a >= 0 else 0.0) - price_low, height, out=height)
        reach = np.abs(z) * width_up
        np.subtract(1.0, z, out=z)
        np.abs(z, out=z)
        z *= width_low
        reach += z
        reach += (width_A[a] if a >= 0 else 0.0) + 1e-300
        height /= reach
        out = (lower == a) | (upper == a) | (pinned & (gain_a < 1.0))
        if a >= 0:
            out |= gain_a <= 0.0
        height[out] = np.inf
        np.minimum(margin, height, out=margin)
