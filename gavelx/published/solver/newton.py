"""The linear equations of an interior point's step: where their entries are, their values, their solution.

``G' z = bx, G x - W^2 z = bz``, in variables scaled so that only 1 stands in the corner: with ``V V' = W^-2`` they
are ``G' V v = bx, V' G x - v = V' bz`` and ``z = V v``. A row of one entry is a bound: its v is put into the other
equations. V' mixes the three rows of a second-order cone, so each has the entries of all. Programs of as many jobs
come again and again, so the last patterns are remembered: to find one takes as long as to solve a small program.

Legend: V variables, L rows, E entries of G, M terms of mixed entries, U unknowns and F entries of the equations.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.published.solver.arrow import arrow_of
from gavelx.published.solver.kernel import Cones, Pattern

Ints = NDArray[np.int64]
REMEMBERED = 32


@lru_cache(REMEMBERED)
def _pattern(indptr: bytes, indices: bytes, V: int, nonnegative: int) -> Pattern:
    return _found(np.frombuffer(indptr, np.int64), np.frombuffer(indices, np.int64), V, nonnegative)


def pattern_of(G: sparse.csr_array, cones: Cones) -> Pattern:
    """The pattern of a matrix whose last rows are in second-order cones."""
    indptr, indices = G.indptr.astype(np.int64), G.indices.astype(np.int64)
    return _pattern(indptr.tobytes(), indices.tobytes(), G.shape[1], cones.nonnegative)


def _found(indptr: Ints, column_E: Ints, V: int, nonnegative: int) -> Pattern:
    entries_L = np.diff(indptr)
    row_E, is_bound_L = np.arange(len(entries_L)).repeat(entries_L), entries_L == 1
    is_bound_L[nonnegative:] = False
    bound, kept = np.flatnonzero(is_bound_L), np.flatnonzero(~is_bound_L)
    bound_E = indptr[bound]
    alone_E = np.flatnonzero(~is_bound_L[row_E] & (row_E < nonnegative))
    alone_E = alone_E[np.argsort(column_E[alone_E], kind="stable")]
    row_of = row_E[alone_E]
    together_E = np.flatnonzero(row_E >= nonnegative)
    third, row_3E, cones = np.arange(3), row_E[together_E], (len(entries_L) - nonnegative) // 3
    cone_3E = (row_3E - nonnegative) // 3
    of_cone = nonnegative + cone_3E * 3
    place = (column_E[together_E] * len(entries_L) + of_cone + third[:, None]).ravel()
    found, sum_M = np.unique(place, return_inverse=True)
    factor_M = ((third[:, None] * 3 + row_3E - of_cone) * cones + cone_3E).ravel()
    unknown_L = np.cumsum(~is_bound_L) - 1 + V
    row_F = unknown_L[np.concatenate([row_of, found % len(entries_L)])]
    column_F = np.concatenate([column_E[alone_E], found // len(entries_L)])
    below, diagonal = np.arange(len(row_F)), np.arange(V + len(kept))
    row, column = np.concatenate([row_F, column_F, diagonal]), np.concatenate([column_F, row_F, diagonal])
    arrow = arrow_of(row, column, len(diagonal))
    value = np.concatenate([below, below, len(below) + diagonal])
    inner, border, among = value[arrow.inner], value[arrow.border], value[arrow.among]
    return Pattern(
        V,
        bound,
        bound_E,
        column_E[bound_E],
        kept,
        alone_E,
        row_of,
        np.tile(together_E, 3),
        factor_M,
        sum_M,
        len(found),
        row_F,
        column_F,
        arrow._replace(inner=inner, border=border, among=among),
    )
