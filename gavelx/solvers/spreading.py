"""Spread each job's time over the accelerator types that it can use, in proportion to their devices.

Of all ways to give the jobs their time, the one that minimises ``sum_ja s_j x_ja^2 / W_a``. Without constraints
that is x_ja = y_j W_a / sum_b W_b over the types b that j can use, and that is the answer wherever it fits. Where
jobs that can only use some types make it too much for one, the quadratic program says who makes way. Its optimum
is unique, so the answer does not depend on the order of jobs or on the solver.

Legend: J jobs, G classes of jobs with the same time, scale factor and types, A accelerator types,
C configurations.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.snapshot import Snapshot
from gavelx.solvers.conic import quadratic_program
from gavelx.solvers.highs import UnsolvedError

Floats = NDArray[np.float64]
SAME = 12
"""Times that agree to so many decimal places are the same."""


def spread(snapshot: Snapshot, share_C: Floats) -> Floats:
    """The spread shares; ``share_C`` as it was where the quadratic program is not solved."""
    table, devices_A = snapshot.configurations, snapshot.devices_A.astype(float)
    J, A = table.shape
    job_C, type_C = np.empty(len(table), dtype=np.int64), table.accelerator_C
    job_C[table.configuration_M] = table.job_M
    usable_JA = np.zeros((J, A), dtype=bool)
    usable_JA[job_C, type_C] = snapshot.usable_C
    time_J = np.asarray(table.membership_JC @ share_C)
    weight_JA = np.where(usable_JA, devices_A, 0.0)
    total_J1 = weight_JA.sum(axis=1, keepdims=True)
    spread_JA = time_J[:, None] * np.divide(weight_JA, total_J1, out=np.zeros((J, A)), where=total_J1 > 0)
    if (snapshot.scale_factor_J @ spread_JA > devices_A * (1 + 1e-12)).any():
        try:
            spread_JA = _fitted(time_J, snapshot.scale_factor_J.astype(float), usable_JA, devices_A)
        except UnsolvedError:
            return share_C
    return np.asarray(spread_JA[job_C, type_C])


def _fitted(time_J: Floats, scale_factor_J: Floats, usable_JA: NDArray[np.bool_], devices_A: Floats) -> Floats:
    """The quadratic program, one row per class and a variable for each type that the class can use."""
    data_JV = np.column_stack([time_J.round(SAME), scale_factor_J, usable_JA])
    _, first_G, class_J, count_G = np.unique(
        data_JV, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    class_V, type_V = np.nonzero(usable_JA[first_G])
    devices_V = (count_G * scale_factor_J[first_G])[class_V]
    share_V = quadratic_program(
        curvature_V=devices_V / devices_A[type_V],
        equal_EV=(np.arange(len(first_G))[:, None] == class_V).astype(float),
        equal_E=time_J[first_G],
        at_most_KV=(np.arange(len(devices_A))[:, None] == type_V) * devices_V,
        at_most_K=devices_A,
    )
    share_GA = np.zeros((len(first_G), len(devices_A)))
    share_GA[class_V, type_V] = share_V
    return np.asarray(share_GA[class_J.ravel()])
