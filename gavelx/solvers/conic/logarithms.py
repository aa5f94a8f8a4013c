"""Programs with logarithms, such as proportional fairness, over classes of identical jobs.

Variables are the kinds of configurations, the levels of each Worst, and a number u_r <= log(s_r row_r) for each
logarithm, s_r being a scale. Linear rows come first, then (u_r, 1, s_r row_r) in the exponential cone for every r.

The bound is the dual one. Multipliers of a solver meet the dual constraints but for rounding; they are put into
the dual cone exactly, and what is left over in a column counts against the bound by what its variable can be.

Legend: G classes, Z kinds of configurations, V variables, U logarithms, K linear rows, L all rows.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.conic.clarabel import exponential_program
from gavelx.solvers.conic.proportional import ProportionalProgram
from gavelx.solvers.price_engine.dense_program import JobTypeMatrix, as_job_type_matrix, factor
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.assemble_lp import Rows
from gavelx.solvers.program.certify import repaired
from gavelx.solvers.program.collapse import Classes, collapse
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Logs, Statement

Floats = NDArray[np.float64]


def solve_logs(statement: Statement) -> Answer:
    """Solve a stated program with logarithms. Raises :class:`UnsolvedError`."""
    classes = collapse(statement)
    if (own := OwnLogs.of(statement, classes)) is not None:
        with suppress(UnsolvedError):
            return own.solve()
    program = _Program.of(statement, classes)
    value_V, multiplier_L = exponential_program(
        program.cost_V, sparse.csc_matrix(program.matrix_LV), program.limit_L, program.inequalities
    )
    rows = program.rows
    value_Z = np.where(rows.upper_V[: rows.Z] > 0, np.maximum(0.0, value_V[: rows.Z]), 0.0)
    share_C = repaired(statement.snapshot, classes.shares(value_Z))
    marginal_A = multiplier_L[program.devices] * program.unit
    path = "clarabel, exponential cones"
    return Answer(share_C, program.bound(multiplier_L), marginal_A, len(classes), path)


@dataclass(frozen=True, eq=False)
class OwnLogs:
    """A program that is nothing but logarithms of each job's own speed: those of ``weight_G`` above 0.

    ``weight_G`` and ``scale_G`` are of one job of each class.
    """

    statement: Statement
    classes: Classes
    matrix: JobTypeMatrix
    weight_G: Floats
    program: ProportionalProgram

    @staticmethod
    def of(statement: Statement, classes: Classes) -> "OwnLogs | None":
        """The program in this form, or None where it is another."""
        if statement.worst or statement.linear.base_RC.nnz or statement.requirements or len(statement.logs) != 1:
            return None
        logs = statement.logs[0]
        counts_G = logs.weight_R[classes.representative_G] > 0 if logs.affine.rows == "job" else np.zeros(1)
        if logs.affine.constant_R.any() or not counts_G.any():
            return None
        row_G = classes.representative_G[counts_G]
        matrix = as_job_type_matrix(statement.snapshot, logs.affine.base_RC, row_G)
        if matrix is None:
            return None
        weight_G, count_G = logs.weight_R[row_G], classes.count_G[counts_G]
        gain_GA = matrix.gains(logs.affine.base_RC) * factor(logs.affine)[row_G][:, None]
        devices_A = statement.snapshot.devices_A.astype(float)
        program = ProportionalProgram(gain_GA, weight_G * count_G, matrix.scale_G * count_G, devices_A)
        return OwnLogs(statement, classes, matrix, weight_G, program)

    def solve(self) -> Answer:
        """The optimum, with a proven bound. Raises :class:`UnsolvedError`."""
        found, constant = self.program.solve(), float(self.statement.linear.constant_R[0])
        share_C = np.asarray(self.matrix.shares(found.share_GA))
        if not self.classes.merge_nothing:
            share_C = self.classes.shares(share_C[self.classes.first_Z] / self.classes.unit_Z)
        share_C = np.where(self.statement.snapshot.usable_C, share_C, 0.0)
        path = f"interior point, {found.steps} steps"
        return Answer(share_C, constant + found.bound, found.price_A, len(self.classes), path)

    def losses(self, share_C: Floats) -> Floats:
        """What the others of all classes lose by the presence of one job of each, under these optimal shares.

        A sum of logarithms; 0 for a job that does not count. Raises :class:`UnsolvedError`.
        """
        row_G = self.matrix.row_G
        value_G = self.program.value(self.statement.logs[0].affine(share_C)[row_G])
        count_G = self.classes.count_G[self.classes.class_J[row_G]]
        with_all = float((self.weight_G * count_G * value_G).sum())
        without_G = self.program.without(self.weight_G, self.matrix.scale_G)
        loss_G = np.zeros(len(self.classes))
        loss_G[self.classes.class_J[row_G]] = without_G - (with_all - self.weight_G * value_G)
        return loss_G


@dataclass(frozen=True, eq=False)
class _Program:
    """Minimise ``cost . v`` with ``limit - matrix @ v`` >= 0 or in the cone.

    The statement's objective is ``constant - unit * cost . v``.
    """

    rows: Rows
    cost_V: Floats
    matrix_LV: sparse.csr_array
    limit_L: Floats
    inequalities: int
    unit: float
    constant: float
    devices: slice

    @staticmethod
    def of(statement: Statement, classes: Classes) -> "_Program":
        """The program of a statement."""
        rows = Rows(replace(statement, logs=()), classes)
        weight_U, matrix_UZ, constant_U = _logarithms(statement.logs, classes)
        scale_U = 1.0 / np.maximum(abs(matrix_UZ).max(axis=1).toarray().ravel(), 1e-300)
        U, levels = len(weight_U), len(rows.level_weight)
        linear_KV, limit_K = _inequalities(rows)
        cone_LZ = sparse.csr_array((-scale_U, (3 * np.arange(U) + 2, np.arange(U))), shape=(3 * U, U)) @ matrix_UZ
        cone_LU = sparse.csr_array((-np.ones(U), (3 * np.arange(U), np.arange(U))), shape=(3 * U, U))
        cones = sparse.hstack([cone_LZ, sparse.csr_array((3 * U, levels)), cone_LU])
        limit_cones = np.zeros(3 * U)
        limit_cones[1::3], limit_cones[2::3] = 1.0, scale_U * constant_U
        gain_V = np.concatenate([rows.linear_Z, rows.level_weight, weight_U])
        unit = max(1e-300, float(np.abs(gain_V).max(initial=0.0)))
        linear = sparse.hstack([linear_KV, sparse.csr_array((len(limit_K), U))])
        first = int(np.isfinite(rows.upper_K[: rows.devices.start]).sum())
        return _Program(
            rows=rows,
            cost_V=-gain_V / unit,
            matrix_LV=sparse.csr_array(sparse.vstack([linear, cones])),
            limit_L=np.concatenate([limit_K, limit_cones]),
            inequalities=len(limit_K),
            unit=unit,
            constant=float(statement.linear.constant_R[0] - (weight_U * np.log(scale_U)).sum()),
            devices=slice(first, first + len(rows.statement.snapshot.devices_A)),
        )

    def bound(self, multiplier_L: Floats) -> float:
        """What no shares can pass, from any multipliers (good ones make it tight)."""
        dual_L, K, U = multiplier_L.copy(), self.inequalities, (len(multiplier_L) - self.inequalities) // 3
        dual_L[:K] = np.maximum(0.0, dual_L[:K])
        x_U = np.minimum(self.cost_V[len(self.cost_V) - U :], -1e-300)  # so that nothing is left over of u
        z_U = np.maximum(dual_L[K + 2 :: 3], 1e-300)
        dual_L[K::3], dual_L[K + 2 :: 3] = x_U, z_U
        dual_L[K + 1 :: 3] = x_U * (1.0 + np.log(z_U / -x_U))  # the least that is in the dual cone
        left_V = self.cost_V + np.asarray(dual_L @ self.matrix_LV)
        Z, rows = self.rows.Z, self.rows
        left_Z = np.where(rows.upper_V[:Z] > 0, left_V[:Z], 0.0)
        worst = np.minimum(0.0, left_Z).sum() - np.abs(left_V[Z : len(left_V) - U]).sum() * rows.highest_level
        return float(self.constant - self.unit * (worst - (dual_L * self.limit_L).sum()))


def _logarithms(parts: Sequence[Logs], classes: Classes) -> tuple[Floats, sparse.csr_array, Floats]:
    """Weight (of all members of a class), row over the kinds and constant of each logarithm that counts."""
    weights, matrices, constants = [], [], []
    for part in parts:
        matrix_RZ, constant_R = classes.rows(part.affine)
        per_job = part.affine.rows == "job"
        weight_R = part.weight_R[classes.representative_G] * classes.count_G if per_job else part.weight_R
        counts = np.flatnonzero(weight_R > 0)
        weights.append(weight_R[counts])
        matrices.append(matrix_RZ[counts])
        constants.append(constant_R[counts])
    return (
        np.concatenate(weights),
        sparse.csr_array(sparse.vstack(matrices, format="csr")),
        np.concatenate(constants),
    )


def _inequalities(rows: Rows) -> tuple[sparse.csr_array, Floats]:
    """The linear rows as ``limit - matrix @ v >= 0``, upper limits first; kinds lie between 0 and 1, or at 0."""
    Z, V = rows.Z, rows.matrix_KV.shape[1]
    has_lower, has_upper = np.isfinite(rows.lower_K), np.isfinite(rows.upper_K)
    share_ZV, upper_Z = sparse.eye_array(Z, V, format="csr"), np.minimum(1.0, rows.upper_V[:Z])
    blocks = [rows.matrix_KV[has_upper], -rows.matrix_KV[has_lower], share_ZV, -share_ZV]
    limits = [rows.upper_K[has_upper], -rows.lower_K[has_lower], upper_Z, np.zeros(Z)]
    return sparse.csr_array(sparse.vstack(blocks)), np.concatenate(limits)
