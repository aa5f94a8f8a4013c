"""Symmetric systems of blocks that meet in few unknowns, solved block by block.

An allocation ties jobs together by little: the devices of each type, and a level that all have in common. With
those unknowns, the hubs, set aside, each job is a small system of its own, and all of one shape are solved at
once; what is left for the hubs is their Schur complement (G. Golub and C. Van Loan, "Matrix Computations", 4th
edition, section 3.2.11). Pivots are chosen within a block, so the work never depends on the numbers, as that of a
sparse factorization does where a pivot is tiny; near an optimum many are.

Legend: E entries, U unknowns, H hubs, B blocks of one shape, N unknowns of a block, M hubs that it meets.
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gavelx.published.solver.kernel import IS_COMPILED, Arrow, kept

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
LARGEST = 64
"""Unknowns that a block has at most."""


def arrow_of(row_E: Ints, column_E: Ints, unknowns: int) -> Arrow:
    """The system with entries at these places."""
    block_U = _block_of(row_E, column_E, unknowns)
    hubs, hub_U = np.flatnonzero(block_U < 0), np.full(unknowns, -1)
    hub_U[hubs] = np.arange(len(hubs))
    among = np.flatnonzero((hub_U[row_E] >= 0) & (hub_U[column_E] >= 0))
    among_place = hub_U[row_E[among]] * len(hubs) + hub_U[column_E[among]]
    shape_S3, of_blocks = _blocks(row_E, column_E, block_U, hub_U)
    at, hub, pair, inner, inner_place, border, border_place = of_blocks
    return Arrow(hubs, shape_S3, at, hub, pair, inner, inner_place, border, border_place, among, among_place)


def _block_of(row_E: Ints, column_E: Ints, unknowns: int) -> Ints:
    """The block of each unknown, -1 for a hub: those that meet most others, as few as will do."""
    meets_U = np.bincount(row_E, minlength=unknowns)

    @cache
    def apart(most: int) -> Ints:
        """The parts that are left without those that meet more than so many."""
        is_hub_U = meets_U > most
        return np.where(is_hub_U, -1, parts(row_E, column_E, is_hub_U))

    def fits(most: int) -> bool:
        return bool(np.bincount(apart(most) + 1)[1:].max(initial=0) <= LARGEST)

    limits = [*np.unique(meets_U)[::-1], 0]
    block_U = apart(limits[bisect_left(limits, True, key=fits)])
    inside = block_U >= 0
    block_U[inside] = np.unique(block_U[inside], return_inverse=True)[1]
    return block_U


@kept
def joined(row_E: Ints, column_E: Ints, is_hub_U: Bools) -> Ints:
    """As `parts`, in loops."""
    first_U = np.arange(len(is_hub_U))  # an unknown before it in its part; none before the first one
    for e in range(len(row_E)):
        u, v = row_E[e], column_E[e]
        if not (is_hub_U[u] or is_hub_U[v]):
            while first_U[u] != u:
                u = first_U[u]
            while first_U[v] != v:
                v = first_U[v]
            first_U[max(u, v)] = first_U[row_E[e]] = first_U[column_E[e]] = min(u, v)
    number = 0
    for u in range(len(first_U)):
        if first_U[u] == u:
            first_U[u], number = number, number + 1
        else:
            first_U[u] = first_U[first_U[u]]
    return first_U


def parts(row_E: Ints, column_E: Ints, is_hub_U: Bools) -> Ints:
    """The part of each unknown: those that hang together without hubs, in order of their first unknowns."""
    if IS_COMPILED:
        return joined(row_E, column_E, is_hub_U)
    free_E, U = ~(is_hub_U[row_E] | is_hub_U[column_E]), len(is_hub_U)
    ones = np.ones(np.count_nonzero(free_E), dtype=np.int8)
    graph = sparse.coo_array((ones, (row_E[free_E], column_E[free_E])), shape=(U, U))
    return np.asarray(connected_components(graph, directed=False)[1])


def _blocks(row_E: Ints, column_E: Ints, block_U: Ints, hub_U: Ints) -> tuple[Ints, Iterator[Ints]]:
    """What an arrow has of its blocks: shape by shape, those with as many unknowns that meet as many hubs."""
    within = np.flatnonzero((block_U[row_E] >= 0) & (block_U[column_E] >= 0))
    across = np.flatnonzero((block_U[row_E] >= 0) & (hub_U[column_E] >= 0))
    H, blocks = max(1, int(hub_U.max()) + 1), int(block_U.max()) + 1
    meeting_E = block_U[row_E[across]] * H + hub_U[column_E[across]]
    meeting = np.unique(meeting_E)
    size, hubs = np.bincount(block_U[block_U >= 0], minlength=blocks), np.bincount(meeting // H, minlength=blocks)
    in_order = np.argsort(block_U, kind="stable")
    shapes, found, inverses, borders = [], [], 0, 0
    for N, M in np.unique(np.stack([size, hubs]), axis=1).T.tolist():
        alike = np.append((size == N) & (hubs == M), False)  # the last is the block of hubs, -1
        at_BN = in_order[alike[block_U[in_order]]].reshape(-1, N)
        B = len(at_BN)
        meeting_BM = meeting[alike[meeting // H]].reshape(B, M)
        hub_BM, place_U = meeting_BM % H, np.full(len(block_U), -1)
        place_U[at_BN.ravel()] = np.arange(at_BN.size)
        inner, edge = within[place_U[row_E[within]] >= 0], np.flatnonzero(place_U[row_E[across]] >= 0)
        border, met = across[edge], np.searchsorted(meeting_BM.ravel(), meeting_E[edge])
        inner_place = inverses + place_U[row_E[inner]] * N + place_U[column_E[inner]] % N
        b, n = np.divmod(place_U[row_E[border]], N)
        border_place = borders + (met % max(1, M) * N + n) * B + b
        shapes.append((B, N, M))
        pair_MMB = hub_BM.T[:, None] * H + hub_BM.T
        found.append((at_BN.T, hub_BM.T, pair_MMB, inner, inner_place, border, border_place))
        inverses, borders = inverses + B * N * N, borders + B * N * M
    found = found or [(within,) * 7]  # none
    columns = (np.concatenate([part.ravel() for part in parts]) for parts in zip(*found, strict=True))
    return np.array(shapes, dtype=np.int64).reshape(-1, 3), columns
