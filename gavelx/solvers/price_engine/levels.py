"""Max-min programs with very many different rows, exactly, by working on the prices of the few accelerator types.

``solve_levels`` is max-min fairness over rows that are linear in the shares. The first level comes from `search`;
what is left goes to the others, level by level. Rows are fixed where they cannot rise, which multipliers tell (as
in `gavelx.solvers.maxmin.lexicographic`):

* A row limited by its own best type is *saturated*. These need no level of their own: the search keeps them at
  their best while the others go on. The first level is then the lowest one at which a row saturates.
* Where devices bind, rows with a positive multiplier are at this level in every optimum. If all types have a
  price these are all rows, and the work is done.
* Rows without a multiplier can only use types without a price (complementary slackness); the next level is a
  smaller problem over those. A row that is fixed but could do the same otherwise at the same cost goes along as a
  floor.

Choose this for hundreds of rows and more that do not collapse into classes; `lexicographic` for few, and for all
other constraints.

Legend: G rows (jobs, or classes of identical ones), A accelerator types, B blocks of rows, E shares of a program.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.price_engine.direct import Direct, raise_rows
from gavelx.solvers.price_engine.prices import Prices, Start, prove
from gavelx.solvers.price_engine.replies import Floats, Ints, LinearNeed, Need, Replies, Rows, Sizes, slices
from gavelx.solvers.price_engine.search import LIMITS, Found, Limits, find_level
from gavelx.solvers.program.errors import UnsolvedError

Bools = NDArray[np.bool_]
LEVELS = 100
CERTIFIED = 1e-8
"""Relative gap between bound and level beyond which there is no answer, and the same for later levels."""
CERTIFIED_LATER = 1e-6
FREE = 1e-10
"""Part of the mean price below which a price is none."""
TIED = 1e-8
SLACK = 1e-10
"""Part of its value by which a fixed row may fall in later levels, and of a floor that rounding may miss."""
ROUNDING = 1e-12
"""Part of a bound that sums over millions of rows may be off."""


@dataclass(frozen=True, eq=False)
class Levels:
    """``level``: the least ``(gain + constant) / slope`` of these shares; no shares reach more than ``bound``.

    ``price_A`` is the rise of the first level per device; all zero where that is set by a saturated row.
    ``start`` has the prices where devices first bind, to start a similar problem with. ``complete`` says whether
    all levels were raised, ``rounds`` how many programs it took, ``cheapest`` whether no shares that give every
    row as much cost less, ``searched`` whether prices were.
    """

    share_GA: Floats
    level: float
    bound: float
    price_A: Floats
    start: Start | None
    complete: bool
    rounds: int
    cheapest: bool = False
    searched: bool = False


def solve_levels(
    gain_GA: Floats,
    constant_G: Floats,
    slope_G: Floats,
    *,
    scale_G: Floats,
    count_G: Floats,
    capacity_A: Floats,
    factor_G: Floats | None = None,
    sizes: Sizes | None = None,
    floor_G: Floats | None = None,
    start: Start | None = None,
    lexicographic: bool = True,
    price_A: Floats | None = None,
    limits: Limits = LIMITS,
) -> Levels:
    """Raise the least of all rows, then the least of those that can rise further, and so on.

    Maximise t subject to ``gain_g . x_g + constant_g >= slope_g t`` in every row, ``sum_a x_ga <= 1``,
    ``sum_g count_g scale_g x_ga <= capacity_a``, x >= 0; x_ga = 0 where the gain is 0; and, with ``floor_G``,
    ``gain_g . x_g >= floor_g``. With ``factor_G``, gains count so many times. With ``sizes`` the columns of gains
    are these and no types, and their devices take the place of the scale. A slope of 0 makes the row nothing but a
    floor. A row that can run nowhere has the value of its constant: leave it out if that is not meant.
    Few rows are given the cheapest of such shares at these prices.

    Raises :class:`UnsolvedError` where floors cannot be met, where no row has a slope, or
    if bound and level do not meet within 1e-8, relative to the level (or to a thousandth of the change in level
    that all devices together are worth, if that is more).
    """
    if not (slope_G > 0).any():
        raise UnsolvedError("no row has a slope")
    gain_AG, best_G = gains(gain_GA, capacity_A, sizes, factor_G)
    floor_G = np.full(len(best_G), -np.inf) if floor_G is None else floor_G
    load_G = scale_G * count_G if sizes is None else count_G
    rows = rows_of(gain_AG, load_G, capacity_A, LinearNeed(constant_G, slope_G, best_G, floor_G), sizes)
    if (rows.need.cap_G == -np.inf).any():
        raise UnsolvedError("infeasible")
    if len(rows) > limits.few:
        try:
            found = _searched(rows, start, limits, lexicographic=lexicographic)
        except UnsolvedError as failure:
            if failure.status == "infeasible" or len(rows) > limits.all:
                raise
        else:
            if found.complete or not lexicographic or len(rows) > limits.all:
                return found
    return _directly(rows, price_A, lexicographic=lexicographic)


def _searched(rows: Rows, start: Start | None, limits: Limits, *, lexicographic: bool) -> Levels:
    """Many rows: level after level by prices; what cannot rise any more is left out of the next one."""
    first, rounds, part, left = None, 0, _loosened(rows), np.arange(len(rows))
    for _ in range(LEVELS):
        try:
            level = _raise(part, start, limits, later=first is not None)
        except UnsolvedError:
            if first is None:
                raise
            break
        if first is None:  # of all rows
            share_GA = level.share_GA
        else:
            share_GA[left] = level.share_GA
        first, rounds, start = first or level, rounds + level.rounds, None
        part, left = level.rest, left[level.rest_G]
        if (not lexicographic and level.whole) or not len(left):
            break
    assert first is not None
    share_GA = within(share_GA, rows)
    reached = float(rows.need.reached(rows.parts(share_GA)).min())
    scale = max(first.scale, _size_of_terms(rows))
    if first.bound - reached > CERTIFIED * scale:
        raise UnsolvedError("bound and level did not meet")
    bound = first.bound + ROUNDING * scale
    return Levels(
        share_GA, reached, bound, first.price_A, first.start, not len(left), rounds, searched=first.rounds > 0
    )


def _loosened(rows: Rows) -> Rows:
    """The same rows with a hair less as floors, for those that can just be met."""
    assert isinstance(rows.need, LinearNeed)
    if not (rows.need.floor_G > 0).any():
        return rows
    return replace(rows, need=replace(rows.need, floor_G=rows.need.floor_G * (1.0 - SLACK)))


def _directly(rows: Rows, price_A: Floats | None, *, lexicographic: bool) -> Levels:
    """Few rows: all of them in one program."""
    direct = Direct(rows)
    raised = raise_rows(direct, rows.need, lexicographic=lexicographic)
    if lexicographic and price_A is not None:
        direct.cheapest(price_A)
    share_GA = within(direct.share_GA, rows)
    reached = float(rows.need.reached((rows.gain_VG.T * share_GA).sum(axis=1)).min())
    cap = float(rows.need.cap_G[rows.need.rises_G].min())
    bound = min(cap, raised.level)
    marginal_A = raised.marginal_A if raised.level <= cap else np.zeros(rows.A)
    scale = max(abs(bound), _size_of_terms(rows))
    if bound - reached > CERTIFIED * scale:
        raise UnsolvedError("bound and level did not meet")
    bound += ROUNDING * scale
    return Levels(share_GA, reached, bound, marginal_A, None, raised.complete, direct.programs, cheapest=True)


def _size_of_terms(rows: Rows) -> float:
    """How large the terms are that make up the level at which the first row saturates; they may cancel."""
    need = rows.need
    assert isinstance(need, LinearNeed)
    rising = np.flatnonzero(need.rises_G)
    lowest = rising[np.argmin(need.cap_G[rising])]
    return float((need.best_G[lowest] + abs(need.constant_G[lowest])) / need.slope_G[lowest])


def gains(
    gain_GA: Floats, capacity_A: Floats, sizes: Sizes | None = None, factor_G: Floats | None = None
) -> tuple[Floats, Floats]:
    """The gains, with these factors, as parts of each row's largest one, and that; column by column.

    No job can use a type without devices.
    """
    none_A = (capacity_A if sizes is None else capacity_A[sizes.type_V]) <= 0
    gain_AG, best_G = np.empty(gain_GA.shape[::-1]), np.empty(len(gain_GA))
    for part in slices(len(gain_GA)):
        gain_An = gain_AG[:, part]
        np.multiply(gain_GA[part].T, 1.0 if factor_G is None else factor_G[part], out=gain_An)
        gain_An[none_A] = 0.0
        np.max(gain_An, axis=0, out=best_G[part])
        gain_An /= np.where(best_G[part] > 0, best_G[part], 1.0)
    return gain_AG, best_G


def rows_of(gain_AG: Floats, load_G: Floats, capacity_A: Floats, need: Need, sizes: Sizes | None = None) -> Rows:
    return Rows(gain_AG, np.asarray(load_G, dtype=float), np.where(capacity_A > 0, capacity_A, 1.0), need, sizes)


@dataclass(frozen=True, eq=False)
class _Level:
    """Shares at one level, its bound and prices, and what remains: rows ``rest_G`` as the problem ``rest``.

    Not ``whole``: of those that remain some have no shares yet.
    """

    share_GA: Floats
    bound: float
    scale: float
    price_A: Floats
    start: Start | None
    rounds: int
    rest: Rows
    rest_G: Ints
    whole: bool = True


def _raise(rows: Rows, start: Start | None, limits: Limits, *, later: bool) -> _Level:
    """One level where devices bind, with all that saturate below it; or all rows at their best."""
    cap = float(rows.need.cap_G[rows.need.rises_G].min())
    share_GA = saturated(rows, limits)
    if share_GA is not None:
        nothing_A, none_G = np.zeros(rows.A), np.arange(0)
        return _Level(share_GA, cap, abs(cap), nothing_A, None, 0, rows.take(none_G, rows.devices_A), none_G)
    gap = CERTIFIED_LATER if later else CERTIFIED
    found = find_level(rows, limits, start=start)
    price_A = paid(rows, found.prices.price_A)
    whole = found.share_GA is not None
    if not whole:
        found = _held_alone(rows, found, limits)
        price_A = found.prices.price_A
    share_GA, prices = certified(found, gap), found.prices
    rest, rest_G = _rest(rows, found.level, share_GA, price_A)
    binds = prices.upper <= cap and prices.rise > 0
    marginal_A = price_A / prices.rise if binds else np.zeros(rows.A)
    bound = min(cap, prices.upper)
    return _Level(share_GA, bound, prices.scale, marginal_A, prices.start, found.rounds, rest, rest_G, whole)


def _held_alone(rows: Rows, found: Found, limits: Limits) -> Found:
    """The same level without the rows that pay nothing, which may be too many to be told how to share free types.

    They do not count for the bound either. Whether the free types are enough for them shows at the next level.
    """
    prices = _without_idle_prices(rows, found.prices)
    replies = rows.replies(prices.price_A, prices.price_A, prices.upper, 1.0)
    held = np.flatnonzero(_held(rows, replies, prices.upper))
    if not rows.need.rises_G[held].any():
        raise UnsolvedError("bound and level did not meet")
    alone = find_level(rows.take(held, rows.devices_A), limits, start=Start(prices.price_A, prices.upper))
    share_GA = np.zeros((len(rows), rows.V))
    share_GA[held] = certified(alone, CERTIFIED)
    return Found(min(alone.level, prices.upper), share_GA, prices, found.rounds + alone.rounds)


def _without_idle_prices(rows: Rows, prices: Prices) -> Prices:
    """The prices without those that the bound does not need."""
    for a in np.argsort(prices.price_A * rows.devices_A, kind="stable")[:-1]:
        price_A = prices.price_A.copy()
        price_A[a] = 0.0
        fewer = prove(rows, price_A, prices.upper)
        if fewer.upper <= prices.upper + 1e-10 * prices.scale:
            prices = fewer
    return prices


def _held(rows: Rows, replies: Replies, level: float) -> Bools:
    """Rows that cannot rise: those at their best, and those that pay for what they have."""
    held_G: Bools = rows.saturated_G(level) | (replies.price_G > 0)
    return held_G


def certified(found: Found, gap: float) -> Floats:
    """The shares that were found, if the prices prove them; the gap is explained in `solve_levels`."""
    if found.share_GA is None or found.prices.upper - found.level > gap * found.prices.scale:
        raise UnsolvedError("bound and level did not meet")
    return found.share_GA


def paid(rows: Rows, price_A: Floats) -> Floats:
    """The prices without those that are only rounding."""
    return np.where(price_A * rows.devices_A.sum() > FREE, price_A, 0.0)


def _rest(rows: Rows, level: float, share_GA: Floats, price_A: Floats) -> tuple[Rows, Ints]:
    """The rows that can still rise, and those that are fixed but could do the same otherwise at the same cost."""
    need_G, saturated_G = rows.needs(level)[0], rows.saturated_G(level)
    if price_A.all() and not ((need_G <= 0) & rows.need.rises_G & ~saturated_G).any():
        return rows.take(np.arange(0), rows.devices_A), np.arange(0)
    replies = rows.replies(price_A, price_A, level, 1.0)
    held_G = _held(rows, replies, level)
    price_V = rows.per_column(price_A)
    gain_AG = np.where(_in_question(rows, price_V, replies, saturated_G), rows.gain_VG, 0.0)
    # A mix of two types, or of one and idleness, is fixed by its value; a saturated row is at one type.
    choices_G = np.where(saturated_G, (gain_AG > 0).sum(axis=0), (gain_AG > 0).sum(axis=0) - 1)
    choices_G += _idle_in_question(rows, price_V, replies) & ~saturated_G
    index = np.flatnonzero(~held_G | (choices_G > 1))
    if not (~held_G & rows.need.rises_G)[index].any():
        return rows.take(np.arange(0), rows.devices_A), np.arange(0)
    gone_G = np.ones(len(rows), dtype=bool)
    gone_G[index] = False
    left_A = rows.devices_A - rows.per_type(np.einsum("G,GA->A", rows.load_G[gone_G], share_GA[gone_G]))
    part = rows.take(index, np.maximum(left_A, 1e-12 * rows.devices_A))
    return _with_floors(part, gain_AG[:, index], held_G[index], need_G[index]), index


def _with_floors(rows: Rows, gain_AG: Floats, held_G: Bools, need_G: Floats) -> Rows:
    """The rows with fewer types, and with what they have now as a floor where they are held."""
    need = rows.need
    assert isinstance(need, LinearNeed)
    best_G = gain_AG.max(axis=0)
    return Rows(
        gain_AG / np.where(best_G > 0, best_G, 1.0),
        rows.load_G,
        rows.devices_A,
        LinearNeed(
            np.where(held_G, -need_G * need.best_G * (1.0 - SLACK), need.constant_G),
            np.where(held_G, 0.0, need.slope_G),
            best_G * need.best_G,
            np.where(held_G, -np.inf, need.floor_G * (1.0 - SLACK)),
        ),
        rows.sizes,
    )


def _in_question(rows: Rows, price_A: Floats, replies: Replies, saturated_G: Bools) -> Bools:
    """The types that a row may use in an optimum: those on the line of its cheapest mix, and free ones."""
    start_G, base_G = _line(rows, price_A, replies)
    may_AG = np.zeros(rows.gain_VG.shape, dtype=bool)
    for a, gain_G in enumerate(rows.gain_VG):
        line_G = base_G + replies.price_G * (gain_G - start_G)
        near_G = price_A[a] - line_G <= TIED * (price_A[a] + np.abs(line_G))
        equal_G = (gain_G == 1.0) & (price_A[a] <= price_A[replies.upper_G] * (1.0 + TIED))
        may_AG[a] = np.where(saturated_G, equal_G, np.where(replies.price_G > 0, near_G, price_A[a] == 0.0))
    return may_AG


def _idle_in_question(rows: Rows, price_A: Floats, replies: Replies) -> Bools:
    start_G, base_G = _line(rows, price_A, replies)
    above_G = replies.price_G * start_G - base_G
    return above_G <= TIED * (base_G + replies.price_G * start_G)


def _line(rows: Rows, price_A: Floats, replies: Replies) -> tuple[Floats, Floats]:
    """Gain and price of the lower end of each row's mix."""
    real_G = replies.lower_G >= 0
    return rows.gain_VG[replies.lower_G, np.arange(len(rows))] * real_G, price_A[replies.lower_G] * real_G


def saturated(rows: Rows, limits: Limits) -> Floats | None:
    """Shares with which every row that can rise is at its best, if there are such."""
    rises_G = rows.need.rises_G
    best_AG = (rows.gain_VG == 1.0) & rises_G
    devices_G = rows.load_G * rows.top_G
    if rows.sizes is not None:
        largest = float(rows.devices_V.max())
        devices_G *= np.where(best_AG, rows.devices_V[:, None], largest).min(axis=0)
    if devices_G[rises_G].sum() > rows.devices_A.sum() * (1.0 + CERTIFIED):
        return None
    share_GA = np.zeros((len(rows), rows.V))
    single_G = best_AG.sum(axis=0) == 1
    share_GA[single_G] = best_AG[:, single_G].T
    room_A = rows.devices_A - rows.used(share_GA)
    many, floors = np.flatnonzero(best_AG.sum(axis=0) > 1), np.flatnonzero(~rises_G)
    if (room_A < -1e-10 * rows.devices_A).any() or len(floors) > limits.largest:
        return None
    if len(many) + len(floors) == 0:
        return share_GA
    # Rows with the same best types are one block: its time is split, and every row follows the split.
    patterns_AB, block_G = np.unique(best_AG[:, many], axis=1, return_inverse=True)
    blocks = patterns_AB.shape[1]
    share_BA = _least_load(
        np.concatenate([patterns_AB.T.astype(float), rows.gain_VG[:, floors].T]),
        np.concatenate([np.ones(blocks), rows.need(0.0)[0][floors]]),
        np.concatenate([np.bincount(block_G.ravel(), rows.load_G[many], blocks), rows.load_G[floors]]),
        np.maximum(room_A, 0.0),
        rows,
    )
    if share_BA is None:
        return None
    share_GA[many], share_GA[floors] = share_BA[block_G.ravel()], share_BA[blocks:]
    return share_GA


def _least_load(gain_BV: Floats, need_B: Floats, load_B: Floats, room_A: Floats, rows: Rows) -> Floats | None:
    """Shares that meet the needs with the fewest devices; None if there are none."""
    (B, V), A = gain_BV.shape, rows.A
    b, v = np.nonzero(gain_BV > 0)
    E, load_E = len(b), load_B[b] / load_B.mean() * rows.devices_V[v]
    values = np.concatenate([gain_BV[b, v], np.ones(E), load_E])
    places = (np.concatenate([b, B + b, 2 * B + rows.type_V[v]]), np.tile(np.arange(E), 3))
    program = LinearProgram(
        objective_V=-load_E,
        lower_V=np.zeros(E),
        upper_V=np.ones(E),
        matrix_KV=sparse.csr_array((values, places), shape=(2 * B + A, E)),
        lower_K=np.concatenate([need_B, np.full(B + A, -np.inf)]),
        upper_K=np.concatenate([np.full(B, np.inf), np.ones(B), room_A / load_B.mean()]),
    )
    try:
        value_E, _ = program.solve()
    except UnsolvedError:
        return None
    share_BV = np.zeros((B, V))
    share_BV[b, v] = value_E
    return share_BV


def within(share_GA: Floats, rows: Rows) -> Floats:
    """Rounding taken out: no share below zero, no row above one, no type above its devices."""
    np.maximum(share_GA, 0.0, out=share_GA)
    time_G = share_GA.sum(axis=1)
    if len(over := np.flatnonzero(time_G > 1.0)):
        share_GA[over] /= time_G[over, None]
    used_A = rows.used(share_GA)
    part_A = np.minimum(1.0, rows.devices_A / np.maximum(used_A, 1e-300))
    if (part_A < 1.0).any():
        share_GA *= part_A if rows.sizes is None else part_A[rows.type_V]
    return share_GA
