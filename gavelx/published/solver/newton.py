"""The linear equations of an interior point's step: where their entries are, their values, their solution.

``G' z = bx, G x - W^2 z = bz``, in variables scaled so that only 1 stands in the corner: with ``V V' = W^-2`` they
are ``G' V v = bx, V' G x - v = V' bz`` and ``z = V v``. A row of one entry is a bound: its v is put into the other
equations. V' mixes the three rows of a second-order cone, so each has the entries of all. Programs of as many jobs
come again and again, so the last patterns are remembered: to find one takes as long as to solve a small program.

Legend: V variables, L rows, E entries of G, M terms of mixed entries, U unknowns and F entries of the equations.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.published.solver.arrow import Arrow
from gavelx.published.solver.cones import Cones, Scaling

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
REGULAR, REFINED, ROUNDING = 7e-8, 9, 1e-14
"""What makes the equations regular, how often their solution is refined at most, and where that ends."""
REMEMBERED = 32


class Equations:
    """Those of a matrix G, whose last rows are in second-order cones."""

    def __init__(self, G: sparse.csr_array, cones: Cones) -> None:
        indptr, indices = G.indptr.astype(np.int64), G.indices.astype(np.int64)
        self.cones, self.V, self.value_E = cones, G.shape[1], G.data
        self.pattern = _pattern(indptr.tobytes(), indices.tobytes(), self.V, cones.nonnegative)

    def scaled_by(self, W: Scaling) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
        """The function that solves them for ``bx, bz``: as regular equations, whose solution is then refined."""
        at, V, G_E = self.pattern, self.V, self.value_E
        of_bound = G_E[at.bound_E] / W.W_N[at.bound]
        mixed_M = G_E[at.mixed_E] * W.half_K33.ravel()[at.factor_M]
        value = np.concatenate([G_E[at.alone_E] / W.W_N[at.row_of], np.bincount(at.sum_M, mixed_M, at.sums)])
        corner_U = np.concatenate([np.bincount(at.bounded, of_bound**2, V), np.full(len(at.kept), -1.0)])
        value_F = np.concatenate([value, value, corner_U])
        regular_U = corner_U.copy()
        regular_U[:V] += REGULAR
        solved = at.arrow.factored(np.concatenate([value, value, regular_U]))

        def times(v_U: Floats) -> Floats:
            return np.asarray(np.bincount(at.row_F, value_F * v_U[at.column_F], len(v_U)), dtype=np.float64)

        def solve(bx: Floats, bz: Floats) -> tuple[Floats, Floats]:
            bv = W.half(bz)
            b = np.concatenate([bx + np.bincount(at.bounded, of_bound * bv[at.bound], V), bv[at.kept]])
            v = refined(solved, times, b)
            bv[at.kept], bv[at.bound] = v[V:], of_bound * v[at.bounded] - bv[at.bound]
            return v[:V], W.whole(bv)

        return solve


def refined(solved: Callable[[Floats], Floats], times: Callable[[Floats], Floats], b: Floats) -> Floats:
    """The solution for a matrix of one that is nearly the same, as long as it gets better."""
    v = solved(b)
    left = b - times(v)
    missed, enough = norm(left), ROUNDING * (1.0 + norm(b))
    for _ in range(REFINED):
        if missed <= enough:
            break
        better = v + solved(left)
        left = b - times(better)
        before, missed = missed, norm(left)
        if not missed < before:
            break
        v = better
    return v


def dot(u: Floats, v: Floats) -> float:
    """Their product."""
    return float((u * v).sum())


def norm(v: Floats) -> float:
    """Its length."""
    return math.sqrt(dot(v, v))


@lru_cache(REMEMBERED)
def _pattern(indptr: bytes, indices: bytes, V: int, nonnegative: int) -> "_Pattern":
    return _Pattern(np.frombuffer(indptr, np.int64), np.frombuffer(indices, np.int64), V, nonnegative)


class _Pattern:
    """Where G has its entries, row by row, and where the equations have which of them."""

    def __init__(self, indptr: Ints, column_E: Ints, V: int, nonnegative: int) -> None:
        entries_L = np.diff(indptr)
        row_E, is_bound_L = np.arange(len(entries_L)).repeat(entries_L), entries_L == 1
        is_bound_L[nonnegative:] = False
        self.bound, self.kept = np.flatnonzero(is_bound_L), np.flatnonzero(~is_bound_L)
        self.bound_E = indptr[self.bound]
        self.bounded = column_E[self.bound_E]
        self.alone_E = np.flatnonzero(~is_bound_L[row_E] & (row_E < nonnegative))
        self.row_of = row_E[self.alone_E]
        together_E = np.flatnonzero(row_E >= nonnegative)
        third, row_3E = np.arange(3), row_E[together_E]
        of_cone = nonnegative + (row_3E - nonnegative) // 3 * 3
        place = ((of_cone + third[:, None]) * V + column_E[together_E]).ravel()
        found, self.sum_M = np.unique(place, return_inverse=True)
        self.sums, self.mixed_E = len(found), np.tile(together_E, 3)
        in_cone = row_3E - of_cone
        self.factor_M = ((of_cone - nonnegative) * 3 + 3 * third[:, None] + in_cone).ravel()
        unknown_L = np.cumsum(~is_bound_L) - 1 + V
        row = unknown_L[np.concatenate([self.row_of, found // V])]
        column = np.concatenate([column_E[self.alone_E], found % V])
        corner = np.arange(V + len(self.kept))
        self.row_F, self.column_F = np.concatenate([row, column, corner]), np.concatenate([column, row, corner])
        self.arrow = Arrow(self.row_F, self.column_F, len(corner))
