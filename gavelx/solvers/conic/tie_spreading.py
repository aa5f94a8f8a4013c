"""Spread each job's time over the accelerator types that it can use, in proportion to their devices.

Of all ways to give the jobs their time, the one that minimises ``sum_ja s_j x_ja^2 / W_a``. Without constraints
that is x_ja = y_j W_a / sum_b W_b over the types b that j can use, and that is the answer wherever it fits. Where
jobs that can only use some types make it too much for one, the quadratic program says who makes way. Its optimum
is unique, so the answer does not depend on the order of jobs or on the solver.

Where jobs share devices, a pair is spread like a job: what is divided is the time in each mode of running.

Legend: N modes of running (a job or a pair, on so many devices), G classes of modes with the same time, devices
and types, A accelerator types, C configurations.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.snapshot import Snapshot
from gavelx.solvers.conic.clarabel import quadratic_program
from gavelx.solvers.program.errors import UnsolvedError

Floats = NDArray[np.float64]
SAME = 12
"""Times that agree to so many decimal places are the same."""


def spread(snapshot: Snapshot, share_C: Floats) -> Floats:
    """The spread shares; ``share_C`` as it was where the quadratic program is not solved."""
    table, devices_A = snapshot.configurations, snapshot.devices_A.astype(float)
    mode_C, type_C = table.mode_C, table.accelerator_C
    N, A = int(mode_C.max(initial=-1)) + 1, len(devices_A)
    scale_N, usable_NA, time_N = (
        np.zeros(N),
        np.zeros((N, A), dtype=bool),
        np.bincount(mode_C, share_C, N).astype(float),
    )
    scale_N[mode_C] = table.devices_C
    usable_NA[mode_C, type_C] = snapshot.usable_C
    weight_NA = np.where(usable_NA, devices_A, 0.0)
    total_N1 = weight_NA.sum(axis=1, keepdims=True)
    spread_NA = time_N[:, None] * np.divide(weight_NA, total_N1, out=np.zeros((N, A)), where=total_N1 > 0)
    if (np.einsum("N,NA->A", scale_N, spread_NA) > devices_A * (1 + 1e-12)).any():
        try:
            spread_NA = _fitted(time_N, scale_N, usable_NA, devices_A)
        except UnsolvedError:
            return share_C
    return np.asarray(spread_NA[mode_C, type_C])


def _fitted(time_N: Floats, scale_N: Floats, usable_NA: NDArray[np.bool_], devices_A: Floats) -> Floats:
    """The quadratic program, one row per class and a variable for each type that the class can use."""
    data_NV = np.column_stack([time_N.round(SAME), scale_N, usable_NA])
    _, first_G, class_N, count_G = np.unique(
        data_NV, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    class_V, type_V = np.nonzero(usable_NA[first_G])
    devices_V = (count_G * scale_N[first_G])[class_V]
    share_V = quadratic_program(
        curvature_V=devices_V / devices_A[type_V],
        equal_EV=(np.arange(len(first_G))[:, None] == class_V).astype(float),
        equal_E=time_N[first_G],
        at_most_KV=(np.arange(len(devices_A))[:, None] == type_V) * devices_V,
        at_most_K=devices_A,
    )
    share_GA = np.zeros((len(first_G), len(devices_A)))
    share_GA[class_V, type_V] = share_V
    return np.asarray(share_GA[class_N.ravel()])
