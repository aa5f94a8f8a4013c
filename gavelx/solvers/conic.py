"""Quadratic programs and programs with logarithms by Clarabel, an interior-point solver.

Legend: V variables, E equations, K inequalities, R rows of an expression, G classes, Z kinds of configurations.
"""

from dataclasses import replace

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.certify import repaired
from gavelx.solvers.collapse import Classes, collapse
from gavelx.solvers.highs import UnsolvedError
from gavelx.solvers.linear import Answer, solve_linear
from gavelx.solvers.rows import Rows
from gavelx.solvers.statement import Statement

Floats = NDArray[np.float64]
TOLERANCE = 1e-11
SOLVED = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)


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
    return np.asarray(np.maximum(0.0, _clarabel(curvature_VV, np.zeros(V), rows, limits, cones)))


def solve_logs(statement: Statement) -> Answer:
    """Solve a stated program with logarithms, over classes of identical jobs.

    The bound is that of the linear program in which each logarithm is replaced by its tangent at the answer: a
    concave function lies below its tangents. Raises :class:`UnsolvedError`.
    """
    classes = collapse(statement)
    rows = Rows(replace(statement, logs=()), classes)
    value_Z = _clarabel(*_exponential_program(statement, classes, rows))[: rows.Z]
    share_C = repaired(statement.snapshot, classes.shares(np.where(rows.upper_V[: rows.Z] > 0, value_Z, 0.0)))
    tangent = _tangent(statement, share_C)
    bound = solve_linear(tangent).bound
    gap = None if bound is None else bound - tangent.objective(share_C)
    path = "clarabel, exponential cones"
    return Answer(share_C, None if gap is None else statement.objective(share_C) + gap, None, len(classes), path)


def _exponential_program(
    statement: Statement, classes: Classes, rows: Rows
) -> tuple[sparse.csc_matrix, Floats, sparse.csc_matrix, Floats, list[object]]:
    """Variables are the kinds, the levels of each Worst, and a number u_r <= log(row_r) for each logarithm.

    Linear rows come first, then (u_r, 1, row_r) in the exponential cone for every r.
    """
    weights, matrices, constants = [], [], []
    for part in statement.logs:
        matrix_RZ, constant_R = classes.rows(part.affine)
        per_job = part.affine.rows == "job"
        weight_R = part.weight_R[classes.representative_G] * classes.count_G if per_job else part.weight_R
        counts = np.flatnonzero(weight_R > 0)
        weights.append(weight_R[counts])
        matrices.append(matrix_RZ[counts])
        constants.append(constant_R[counts])
    weight_U, constant_U = np.concatenate(weights), np.concatenate(constants)
    matrix_UZ = sparse.csr_array(sparse.vstack(matrices, format="csr"))
    scale_U = 1.0 / np.maximum(abs(matrix_UZ).max(axis=1).toarray().ravel(), 1e-300)  # log(s v) = log s + log v
    U, L, V = len(weight_U), len(rows.level_weight), rows.Z + len(rows.level_weight)
    has_lower, has_upper = np.isfinite(rows.lower_K), np.isfinite(rows.upper_K)
    share_V = sparse.eye_array(rows.Z, V, format="csr")
    blocks = [rows.matrix_KV[has_upper], -rows.matrix_KV[has_lower], share_V, -share_V]
    linear = sparse.hstack([sparse.vstack(blocks), sparse.csr_array((sum(b.shape[0] for b in blocks), U))])
    limits = [
        rows.upper_K[has_upper],
        -rows.lower_K[has_lower],
        np.minimum(1.0, rows.upper_V[: rows.Z]),
        np.zeros(rows.Z),
    ]
    row = 3 * np.arange(U)
    cone_u = sparse.csr_array((-np.ones(U), (row, np.arange(U))), shape=(3 * U, U))
    lifted = sparse.csr_array((scale_U, (row + 2, np.arange(U))), shape=(3 * U, U))
    cone_z = sparse.hstack([-(lifted @ matrix_UZ), sparse.csr_array((3 * U, L)), cone_u])
    cone_limits = np.zeros(3 * U)
    cone_limits[1::3], cone_limits[2::3] = 1.0, scale_U * constant_U
    objective = -np.concatenate([rows.linear_Z, rows.level_weight, weight_U])
    size = max(1e-300, float(np.abs(objective).max(initial=0.0)))
    cones = [clarabel.NonnegativeConeT(linear.shape[0]), *(clarabel.ExponentialConeT() for _ in range(U))]
    matrix = sparse.csc_matrix(sparse.vstack([linear, cone_z]))
    return (
        sparse.csc_matrix((V + U, V + U)),
        objective / size,
        matrix,
        np.concatenate([*limits, cone_limits]),
        cones,
    )


def _tangent(statement: Statement, share_C: Floats) -> Statement:
    """The program with each logarithm replaced by its tangent at these shares, but for a constant."""
    linear = statement.linear
    for part in statement.logs:
        value_R = np.maximum(part.affine(share_C), np.finfo(float).tiny)
        slope_R = np.where(part.weight_R > 0, part.weight_R / value_R, 0.0)
        linear = linear.plus(part.affine.scaled(slope_R).total())
    return replace(statement, linear=linear, logs=())


def _clarabel(
    curvature: sparse.csc_matrix,
    objective: Floats,
    rows: sparse.csc_matrix,
    limits: Floats,
    cones: list[object],
) -> Floats:
    """Minimise ``1/2 v.curvature.v + objective.v`` with ``limits - rows @ v`` in the cones.

    Raises :class:`UnsolvedError`.
    """
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    solution = clarabel.DefaultSolver(curvature, objective, rows, limits, cones, settings).solve()
    if solution.status not in SOLVED:
        infeasible = solution.status == clarabel.SolverStatus.PrimalInfeasible
        raise UnsolvedError("infeasible" if infeasible else str(solution.status).lower())
    return np.asarray(solution.x)
