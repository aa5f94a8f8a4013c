"""x"""
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.highs import LinearProgram, UnsolvedError
from gavelx.solvers.replies import Floats, Ints, LinearNeed, Need, RatioNeed, Replies, Rows
import time, os
VERBOSE = bool(os.environ.get("ENGV"))

@dataclass(frozen=True)
class Limits:
    direct: int = 150
    """Up to this many rows all of them enter the program."""
    sample: int = 150
    program: int = 300
    last: int = 4000
    rounds: int = 40
    gap: float = 1e-9
    seed: int = 0


LIMITS = Limits()
WIDE = 1e3
DUST = 1e-3



@dataclass(frozen=True, eq=False)
class _Found:
    """Shares that reach a level (None while there are none), and the prices that prove ``upper``."""

    level: float
    upper: float
    price_A: Floats
    share_GA: Floats | None
    rounds: int


@dataclass(eq=False)
class _Box:
    """Where prices and level may move in one program: prices by ``size`` widths, the level down by twice that."""

    price_A: Floats
    width_A: Floats
    level: float
    level_width: float
    size: float


def _root(rows: Rows, price_A: Floats, start: float) -> tuple[float, float]:
    """The level above which these prices prove that nothing is, and the rise of the cost there.

    Newton's method, kept between levels known to be too low and too high: the cost is convex in the level but for
    the kinks where rows saturate.
    """
    cap_G = rows.need.cap_G
    highest = float(cap_G[np.isfinite(cap_G)].max())
    low, high, level, rise = -np.inf, np.inf, min(start, highest), 0.0
    for _ in range(100):
        excess, rise = rows.excess(price_A, level)
        if excess > 0 and rise == 0 and not (cap_G < level).any():
            raise UnsolvedError("infeasible")
        low, high = (low, level) if excess > 0 else (level, high)
        step = -excess / rise if rise > 0 else -np.sign(excess) * np.inf
        if (excess <= 0 and level >= highest) or abs(excess) <= 1e-14 or abs(step) <= 1e-15 * abs(level):
            return min(level + step, highest), rise
        level = _between(low, high, min(level + step, highest), level)
        if level in {low, high}:
            return high, rise
    return high, rise


def _between(low: float, high: float, level: float, last: float) -> float:
    """The level, or the middle if it is outside; a long way down where nothing is known below."""
    if low < level < high:
        return level
    if np.isinf(low):
        return last - 2.0 * (abs(last) + 1.0)
    return (low + high) / 2.0 if np.isfinite(high) else max(level, low)


def _find(rows: Rows, limits: Limits, price_A: Floats | None = None, level: float | None = None) -> _Found:
    """Solve one level, saturated rows kept at their best."""
    rng = np.random.default_rng(limits.seed)
    size = WIDE if len(rows) <= limits.direct else 0.02 if price_A is not None else 3.0 / np.sqrt(limits.sample)
    if level is None:
        finite_G = rows.need.cap_G[np.isfinite(rows.need.cap_G)]
        level = float(np.median(finite_G))
    if price_A is None:
        price_A, level = np.ones(rows.A), level
        if len(rows) > limits.direct:
            price_A, level = _sampled_prices(rows, limits, rng, level)
    price_A = price_A / float(price_A @ rows.devices_A)
    upper, rise = _root(rows, price_A, level)
    lower, share, t0 = -np.inf, None, time.perf_counter()
    for number in range(limits.rounds):
        width_A = np.maximum(price_A, DUST / rows.devices_A.sum())
        box = _Box(price_A, width_A, upper, 1.0 / rise, size)
        result = _step(rows, box, limits, rng)
        if result.feasible and result.level > lower:
            lower, share = result.level, result
        new_A = result.price_A
        moved = float(np.max(np.abs(new_A - price_A) / width_A)) if new_A is not None else 0.0
        if new_A is not None:
            new_upper, new_rise = _root(rows, new_A, result.level)
        better = new_A is not None and new_upper <= upper
        if VERBOSE:
            print(f"  {number} {time.perf_counter()-t0:.3f} size {size:.2e} tied {result.tied} in {result.used} exact {result.exact} feas {result.feasible} bought {result.bought:.1e} t {result.level:.15g} upper {upper:.15g} new {new_upper:.15g} moved {moved:.2e}")
        if better:
            price_A, upper, rise = new_A, new_upper, new_rise
        if upper - lower <= limits.gap * max(abs(upper), 1e-3 / rise):
            break
        if not better:
            size /= 3.0
        elif moved < 0.9 * size and not result.exact:
            size /= 5.0
    return _Found(lower, upper, price_A, share.shares() if share is not None else None, number + 1)


def _sampled_prices(rows: Rows, limits: Limits, rng, level):
    index = np.sort(rng.choice(len(rows), limits.sample, replace=False))
    part = rows.take(index, rows.devices_A * (rows.load_G[index].sum() / rows.load_G.sum()))
    try:
        found = _find(part, replace(limits, direct=limits.sample, gap=1e-3, rounds=5), None, level)
    except UnsolvedError:
        return np.ones(rows.A), level
    return found.price_A, found.upper


@dataclass(eq=False)
class _Result:
    rows: Rows
    replies: Replies
    index: Ints
    share_KA: Floats
    level: float
    price_A: Floats | None
    bought: float
    exact: bool
    tied: int
    used: int

    @property
    def feasible(self) -> bool:
        return self.exact and self.bought <= 1e-10

    def shares(self) -> Floats:
        """All rows' shares at the level of the program."""
        rows, replies = self.rows, self.replies
        share_GA = np.zeros((len(rows), rows.A))
        every = np.arange(len(rows))
        part_G = replies.part_G + replies.rise_G * (self.level - self.base)
        real_G = np.flatnonzero(replies.lower_G >= 0)
        share_GA[every, replies.upper_G] = part_G
        share_GA[real_G, replies.lower_G[real_G]] = 1.0 - part_G[real_G]
        share_GA[self.index] = self.share_KA
        return share_GA

    base: float = 0.0


def _step(rows: Rows, box: _Box, limits: Limits, rng: np.random.Generator) -> _Result:
    """One program over the rows that are near a tie, the others as they reply now."""
    replies = rows.replies(box.price_A, box.width_A, box.level, 2.0 * box.level_width)
    tied = np.flatnonzero(replies.margin_G <= box.size)
    most = limits.program if box.size > 1e-7 else limits.last
    exact = len(tied) <= max(most, limits.direct)
    index = tied if exact else np.sort(rng.choice(tied, limits.program, replace=False))
    weight = 1.0 if exact else len(tied) / len(index)
    # What the sample misses of all tied rows at the present prices is put right: the sample only stands for changes.
    use_A, rise_A = _usage(rows, replies, None)
    own_A, own_rise_A = _usage(rows, replies, index)
    room_A = rows.devices_A - (use_A - weight * own_A)
    share_KA, step, price_A, bought = _program(rows, box, index, weight, room_A, rise_A - weight * own_rise_A)
    level = box.level + step
    return _Result(rows, replies, index, share_KA, level, price_A, bought, exact, len(tied), len(index), box.level)


def _usage(rows: Rows, replies: Replies, index: Ints | None) -> tuple[Floats, Floats]:
    """Devices of each type that these rows hold, and how fast that rises with the level."""
    lower, upper, part, rise = replies.lower_G, replies.upper_G, replies.part_G, replies.rise_G
    load = rows.load_G
    if index is not None:
        lower, upper, part, rise, load = lower[index], upper[index], part[index], rise[index], load[index]
    use_A = np.bincount(upper, load * part, rows.A)
    rise_A = np.bincount(upper, load * rise, rows.A)
    real = np.flatnonzero(lower >= 0)
    use_A += np.bincount(lower[real], load[real] * (1.0 - part[real]), rows.A)
    rise_A -= np.bincount(lower[real], load[real] * rise[real], rows.A)
    return use_A, rise_A


def _program(rows, box, index, weight, room_A, rise_A):
    """Columns: shares (row by row), the level's step down, devices bought and sold at the edges of the box."""
    A, K = rows.A, len(index)
    need_G, slope_G = rows.needs(box.level)
    need_K, slope_K = need_G[index], slope_G[index] * box.level_width
    gain_KA = rows.gain_AG[:, index].T
    load_K = rows.load_G[index] * weight
    unit = float(load_K.mean()) if K else 1.0
    money = 1.0 / (unit * float(box.width_A.max()))  # prices in the program are about 1
    k, a = np.nonzero(gain_KA > 0)
    n = len(k)
    row_E = np.column_stack([k, K + k, 2 * K + a])
    value_E = np.column_stack([gain_KA[k, a], np.ones(n), load_K[k] / unit])
    types, every = np.arange(A), np.arange(K)
    rows_V = np.concatenate([row_E.ravel(), every, 2 * K + types, 2 * K + types, 2 * K + types])
    capacity_slope_A = rise_A * box.level_width / unit
    values_V = np.concatenate(
        [value_E.ravel(), -slope_K / money, capacity_slope_A / money, -np.ones(A), np.ones(A)]
    )
    start_V = np.concatenate(
        [3 * np.arange(n + 1), 3 * n + K + A + np.arange(2 * A + 1)]
    )
    matrix = sparse.csc_array((values_V, rows_V.astype(np.int32), start_V.astype(np.int32)), shape=(2 * K + A, n + 1 + 2 * A))
    buy_A = (box.price_A + box.size * box.width_A) * unit * money
    sell_A = np.maximum(box.price_A - box.size * box.width_A, 0.0) * unit * money
    program = LinearProgram(
        objective_V=np.concatenate([np.zeros(n), [1.0], -buy_A, sell_A]),
        lower_V=np.concatenate([np.zeros(n), [-2.0 * box.size * money], np.zeros(2 * A)]),
        upper_V=np.concatenate([np.ones(n), [0.0], np.full(2 * A, np.inf)]),
        matrix_KV=matrix,
        lower_K=np.concatenate([need_K, np.full(K + A, -np.inf)]),
        upper_K=np.concatenate([np.full(K, np.inf), np.ones(K), room_A / unit]),
    )
    value_V, dual = program.solve()
    share_KA = np.zeros((K, A))
    share_KA[k, a] = value_V[:n]
    price_A = np.maximum(dual[2 * K :], 0.0)
    worth = float(price_A @ rows.devices_A)
    step = float(value_V[n]) / money * box.level_width
    bought = float((value_V[n + 1 : n + 1 + A] * unit / rows.devices_A).max())
    return share_KA, step, price_A / worth if worth > 0 else None, bought
