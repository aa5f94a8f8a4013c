"""Solve a stated program as a linear program over classes of identical jobs, level by level where it is max-min.

Variables are the shares z of the classes, then one level per ``Worst`` of the objective::

    maximise    sum_i weight_i level_i + linear(z)
    subject to  time of each class <= 1, devices of each type <= W_a, requirement(z) >= 0,
                (worst_i(z))_r - level_i >= 0 for every row r

A pure max-min program has many optima, most of them wasteful. So it is solved lexicographically (water filling):
rows with a positive multiplier are at the optimum in *every* solution; they are frozen there and the level of
the others is raised, until all are frozen. What is left free is spent on the least money. The result is Pareto
efficient and its throughputs are unique: they do not depend on the solver.

Source: lexicographic max-min by successive linear programs, see Nace and Pioro, "Max-min fairness and its
applications to routing and load-balancing in communication networks: a tutorial" (IEEE Communications Surveys
10(4), 2008), section III; Gavel (OSDI'20), section 4.3, uses a MILP for the step that multipliers give us free.

Legend: G classes, A accelerator types, Z configurations of the classes, R rows of an expression.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.collapse import Classes, collapse
from gavelx.solvers.highs import LinearProgram, UnsolvedError
from gavelx.solvers.statement import Statement

Floats = NDArray[np.float64]
SLACKS = (1e-11, 1e-10, 1e-9, 1e-8)
POSITIVE = 1e-11
"""Multipliers of a simplex basis are exact zeros or proper numbers; this only cuts rounding."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Shares of all configurations, a proven bound on the objective, and the value of one more device."""

    share_C: Floats
    bound: float | None
    marginal_A: Floats | None
    classes: int
    path: str


def solve_linear(statement: Statement, *, lexicographic: bool = True) -> Answer:
    """Solve a stated program; a pure max-min one beyond its first level only if ``lexicographic``.

    Raises :class:`~gavelx.solvers.highs.UnsolvedError`.
    """
    classes = collapse(statement)
    rows = _Rows(statement, classes)
    program = LinearProgram(
        objective_V=rows.objective_V,
        upper_V=rows.upper_V,
        lower_V=rows.lower_V,
        matrix_KV=rows.matrix_KV,
        lower_K=rows.lower_K,
        upper_K=rows.upper_K,
    )
    value_V, multiplier_K = program.solve()
    bound, marginal_A = rows.bound(multiplier_K)
    path = "highs"
    if lexicographic and rows.is_max_min:
        value_V, complete = _raise_levels(program, rows, value_V, multiplier_K)
        path = "highs-lexicographic" if complete else "highs-lexicographic, levels not all raised"
        value_V = _cheapest(program, rows, value_V) if complete else value_V
    share_C = np.asarray(classes.expand_CZ @ value_V[: rows.Z])
    return Answer(share_C, bound, marginal_A, len(classes), path)


def _raise_levels(
    program: LinearProgram, rows: "_Rows", value_V: Floats, multiplier_K: Floats
) -> tuple[Floats, bool]:
    """Freeze the rows that cannot rise, raise the level of the others, until all rows are frozen.

    Says whether it got there: data over very many orders of magnitude may defeat the solver at a later level.
    """
    worst_K = np.arange(len(rows.lower_K))[rows.worst]
    floors: dict[int, float] = {}
    while True:
        level = value_V[rows.Z]
        binding_K = worst_K[np.abs(multiplier_K[worst_K]) > POSITIVE]
        if not len(binding_K):
            return value_V, False
        for row in binding_K.tolist():
            floors[row] = rows.lower_K[row] + level * rows.scale_K[row]
            program.set_coefficient(row, rows.Z, 0.0)
            program.set_lower(row, floors[row])
        worst_K = np.setdiff1d(worst_K, binding_K)
        if not len(worst_K):
            return value_V, True
        try:
            value_V, multiplier_K = _solve_on_floors(program, floors)
        except UnsolvedError:
            return value_V, False


def _solve_on_floors(program: LinearProgram, floors: dict[int, float]) -> tuple[Floats, Floats]:
    """Solve with all frozen rows exactly at their level; a hair below it where rounding makes that impossible."""
    for slack in SLACKS:
        try:
            return program.solve()
        except UnsolvedError:
            program.forget()
            for row, floor in floors.items():
                program.set_lower(row, floor - slack * abs(floor))
    return program.solve()


def _cheapest(program: LinearProgram, rows: "_Rows", value_V: Floats) -> Floats:
    """Among the allocations with these throughputs, the one that costs least (or holds the fewest devices)."""
    program.set_objective(np.concatenate([-rows.cost_Z, [0.0]]))
    try:
        cheapest_V, _ = program.solve()
    except UnsolvedError:
        return value_V
    return cheapest_V if rows.cost_Z @ cheapest_V[: rows.Z] < rows.cost_Z @ value_V[: rows.Z] else value_V


class _Rows:
    """The program's rows over the classes: time, devices, requirements, then the rows of each Worst.

    Requirements and rows of a Worst are scaled by the root of their largest coefficient, which balances it with
    the coefficient 1 of the level, so that one absolute tolerance suits speeds of 0.001 and of 100,000 steps/s.
    """

    def __init__(self, statement: Statement, classes: Classes) -> None:
        snapshot, table = statement.snapshot, statement.snapshot.configurations
        self.statement, self.classes = statement, classes
        self.expand_CZ = classes.expand_CZ
        self.Z, levels = self.expand_CZ.shape[1], len(statement.worst)
        self.time_GZ = sparse.csr_array(table.membership_JC[classes.representative_G] @ self.expand_CZ)
        self.time_GZ.data[:] = 1.0
        self.devices_AZ = sparse.csr_array(table.devices_AC @ self.expand_CZ)
        required = [classes.rows(requirement.affine) for requirement in statement.requirements]
        worst = [classes.rows(part.affine) for part in statement.worst]
        self.level_weight = np.array([part.weight for part in statement.worst])
        self.is_max_min = levels == 1 and self.level_weight[0] > 0 and statement.linear.matrix_RC.nnz == 0
        blocks: list[tuple[sparse.csr_array, Floats, int]] = [
            *((matrix, constant, -1) for matrix, constant in required),
            *((matrix, constant, i) for i, (matrix, constant) in enumerate(worst)),
        ]
        parts = [_with_levels(self.time_GZ, -1, levels), _with_levels(self.devices_AZ, -1, levels)]
        parts += [_with_levels(matrix, level, levels) for matrix, _, level in blocks]
        G, A = len(classes), len(snapshot.devices_A)
        matrix_KV = sparse.csr_array(sparse.vstack(parts, format="csr"))
        largest_K = abs(matrix_KV[:, : self.Z]).max(axis=1).toarray().ravel()
        self.scale_K = 1.0 / np.sqrt(np.where(largest_K > 0, largest_K, 1.0))
        self.scale_K[: G + A] = 1.0
        self.matrix_KV = sparse.csr_array(sparse.diags_array(self.scale_K) @ matrix_KV)
        self.lower_K = np.concatenate([np.full(G + A, -np.inf), *(-constant for _, constant, _ in blocks)])
        self.lower_K *= self.scale_K
        self.upper_K = np.full(len(self.lower_K), np.inf)
        self.upper_K[:G] = 1.0
        self.upper_K[G : G + A] = snapshot.devices_A
        self.devices, self.gains = slice(G, G + A), slice(G + A, None)
        self.worst = slice(len(self.lower_K) - sum(len(constant) for _, constant in worst), None)

    @cached_property
    def linear_Z(self) -> Floats:
        return np.asarray(self.classes.rows(self.statement.linear)[0].toarray()).ravel()

    @cached_property
    def objective_V(self) -> Floats:
        return np.concatenate([self.linear_Z, self.level_weight])

    @cached_property
    def upper_V(self) -> Floats:
        """A class configuration that cannot run stays at zero."""
        usable_Z = np.asarray(self.expand_CZ.T @ self.statement.snapshot.usable_C) > 0
        return np.concatenate([np.where(usable_Z, 1.0, 0.0), np.full(len(self.level_weight), np.inf)])

    @cached_property
    def lower_V(self) -> Floats:
        return np.concatenate([np.zeros(self.Z), np.full(len(self.level_weight), -np.inf)])

    @cached_property
    def cost_Z(self) -> Floats:
        """Dollars per hour of each class configuration; its devices if some type in use has no known price."""
        snapshot = self.statement.snapshot
        usd_A = np.where(snapshot.devices_A > 0, snapshot.usd_per_hour_A, 0.0)
        usd_A = np.ones_like(usd_A) if np.isnan(usd_A).any() else usd_A
        return np.asarray(usd_A @ self.devices_AZ)

    def bound(self, multiplier_K: Floats) -> tuple[float, Floats]:
        """A bound that holds for any multipliers y of the gain rows and prices p >= 0 of the devices.

        For all feasible z: objective(z) <= y.(gain rows' constants) + p.W + sum_g max(0, max_z of the class's
        reduced gains), provided that the multipliers of each Worst add up to its weight. HiGHS gives multipliers
        that satisfy this to rounding; they are clipped and rescaled here until they do exactly.
        """
        price_A = np.maximum(0.0, multiplier_K[self.devices])
        gain_K = np.maximum(0.0, -multiplier_K[self.gains])
        start = len(gain_K)
        for weight, part in zip(self.level_weight[::-1], self.statement.worst[::-1], strict=True):
            size = len(self.classes.rows(part.affine)[1])
            y = gain_K[start - size : start]
            total = float(y @ self.scale_K[self.gains][start - size : start])
            y *= weight / total if total > 0 else 0.0
            start -= size
        matrix_KZ = self.matrix_KV[self.gains, : self.Z]
        reduced_Z = self.linear_Z + np.asarray(gain_K @ matrix_KZ) - np.asarray(price_A @ self.devices_AZ)
        reduced_Z = np.where(self.upper_V[: self.Z] > 0, np.maximum(0.0, reduced_Z), 0.0)
        best_G = self.time_GZ.multiply(reduced_Z[None, :]).tocsr().max(axis=1).toarray()
        constant = -gain_K @ self.lower_K[self.gains] + self.statement.linear.constant_R[0]
        devices_A = self.statement.snapshot.devices_A
        return float(constant + price_A @ devices_A + best_G.sum()), price_A


def _with_levels(matrix: sparse.csr_array, level: int, levels: int) -> sparse.csr_array:
    """Append the columns of the levels: -1 in the one that bounds these rows from below, if any."""
    columns = np.zeros((matrix.shape[0], levels))
    if level >= 0:
        columns[:, level] = -1.0
    return sparse.csr_array(sparse.hstack([matrix, sparse.csr_array(columns)]))
