"""A linear or ratio program as the published systems answer it: once, by an interior point, and left there.

An optimum is seldom unique. A simplex solver ends in a corner; an interior-point solver ends near the centre of all
optima, where jobs alike get shares alike. It also leaves a trace of a share, about inverse to what it would cost,
with those who were nearly promised something. The published mechanism fills idle devices in the order of those
traces, so its schedules cannot be had from a corner. Nothing is collapsed, for classes would have another centre,
no second stage follows, and tolerances are the solver's own.

Ratios ``a_r + c_r / q_r`` become ``a_r + u_r`` with ``u_r q_r >= c_r``, a second-order cone, as in cvxpy.

Legend: C configurations, V variables, K linear rows, R rows of one expression, L all rows.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.certify import repaired
from gavelx.solvers.collapse import no_classes
from gavelx.solvers.conic import interior_program
from gavelx.solvers.highs import UnsolvedError
from gavelx.solvers.linear import Answer
from gavelx.solvers.ratio import proven
from gavelx.solvers.reference import PROVEN, Parts, rough_level
from gavelx.solvers.rows import Rows
from gavelx.solvers.statement import Affine, RatioStatement, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PATH = "clarabel, interior"


def solve_interior(statement: Statement | RatioStatement) -> Answer:
    """The centre of the optima. Raises :class:`~gavelx.solvers.highs.UnsolvedError`."""
    if isinstance(statement, RatioStatement):
        return _ratio(statement)
    rows = Rows(statement, no_classes(statement.snapshot.configurations))
    matrix_KV, limit_K, multiplier_of = _inequalities(rows)
    unit = max(1e-300, float(np.abs(rows.objective_V).max(initial=0.0)))
    used_V = np.flatnonzero(rows.upper_V > 0)
    cost_V = -rows.objective_V[used_V] / unit
    value_V, dual_L = interior_program(cost_V, sparse.csc_matrix(matrix_KV[:, used_V]), limit_K, len(limit_K))
    bound, marginal_A = rows.bound(multiplier_of @ dual_L * unit)
    return Answer(_shares(rows, used_V, value_V), bound, marginal_A, rows.G, PATH)


def _ratio(statement: RatioStatement) -> Answer:
    parts, snapshot = Parts(statement), statement.snapshot
    counts = np.flatnonzero(statement.finite_R & (parts.need_R > 0))
    if not (parts.convex and len(counts)):
        raise UnsolvedError("no convex ratio")
    C, U, level = len(snapshot.configurations), len(counts), rough_level(statement)
    nothing = Affine(sparse.csr_array((1, C)), np.zeros(1), "total")
    base = Statement(snapshot, (), nothing, statement.requirements, statement.text)
    rows = Rows(base, no_classes(snapshot.configurations))
    matrix_KC, limit_K, _ = _inequalities(rows)
    bottom = statement.denominator.of_rows(counts).scaled(level / parts.need_R[counts])
    one_U1, eye_UU = np.ones((U, 1)), sparse.eye_array(U)
    in_cones = sparse.block_array(  # level >= a + u; and (u + q, u - q, 2) in the cone, so that u q >= 1
        [
            [matrix_KC, None, None],
            [None, -one_U1, eye_UU],
            [-bottom.matrix_RC, None, -eye_UU],
            [bottom.matrix_RC, None, -eye_UU],
            [sparse.csr_array((U, C)), None, None],
        ],
        format="csr",
    )
    offset_U, q_U = parts.offset_R[counts] / level, bottom.constant_R
    limits = np.concatenate([limit_K, -offset_U, q_U, -q_U, np.full(U, 2.0)])
    first = len(limit_K) + U
    order = np.concatenate([np.arange(first), first + np.arange(3 * U).reshape(3, U).T.ravel()])
    cost_V = np.concatenate([np.zeros(C), [1.0], np.zeros(U)])
    used_V = np.concatenate([np.flatnonzero(snapshot.usable_C), np.arange(C, C + 1 + U)])
    matrix_LV = sparse.csc_matrix(in_cones[order][:, used_V])
    value_V, _ = interior_program(cost_V[used_V], matrix_LV, limits[order], first)
    share_C = _shares(rows, used_V, value_V)
    bound = proven(statement, statement.objective(share_C), share_C, PROVEN)
    return Answer(share_C, bound, None, rows.G, PATH)


def _inequalities(rows: Rows) -> tuple[sparse.csr_array, Floats, sparse.csr_array]:
    """The linear rows as ``limit - matrix @ v >= 0``, and what makes their multipliers those of ``rows``."""
    Z, (K, V) = rows.Z, rows.matrix_KV.shape
    has_upper, has_lower = (np.flatnonzero(np.isfinite(side_K)) for side_K in (rows.upper_K, rows.lower_K))
    blocks = [rows.matrix_KV[has_upper], -rows.matrix_KV[has_lower], -sparse.eye_array(Z, V, format="csr")]
    limits = [rows.upper_K[has_upper], -rows.lower_K[has_lower], np.zeros(Z)]
    sign = np.concatenate([np.ones(len(has_upper)), -np.ones(len(has_lower))])
    at = np.concatenate([has_upper, has_lower])
    back = sparse.csr_array((sign, (at, np.arange(len(at)))), shape=(K, len(at) + Z))
    return sparse.csr_array(sparse.vstack(blocks)), np.concatenate(limits), back


def _shares(rows: Rows, used_V: Ints, value_V: Floats) -> Floats:
    """Shares within the limits of the cluster; none where nothing can run."""
    share_C, used_C = np.zeros(rows.Z), used_V[used_V < rows.Z]
    share_C[used_C] = np.maximum(0.0, value_V[: len(used_C)])
    return repaired(rows.statement.snapshot, share_C)
