"""The highest level that all rows can reach, found by moving the few prices of the accelerator types.

At given prices almost every row has one cheapest mix of types (`replies`), and keeps it while the prices stay in
a small box. So only the rows that are near a tie enter a linear program, in which the prices may move within the
box: devices can be bought at its upper edge and sold at its lower one. All other rows are 2 A numbers there: what
they use, and how that rises with the level. The program's multipliers are the next prices; the box shrinks.

* Where too many rows are near a tie, a sample of them stands for the *changes* that all of them would make. What
  the sample misses at the present prices is added as a constant, which makes the next prices accurate.
* Where all of them fit and nothing is bought, the program's optimum is one of the whole: a level that is reached.
* The replies' cost bounds the level from above for any prices, so the two close in on the optimum, and prices that
  prove less than the best so far are discarded.
* The first prices come from a sample of the rows with its part of the devices, solved in the same way; where jobs
  run in several sizes, from `cuts`.

Working on prices is Dantzig and Wolfe's idea ("Decomposition principle for linear programs", Operations Research
8, 1960), the box that of Marsten, Hogan and Blankenship ("The boxstep method for large-scale optimization",
Operations Research 23, 1975). Ours keeps whole rows in the program, so that few rounds are enough.

Legend: G rows, A accelerator types, K rows in a program, V its variables, E its shares.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.price_engine.cuts import prices_by_cuts
from gavelx.solvers.price_engine.narrowed import MANY, Box, Narrowed, replied, usage
from gavelx.solvers.price_engine.prices import EXACT, Prices, Start, prove, widths
from gavelx.solvers.price_engine.replies import Floats, Ints, Replies, Rows
from gavelx.solvers.program.errors import UnsolvedError

WIDE = 1e3
"""Size of a box that holds all prices."""
BOUGHT = 1e-10
BENT = 1e-11
"""Part of its need that a row may lack by rounding."""
WIDER = 1.0 + 1e-6
"""By how much more than the box one looks for the types that rows may use in it."""
LOST = 1e-6
"""Size of a box in which there should no longer be more ties than a program can hold."""


@dataclass(frozen=True)
class Limits:
    """Sizes of the search; the answers do not depend on them, only the time that they take."""

    few: int = 300  # up to so many rows there is no search at all, but one program with all of them
    all: int = 20_000  # up to so many a program may hold all of them; where a search comes to no end, one does
    direct: int = 100  # up to so many rows all enter the program
    sample: int = 80  # rows of the smallest sample ...
    thinning: int = 16  # ... each sample being this part of the next one
    program: int = 300  # rows in a program at first, at least ...
    program_part: float = 1e-3  # ... this part of all, ...
    largest: int = 4000  # ... and at most, of still more rows
    rounds: int = 60
    known: float = 0.02  # size of the first box around prices that the caller gave
    gap: float = 1e-11
    seed: int = 0


LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class Found:
    """The level reached with these shares (None if none was) and the prices that bound it."""

    level: float
    share_GA: Floats | None
    prices: Prices
    rounds: int


def find_level(
    rows: Rows,
    limits: Limits = LIMITS,
    *,
    start: Start | None = None,
    level: float | None = None,
    goal: float = np.inf,
) -> Found:
    """Raise the level of all rows as far as possible; saturated rows stay at their best while the others go on.

    ``start`` is where to begin, and ``level`` a guess where that knows none. Ends once ``goal`` is reached; no
    row is saturated below it. Raises :class:`UnsolvedError` where prices prove that not even
    needs that do not depend on the level can be met.
    """
    if start is not None and start.level is not None:
        level = start.level
    elif level is None:
        level = float(np.median(rows.need.cap_G[np.isfinite(rows.need.cap_G)]))
    return _Search(rows, limits, start, level).run(goal)


class _Search:
    """The state of one search: best prices, best level reached, the level aimed at, and the size of the box."""

    def __init__(self, rows: Rows, limits: Limits, start: Start | None, level: float) -> None:
        self.rows, self.limits = rows, limits
        self.rng = np.random.default_rng(limits.seed)
        wanted = max(limits.program, limits.direct, int(limits.program_part * len(rows)))
        self.largest = limits.largest if len(rows) > limits.all else len(rows)
        self.program = min(wanted, self.largest)
        if len(rows) <= limits.direct:
            self.size = WIDE
        elif start is not None:
            self.size = limits.known
        elif rows.sizes is not None:
            start, self.size = prices_by_cuts(rows, level)
        else:
            start = self._sampled(level)
            self.size = 3.0 / np.sqrt(_sample_size(rows, limits))
        start = start or Start(np.ones(rows.A))
        level = level if start.level is None else start.level
        self.near = None
        if start.level_width is not None and len(rows) >= MANY and not rows.need.bent_G(level, level).all():
            price_A = start.price_A / rows.worth(start.price_A)
            self.near = Narrowed.to(self._box(price_A, level, start.level_width), rows)
        self.prices = prove(self.near or rows, start.price_A, level)
        self.target = self.prices.upper
        self.lower, self.best, self.at_edge = -np.inf, None, 0

    lower: float
    best: "_Step | None"
    near: Narrowed | None

    def run(self, goal: float = np.inf, enough: float = 0.0) -> Found:
        """Rounds until the bounds meet, the goal is reached, or the prices are known to a part ``enough``."""
        number = 0
        for number in range(1, self.limits.rounds + 1):  # noqa: B007
            self._round()
            prices = self.prices
            close = max(self.limits.gap, 0.01 * enough**2) * prices.scale
            lost = self.program >= self.largest < len(self.rows) and self.size < LOST
            if self.size < enough or lost or self.lower >= goal or abs(prices.upper - self.lower) <= close:
                break
        share_GA = self.best.shares() if self.best is not None else None
        return Found(self.lower, share_GA, self.prices, number)

    def _round(self) -> None:
        old, size = self.prices, self.size
        box = self._box(old.price_A, self.target, old.level_width)
        if self.near is None or not self.near.answers(box):
            self.near = Narrowed.to(box, self.rows)
        step = _Step.solve(self.near, box, self.program, self.rng)
        if step.feasible and step.level > self.lower and step.meets_all_needs():
            self.lower, self.best = step.level, step
        better = False
        if step.price_A.any():
            tolerance = EXACT if step.exact else 0.1 * size
            new = prove(self.near, step.price_A, step.level, old.level_width, tolerance)
            better = new.upper < old.upper
            self.prices = new if better else old
        self._aim(step, better)
        moved = float(np.max(np.abs(step.price_A - old.price_A) / box.width_A))
        self._resize(step.exact, better, at_edge=moved > 0.9 * size)

    def _box(self, price_A: Floats, level: float, level_width: float) -> Box:
        """The box of the present size around these prices; levels go down twice as far as prices."""
        return Box(price_A, widths(price_A, self.rows.devices_A), level, 2.0 * level_width, self.size)

    def _resize(self, exact: bool, better: bool, *, at_edge: bool) -> None:
        """Shrink the box where prices settle inside it, grow it where they want out again and again."""
        self.at_edge = self.at_edge + 1 if at_edge else 0
        if exact:
            self.size = min(4.0 * self.size, WIDE) if at_edge or not better else self.size
        elif not better:
            self.size /= 3.0
            self.program = min(2 * self.program, self.largest)
        elif at_edge:
            self.size = min(4.0 * self.size, WIDE) if self.at_edge > 2 else self.size
        else:
            self.size /= 5.0

    def _aim(self, step: "_Step", better: bool) -> None:
        """Aim at the proven bound; halve the way to it where rows that saturate on it lead the program astray."""
        if better or self.lower >= self.target:
            upper = self.prices.upper
            self.target = upper if self.lower < self.target else (self.lower + upper) / 2.0
        elif step.exact:
            self.target = (max(self.lower, step.level) + self.target) / 2.0

    def _sampled(self, level: float) -> Start:
        """Prices and level of a sample of the rows with its part of the devices."""
        rows, limits = self.rows, self.limits
        size = _sample_size(rows, limits)
        index = np.sort(self.rng.choice(len(rows), size, replace=False))
        part = rows.take(index, rows.devices_A * (rows.load_G[index].sum() / rows.load_G.sum()))
        if not np.isfinite(part.need.cap_G).any():
            return Start(np.ones(rows.A), level)
        try:
            search = _Search(part, replace(limits, direct=max(limits.direct, limits.sample)), None, level)
            found = search.run(enough=1.0 / np.sqrt(size))
        except UnsolvedError:
            return Start(np.ones(rows.A), level)
        return found.prices.start


def _sample_size(rows: Rows, limits: Limits) -> int:
    return max(min(limits.sample, len(rows)), len(rows) // limits.thinning)


@dataclass(frozen=True, eq=False)
class _Step:
    """What one program found: rows ``index`` have ``share_KA`` at ``level``, the others reply as before."""

    near: Narrowed
    replies: Replies
    from_level: float
    index: Ints
    exact: bool
    share_KA: Floats
    level: float
    price_A: Floats
    bought: float

    @classmethod
    def solve(cls, near: Narrowed, box: Box, most: int, rng: np.random.Generator) -> "_Step":
        rows, replies = near.rows, near.replies_in(box)
        index = np.flatnonzero(replies.margin_G <= box.size)
        exact, weight = len(index) <= most, 1.0
        if not exact:
            weight = len(index) / most
            index = np.sort(rng.choice(index, most, replace=False))
        (use_A, rise_A), others = usage(rows, replies), near.others(box.level)
        own_A, own_rise_A = usage(rows.take(index, rows.devices_A), replies.take(index))
        free = (rows.devices_A - others[0] - use_A + weight * own_A, others[1] + rise_A - weight * own_rise_A)
        share_KA, down, price_A, bought = _solve_program(rows, box, index, weight, free)
        return cls(near, replies, box.level, index, exact, share_KA, box.level + down, price_A, bought)

    @property
    def feasible(self) -> bool:
        return self.exact and self.bought <= BOUGHT

    def meets_all_needs(self) -> bool:
        """Whether they are what rows need at this level: they follow the tangents, and needs may be bent."""
        rows = self.near.rows
        (from_G, rise_G), need_G = rows.needs(self.from_level), rows.needs(self.level)[0]
        has_G = from_G + rise_G * (self.level - self.from_level)
        return bool((need_G - has_G <= BENT * np.abs(need_G)).all())

    def shares(self) -> Floats:
        """All rows' shares at the level reached."""
        part_G = self.replies.part_G + self.replies.rise_G * (self.level - self.from_level)
        share_GA = replied(self.replies, part_G, self.near.rows.V)
        share_GA[self.index] = self.share_KA
        return self.near.shares(self.level, share_GA)


def _solve_program(
    rows: Rows, box: Box, index: Ints, weight: float, free: tuple[Floats, Floats]
) -> tuple[Floats, float, Floats, float]:
    """Shares of the rows, the step of the level, the prices, and the largest part of a type that had to be bought.

    ``free`` are the devices that the other rows leave, and how fast the others' use rises with the level.
    Variables: shares row by row, the level's step down, devices bought, devices sold. Constraints: needs, time,
    devices. Loads are in units of the mean load, prices in units of the largest, so that all numbers are near 1.
    """
    A, K, (room_A, rise_A) = rows.A, len(index), free
    need_K, slope_K = (all_G[index] for all_G in rows.needs(box.level))
    width = box.level_width / 2.0
    load_K = rows.load_G[index] * weight
    unit = float(load_K.mean()) if K else 1.0
    money = 1.0 / (unit * float(box.width_A.max()))
    here = box.price_A, box.width_A, box.level, box.level_width
    k, v = np.nonzero(rows.take(index, rows.devices_A).in_reach(*here, box.size * WIDER).T)
    E, every, types = len(k), np.arange(K), np.arange(A)
    shares_E3 = np.column_stack([rows.gain_VG[v, index[k]], np.ones(E), load_K[k] / unit * rows.devices_V[v]])
    level = np.concatenate([-slope_K * (width / money), rise_A * (width / (unit * money))])
    values = np.concatenate([shares_E3.ravel(), level, -np.ones(A), np.ones(A)])
    rows_E3 = np.column_stack([k, K + k, 2 * K + rows.type_V[v]])
    devices = 2 * K + types
    where = np.concatenate([rows_E3.ravel(), every, devices, devices, devices])
    starts = np.concatenate([3 * np.arange(E + 1), 3 * E + K + A + np.arange(2 * A + 1)])
    sell_A, buy_A = (edge_A * (unit * money) for edge_A in box.edges_A)
    program = LinearProgram(
        objective_V=np.concatenate([np.zeros(E), [1.0], -buy_A, sell_A]),
        lower_V=np.concatenate([np.zeros(E), [-box.size * box.level_width * money / width], np.zeros(2 * A)]),
        upper_V=np.concatenate([np.ones(E), [0.0], np.full(2 * A, np.inf)]),
        matrix_KV=sparse.csc_array(
            (values, where.astype(np.int32), starts.astype(np.int32)), shape=(2 * K + A, E + 1 + 2 * A)
        ),
        lower_K=np.concatenate([need_K, np.full(K + A, -np.inf)]),
        upper_K=np.concatenate([np.full(K, np.inf), np.ones(K), room_A / unit]),
    )
    value_V, multiplier_K = program.solve()
    share_KA = np.zeros((K, rows.V))
    share_KA[k, v] = value_V[:E]
    bought_A = value_V[E + 1 : E + 1 + A] * unit / rows.devices_A
    price_A = np.maximum(multiplier_K[2 * K :], 0.0) / (unit * money)
    return share_KA, float(value_V[E]) / money * width, price_A, float(bought_A.max())
