"""Few rows: all of them in one linear program that stays warm, and Newton's method on the level.

The program makes the fullest type as little full as possible while every row has what it needs::

    minimise z   subject to   gain_g . x_g >= need_g,   sum_a x_ga <= 1,   sum_g load_g x_ga <= z W_a,   x >= 0

A level t can be reached if z <= 1 with the needs at t. If not, the multipliers of that program (lambda of the
needs, tau of the times) prove ``z >= lambda . need(t') - sum tau`` for every level t', so none above the root of
``lambda . need(t') = 1 + sum tau`` can be. That root is the next level: it falls, is an upper bound always, and
is the optimum when it can be reached. Any prices of the types have such multipliers, so the first root takes no
program: prices of the last one, or how fast an average row is on each type. One or two programs follow.

A row's need stops at its best, so one search passes all levels at which rows are at their best. Rows with a
multiplier have what they have in every optimum (complementary slackness): they are fixed there, and the others
rise further in the same program.

Only right-hand sides change from program to program, so each starts from the last one's basis, by dual simplex.

Legend: G rows (jobs, or classes of identical ones), A accelerator types, E shares that can be positive.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.price_engine.replies import TINY, Floats, Ints, Need, Rows, capped
from gavelx.solvers.program.errors import UnsolvedError

Bools = NDArray[np.bool_]
FULL = 1.0 + 1e-12
"""How full types may get by rounding."""
ROUNDED = 1.0 + 1e-8
POSITIVE = 1e-9
"""A multiplier below this part of the largest is rounding; a row that is missed is fixed at the next level."""
STEPS = 60
ALL = 1.0 - 1e-9
SLACK = 1e-11
"""Part of a need that may be missed when the cheapest shares are looked for."""


@dataclass(frozen=True, eq=False)
class Raised:
    """The first level at which devices bind, which no shares exceed, and its rise with one more of each type.

    Not ``complete``: the solver gave up at a later one.
    """

    level: float
    marginal_A: Floats
    complete: bool = True


@dataclass(frozen=True, eq=False)
class Multipliers:
    """What a need is worth, and a device of each type; and what all times and devices are worth together.

    They prove how high a level can be: at most so high that the needs are worth no more than all there is.
    """

    need_G: Floats
    price_A: Floats
    worth: float


class Direct:
    """The program over all rows: which of them are fixed, and at what need."""

    def __init__(self, rows: Rows) -> None:
        self.rows, G = rows, len(rows)
        g, v = np.nonzero(rows.gain_VG.T > 0)
        E = len(g)
        self._cell_E = g * rows.V + v
        self._program = LinearProgram(
            objective_V=np.append(np.zeros(E), -1.0),
            lower_V=np.zeros(E + 1),
            upper_V=np.append(np.ones(E), np.inf),
            matrix_KV=_matrix(rows, g, v),
            lower_K=np.concatenate([np.zeros(G), np.full(G + rows.A, -np.inf)]),
            upper_K=np.concatenate([np.full(G, np.inf), np.ones(G), np.zeros(rows.A)]),
        )
        self._row_G = np.arange(G, dtype=np.int32)
        self._load_E = rows.load_G[g] * rows.devices_V[v]
        self._type_E = rows.type_V[v]
        self.programs, self.full = 0, FULL
        fast_V = np.einsum("AG,G->A", rows.gain_VG, rows.load_G) / rows.load_G.sum()
        self._price_A = fast_V if rows.sizes is None else np.bincount(rows.type_V, fast_V / rows.devices_V, rows.A)
        self.share_GA = np.zeros((G, rows.V))
        self.fixed_G = np.zeros(G, dtype=bool)
        self.floor_G = np.zeros(G)

    def solve(self, need_G: Floats) -> tuple[float, Multipliers]:
        """How full the fullest type is at least, with these needs, and what proves it."""
        self.programs += 1
        self._program.set_lowers(self._row_G, need_G)
        value_V, multiplier_K = self._program.solve()
        G = len(self.rows)
        self.share_GA.ravel()[self._cell_E] = value_V[:-1]
        self._price_A = np.maximum(multiplier_K[2 * G :], 0.0) / self.rows.devices_A
        return float(value_V[-1]), self._proof(np.maximum(-multiplier_K[:G], 0.0), self._price_A)

    def _guess(self) -> Multipliers:
        """What prices near the last ones prove: each need is worth the cheapest way to meet it.

        Rows that are fixed may be a hair too many for the devices. Where those that rise are worth little at these
        prices, that hair is much of it; so the devices are taken to be as full as they may be.
        """
        rows, price_A = self.rows, self._price_A + max(TINY, POSITIVE * self._price_A.max())
        price_A = price_A / rows.worth(price_A)
        price_V = rows.per_column(price_A)
        with np.errstate(divide="ignore", over="ignore"):
            per_gain_AG = np.where(rows.gain_VG > 0, price_V[:, None] / rows.gain_VG, np.inf)
        cheapest_G = rows.load_G * per_gain_AG.min(axis=0)
        proof = self._proof(np.where(cheapest_G < np.inf, cheapest_G, 0.0), price_A)
        return replace(proof, worth=proof.worth * self.full) if self.fixed_G.any() else proof

    def _proof(self, need_G: Floats, price_A: Floats) -> Multipliers:
        """With the least worth of the times that these multipliers allow; so they prove it, optimal or not."""
        time_AG = need_G * self.rows.gain_VG - self.rows.load_G * self.rows.per_column(price_A)[:, None]
        worth = float(time_AG.max(axis=0, initial=0.0).sum()) + self.rows.worth(price_A)
        return Multipliers(need_G, price_A, worth)

    def needs(self, need: Need, level: float) -> tuple[Floats, Floats]:
        """Need and its rise of every row, as long as it is not fixed."""
        need_G, rise_G = capped(need, self.rows.top_G, level)
        return np.where(self.fixed_G, self.floor_G, need_G), np.where(self.fixed_G, 0.0, rise_G)

    def raise_level(self, need: Need, level: float) -> tuple[float, Multipliers | None]:
        """The highest level up to this one, and what proves that no higher one is reached; None if it is this one.

        Raises :class:`UnsolvedError` where not even the rows that are fixed can have their
        needs.
        """
        proof: Multipliers | None = None
        if (lower := self._root(need, level, guess := self._guess())) < level:
            level, proof = lower, guess
        for _ in range(STEPS):
            full, found = self.solve(self.needs(need, level)[0])
            if full <= self.full:
                break
            lower = self._root(need, level, found)
            if lower >= level and full <= ROUNDED:
                self.full = full  # as near as rounding lets it come
                break
            if lower >= level:
                raise UnsolvedError("infeasible")
            level, proof = lower, found
        else:
            raise UnsolvedError("no level was reached")
        return level, proof

    def _root(self, need: Need, level: float, proof: Multipliers) -> float:
        """The level up to this one at which the needs are worth as much as all there is."""
        lambda_G, rows = proof.need_G, self.rows
        worth = proof.worth - float((lambda_G * self.floor_G)[self.fixed_G].sum())
        rising = np.flatnonzero(~self.fixed_G & (lambda_G > 0) & need.rises_G)
        if not len(rising):
            return level
        weight_n, need_n, top_n = lambda_G[rising], need.take(rising), rows.top_G[rising]
        cap_n = need_n.cap_G

        def excess(level: float) -> tuple[float, float]:
            need_of_n, rise_n = capped(need_n, top_n, level)
            return float((weight_n * need_of_n).sum()) - worth, float((weight_n * rise_n).sum())

        kinks = np.sort(cap_n[cap_n < level])
        low, high = 0, len(kinks)  # the root is above the kinks before `low`, and not above `high`
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if excess(float(kinks[middle]))[0] <= 0 else (low, middle)
        level = float(kinks[high]) if high < len(kinks) else level
        floor = float(kinks[low - 1]) if low else -np.inf
        for _ in range(STEPS):
            over, rise = excess(level)
            if over <= 0 or rise <= 0:
                break
            lower = max(floor, level - over / rise)
            if not lower < level:
                break
            level = lower
        return level

    def marginal_A(self, need: Need, level: float, proof: Multipliers | None) -> Floats:
        """What one more device of each type would raise this level by."""
        rise = 0.0 if proof is None else float((proof.need_G * self.needs(need, level)[1]).sum())
        return np.zeros(self.rows.A) if proof is None or rise <= 0 else proof.price_A / rise

    def fix_those_at_their_end(self, need: Need, level: float, proof: Multipliers | None) -> None:
        """Fix the rows that cannot rise above this level: those at their best, and those its proof leans on."""
        ends_G = need.cap_G <= level
        if proof is not None:
            push_G = np.where(ends_G | self.fixed_G, 0.0, proof.need_G)
            ends_G |= push_G > POSITIVE * push_G.max()
        self.fix(ends_G & ~self.fixed_G, self.needs(need, level)[0])

    def fix(self, rows_G: Bools, need_G: Floats) -> None:
        """From now on these rows have what they need here, and rise no further."""
        self.floor_G = np.where(rows_G & ~self.fixed_G, need_G, self.floor_G)
        self.fixed_G = self.fixed_G | rows_G

    def cheapest(self, price_A: Floats) -> None:
        """Among the shares with which every row keeps what it has, those that cost least."""
        used_A = self.rows.used(self.share_GA)
        if (used_A >= self.rows.devices_A * ALL).all():
            return  # where all devices are in use their cost is what it is
        have_G = (self.rows.gain_VG.T * self.share_GA).sum(axis=1)
        cost_E = self._load_E * price_A[self._type_E]
        cost_E = cost_E / max(float(cost_E.max(initial=0.0)), 1e-300)
        self._program.set_objective(np.append(-cost_E, 0.0))
        self._program.set_upper_of_last(max(1.0, float((used_A / self.rows.devices_A).max())))
        self._program.set_lowers(self._row_G, have_G * (1.0 - SLACK))
        try:
            value_V, _ = self._program.solve()
        except UnsolvedError:
            return
        if (cost_E * value_V[:-1]).sum() < (cost_E * self.share_GA.ravel()[self._cell_E]).sum():
            self.share_GA.ravel()[self._cell_E] = value_V[:-1]


def _matrix(rows: Rows, g: Ints, v: Ints) -> sparse.csc_array:
    """Needs, times and devices, column by column: a share is in one row of each kind, z in those of devices."""
    G, A, E, a = len(rows), rows.A, len(g), rows.type_V[v]
    value_E3, row_E3 = np.ones((E, 3)), np.empty((E, 3), dtype=np.int32)
    value_E3[:, 0], row_E3[:, 0] = rows.gain_VG[v, g], g
    row_E3[:, 1] = G + g
    value_E3[:, 2], row_E3[:, 2] = rows.load_G[g] * rows.devices_V[v] / rows.devices_A[a], 2 * G + a
    values = np.concatenate([value_E3.ravel(), np.full(A, -1.0)])
    places = np.concatenate([row_E3.ravel(), np.arange(2 * G, 2 * G + A, dtype=np.int32)])
    ends = np.append(np.arange(0, 3 * E + 1, 3, dtype=np.int32), np.int32(3 * E + A))
    return sparse.csc_array((values, places, ends), shape=(2 * G + A, E + 1))


def raise_rows(direct: Direct, need: Need, *, lexicographic: bool = True) -> Raised:
    """Raise the least of all rows as far as possible, then the least of those that can rise further, and so on.

    Raises :class:`UnsolvedError`.
    """
    cap_G = need.cap_G
    direct.fix(~need.rises_G, need(0.0)[0])
    first: Raised | None = None
    while not direct.fixed_G.all():
        rising_G, reached_GA = ~direct.fixed_G, direct.share_GA.copy()
        highest = float(cap_G[rising_G].max() if lexicographic else cap_G[rising_G].min())
        try:
            level, proof = direct.raise_level(need, highest)
        except UnsolvedError:
            if first is None:
                raise
            direct.share_GA = reached_GA
            return replace(first, complete=False)
        if first is None:
            first = Raised(level, direct.marginal_A(need, level, proof))
        if not lexicographic:
            break
        direct.fix_those_at_their_end(need, level, proof)
    assert first is not None
    return first
