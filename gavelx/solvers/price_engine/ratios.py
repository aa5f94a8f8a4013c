"""The largest ratio made as small as possible (finish-time fairness, makespan), where rows are very many.

`search` finds the ratio by moving the prices; what is left goes to the others as `levels` of surplus.

Legend: G rows (jobs, or classes of identical ones), A accelerator types.
"""

from dataclasses import dataclass

import numpy as np

from gavelx.solvers.price_engine.direct import Direct, raise_rows
from gavelx.solvers.price_engine.fitting import fitted
from gavelx.solvers.price_engine.levels import (
    CERTIFIED,
    ROUNDING,
    certified,
    gains,
    paid,
    rows_of,
    saturated,
    solve_levels,
    within,
)
from gavelx.solvers.price_engine.prices import Start
from gavelx.solvers.price_engine.replies import Floats, LinearNeed, RatioNeed, Rows, Sizes
from gavelx.solvers.price_engine.search import LIMITS, Limits, find_level
from gavelx.solvers.program.errors import UnsolvedError


@dataclass(frozen=True, eq=False)
class Ratios:
    """``ratio``: the largest ratio of these shares; no shares get it below ``bound``. The rest as in `Levels`."""

    share_GA: Floats
    ratio: float
    bound: float
    start: Start | None
    complete: bool
    rounds: int
    cheapest: bool = False


def solve_ratios(
    throughput_GA: Floats,
    steps_G: Floats,
    elapsed_G: Floats,
    deadline_G: Floats,
    *,
    scale_G: Floats,
    count_G: Floats,
    capacity_A: Floats,
    sizes: Sizes | None = None,
    start: Start | None = None,
    lexicographic: bool = True,
    price_A: Floats | None = None,
    limits: Limits = LIMITS,
) -> Ratios:
    """Make the largest ``(elapsed + steps / throughput) / deadline`` as small as possible.

    That is finish-time fairness (Themis, NSDI'20; Gavel, OSDI'20, section 4.2) with the isolated finish time as
    deadline, and makespan with no time elapsed and a deadline of 1. The search works on the ratio itself: the
    throughput that a row needs, ``steps / (ratio deadline - elapsed)``, is convex in it, and each program follows
    its tangent, so Newton's method on the ratio and the search for prices are one.

    Then what is left goes to the others: surplus over need, level by level, as the last stage of `ratio`. Once a
    row is at its best type, all that the others get comes from there.

    Every row needs steps > 0 and a type it can run on: leave out the others. Raises
    :class:`UnsolvedError` if bound and ratio do not meet within 1e-8.
    """
    gain_AG, best_G = gains(throughput_GA, capacity_A, sizes)
    assert (best_G > 0).all() and (steps_G > 0).all(), "rows without steps or without a type are to be left out"
    need = RatioNeed(elapsed_G, steps_G, deadline_G, best_G)
    rows = rows_of(gain_AG, scale_G * count_G if sizes is None else count_G, capacity_A, need, sizes)
    if len(rows) > limits.few:
        try:
            first = _first(rows, start, limits)
        except UnsolvedError:
            if len(rows) > limits.all:
                raise
        else:
            return first if first.complete or not lexicographic else _and_surplus(first, rows, need, limits)
    return _directly(rows, need, price_A, lexicographic=lexicographic)


def _and_surplus(first: Ratios, rows: Rows, need: RatioNeed, limits: Limits) -> Ratios:
    """What the ratio leaves, given to all as levels of what they have beyond their needs."""
    one_G = np.ones(len(rows))
    try:
        last = solve_levels(
            rows.gain_VG.T / need(-first.ratio)[0][:, None],
            -one_G,
            one_G,
            scale_G=one_G,
            count_G=rows.load_G,
            capacity_A=rows.devices_A,
            sizes=rows.sizes,
            start=first.start,
            limits=limits,
        )
    except UnsolvedError:  # the ratio stands; what is left stays idle
        return first
    ratio = _largest_ratio(rows, last.share_GA)
    if ratio > first.ratio * (1.0 + 1e-9):
        return first
    rounds = first.rounds + last.rounds
    return Ratios(last.share_GA, ratio, first.bound, first.start, last.complete, rounds)


def _first(rows: Rows, start: Start | None, limits: Limits) -> Ratios:
    """The least largest ratio; ``complete`` if there is nothing left for any job."""
    cap, share_GA = float(rows.need.cap_G.min()), saturated(rows, limits)
    if share_GA is not None:
        return Ratios(within(share_GA, rows), -cap, -cap, None, True, 0)
    if (share_GA := fitted(rows, cap)) is not None:
        return Ratios(within(share_GA, rows), -cap, -cap, None, False, 0)
    found = find_level(rows, limits, start=start, level=cap, goal=cap)
    pinned, price_A = found.level >= cap, found.prices.price_A
    share_GA = within(certified(found, np.inf if pinned else CERTIFIED), rows)
    ratio, bound = _largest_ratio(rows, share_GA), -min(cap, found.prices.upper)
    complete = not pinned and bool(paid(rows, price_A).all())
    return Ratios(share_GA, ratio, bound - ROUNDING * abs(bound), Start(price_A), complete, found.rounds)


def _directly(rows: Rows, need: RatioNeed, price_A: Floats | None, *, lexicographic: bool) -> Ratios:
    """The same for ratios: the largest, then the surplus over the needs that it leaves."""
    direct = Direct(rows)
    cap = float(need.cap_G.min())
    level, proof = direct.raise_level(need, cap)
    share_GA = within(direct.share_GA.copy(), rows)
    ratio = _largest_ratio(rows, share_GA)
    bound = -level
    if ratio - bound > CERTIFIED * abs(bound):
        raise UnsolvedError("bound and ratio did not meet")
    direct.fix_those_at_their_end(need, level, proof)
    complete = not lexicographic or _surplus_directly(direct, need, ratio)
    if lexicographic:
        if price_A is not None:
            direct.cheapest(price_A)
        last_GA = within(direct.share_GA, rows)
        share_GA = last_GA if _largest_ratio(rows, last_GA) <= ratio * (1.0 + 1e-9) else share_GA
    bound -= ROUNDING * abs(bound)
    ratio = _largest_ratio(rows, share_GA)
    return Ratios(share_GA, ratio, bound, None, complete, direct.programs, cheapest=True)


def _surplus_directly(direct: Direct, need: RatioNeed, ratio: float) -> bool:
    """Raise what all have beyond what this ratio needs; says whether the solver got to the end."""
    one_G, factor_G = np.ones(len(need.steps_G)), (ratio * need.deadline_G - need.elapsed_G) / need.steps_G
    try:
        if not direct.fixed_G.all():
            surplus = LinearNeed(-one_G, one_G, factor_G * need.best_G, np.full(len(one_G), -np.inf))
            return raise_rows(direct, surplus).complete
    except UnsolvedError:  # the ratio stands; what is left stays idle
        return False
    return True


def _largest_ratio(rows: Rows, share_GA: Floats) -> float:
    return float(-rows.need.reached((rows.gain_VG.T * share_GA).sum(axis=1)).min())
