"""Symmetric systems of blocks that meet in few unknowns, solved block by block.

An allocation ties jobs together by little: the devices of each type, and a level that all have in common. With
those unknowns, the hubs, set aside, each job is a small system of its own, and all of one shape are solved at
once; what is left for the hubs is their Schur complement (G. Golub and C. Van Loan, "Matrix Computations", 4th
edition, section 3.2.11). Pivots are chosen within a block, so the work never depends on the numbers, as that of a
sparse factorization does where a pivot is tiny; near an optimum many are.

Legend: E entries, U unknowns, H hubs, R other unknowns, B blocks of one size, N unknowns of a block.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.csgraph import connected_components

from gavelx.solvers.highs import UnsolvedError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LARGEST = 64
"""Unknowns that a block has at most."""


@dataclass(frozen=True)
class _Entries:
    """Which entries, and at which places they are in a matrix, or in those of all blocks, one after the other."""

    which: Ints
    place: Ints

    def filled(self, value_E: Floats, shape: tuple[int, ...]) -> Floats:
        matrices = np.zeros(shape)
        matrices.ravel()[self.place] = value_E[self.which]
        return matrices


@dataclass(frozen=True)
class _Blocks:
    """Blocks of as many unknowns, at these rows among the unknowns that are in blocks."""

    rows: slice
    shape: tuple[int, int, int]
    inside: _Entries


class Arrow:
    """The places of the entries of such a system, each of which is named in both its places."""

    def __init__(self, row_E: Ints, column_E: Ints, unknowns: int) -> None:
        block_U = _block_of(row_E, column_E, unknowns)
        size_U = np.where(block_U < 0, 0, np.bincount(block_U + 1, minlength=1)[block_U + 1])
        order = np.lexsort([block_U, size_U])
        hubs = int(np.count_nonzero(block_U < 0))
        self.hubs, self.others = order[:hubs], order[hubs:]
        place_U = np.empty(unknowns, dtype=np.int64)
        place_U[order] = np.arange(unknowns) - hubs  # negative for a hub
        row, column, H = place_U[row_E], place_U[column_E], hubs
        among, across = np.flatnonzero((row < 0) & (column < 0)), np.flatnonzero((row >= 0) & (column < 0))
        self.among_hubs = _Entries(among, (row[among] + H) * H + column[among] + H)
        self.border = _Entries(across, row[across] * H + column[across] + H)
        self.blocks, size_R, start = list[_Blocks](), size_U[self.others], 0
        for N in np.unique(size_R).tolist():
            end = start + int(np.count_nonzero(size_R == N))
            inside = np.flatnonzero((row >= start) & (row < end) & (column >= 0))
            at = _Entries(inside, (row[inside] - start) * N + (column[inside] - start) % N)
            self.blocks.append(_Blocks(slice(start, end), ((end - start) // N, N, N), at))
            start = end

    def factored(self, value_E: Floats) -> Callable[[Floats], Floats]:
        """The function that solves it for a right-hand side. Raises :class:`UnsolvedError` if it is singular."""
        R, H = len(self.others), len(self.hubs)
        hubs_HH, border_RH = self.among_hubs.filled(value_E, (H, H)), self.border.filled(value_E, (R, H))
        inverses = [(b.rows, _inverted(b.inside.filled(value_E, b.shape))) for b in self.blocks]
        through_RH = _by_block(inverses, border_RH)
        hubs_HH -= border_RH.T @ through_RH
        factors, pivots, failed = lapack.dgetrf(hubs_HH) if H else (None, None, 0)
        if failed:
            raise UnsolvedError("a singular system")

        def solve(b_U: Floats) -> Floats:
            x_U, b_R = np.empty(len(b_U)), b_U[self.others, None]
            x_R = _by_block(inverses, b_R)
            if H:
                x_H, _ = lapack.dgetrs(factors, pivots, b_U[self.hubs, None] - through_RH.T @ b_R)
                x_R -= through_RH @ x_H
                x_U[self.hubs] = x_H[:, 0]
            x_U[self.others] = x_R[:, 0]
            return x_U

        return solve


def _by_block(inverses: Sequence[tuple[slice, Floats]], b_RK: Floats) -> Floats:
    """What is left of several right-hand sides when each block is solved alone."""
    x_RK = np.empty_like(b_RK)
    for rows, inverse_BNN in inverses:
        B, N, _ = inverse_BNN.shape
        x_RK[rows] = (inverse_BNN @ b_RK[rows].reshape(B, N, -1)).reshape(B * N, -1)
    return x_RK


def _inverted(block_BNN: Floats) -> Floats:
    if block_BNN.shape[1] == 1:
        return np.asarray(1.0 / block_BNN)
    try:
        return np.asarray(np.linalg.inv(block_BNN), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise UnsolvedError("a singular system") from None


def _block_of(row_E: Ints, column_E: Ints, unknowns: int) -> Ints:
    """The block of each unknown, -1 for a hub: those that meet most others, as few as will do."""
    meets_U = np.bincount(row_E, minlength=unknowns)

    def apart(most: int) -> Ints:
        """The parts that are left without those that meet more than so many."""
        free_E, is_hub_U = (meets_U[row_E] <= most) & (meets_U[column_E] <= most), meets_U > most
        ones = np.ones(np.count_nonzero(free_E), dtype=np.int8)
        graph = sparse.coo_array((ones, (row_E[free_E], column_E[free_E])), shape=(unknowns, unknowns))
        return np.where(is_hub_U, -1, connected_components(graph, directed=False)[1])

    def fits(most: int) -> bool:
        return bool(np.bincount(apart(most) + 1)[1:].max(initial=0) <= LARGEST)

    limits = [*np.unique(meets_U)[::-1], 0]
    return apart(limits[bisect_left(limits, True, key=fits)])
