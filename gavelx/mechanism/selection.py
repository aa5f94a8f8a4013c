"""Selection: which jobs run, and on which type, given an order and the free devices.

Legend: J live jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def select(
    keys: list[Floats],
    eligible_JA: NDArray[np.bool_],
    scale_factor_J: Ints,
    free_A: Ints,
    *,
    by_type: bool,
) -> list[tuple[int, int]]:
    """Pairs of job and type, taken greedily in descending order of the keys while devices are free.

    ``keys`` are J x A, the first one first; equal keys keep the order of the jobs. With ``by_type`` the types are
    filled one after another; otherwise the greatest key of all goes first. A job is taken once, and a gang
    either whole or not at all.
    """
    free, taken, chosen = free_A.tolist(), set[int](), []
    scale = scale_factor_J.tolist()
    for j, a in _order(keys, eligible_JA, by_type):
        if j not in taken and scale[j] <= free[a]:
            taken.add(j)
            free[a] -= scale[j]
            chosen.append((j, a))
            if not any(free):
                break
    return chosen


def _order(keys: list[Floats], eligible_JA: NDArray[np.bool_], by_type: bool) -> list[tuple[int, int]]:
    job, type_ = np.nonzero(eligible_JA)
    columns = [-key[job, type_] for key in reversed(keys)]
    order = np.lexsort([*columns, type_] if by_type else columns)
    return list(zip(job[order].tolist(), type_[order].tolist(), strict=True))
