"""A linear or ratio program as the published systems answer it: once, by an interior point, and left there.

An optimum is seldom unique. A simplex solver ends in a corner; an interior-point solver ends near the centre of
all optima, where jobs alike get shares alike. It also leaves a trace of a share, about inverse to what it would
cost, with those who were nearly promised something. The published mechanism fills idle devices in the order of
those traces, so its schedules cannot be had from a corner. Nothing is collapsed, for classes would have another
centre, and no second stage follows. The solver is that of `embedding`.

Ratios ``a_r + c_r / q_r`` become ``a_r + c_r u_r`` with ``u_r q_r >= 1``, a second-order cone, as in cvxpy.

Legend: C configurations, V variables, K linear rows, R rows of one expression, L all rows.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.published.solver.embedding import embedded_program
from gavelx.snapshot import Snapshot
from gavelx.solvers.conic.reference import PROVEN, Parts
from gavelx.solvers.maxmin.ratio import proven
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.assemble_lp import Rows
from gavelx.solvers.program.certify import repaired
from gavelx.solvers.program.collapse import no_classes
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Affine, RatioStatement, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BITS = 20
"""What of a share is more than rounding: six digits, in powers of two."""


def solve_interior(statement: Statement | RatioStatement) -> Answer:
    """The centre of the optima, or near it. Raises :class:`UnsolvedError`.

    Where a job cannot run it has a share too while the program is solved, as published; it is given to no job.
    """
    if isinstance(statement, RatioStatement):
        return _ratio(statement)
    rows = Rows(statement, no_classes(statement.snapshot.configurations))
    matrix_KV, limit_K, at, sign = _inequalities(rows)
    used_V = _used(statement.snapshot, len(rows.level_weight))
    matrix_KU = _columns(matrix_KV, used_V)
    row_E = np.arange(len(limit_K)).repeat(np.diff(matrix_KU.indptr))
    counts_K = np.flatnonzero(np.bincount(row_E, np.abs(matrix_KU.data), len(limit_K)))
    if not len(counts_K):
        raise UnsolvedError("no job can run")
    matrix_LU = _rows(matrix_KU, counts_K)
    value_V, dual_L = embedded_program(-rows.objective_V[used_V], matrix_LU, limit_K[counts_K])
    bound, marginal_A = None, None
    if rows.objective_V.any():
        dual_K = np.zeros(len(limit_K))
        dual_K[counts_K] = dual_L
        multiplier: Floats = np.bincount(at, sign * dual_K[: len(at)], len(rows.scale_K)).astype(float)
        bound, marginal_A = rows.bound(multiplier)
    return Answer(_shares(rows, used_V, value_V), bound, marginal_A, rows.G, "embedding, interior")


def _ratio(statement: RatioStatement) -> Answer:
    parts, snapshot = Parts(statement), statement.snapshot
    counts = np.flatnonzero(statement.finite_R & (parts.need_R > 0))
    if not (parts.convex and len(counts)):
        raise UnsolvedError("no convex ratio")
    C, U = len(snapshot.configurations), len(counts)
    nothing = Affine(sparse.csr_array((1, C)), np.zeros(1), "total")
    base = Statement(snapshot, (), nothing, statement.requirements, statement.text)
    rows = Rows(base, no_classes(snapshot.configurations))
    matrix_KC, limit_K, _, _ = _inequalities(rows)
    bottom, need_U = statement.denominator.of_rows(counts), parts.need_R[counts]
    of_cones_U3 = np.column_stack([bottom.constant_R, bottom.constant_R, np.full(U, 2.0)])
    limits = np.concatenate([limit_K, -parts.offset_R[counts], of_cones_U3.ravel()])
    matrix_LV = _with_cones(matrix_KC, need_U, bottom.matrix_RC)
    cost_V, used_V = np.zeros(C + 1 + U), _used(snapshot, 1 + U)
    cost_V[C] = 1.0
    value_V, _ = embedded_program(cost_V[used_V], _columns(matrix_LV, used_V), limits, second_order=U)
    share_C = _shares(rows, used_V, value_V)
    bound = proven(statement, statement.objective(share_C), share_C, PROVEN)
    return Answer(share_C, bound, None, rows.G, "embedding, interior")


def _with_cones(matrix_KC: sparse.csr_array, need_U: Floats, bottom_UC: sparse.csr_array) -> sparse.csr_array:
    """The linear rows; level >= a + c u for every ratio; and (q + u, q - u, 2) in a cone, so that u q >= 1.

    The level is the variable after the shares, and each u comes after that.
    """
    (K, C), U = matrix_KC.shape, len(need_U)
    row_of_E = np.arange(K).repeat(np.diff(matrix_KC.indptr))
    cone_of_E = K + U + 3 * np.arange(U).repeat(np.diff(bottom_UC.indptr))
    every, one_U = np.arange(U), np.ones(U)
    ratio_U, cone_U, u_U = K + every, K + U + 3 * every, C + 1 + every
    entries = (
        (row_of_E, matrix_KC.indices, matrix_KC.data),
        (ratio_U, np.full(U, C), -one_U),
        (ratio_U, u_U, need_U),
        (cone_of_E, bottom_UC.indices, -bottom_UC.data),
        (cone_U, u_U, -one_U),
        (cone_of_E + 1, bottom_UC.indices, -bottom_UC.data),
        (cone_U + 1, u_U, one_U),
    )
    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    return sparse.csr_array((value, (row, column)), shape=(K + 4 * U, C + 1 + U))


def _columns(matrix_LV: sparse.csr_array, used_V: Ints) -> sparse.csr_array:
    """These columns; where it is all of them, the matrix as it is."""
    return matrix_LV if len(used_V) == matrix_LV.shape[1] else matrix_LV[:, used_V]


def _rows(matrix_KV: sparse.csr_array, at: Ints) -> sparse.csr_array:
    """These rows; where it is all of them in their order, the matrix as it is."""
    all_K = np.arange(matrix_KV.shape[0])
    return matrix_KV if np.array_equal(at, all_K) else matrix_KV[at]


def _inequalities(rows: Rows) -> tuple[sparse.csr_array, Floats, Ints, Floats]:
    """The linear rows as ``limit - matrix @ v >= 0``: which of ``rows``, times what; after them shares >= 0.

    As they were stated: rows are scaled for a simplex solver, and this one starts elsewhere if they are.
    """
    Z, V = rows.Z, rows.matrix_KV.shape[1]
    has_upper, has_lower = (np.flatnonzero(np.isfinite(side_K)) for side_K in (rows.upper_K, rows.lower_K))
    at = np.concatenate([has_upper, has_lower])
    sign = np.concatenate([np.ones(len(has_upper)), -np.ones(len(has_lower))]) / rows.scale_K[at]
    stated = _rows(rows.matrix_KV, at)
    value = np.concatenate([stated.data * sign.repeat(np.diff(stated.indptr)), np.full(Z, -1.0)])
    column, ends = np.concatenate([stated.indices, np.arange(Z)]), stated.nnz + np.arange(1, Z + 1)
    matrix_KV = sparse.csr_array((value, column, np.concatenate([stated.indptr, ends])), shape=(len(at) + Z, V))
    side = np.concatenate([rows.upper_K[has_upper], rows.lower_K[has_lower]])
    return matrix_KV, np.concatenate([sign * side, np.zeros(Z)]), at, sign


def _used(snapshot: Snapshot, others: int) -> Ints:
    """The variables that the program has: shares of devices that are there and enough, and the others."""
    table = snapshot.configurations
    there_C = (snapshot.devices_A[table.accelerator_C] > 0) & snapshot.fits_C & ~table.barred_C
    return np.flatnonzero(np.concatenate([there_C, np.ones(others, dtype=bool)]))


def _shares(rows: Rows, used_V: Ints, value_V: Floats) -> Floats:
    """Shares within the limits of the cluster; none where nothing can run."""
    share_C, used_C = np.zeros(rows.Z), used_V[used_V < rows.Z]
    share_C[used_C] = _rounded(np.maximum(0.0, value_V[: len(used_C)]))
    snapshot = rows.statement.snapshot
    return repaired(snapshot, np.where(snapshot.usable_C, share_C, 0.0))


def _rounded(share_C: Floats) -> Floats:
    """Shares to so many bits: jobs alike get shares alike, and what is beyond is the solver's rounding."""
    part_C, power_C = np.frexp(share_C)
    return np.asarray(np.ldexp(np.rint(np.ldexp(part_C, BITS)), power_C - BITS))
