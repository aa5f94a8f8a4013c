"""Every job at its maximum: the answer to a max-min program where devices suffice, without solving anything.

If every job can have all of its time on a type on which it gains most, no job can have more: the worst is as good
as it can be, and so is every further level.

Legend: J jobs, A accelerator types.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.solvers.price_engine.dense_program import as_job_type_matrix, is_plain_max_min
from gavelx.solvers.program.assemble_lp import money
from gavelx.solvers.program.statement import Statement

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Best:
    """Shares of all configurations, and the worst row that they give, which is also the bound."""

    share_C: Floats
    bound: float


def all_at_maximum(statement: Statement) -> Best | None:
    """The cheapest of the types on which each job gains most, if the devices suffice; else None.

    None also where the program is another, or the table is no matrix of jobs and types.
    """
    snapshot = statement.snapshot
    if statement.requirements or not is_plain_max_min(statement) or not len(snapshot.jobs):
        return None
    worst = statement.worst[0]
    if snapshot.scale_factor_J.sum() > snapshot.devices_A.sum():
        return None
    matrix = as_job_type_matrix(snapshot, worst.affine.base_RC, np.arange(len(snapshot.jobs)))
    if matrix is None:
        return None
    gain_JA = matrix.gains(worst.affine.base_RC)
    best_J = gain_JA.max(axis=1)
    type_J = _types(gain_JA >= best_J[:, None], best_J > 0, matrix.scale_G, snapshot.devices_A, money(snapshot))
    if type_J is None:
        return None
    share_JA = (np.arange(gain_JA.shape[1]) == type_J[:, None]).astype(float)
    factor_J = np.ones(len(best_J)) if worst.affine.factor_R is None else worst.affine.factor_R
    level = float((best_J * factor_J + worst.affine.constant_R).min())
    return Best(matrix.shares(share_JA), float(statement.linear.constant_R[0] + worst.weight * level))


def _types(
    best_JA: NDArray[np.bool_],
    runs_J: NDArray[np.bool_],
    scale_J: Floats,
    devices_A: NDArray[np.int64],
    price_A: Floats,
) -> NDArray[np.int64] | None:
    """A best type for each job that runs at all (else -1), the cheapest that has devices left.

    Jobs with less choice come first.
    """
    choices_J = best_JA.sum(axis=1)
    free, by_price = devices_A.astype(float).tolist(), np.argsort(price_A, kind="stable").tolist()
    type_J = np.where(runs_J, best_JA.argmax(axis=1), -1)
    single_J = runs_J & (choices_J == 1)
    taken_A = np.bincount(type_J[single_J], scale_J[single_J], len(free))
    if (taken_A > devices_A).any():
        return None
    free = (devices_A - taken_A).tolist()
    for j in np.flatnonzero(runs_J & (choices_J > 1)).tolist():
        room = [a for a in by_price if best_JA[j, a] and free[a] >= scale_J[j]]
        if not room:
            return None
        type_J[j] = room[0]
        free[room[0]] -= scale_J[j]
    return type_J
