"""Selection: which jobs run, how and where, given an order and the free devices.

Legend: V ways to run (a job alone on a type, or a pair on it), J live jobs, A accelerator types.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.promises import NOBODY

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Way(NamedTuple):
    """A job (a row) on an accelerator type, with the job that it shares its devices with, or ``NOBODY``."""

    job: int
    partner: int
    type: int


class Ways(NamedTuple):
    """Ways to run as columns, with their sort keys, the first one first."""

    job: Ints
    partner: Ints
    type: Ints
    keys: list[Floats]


def select(ways: Ways, scale_factor_J: Ints, free_A: Ints, order_of_types: list[int] | None) -> list[Way]:
    """Ways taken greedily in descending order of the keys while devices are free.

    Equal keys keep the order in which they come. With ``order_of_types`` the types are filled one after another;
    otherwise the greatest key of all goes first. A job is taken once, and a gang either whole or not at all.
    """
    order = np.lexsort([-key for key in reversed(ways.keys)])
    if order_of_types is None:
        return _take(ways, order, scale_factor_J, free_A, set())
    chosen: list[Way] = []
    taken: set[int] = set()
    type_of = ways.type[order]
    for a in order_of_types:
        chosen += _take(ways, order[type_of == a], scale_factor_J, free_A, taken)
    return chosen


def _take(ways: Ways, order: Ints, scale_factor_J: Ints, free_A: Ints, taken: set[int]) -> list[Way]:
    job, type_ = ways.job[order], ways.type[order]
    left = int(free_A[np.bincount(type_, minlength=len(free_A)) > 0].sum())
    free, chosen = free_A.tolist(), []
    columns = job, ways.partner[order], type_, scale_factor_J[job]
    for j, k, a, width in zip(*(column.tolist() for column in columns), strict=True):
        if width > free[a] or j in taken or k in taken:
            continue
        taken.add(j)
        if k != NOBODY:
            taken.add(k)
        free[a] -= width
        left -= width
        chosen.append(Way(j, k, a))
        if left == 0:
            break
    return chosen
