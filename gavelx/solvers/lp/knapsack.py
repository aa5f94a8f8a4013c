"""One choice or none for each job out of stocks of devices, by a dynamic program.

Legend: V choices, in groups of one job; A types of device; G numbers of devices in use, one for each type.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CELLS_MOST, CELLS_MOST_OF_TYPES = 50_000_000, 20_000_000
"""Choices times numbers of devices for which the table is made: of one type, and of several (where an integer
program is quicker then)."""
NONE = -1


def cells(choices: int, stock_A: Ints) -> float:
    """How large the table is, in choices times numbers of devices."""
    return choices * float(np.prod(stock_A + 1.0))


def fullest_choice(
    cost_V: Floats, devices_V: Ints, type_V: Ints, begin_J: Ints, *, must_J: NDArray[np.bool_], stock_A: Ints
) -> Ints:
    """The choice of each job (`NONE` for none): the cheapest of those with which most devices are in use.

    The choices of job j are those from ``begin_J[j]`` to ``begin_J[j + 1]``; ``must_J`` has one in any case.
    Bellman, "Dynamic Programming" (1957); takes time and memory of ``cells``. Raises ValueError where those who
    must have a choice cannot all have one.
    """
    J, shape_A = len(begin_J) - 1, tuple((stock_A + 1).tolist())
    least_G = np.full(shape_A, np.inf)  # the least cost with exactly G devices in use
    least_G[(0,) * len(shape_A)] = 0.0
    chosen_JG = np.full((J, *shape_A), NONE, dtype=np.int32)
    costs, devices, types = cost_V.tolist(), devices_V.tolist(), type_V.tolist()
    for j in range(J):
        next_G = np.full(shape_A, np.inf) if must_J[j] else least_G.copy()
        for v in range(begin_J[j], begin_J[j + 1]):
            if (room := shape_A[types[v]] - devices[v]) <= 0:
                continue
            others = (slice(None),) * types[v]
            without, having = (*others, slice(room)), (*others, slice(devices[v], None))
            then_G, before_G = least_G[without] + costs[v], next_G[having]
            better_G = then_G < before_G
            np.copyto(before_G, then_G, where=better_G)
            np.copyto(chosen_JG[j][having], v, where=better_G)
        least_G = next_G
    g = _fullest(least_G)
    chosen_J = np.full(J, NONE)
    for j in reversed(range(J)):
        if (v := int(chosen_JG[(j, *g)])) != NONE:
            chosen_J[j] = v
            g[types[v]] -= devices[v]
    return chosen_J


def _fullest(least_G: Floats) -> list[int]:
    """The numbers of devices with the largest sum that can be in use; of several the cheapest."""
    can_G = np.isfinite(least_G)
    if not can_G.any():
        raise ValueError("those who must have a choice do not fit")
    used_G = np.where(can_G, np.indices(least_G.shape).sum(axis=0), NONE)
    cost_G = np.where(used_G == used_G.max(), least_G, np.inf)
    return [int(each) for each in np.unravel_index(cost_G.argmin(), least_G.shape)]
