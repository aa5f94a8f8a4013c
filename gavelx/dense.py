"""Dense linear algebra with one order of sums, so that results are the same on every processor.

Legend: B blocks of one shape, N unknowns of a block.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def inverted(block_BNN: Floats) -> Floats:
    """The inverses, by Gauss and Jordan with the largest pivot of a column, of all blocks at once and in place.

    LAPACK is quicker with large ones, but adds in an order that depends on the processor.
    Raises :class:`ZeroDivisionError` if one is singular.
    """
    B, N, _ = block_BNN.shape
    if B == 1:
        _invert_alone(block_BNN[0])
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


def _invert_alone(block_NN: Floats) -> None:
    """The same of one block."""
    swaps = []
    for n in range(len(block_NN)):
        if place := int(np.abs(block_NN[n:, n]).argmax()):
            swaps.append((n, place := n + place))
            block_NN[[n, place]] = block_NN[[place, n]]
        pivot, column_N1 = block_NN[n, n], block_NN[:, n, None].copy()
        if not pivot:
            raise ZeroDivisionError("a singular system")
        block_NN[n, n] = 1.0
        row_N = block_NN[n] / pivot
        block_NN[n], block_NN[:, n], column_N1[n] = 0.0, 0.0, -1.0
        block_NN -= column_N1 * row_N
    for n, place in reversed(swaps):
        block_NN[:, [n, place]] = block_NN[:, [place, n]]


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
