"""Dense linear algebra with one order of sums, so that results are the same on every processor.

Legend: B blocks of one shape, N unknowns of a block.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FEW = 8
"""Unknowns of one block up to which plain numbers are quicker than arrays."""


def inverted(block_BNN: Floats) -> Floats:
    """The inverses, by Gauss and Jordan with the largest pivot of a column, of all blocks at once and in place.

    LAPACK is quicker with large ones, but adds in an order that depends on the processor.
    Raises :class:`ZeroDivisionError` if one is singular.
    """
    B, N, _ = block_BNN.shape
    if B == 1 and N <= FEW:
        block_BNN[0] = _inverted_alone(block_BNN[0].tolist())
        return block_BNN
    every_B, swaps = np.arange(B), []
    for n in range(N):
        place_B = np.abs(block_BNN[:, n:, n]).argmax(axis=1)
        if place_B.any():
            swaps.append((n, place_B := n + place_B))
            _swap(block_BNN, every_B, n, place_B)
        pivot_B1, column_BN = block_BNN[:, n, n, None].copy(), block_BNN[:, :, n].copy()
        if not pivot_B1.all():
            raise ZeroDivisionError("a singular system")
        block_BNN[:, n, n] = 1.0
        row_BN = block_BNN[:, n] / pivot_B1
        block_BNN[:, n], block_BNN[:, :, n], column_BN[:, n] = 0.0, 0.0, -1.0
        block_BNN -= column_BN[:, :, None] * row_BN[:, None, :]
    for n, place_B in reversed(swaps):
        _swap(block_BNN.transpose(0, 2, 1), every_B, n, place_B)
    return block_BNN


def _inverted_alone(rows: list[list[float]]) -> list[list[float]]:
    """The same of a small block alone, number by number: to call numpy takes longer."""
    N, places = len(rows), []
    for n in range(N):
        places.append(place := max(range(n, N), key=lambda k: abs(rows[k][n])))
        rows[n], rows[place] = rows[place], rows[n]
        pivot, rows[n][n] = rows[n][n], 1.0
        pivot_row = rows[n] = [value / pivot + 0.0 for value in rows[n]]  # no -0.0
        for k, row in enumerate(rows):
            if k != n:
                part, row[n] = row[n], 0.0
                rows[k] = [value - part * other for value, other in zip(row, pivot_row, strict=True)]
    for n in reversed(range(N)):
        place = places[n]
        for row in rows:
            row[n], row[place] = row[place], row[n]
    return rows


def solved(block_BNN: Floats, right_BN: Floats) -> Floats:
    """What solves each block's equations, with partial pivots: closer than its inverse where it is near singular.

    Raises :class:`ZeroDivisionError` if one is singular.
    """
    B, N, _ = block_BNN.shape
    every_B, both = np.arange(B), np.concatenate([block_BNN, right_BN[:, :, None]], axis=2)
    for n in range(N):
        _swap(both, every_B, n, n + np.abs(both[:, n:, n]).argmax(axis=1))
        pivot_B1, column_BN = both[:, n, n, None].copy(), both[:, :, n].copy()
        if not pivot_B1.all():
            raise ZeroDivisionError("a singular system")
        both[:, n, n:] /= pivot_B1
        column_BN[:, n] = 0.0
        both[:, :, n:] -= column_BN[:, :, None] * both[:, n, None, n:]
    return both[:, :, N]


def _swap(block_BNN: Floats, every_B: Ints, n: int, place_B: Ints) -> None:
    """Exchange row n of each block with the one at this place."""
    row_BN = block_BNN[:, n].copy()
    block_BNN[:, n] = block_BNN[every_B, place_B]
    block_BNN[every_B, place_B] = row_BN
