"""Quadratic and cone programs by Clarabel, an interior-point solver.

Legend: V variables, E equations, K inequalities, L rows in cones.
"""

from typing import Any

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import time_is_up

Floats = NDArray[np.float64]
TOLERANCE = 1e-11
SOLVED = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
WORDS = {
    clarabel.SolverStatus.PrimalInfeasible: "infeasible",
    clarabel.SolverStatus.CallbackTerminated: OUT_OF_TIME,
}


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
    curvature_VV = sparse.csc_matrix(sparse.diags_array(curvature_V))
    return np.asarray(np.maximum(0.0, _clarabel(curvature_VV, np.zeros(V), rows, limits, cones)[0]))


def exponential_program(
    cost_V: Floats, matrix_LV: sparse.csc_matrix, limit_L: Floats, inequalities: int
) -> tuple[Floats, Floats]:
    """Minimise ``cost . v`` with ``limit - matrix @ v`` >= 0 in the first rows, and in the exponential cone
    (y exp(x / y) <= z for rows x, y, z) in the others, three by three. Returns v and the multipliers of the rows.

    Raises :class:`UnsolvedError`.
    """
    V, cones = len(cost_V), (len(limit_L) - inequalities) // 3
    kinds = [clarabel.NonnegativeConeT(inequalities), *(clarabel.ExponentialConeT() for _ in range(cones))]
    return _clarabel(sparse.csc_matrix((V, V)), cost_V, matrix_LV, limit_L, kinds)


def _clarabel(
    curvature: sparse.csc_matrix,
    objective: Floats,
    rows: sparse.csc_matrix,
    limits: Floats,
    cones: list[Any],
) -> tuple[Floats, Floats]:
    """Minimise ``1/2 v.curvature.v + objective.v`` with ``limits - rows @ v`` in the cones; and the multipliers.

    Raises :class:`UnsolvedError`.
    """
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.direct_solve_method = "qdldl"  # adds in the same order on every processor
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    solver = clarabel.DefaultSolver(curvature, objective, rows, limits, cones, settings)
    solver.set_termination_callback(lambda seen: time_is_up())
    solution = solver.solve()
    if solution.status not in SOLVED:
        raise UnsolvedError(WORDS.get(solution.status, str(solution.status).lower()))
    return np.asarray(solution.x), np.asarray(solution.z)
