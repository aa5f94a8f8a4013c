"""A cluster as DL2 sees it: its oldest jobs in a row of numbers of fixed length, and as many actions.

Legend: K clusters, J jobs of each, W jobs in the window, M moves of a job, N kinds of jobs, L job types,
D coordinates of a size, I = W (L + 3 + D) inputs, A = M W + 1 actions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.slots.model import NONE, Bools, Floats, Ints, Slots
from gavelx.slots.moves import Moves
from gavelx.slots.turns import Choose, Turn

OWN = 3
"""Inputs of a job beyond its type and its size: its age, what is left, and its dominant share."""
Logits = Callable[[NDArray[np.float32]], NDArray[np.floating]]
"""How good each action is (K x A), from the inputs (K x I)."""


@dataclass(frozen=True, eq=False)
class Window:
    """The oldest ``jobs`` live jobs of each cluster.

    * ``type_N``: the job type of each kind, one of ``types``; ``NONE`` for one that is not known;
    * ``epoch_N``: the steps in which what is left is counted, those of an epoch, say.

    An action is a move of a job, in order of arrival; the last one is to stop. With moves of one worker, one
    parameter server or one of both, these are the 3 J + 1 actions of DL2 (section 4.1); with a move for each
    accelerator type, its form for all-reduce.
    """

    moves: Moves
    type_N: Ints
    epoch_N: Floats
    types: int
    jobs: int
    slot_s: float

    @property
    def wide(self) -> int:
        """Inputs of each job."""
        return self.types + OWN + int(self.moves.grade_NVD.shape[2])

    @property
    def inputs(self) -> int:
        return self.jobs * self.wide

    @property
    def actions(self) -> int:
        return self.jobs * int(self.moves.next_NWM.shape[2]) + 1

    def seen(self, slots: Slots, size_KJ: Ints) -> NDArray[np.float32]:
        """The inputs (K x I): of each job its type, one-hot; slots since it arrived; epochs that are left; its
        dominant share; and its size, workers and servers, say.

        DL2 has the slots that a job ran for its age. Places without a job are zero.
        """
        kind_KJ, size_KJ = slots.kind_KJ[:, : self.jobs], size_KJ[:, : self.jobs]
        K, J = kind_KJ.shape
        x_KWF = np.zeros((K, self.jobs, self.wide), dtype=np.float32)
        x_KJF, L = x_KWF[:, :J], self.types
        arrival_s_KJ = slots.arrival_s_KJ[:, :J]
        x_KJF[:, :, :L] = (self.type_N[:, None] == np.arange(L))[kind_KJ]
        x_KJF[:, :, L] = (slots.time_s - np.where(np.isfinite(arrival_s_KJ), arrival_s_KJ, 0.0)) / self.slot_s
        x_KJF[:, :, L + 1] = slots.left_KJ[:, :J] / self.epoch_N[kind_KJ]
        x_KJF[:, :, L + 2] = self.moves.part_NW[kind_KJ, size_KJ]
        x_KJF[:, :, L + OWN :] = np.where((size_KJ == NONE)[:, :, None], 0, self.moves.grade_NVD[kind_KJ, size_KJ])
        x_KJF[~slots.live_KJ[:, :J]] = 0.0
        return x_KWF.reshape(K, -1)

    def open_KA(self, turn: Turn) -> Bools:
        """The actions for which there is room, and to stop."""
        K = len(turn.row_K)
        allowed_KX = turn.allowed_KJM[:, : self.jobs].reshape(K, -1)
        open_KA = np.zeros((K, self.actions), dtype=bool)
        open_KA[:, : allowed_KX.shape[1]] = allowed_KX
        open_KA[:, -1] = True
        return open_KA

    def move_K(self, action_K: Ints) -> Ints:
        """The moves that these actions are, ``NONE`` for to stop."""
        return np.where(action_K == self.actions - 1, NONE, action_K)

    def best(self, logits: Logits) -> Choose:
        """Choose the best action for which there is room."""

        def choose(turn: Turn) -> Ints:
            logit_KA = logits(self.seen(turn.slots, turn.size_KJ))
            return self.move_K(np.where(self.open_KA(turn), logit_KA, -np.inf).argmax(axis=1))

        return choose

    def towards(self, target_KJ: Ints) -> Choose:
        """Choose what leads to these sizes: of the job with the least dominant share, its largest move."""

        def choose(turn: Turn) -> Ints:
            slots, size_KJ = turn.slots, turn.size_KJ
            right_KJM = turn.allowed_KJM & self.moves.towards_KJM(slots, size_KJ, target_KJ[turn.row_K])
            right_KJM[:, self.jobs :] = False
            share_KJ = np.where(right_KJM.any(axis=2), self.moves.part_NW[slots.kind_KJ, size_KJ], np.inf)
            k_K, j_K, M = np.arange(len(right_KJM)), share_KJ.argmin(axis=1), right_KJM.shape[2]
            m_K = M - 1 - right_KJM[k_K, j_K, ::-1].argmax(axis=1)
            return np.where(np.isfinite(share_KJ[k_K, j_K]), j_K * M + m_K, NONE)

        return choose
