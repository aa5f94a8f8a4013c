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
    thinning: int = 32
    program: int = 300
    last: int = 4000
    rounds: int = 40
    gap: float = 1e-11
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


def _root(rows: Rows, price_A: Floats, start: float, level_width: float = np.inf, tolerance: float = 1e-14) -> tuple[float, float]:
    """The level above which these prices prove that nothing is, and the rise of the cost there.

    Newton's method, kept between levels known to be too low and too high: the cost is convex in the level but for
    the kinks where rows saturate.
    """
    cap_G = rows.need.cap_G
    highest = float(cap_G[np.isfinite(cap_G)].max())
    low, high, level, rise, bound = -np.inf, np.inf, min(start, highest), 0.0, np.inf
    for _ in range(100):
        excess, rise = rows.excess(price_A, level)
        step = -excess / rise if rise > 0 else np.inf
        if excess > 0:
            if rise == 0 and not (cap_G < level).any():
                raise UnsolvedError("infeasible")
            high, bound = level, level + step if rise > 0 else level
        elif level >= highest:
            return highest, rise
        else:
            low = level
        ends = sorted((level, level + step))
        straight = rise > 0 and not ((cap_G > ends[0]) & (cap_G < ends[1])).any()
        if straight and abs(excess) <= tolerance and abs(step) <= tolerance * level_width:
            return min(level + step, highest), rise
        kinked = ((cap_G > low) & (cap_G < high)).any()
        if not kinked and bound <= low + 1e-14 * abs(low) or high <= low + 1e-15 * abs(low):
            return max(low, bound), rise
        level = _between(low, high, min(level + step, highest), level)
    return high, rise


def _between(low: float, high: float, level: float, last: float) -> float:
    """The level, or the middle if it is outside; a long way down where nothing is known below."""
    if low < level < high:
        return level
    if np.isinf(low):
        return last - 2.0 * (abs(last) + 1.0)
    return (low + high) / 2.0


def _find(rows: Rows, limits: Limits, price_A: Floats | None = None, level: float | None = None, enough: float = 0.0, goal: float = np.inf) -> _Found:
    """Solve one level, saturated rows kept at their best."""
    rng = np.random.default_rng(limits.seed)
    direct = len(rows) <= limits.direct
    if level is None:
        level = float(np.median(rows.need.cap_G[np.isfinite(rows.need.cap_G)]))
    known = price_A is not None
    if price_A is None:
        price_A = np.ones(rows.A)
        if not direct:
            price_A, level = _sampled_prices(rows, limits, rng, level)
    size = WIDE if direct else 0.02 if known else 3.0 / np.sqrt(max(limits.sample, len(rows) // limits.thinning))
    price_A = price_A / float(price_A @ rows.devices_A)
    upper, rise = _root(rows, price_A, level)
    lower, best, target = -np.inf, None, upper
    most = max(limits.program, limits.direct)
    for number in range(1, limits.rounds + 1):
        width_A = np.maximum(price_A, DUST / rows.devices_A.sum())
        level_width = 1.0 / rise if rise > 0 else 1.0 + abs(upper)
        box = _Box(price_A, width_A, target, level_width, size)
        result = _step(rows, box, most, rng)
        if result.feasible and result.level > lower:
            lower, best = result.level, result
        moved = float(np.max(np.abs(result.price_A - price_A) / width_A))
        worth = float(result.price_A @ rows.devices_A)
        new_A, new_upper, new_rise = price_A, upper, rise
        if worth > 0:
            new_A = result.price_A / worth
            new_upper, new_rise = _root(rows, new_A, result.level, level_width, 1e-14 if result.exact else 0.1 * size)
        if VERBOSE:
            print(f"  {number} size {size:.2e} tied {result.tied} in {result.used} exact {result.exact} feas {result.feasible} bought {result.bought:.1e} target {target:.15g} t {result.level:.15g} upper {upper:.15g} new {new_upper:.15g}")
        better = new_upper < upper
        if better:
            price_A, upper, rise = new_A, new_upper, new_rise
        close = max(limits.gap, 1e-2 * enough**2) * max(abs(upper), 1e-3 / rise if rise > 0 else 0.0)
        if size < enough or lower >= goal or abs(upper - lower) <= close:
            break
        if lower > upper:  # the needs were not straight between target and level
            lower, best = -np.inf, None
        if better or lower >= target:
            target = upper if lower < target else (lower + upper) / 2.0
        elif result.exact:
            target = (max(lower, result.level) + target) / 2.0
        if not result.exact:
            size /= 3.0 if not better else 5.0 if moved < 0.9 * size else 1.0
            most = most if better else min(2 * most, limits.last)
        elif moved > 0.9 * size or not better:
            size = min(4.0 * size, WIDE)
    return _Found(lower, upper, price_A, best.shares() if best is not None else None, number)


def _sampled_prices(rows: Rows, limits: Limits, rng, level):
    size = max(limits.sample, len(rows) // limits.thinning)
    index = np.sort(rng.choice(len(rows), size, replace=False))
    if not np.isfinite(rows.need.cap_G[index]).any():
        return np.ones(rows.A), level
    part = rows.take(index, rows.devices_A * (rows.load_G[index].sum() / rows.load_G.sum()))
    try:
        found = _find(part, replace(limits, direct=max(limits.direct, limits.sample)), None, level, 1.0 / np.sqrt(size))
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
    price_A: Floats
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


def _step(rows: Rows, box: _Box, most: int, rng: np.random.Generator) -> _Result:
    """One program over the rows that are near a tie, the others as they reply now."""
    replies = rows.replies(box.price_A, box.width_A, box.level, 2.0 * box.level_width)
    tied = np.flatnonzero(replies.margin_G <= box.size)
    exact = len(tied) <= most
    index = tied if exact else np.sort(rng.choice(tied, most, replace=False))
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
    price_A = np.maximum(dual[2 * K :], 0.0) / (unit * money)
    step = float(value_V[n]) / money * box.level_width
    bought = float((value_V[n + 1 : n + 1 + A] * unit / rows.devices_A).max())
    return share_KA, step, price_A, bought


@dataclass(frozen=True, eq=False)
class Levels:
    share_GA: Floats
    level: float
    bound: float
    price_A: Floats
    complete: bool
    rounds: int


def solve_levels(
    gain_GA: Floats,
    constant_G: Floats,
    slope_G: Floats,
    scale_G: Floats,
    count_G: Floats,
    capacity_A: Floats,
    *,
    start_A: Floats | None = None,
    lexicographic: bool = True,
    limits: Limits = LIMITS,
) -> Levels:
    gain_AG = np.array(gain_GA.T, dtype=float, order="C")  # a copy, also of a single row or column
    gain_AG[capacity_A <= 0] = 0.0
    best_G = gain_AG.max(axis=0, initial=0.0)
    gain_AG /= np.where(best_G > 0, best_G, 1.0)
    need = LinearNeed(constant_G, slope_G, best_G)
    rows = Rows(gain_AG, scale_G * count_G, np.where(capacity_A > 0, capacity_A, 1.0), need)
    if (need.cap_G == -np.inf).any():
        raise UnsolvedError("infeasible")
    first, complete, rounds = None, False, 0
    share_GA = np.zeros((len(rows), rows.A))
    left = np.arange(len(rows))  # rows that are not fixed for good
    part, price_A = rows, start_A
    for _ in range(LEVELS):
        sloped = part.need.slope_G > 0
        cap = float(part.need.cap_G[sloped].min()) if sloped.any() else np.inf
        done = _saturated(part, limits)
        if done is not None:
            share_GA[left], complete = done, True
            first = first or (cap, np.zeros(part.A))
            break
        try:
            found = _find(part, limits, price_A)
        except UnsolvedError:
            if first is None:
                raise
            break
        rounds += found.rounds
        proven = (1e-8 if first is None else 1e-6) * max(abs(found.upper), 1e-3)
        if found.share_GA is None or found.upper - found.level > proven:
            if first is None:
                raise UnsolvedError("no certified optimum")
            break
        price = np.where(found.price_A * part.devices_A.sum() > ZERO, found.price_A, 0.0)
        first = first or (min(cap, found.upper), price if found.upper <= cap else 0.0 * price)
        share_GA[left] = found.share_GA
        if not lexicographic:
            break
        part, left = _next_level(part, found, price, left)
        price_A = None
        if not (part.need.slope_G > 0).any():
            complete = True
            break
    share_GA = _within(share_GA, rows)
    level = float(rows.need.reached((rows.gain_AG.T * share_GA).sum(axis=1)).min())
    return Levels(share_GA, level, first[0] + ROUNDING * abs(first[0]), first[1], complete, rounds)

LEVELS = 100
ZERO = 1e-10
TIED = 1e-8


def _next_level(rows: Rows, found: _Found, price_A: Floats, left: Ints) -> tuple[Rows, Ints]:
    """What remains once all rows that this level's prices hold are fixed.

    Rows with a positive multiplier are at this level in every optimum, saturated ones at their best. They keep
    their shares, unless they could do the same otherwise at the same cost: those stay, as floors, with just the
    types in question. The others may only use types without a price (complementary slackness).
    """
    replies = rows.replies(price_A, price_A, found.level, 1.0)
    need_G, rise_G = rows.needs(found.level)
    saturated_G = (rows.need.slope_G > 0) & (rise_G == 0)
    priced_G = replies.price_G > 0
    held_G = saturated_G | priced_G
    gain_AG = np.where(_in_question(rows, price_A, replies, saturated_G, priced_G), rows.gain_AG, 0.0)
    options_G = (gain_AG > 0).sum(axis=0) + ~saturated_G
    index = np.flatnonzero(~held_G | (options_G > 2 - saturated_G))
    if held_G[index].all():
        return rows.take(index[:0], rows.devices_A), left[:0]
    gone = np.ones(len(rows), dtype=bool)
    gone[index] = False
    fixed_A = rows.load_G[gone] @ found.share_GA[gone]
    best_G = gain_AG[:, index].max(axis=0)
    gain_AG = gain_AG[:, index] / np.where(best_G > 0, best_G, 1.0)
    held_G, need = held_G[index], rows.need
    floor_G = -need_G[index] * need.best_G[index] * (1.0 - SLACK)
    constant_G = np.where(held_G, floor_G, need.constant_G[index])
    slope_G = np.where(held_G, 0.0, need.slope_G[index])
    devices_A = np.maximum(rows.devices_A - fixed_A, 1e-12 * rows.devices_A)
    need = LinearNeed(constant_G, slope_G, best_G * need.best_G[index])
    return Rows(np.ascontiguousarray(gain_AG), rows.load_G[index], devices_A, need), left[index]


SLACK = 1e-10
ROUNDING = 1e-12


def _in_question(rows: Rows, price_A: Floats, replies: Replies, saturated_G, priced_G):
    """The types that a row may use in an optimum: those on the line of its cheapest mix."""
    lower, upper = replies.lower_G, replies.upper_G
    every = np.arange(len(rows))
    start = np.where(lower >= 0, rows.gain_AG[lower, every], 0.0)
    base = np.where(lower >= 0, price_A[lower], 0.0)
    on_AG = np.zeros(rows.gain_AG.shape, dtype=bool)
    for a, gain in enumerate(rows.gain_AG):
        line = base + replies.price_G * (gain - start)
        near = price_A[a] - line <= TIED * (price_A[a] + np.abs(line))
        on_AG[a] = np.where(priced_G & ~saturated_G, near, price_A[a] == 0.0)
        on_AG[a] = np.where(saturated_G, (gain == 1.0) & (price_A[a] <= price_A[upper] * (1.0 + TIED)), on_AG[a])
    return on_AG


def _saturated(rows: Rows, limits: Limits) -> Floats | None:
    """Shares with which every row that can rise is at its best, if there are such."""
    sloped_G = rows.need.slope_G > 0
    need_G, _ = rows.needs(float(rows.need.cap_G[sloped_G].max()))
    need_G = np.where(sloped_G, rows.top_G, need_G)
    best_AG = (rows.gain_AG == 1.0) & sloped_G
    single_G = best_AG.sum(axis=0) == 1
    share_GA = np.zeros((len(rows), rows.A))
    share_GA[single_G] = best_AG[:, single_G].T
    room_A = rows.devices_A - rows.load_G @ share_GA
    if (room_A < -1e-10 * rows.devices_A).any():
        return None
    many = np.flatnonzero(best_AG.sum(axis=0) > 1)
    floors = np.flatnonzero(~sloped_G & (need_G > 0))
    if len(floors) > limits.last:
        return None
    if len(many) + len(floors) == 0:
        return share_GA
    # Rows with the same best types are one: the total is split, and every row follows the split.
    patterns_AP, class_G = np.unique(best_AG[:, many], axis=1, return_inverse=True)
    load_P = np.bincount(class_G.ravel(), rows.load_G[many], patterns_AP.shape[1])
    gain_BA = np.concatenate([patterns_AP.T.astype(float), rows.gain_AG[:, floors].T])
    need_B = np.concatenate([np.ones(len(load_P)), need_G[floors]])
    load_B = np.concatenate([load_P, rows.load_G[floors]])
    share_BA = _least_load(gain_BA, need_B, load_B, np.maximum(room_A, 0.0))
    if share_BA is None:
        return None
    share_GA[many] = share_BA[: len(load_P)][class_G.ravel()]
    share_GA[floors] = share_BA[len(load_P) :]
    return share_GA


def _least_load(gain_BA, need_B, load_B, room_A):
    """Shares that meet the needs within the devices; None if there are none."""
    B, A = gain_BA.shape
    b, a = np.nonzero(gain_BA > 0)
    n = len(b)
    matrix = sparse.csr_array(
        (
            np.concatenate([gain_BA[b, a], np.ones(n), load_B[b] / load_B.mean()]),
            (np.concatenate([b, B + b, 2 * B + a]), np.tile(np.arange(n), 3)),
        ),
        shape=(2 * B + A, n),
    )
    program = LinearProgram(
        objective_V=-load_B[b] / load_B.mean(),
        lower_V=np.zeros(n),
        upper_V=np.ones(n),
        matrix_KV=matrix,
        lower_K=np.concatenate([need_B, np.full(B + A, -np.inf)]),
        upper_K=np.concatenate([np.full(B, np.inf), np.ones(B), room_A / load_B.mean()]),
    )
    try:
        value_V, _ = program.solve()
    except UnsolvedError:
        return None
    share_BA = np.zeros((B, A))
    share_BA[b, a] = value_V
    return share_BA


def _within(share_GA: Floats, rows: Rows) -> Floats:
    """Rounding taken out: no share below zero, no row above one, no type above its devices."""
    np.maximum(share_GA, 0.0, out=share_GA)
    share_GA /= np.maximum(share_GA.sum(axis=1), 1.0)[:, None]
    used_A = rows.load_G @ share_GA
    share_GA *= np.minimum(1.0, rows.devices_A / np.maximum(used_A, 1e-300))
    return share_GA


@dataclass(frozen=True, eq=False)
class Ratios:
    share_GA: Floats
    ratio: float
    bound: float
    price_A: Floats
    complete: bool
    rounds: int


def solve_ratios(
    throughput_GA: Floats,
    steps_G: Floats,
    elapsed_G: Floats,
    deadline_G: Floats,
    scale_G: Floats,
    count_G: Floats,
    capacity_A: Floats,
    *,
    start_A: Floats | None = None,
    lexicographic: bool = True,
    limits: Limits = LIMITS,
) -> Ratios:
    gain_AG = np.array(throughput_GA.T, dtype=float, order="C")
    gain_AG[capacity_A <= 0] = 0.0
    best_G = gain_AG.max(axis=0)
    assert (best_G > 0).all() and (steps_G > 0).all(), "rows without steps or without a type are left out"
    gain_AG /= best_G
    need = RatioNeed(elapsed_G, steps_G, deadline_G, best_G)
    rows = Rows(gain_AG, scale_G * count_G, np.where(capacity_A > 0, capacity_A, 1.0), need)
    cap = float(need.cap_G.min())
    found = _find(rows, limits, start_A, cap if start_A is None else None, goal=cap)
    if found.share_GA is None or (found.upper - found.level > 1e-8 * abs(found.upper) and found.level < cap):
        raise UnsolvedError("no certified optimum")
    share_GA = _within(found.share_GA, rows)
    pinned = found.level >= cap
    ratio = -cap if pinned else _worst(throughput_GA, share_GA, steps_G, elapsed_G, deadline_G)
    bound = -min(found.upper, cap)
    complete, rounds = not pinned and bool((found.price_A * rows.devices_A.sum() > ZERO).all()), found.rounds
    if lexicographic and not complete:
        gain_GA = throughput_GA * ((ratio * deadline_G - elapsed_G) / steps_G)[:, None]
        ones_G = np.ones(len(rows))
        try:
            last = solve_levels(gain_GA, -ones_G, ones_G, scale_G, count_G, capacity_A, start_A=found.price_A, limits=limits)
        except UnsolvedError:
            last = None
        if last is not None:
            reached = _worst(throughput_GA, last.share_GA, steps_G, elapsed_G, deadline_G)
            rounds += last.rounds
            if reached <= ratio * (1.0 + 1e-9):
                share_GA, complete = last.share_GA, last.complete
    ratio = _worst(throughput_GA, share_GA, steps_G, elapsed_G, deadline_G)
    return Ratios(share_GA, ratio, bound - ROUNDING * abs(bound), found.price_A, complete, rounds)


def _worst(throughput_GA, share_GA, steps_G, elapsed_G, deadline_G) -> float:
    reached_G = (throughput_GA * share_GA).sum(axis=1)
    with np.errstate(divide="ignore"):
        return float(((elapsed_G + steps_G / reached_G) / deadline_G).max())
