"""What is left to a row that must have a speed at least: the corners, of which all else that it may do is a mix.

A column alone, for all of the time or for as long as it takes; two columns that take turns; or nothing, where
nothing is asked.

Legend: G rows, V columns, W corners.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.solvers.price_engine.replies import Floats, Ints

Bools = NDArray[np.bool_]
EXACT = 1e-12
"""A part of the time that is rounding."""


@dataclass(frozen=True, eq=False)
class Corners:
    """A part of one column and one of another, for each row; ``may_WG``: whether the row has such a corner."""

    first_W: Ints
    second_W: Ints
    first_WG: Floats
    second_WG: Floats
    may_WG: Bools

    @staticmethod
    def of(value_VG: Floats, gain_VG: Floats, floor_G: Floats) -> "Corners":
        """Those of ``sum_v x_v <= 1`` and ``gain . x >= floor``. No row takes what has neither gain nor value."""
        (V, G), v_V = gain_VG.shape, np.arange(len(gain_VG))
        first, second = np.triu_indices(V, 1)
        gains_VG, need_G = gain_VG > 0.0, np.maximum(floor_G, 0.0)
        needed_VG = np.divide(need_G, gain_VG, out=np.zeros((V, G)), where=gains_VG)
        apart = gain_VG[first] - gain_VG[second]
        turn = np.divide(need_G - gain_VG[second], apart, out=np.zeros(apart.shape), where=apart != 0.0)
        alone = (gains_VG | (value_VG > 0.0)) & (gain_VG >= need_G * (1.0 - EXACT))
        as_needed = (needed_VG > 0.0) & (needed_VG < 1.0 - EXACT)
        turns = gains_VG[first] & gains_VG[second] & (turn > EXACT) & (turn < 1.0 - EXACT)
        idle_1G, one_VG = np.zeros((1, G)), np.ones((V, G))
        return Corners(
            np.concatenate([v_V, v_V, first, [0]]),
            np.concatenate([v_V, v_V, second, [0]]),
            np.concatenate([one_VG, needed_VG, turn, idle_1G]),
            np.concatenate([0.0 * one_VG, 0.0 * one_VG, 1.0 - turn, idle_1G]),
            np.concatenate([alone, as_needed, turns, need_G[None] == 0.0]),
        )

    def sample(self, index: Ints) -> "Corners":
        parts = self.first_WG[:, index], self.second_WG[:, index], self.may_WG[:, index]
        return Corners(self.first_W, self.second_W, *parts)
