"""Symmetric systems of blocks that meet in few unknowns, solved block by block.

An allocation ties jobs together by little: the devices of each type, and a level that all have in common. With
those unknowns, the hubs, set aside, each job is a small system of its own, and all of one shape are solved at
once; what is left for the hubs is their Schur complement (G. Golub and C. Van Loan, "Matrix Computations", 4th
edition, section 3.2.11). Pivots are chosen within a block, so the work never depends on the numbers, as that of a
sparse factorization does where a pivot is tiny; near an optimum many are.

Legend: E entries, U unknowns, H hubs, B blocks of one shape, N unknowns of a block, M hubs that it meets.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gavelx.dense import inverted
from gavelx.solvers.program.errors import UnsolvedError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LARGEST = 64
"""Unknowns that a block has at most."""


@dataclass(frozen=True)
class _Entries:
    """Which entries, and at which places they are in the matrices of all blocks, one after the other."""

    which: Ints
    place: Ints

    def filled(self, value_E: Floats, shape: tuple[int, ...]) -> Floats:
        matrices = np.zeros(shape)
        matrices.ravel()[self.place] = value_E[self.which]
        return matrices


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks of one shape: their unknowns, the hubs that they meet, and pairs of those by place."""

    at_BN: Ints
    hub_BM: Ints
    pair_BMM: Ints
    inner: _Entries
    border: _Entries

    @cached_property
    def hub(self) -> Ints:
        """The hubs that all of them meet, one after the other."""
        return self.hub_BM.ravel()


class Arrow:
    """The places of the entries of such a system, each of which is named in both its places."""

    def __init__(self, row_E: Ints, column_E: Ints, unknowns: int) -> None:
        block_U = _block_of(row_E, column_E, unknowns)
        self.hubs = np.flatnonzero(block_U < 0)
        hub_U = np.full(unknowns, -1)
        hub_U[self.hubs] = np.arange(len(self.hubs))
        among = np.flatnonzero((hub_U[row_E] >= 0) & (hub_U[column_E] >= 0))
        self.among_hubs = _Entries(among, hub_U[row_E[among]] * len(self.hubs) + hub_U[column_E[among]])
        self.blocks = list(_alike(row_E, column_E, block_U, hub_U))

    def factored(self, value_E: Floats) -> Callable[[Floats], Floats]:
        """The function that solves it for a right-hand side. Raises :class:`UnsolvedError` if it is singular."""
        H = len(self.hubs)
        hubs_HH, solved = self.among_hubs.filled(value_E, (H, H)), []
        for blocks in self.blocks:
            (B, N), M = blocks.at_BN.shape, blocks.hub_BM.shape[1]
            inverse_BNN = _inverted(blocks.inner.filled(value_E, (B, N, N)))
            border_BNM = blocks.border.filled(value_E, (B, N, M))
            through_BNM = np.einsum("BNK,BKM->BNM", inverse_BNN, border_BNM)
            less_BMM = np.einsum("BNK,BNM->BKM", border_BNM, through_BNM)
            hubs_HH -= np.bincount(blocks.pair_BMM.ravel(), less_BMM.ravel(), H * H).reshape(H, H)
            solved.append((blocks, inverse_BNN, through_BNM))
        of_hubs_HH = _inverted(hubs_HH[None])[0]

        def solve(b_U: Floats) -> Floats:
            x_U, x_H = np.empty(len(b_U)), b_U[self.hubs]
            right = [b_U[blocks.at_BN] for blocks in self.blocks]
            if not H:
                for b_BN, (blocks, inverse_BNN, _) in zip(right, solved, strict=True):
                    x_U[blocks.at_BN] = np.einsum("BNK,BK->BN", inverse_BNN, b_BN)
                return x_U
            for b_BN, (blocks, _, through_BNM) in zip(right, solved, strict=True):
                x_H -= np.bincount(blocks.hub, np.einsum("BN,BNM->BM", b_BN, through_BNM).ravel(), H)
            x_U[self.hubs] = x_H = np.einsum("HK,K->H", of_hubs_HH, x_H)
            for b_BN, (blocks, inverse_BNN, through_BNM) in zip(right, solved, strict=True):
                alone_BN = np.einsum("BNK,BK->BN", inverse_BNN, b_BN)
                x_U[blocks.at_BN] = alone_BN - np.einsum("BNM,BM->BN", through_BNM, x_H[blocks.hub_BM])
            return x_U

        return solve


def _inverted(block_BNN: Floats) -> Floats:
    try:
        return inverted(block_BNN)
    except ZeroDivisionError as error:
        raise UnsolvedError("a singular system") from error


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
    block_U = apart(limits[bisect_left(limits, True, key=fits)])
    inside = block_U >= 0
    block_U[inside] = np.unique(block_U[inside], return_inverse=True)[1]
    return block_U


def _alike(row_E: Ints, column_E: Ints, block_U: Ints, hub_U: Ints) -> Iterator[_Blocks]:
    """Blocks with as many unknowns that meet as many hubs, shape by shape."""
    within = np.flatnonzero((block_U[row_E] >= 0) & (block_U[column_E] >= 0))
    across = np.flatnonzero((block_U[row_E] >= 0) & (hub_U[column_E] >= 0))
    H, blocks = max(1, int(hub_U.max()) + 1), int(block_U.max()) + 1
    meeting_E = block_U[row_E[across]] * H + hub_U[column_E[across]]
    meeting = np.unique(meeting_E)
    size, hubs = np.bincount(block_U[block_U >= 0], minlength=blocks), np.bincount(meeting // H, minlength=blocks)
    in_order = np.argsort(block_U, kind="stable")
    for N, M in np.unique(np.stack([size, hubs]), axis=1).T:
        alike = np.append((size == N) & (hubs == M), False)  # the last is the block of hubs, -1
        at_BN = in_order[alike[block_U[in_order]]].reshape(-1, N)
        meeting_BM = meeting[alike[meeting // H]].reshape(len(at_BN), M)
        hub_BM, place_U = meeting_BM % H, np.full(len(block_U), -1)
        place_U[at_BN.ravel()] = np.arange(at_BN.size)
        inner, edge = within[place_U[row_E[within]] >= 0], np.flatnonzero(place_U[row_E[across]] >= 0)
        border, met = across[edge], np.searchsorted(meeting_BM.ravel(), meeting_E[edge])
        yield _Blocks(
            at_BN,
            hub_BM,
            hub_BM[:, :, None] * H + hub_BM[:, None, :],
            _Entries(inner, place_U[row_E[inner]] * N + place_U[column_E[inner]] % N),
            _Entries(border, place_U[row_E[border]] * M + met % max(1, M)),
        )
