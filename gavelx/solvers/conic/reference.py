"""Any stated program as one vectorised cvxpy problem, solved by a solver of the user's choice.

The reference: slower than the other paths, written straight from the formulas, and independent of them. Nothing
is collapsed and no second stage follows, so of a max-min program only the first level is reached. It solves what
the other paths do not (terms that return a cvxpy expression) and steps in where they fail.

A ratio ``p_r / q_r`` with ``p_r = a_r q_r + c_r`` and ``c_r >= 0`` is ``a_r + c_r / q_r``, which is convex; so are
finish-time fairness and makespan. Other ratios go the way of Dinkelbach, one max-min problem a step.

The bound is proven without the solver's help (:mod:`gavelx.solvers.conic.tangent`,
:mod:`gavelx.solvers.maxmin.ratio`).

Legend: C configurations, R rows of one affine expression.
"""

import io
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.allocation import FEASIBLE
from gavelx.errors import PolicyError
from gavelx.solvers.conic.tangent import tangent_bound
from gavelx.solvers.maxmin.ratio import proven
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.certify import missing, repaired
from gavelx.solvers.program.convex import ConvexStatement, load_cvxpy, overheard
from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import left_s
from gavelx.solvers.program.statement import Affine, RatioStatement, Statement, Worst

if TYPE_CHECKING:
    import cvxpy

Floats = NDArray[np.float64]
TOLERANCES: dict[str, tuple[dict[str, Any], ...]] = {
    "clarabel": (
        {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10, "max_threads": 1},
        {"max_threads": 1},
    ),
    "ecos": ({"abstol": 1e-10, "reltol": 1e-10, "feastol": 1e-10}, {}),
    "scs": ({"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 100_000}, {"max_iters": 100_000}),
}
"""What is asked of each solver first, and what if it cannot reach that."""
TIME_LIMITS = {"clarabel": "time_limit", "scs": "time_limit_secs"}
MARGINS = 3
"""How often a program is solved again with its requirements set higher by what the answer missed of them."""
STEPS = 30
PROVEN = (1e-9, 1e-8, 1e-7, 9e-7, 9e-6, 9e-5, 1e-2, 0.5)
"""How far below an answer levels are tried that provably no shares reach, relative to it."""


@cache
def available(solver: str) -> bool:
    """Whether this solver is installed, to be used through cvxpy."""
    return find_spec(solver) is not None


def solve_reference(statement: Statement | RatioStatement, solver: str) -> Answer:
    """Solve a program through cvxpy; ``solver`` is ``clarabel``, ``ecos`` or ``scs``.

    Raises :class:`UnsolvedError`, and :class:`PolicyError` where the solver is not installed.
    """
    if not available(solver):
        problem, hint = f"{solver} is not installed", f"pip install 'gavelx[{solver}]', or --solver auto"
        raise PolicyError(problem, where=f"solver {solver}", hint=hint)
    program = _Program(load_cvxpy(), solver)
    if isinstance(statement, Statement):
        share_C, words = program.solve(statement)
        bound = tangent_bound(statement, share_C)
    else:
        share_C, words = _largest_ratio(program, statement)
        repaired_C = repaired(statement.snapshot, share_C)
        bound = proven(statement, statement.objective(repaired_C), repaired_C, PROVEN)
    only = ["first level only"] * _has_levels(statement)
    text = ", ".join([f"{solver} by cvxpy", *only, *sorted(words)])
    return Answer(share_C, bound, None, len(statement.snapshot.jobs), text)


def _has_levels(statement: Statement | RatioStatement) -> bool:
    """Whether other paths would go on where this one ends: with what the worst row leaves free."""
    if isinstance(statement, RatioStatement):
        return True
    pieces = statement.pieces if isinstance(statement, ConvexStatement) else ()
    return bool(statement.worst) and not (statement.linear.matrix_RC.nnz or statement.logs or pieces)


@dataclass
class _Program:
    """Statements as cvxpy problems, and one solver for them."""

    cp: ModuleType
    solver: str

    def solve(self, statement: Statement) -> tuple[Floats, set[str]]:
        """The shares, and what there is to say of how they came about."""
        cp, x = self.cp, self._shares(statement)
        sizes = [_largest(statement.linear)[0]] if statement.linear.matrix_RC.nnz else []
        size = max([*sizes, *(part.weight for part in statement.worst)], default=1.0)
        objective: Any = self._rows(statement.linear, x, 1.0 / size)[0]
        constraints = []
        for part in statement.worst:
            level = cp.Variable()
            constraints.append(self._above(part, x, level))
            objective = objective + part.weight / size * level
        for logs in statement.logs:
            counts = np.flatnonzero(logs.weight_R > 0)
            rows = logs.affine.of_rows(counts)
            logarithms = cp.log(self._rows(rows, x, 1.0 / _largest(rows)))
            objective = objective + (logs.weight_R[counts] / size) @ logarithms
        if isinstance(statement, ConvexStatement):
            objective = objective + sum(cp.sum(piece.expression) / size for piece in statement.pieces)
        return self._within_limits(statement, x, cp.Maximize(objective), constraints)

    def ratio(self, statement: RatioStatement, offset_R: Floats, need_R: Floats) -> tuple[Floats, set[str]]:
        """Minimise the largest ``offset_r + need_r / q_r``, over the rows that can have a finite ratio.

        The largest offset is taken off: beside the age of a job the rest may be too small to be seen.
        """
        cp, x, rows = self.cp, self._shares(statement), np.flatnonzero(statement.finite_R)
        most, rough = offset_R[rows].max(initial=0.0), rough_level(statement)
        scale = max(rough - most, 1e-9 * rough)
        bottom = self._rows(statement.denominator.of_rows(rows), x, scale / np.maximum(need_R[rows], 1e-300))
        needs = need_R[rows] > 0
        level = cp.Variable()
        constraints = [level >= 0.0]
        if needs.any():
            constraints.append(level >= (offset_R[rows][needs] - most) / scale + cp.inv_pos(bottom[needs]))
        return self._within_limits(statement, x, cp.Minimize(level), constraints)

    def _shares(self, statement: Statement | RatioStatement) -> "cvxpy.Variable":
        if isinstance(statement, ConvexStatement) and statement.variable is not None:
            return statement.variable
        return self.cp.Variable(len(statement.snapshot.configurations), nonneg=True)

    def _above(self, part: Worst, x: "cvxpy.Variable", level: "cvxpy.Variable") -> "cvxpy.Constraint":
        R = len(part.affine.constant_R)
        rate_R = np.ones(R)
        if part.rates is not None:
            rate_R = part.rates(np.ones(R, dtype=bool), np.arange(R), np.ones(R, dtype=np.int64))
        scale_R = 1.0 / np.sqrt(_largest(part.affine))
        return self._rows(part.affine, x, scale_R) >= (rate_R * scale_R) * level

    def _rows(self, affine: Affine, x: "cvxpy.Variable", scale_R: Floats | float = 1.0) -> "cvxpy.Expression":
        scaled = affine.scaled(scale_R)
        return scaled.matrix_RC @ x + scaled.constant_R

    def _within_limits(
        self, statement: Statement | RatioStatement, x: "cvxpy.Variable", objective: Any, constraints: list[Any]
    ) -> tuple[Floats, set[str]]:
        """Solve under the constraints of the cluster and the author's, until the repaired shares keep those."""
        margin, words = 0.0, set[str]()
        constraints = constraints + self._cluster(statement, x)
        for _ in range(MARGINS):
            required = self._required(statement, x, margin)
            words = self._run(self.cp.Problem(objective, constraints + required))
            share_C = np.where(statement.snapshot.usable_C, x.value, 0.0)
            missed = missing(statement.required, repaired(statement.snapshot, share_C))
            if not FEASIBLE < missed < 1e-4:
                break
            margin += 2.0 * missed
        return share_C, words

    def _cluster(self, statement: Statement | RatioStatement, x: "cvxpy.Variable") -> list[Any]:
        snapshot, table = statement.snapshot, statement.snapshot.configurations
        idle_C = np.flatnonzero(~snapshot.usable_C)
        per_type_A = np.maximum(1.0, snapshot.devices_A)
        devices_AC = sparse.csr_array(sparse.diags_array(1.0 / per_type_A) @ table.devices_AC)
        rows = [table.membership_JC @ x <= 1.0, devices_AC @ x <= snapshot.devices_A / per_type_A]
        return rows + ([x[idle_C] == 0.0] if len(idle_C) else [])

    def _required(self, statement: Statement | RatioStatement, x: "cvxpy.Variable", margin: float) -> list[Any]:
        required: list[Any] = []
        for requirement in statement.requirements:
            affine = requirement.affine
            margin_R = margin * np.maximum(1.0, np.abs(affine.constant_R))
            scale_R = 1.0 / np.maximum(_largest(affine), np.abs(affine.constant_R))
            required.append(self._rows(affine.shifted(-margin_R), x, scale_R) >= 0.0)
        if isinstance(statement, ConvexStatement):
            required += [limit.more.expression >= limit.less.expression + margin for limit in statement.limits]
        return required

    def _run(self, problem: "cvxpy.Problem") -> set[str]:
        """Solve, at the usual tolerances where the tight ones are out of reach. Raises :class:`UnsolvedError`."""
        words: set[str] = set()
        status = "not tried"
        for tolerances in TOLERANCES[self.solver]:
            if not left_s():
                raise UnsolvedError(OUT_OF_TIME)
            with overheard() as heard, redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                try:
                    status = self._solved(problem, tolerances)
                except (self.cp.error.SolverError, ValueError, ArithmeticError) as error:
                    status = " ".join(str(error).partition(". ")[0].split())[:120] or type(error).__name__
            words = {" ".join(str(w.message).partition(". ")[0].split())[:80].rstrip(".") for w in heard}
            if status in ("optimal", "infeasible", "unbounded"):
                break
        if status not in ("optimal", "optimal_inaccurate"):
            limit = OUT_OF_TIME if not left_s() else "iteration limit reached"
            raise UnsolvedError(limit if status == "user_limit" else status)
        return words

    def _solved(self, problem: "cvxpy.Problem", options: dict[str, Any]) -> str:
        """Solve, and say how it ended; again with a wider limit if others had the processor all the while.

        These solvers know limits of wall-clock time only.
        """
        wider, limit = 1.0, TIME_LIMITS.get(self.solver)
        while True:
            started, most_s = time.perf_counter(), wider * left_s()
            timed = {limit: most_s} if limit is not None and np.isfinite(most_s) else {}
            problem.solve(solver=self.solver.upper(), **options, **timed)
            stopped = problem.status == "user_limit" and time.perf_counter() - started >= most_s
            if not (stopped and left_s()):
                return str(problem.status)
            wider *= 2.0


def _largest_ratio(program: _Program, statement: RatioStatement) -> tuple[Floats, set[str]]:
    parts = Parts(statement)
    if not statement.finite_R.any():
        nothing = statement.denominator.total().scaled(0.0)
        return program.solve(Statement(statement.snapshot, (), nothing, statement.requirements, statement.text))
    if parts.convex:
        return program.ratio(statement, parts.offset_R, parts.need_R)
    share_C, words = program.solve(_gain(statement, rough_level(statement), np.zeros(0)))
    for _ in range(STEPS):
        level = statement.objective(share_C)
        next_C, words = program.solve(_gain(statement, level, share_C))
        if not statement.objective(repaired(statement.snapshot, next_C)) < level * (1.0 - 1e-9):
            break
        share_C = repaired(statement.snapshot, next_C)
    return share_C, words


@dataclass
class Parts:
    """Ratios written as ``offset_r + need_r / q_r``, where that is what they are."""

    statement: RatioStatement

    @cached_property
    def offset_R(self) -> Floats:
        top, bottom = self.statement.numerator, self.statement.denominator
        whole_R = np.asarray(bottom.matrix_RC.sum(axis=1)).ravel()
        top_R = np.asarray(top.matrix_RC.sum(axis=1)).ravel()
        return np.asarray(np.divide(top_R, whole_R, out=np.zeros(len(whole_R)), where=whole_R > 0))

    @cached_property
    def need_R(self) -> Floats:
        return self.statement.numerator.constant_R - self.offset_R * self.statement.denominator.constant_R

    @property
    def convex(self) -> bool:
        finite_R, top = self.statement.finite_R, self.statement.numerator.matrix_RC
        same = self._rest() <= 1e-12 * max(1e-300, np.abs(top.data).max(initial=0.0))
        return bool(same and (self.need_R >= 0)[finite_R].all())

    def _rest(self) -> float:
        """The largest coefficient that numerators have beyond their offset times the denominator's."""
        top, bottom = self.statement.numerator, self.statement.denominator
        if top.base_RC is bottom.base_RC:  # their coefficients stand in the same places
            entries_R = np.diff(top.base_RC.indptr)
            rest_E = top.matrix_RC.data - self.offset_R.repeat(entries_R) * bottom.matrix_RC.data
            rest_E = rest_E[self.statement.finite_R.repeat(entries_R)]
        else:
            rest_RC = top.matrix_RC - sparse.diags_array(self.offset_R) @ bottom.matrix_RC
            rest_E = rest_RC[np.flatnonzero(self.statement.finite_R)].data
        return float(np.abs(rest_E).max(initial=0.0))


def _gain(statement: RatioStatement, level: float, share_C: Floats) -> Statement:
    """Maximise the least ``q - p / level`` of the rows that can have a finite ratio, each over its last q."""
    rows = np.flatnonzero(statement.finite_R)
    top, bottom = statement.numerator.of_rows(rows), statement.denominator.of_rows(rows)
    before_R = bottom(share_C) if len(share_C) else _largest(bottom)
    gain = bottom.plus(top.scaled(-1.0 / level)).scaled(1.0 / np.maximum(before_R, 1e-9 * _largest(bottom)))
    nothing = Affine(sparse.csr_array((1, gain.matrix_RC.shape[1])), np.zeros(1), "total")
    return Statement(statement.snapshot, (Worst(1.0, gain),), nothing, statement.requirements, statement.text)


def rough_level(statement: RatioStatement) -> float:
    """The largest ratio if every job had an equal share of every type: a number of the right size."""
    table, J = statement.snapshot.configurations, len(statement.snapshot.jobs)
    share_C = statement.snapshot.devices_A[table.accelerator_C] / (J * table.devices_C)  # of a mix, a guess
    level = statement.objective(repaired(statement.snapshot, np.where(statement.snapshot.usable_C, share_C, 0.0)))
    return level if np.isfinite(level) and level > 0 else 1.0


def _largest(affine: Affine) -> Floats:
    """The largest coefficient of each row, 1 for a row without any."""
    largest_R = abs(affine.matrix_RC).max(axis=1).toarray().ravel()
    return np.asarray(np.where(largest_R > 0, largest_R, 1.0))
