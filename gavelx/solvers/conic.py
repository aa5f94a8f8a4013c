"""Quadratic programs by Clarabel, an interior-point solver.

Legend: V variables, E equations, K inequalities.
"""

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.highs import UnsolvedError

Floats = NDArray[np.float64]
TOLERANCE = 1e-11


def quadratic_program(
    *, curvature_V: Floats, equal_EV: Floats, equal_E: Floats, at_most_KV: Floats, at_most_K: Floats
) -> Floats:
    """Minimise ``1/2 sum_v curvature_v v^2`` over v >= 0,
    ``equal_EV @ v = equal_E``, ``at_most_KV @ v <= at_most_K``.

    Raises :class:`UnsolvedError`.
    """
    V = len(curvature_V)
    rows = sparse.csc_matrix(np.vstack([equal_EV, at_most_KV, -np.eye(V)]))
    limits = np.concatenate([equal_E, at_most_K, np.zeros(V)])
    cones = [clarabel.ZeroConeT(len(equal_E)), clarabel.NonnegativeConeT(len(at_most_K) + V)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    curvature_VV = sparse.csc_matrix(sparse.diags_array(curvature_V))
    solution = clarabel.DefaultSolver(curvature_VV, np.zeros(V), rows, limits, cones, settings).solve()
    if solution.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        raise UnsolvedError(str(solution.status).lower())
    return np.asarray(np.maximum(0.0, solution.x))
