"""Handing a slot out: one move after the other, or the best move of each job at a time.

Legend: K clusters, J jobs of each, M moves of a job, F features.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.slots.greedy import taken
from gavelx.slots.model import NONE, Bools, Floats, Ints, Slots
from gavelx.slots.moves import Moves


class Turn(NamedTuple):
    """What there is to choose from: the clusters on which devices are still handed out, ``row_K`` of all; the
    sizes of their jobs by now, and the moves for which there is room."""

    slots: Slots
    size_KJ: Ints
    allowed_KJM: Bools
    row_K: Ints


Choose = Callable[[Turn], Ints]
"""A move for each cluster, as a place in J x M, or ``NONE`` to stop."""
Score = Callable[[NDArray[np.floating]], NDArray[np.floating]]
"""How good moves are, from their features (... x F): above 0, better than none."""


def in_turn(slots: Slots, moves: Moves, choose: Choose) -> Ints:
    """The sizes after moves that are chosen one by one, on each cluster until it stops.

    A choice for which there is no room is a mistake of ``choose``, and an assertion.
    """
    size_KJ = np.full(slots.kind_KJ.shape, NONE)
    row_K, part = np.arange(len(size_KJ)), slots
    while len(row_K):
        allowed_KJM = moves.allowed_KJM(part, size_KJ[row_K])
        flat_K = choose(Turn(part, size_KJ[row_K], allowed_KJM, row_K))
        goes_K = flat_K != NONE
        assert allowed_KJM.reshape(len(row_K), -1)[goes_K, flat_K[goes_K]].all(), "a move without room is chosen"
        if not goes_K.all():
            row_K, part, flat_K = row_K[goes_K], part.take(np.flatnonzero(goes_K)), flat_K[goes_K]
        j_K, m_K = np.divmod(flat_K, allowed_KJM.shape[2])
        kind_K = part.kind_KJ[np.arange(len(row_K)), j_K]
        size_KJ[row_K, j_K] = moves.next_NWM[kind_K, size_KJ[row_K, j_K], m_K]
    return size_KJ


def handed_out(slots: Slots, moves: Moves, score: Score, slot_s: float) -> Ints:
    """The sizes after the best move of each job, the best ones first while there is room; and so on from there,
    until no move is better than none."""
    size_KJ = np.full(slots.kind_KJ.shape, NONE)
    row_K, part = np.arange(len(size_KJ)), slots
    while len(row_K):
        now_KJ = size_KJ[row_K]
        allowed_KJM = moves.allowed_KJM(part, now_KJ)
        if not allowed_KJM.any():
            break
        value_KJM = np.zeros(allowed_KJM.shape)
        value_KJM[allowed_KJM] = score(moves.features(part, now_KJ, slot_s)[allowed_KJM])
        m_KJ, worth_KJ = value_KJM.argmax(axis=2), np.maximum(value_KJM.max(axis=2), 0.0)
        size_KJ[row_K], goes_KJ = carried_out(part, moves, now_KJ, m_KJ, worth_KJ)
        goes_K = np.flatnonzero(goes_KJ.any(axis=1))
        if len(goes_K) < len(row_K):
            row_K, part = row_K[goes_K], part.take(goes_K)
    return size_KJ


def carried_out(slots: Slots, moves: Moves, size_KJ: Ints, m_KJ: Ints, worth_KJ: Floats) -> tuple[Ints, Bools]:
    """The sizes after a move of each job that is worth something, in order of worth while there is room; and which
    jobs made theirs."""
    more_KJR = moves.more_NWMR[slots.kind_KJ, size_KJ, m_KJ]
    free_KR = slots.room_KR - slots.use_KR(size_KJ)
    goes_KJ: Bools = taken(worth_KJ[:, :, None], more_KJR[:, :, None], free_KR)[:, :, 0] > 0
    return np.where(goes_KJ, moves.next_NWM[slots.kind_KJ, size_KJ, m_KJ], size_KJ), goes_KJ
