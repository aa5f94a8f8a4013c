"""One choice or none for each job out of one stock of devices, by a dynamic program.

Legend: V choices, in groups of one job; G devices in use.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CELLS_MOST = 50_000_000
"""Choices times devices for which the table is made."""
NONE = -1


def fullest_choice(cost_V: Floats, devices_V: Ints, begin_J: Ints, must_J: NDArray[np.bool_], stock: int) -> Ints:
    """The choice of each job (`NONE` for none): the cheapest of those with which most devices are in use.

    The choices of job j are those from ``begin_J[j]`` to ``begin_J[j + 1]``; ``must_J`` has one in any case.
    Bellman, "Dynamic Programming" (1957); takes time and memory of ``len(cost_V) * stock``. Raises ValueError
    where those who must have a choice cannot all have one.
    """
    J = len(begin_J) - 1
    least_G = np.full(stock + 1, np.inf)  # the least cost with exactly G devices in use
    least_G[0] = 0.0
    chosen_JG = np.full((J, stock + 1), NONE, dtype=np.int32)
    for j in range(J):
        next_G = np.full(stock + 1, np.inf) if must_J[j] else least_G.copy()
        for v in range(begin_J[j], begin_J[j + 1]):
            devices = int(devices_V[v])
            if devices > stock:
                continue
            then_G = least_G[: stock + 1 - devices] + cost_V[v]
            better_G = then_G < next_G[devices:]
            next_G[devices:][better_G] = then_G[better_G]
            chosen_JG[j, devices:][better_G] = v
        least_G = next_G
    used = np.flatnonzero(np.isfinite(least_G))
    if not len(used):
        raise ValueError("those who must have a choice do not fit")
    chosen_J, g = np.full(J, NONE), int(used[-1])
    for j in reversed(range(J)):
        chosen_J[j] = chosen_JG[j, g]
        g -= int(devices_V[chosen_J[j]]) if chosen_J[j] != NONE else 0
    return chosen_J
