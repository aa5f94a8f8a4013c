"""A linear program that stays warm in HiGHS: state it, solve it, change a few numbers, solve it again.

Legend: V variables, K constraints.
"""

from typing import Any
from weakref import finalize

import numpy as np
from highspy import Highs, HighsLp, HighsModelStatus, MatrixFormat, ObjSense, cb, kHighsIInf, kHighsInf
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import highs_method, time_is_up

Floats = NDArray[np.float64]
TOLERANCE = 1e-10
OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "small_matrix_value": 1e-12,
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
}
USUAL = (1e-3, 1e9)
"""Sizes of an objective's largest number with which the solver's tolerance is far below it, and above rounding."""
DUAL, PRIMAL = 1, 4
SMALL = 2000
"""Variables up to which presolve costs more time than it saves."""
UNWATCHED = 200
"""Iterations of simplex that a small program may take unasked; they take milliseconds."""
SPARE = 4
_spare: list[Highs] = []
"""Those whose programs are gone; as many as this are kept, and none that was large."""
BARE: dict[str, Any] = {"presolve": "off"}  # tells infeasible from unbounded, and does without a fragile postsolve
REDUCED: dict[str, Any] = {"presolve": "choose"}
LOOSE: dict[str, Any] = BARE | {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
ASKS_TO_GO_ON = (
    cb.HighsCallbackType.kCallbackSimplexInterrupt,
    cb.HighsCallbackType.kCallbackIpmInterrupt,
    cb.HighsCallbackType.kCallbackMipInterrupt,
)
ANSWERS = (HighsModelStatus.kOptimal, HighsModelStatus.kInfeasible, HighsModelStatus.kUnbounded)


class LinearProgram:
    """``maximise objective_V . v`` subject to ``lower_K <= matrix_KV @ v <= upper_K`` and bounds on v.

    ``primal`` simplex is quicker where a feasible vertex is at hand, such as all shares at 0. HiGHS takes longer
    to begin than to solve a tiny program, so that of a program that is gone is used again.
    """

    def __init__(
        self,
        *,
        objective_V: Floats,
        lower_V: Floats,
        upper_V: Floats,
        matrix_KV: sparse.csr_array | sparse.csc_array,
        lower_K: Floats,
        upper_K: Floats,
        primal: bool = False,
    ) -> None:
        self._unit = _unit(objective_V)
        lp = highs_lp(objective_V / self._unit, (lower_V, upper_V), matrix_KV, (lower_K, upper_K))
        lp.sense_ = ObjSense.kMaximize
        self._highs = _borrowed()
        finalize(self, _give_back, self._highs).atexit = False
        self.prefer(primal=primal)
        self._highs.passModel(lp)

    def prefer(self, *, primal: bool) -> None:
        """Which simplex the next solve is by."""
        self._highs.setOptionValue("simplex_strategy", PRIMAL if primal else DUAL)

    def solve(self) -> tuple[Floats, Floats]:
        """The optimal variables and the constraints' multipliers (gain in the objective per unit of slack).

        Raises :class:`UnsolvedError`.
        """
        _run(self._highs)
        solution = self._highs.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual) * self._unit

    def infeasible_by(self) -> Floats | None:
        """Multipliers with which the constraints contradict each other, where the last solve has found such."""
        _, found, ray_K = self._highs.getDualRay()  # type: ignore[attr-defined]
        return np.array(ray_K) if found else None

    def add_columns(
        self, objective_N: Floats, upper_N: Floats, matrix_KN: sparse.csc_array | sparse.csc_matrix
    ) -> None:
        """N variables more, from 0 on."""
        starts, rows = matrix_KN.indptr[:-1].astype(np.int32), matrix_KN.indices.astype(np.int32)
        lower_N = np.zeros(len(upper_N))
        entries = matrix_KN.nnz, starts, rows, matrix_KN.data
        self._highs.addCols(len(upper_N), objective_N / self._unit, lower_N, upper_N, *entries)

    def forget(self) -> None:
        """Start the next solve from nothing."""
        self._highs.clearSolver()

    def set_coefficient(self, row: int, column: int, value: float) -> None:
        self._highs.changeCoeff(row, column, value)

    def set_lower(self, row: int, lower: float) -> None:
        """Replace a constraint's lower bound; it has no upper one."""
        self._highs.changeRowBounds(row, lower, kHighsInf)

    def set_lowers(self, row_n: NDArray[np.int32], lower_n: Floats) -> None:
        """Replace the lower bounds of these constraints; they have no upper ones."""
        no_upper_n = np.full(len(row_n), kHighsInf)
        self._highs.changeRowsBounds(len(row_n), row_n, lower_n, no_upper_n)  # type: ignore[attr-defined]

    def set_upper_of_last(self, upper: float) -> None:
        """The last variable is at most this, and at least 0."""
        self._highs.changeColBounds(self._highs.getNumCol() - 1, 0.0, upper)

    def set_objective(self, objective_V: Floats) -> None:
        self._unit, columns = _unit(objective_V), np.arange(len(objective_V), dtype=np.int32)
        self._highs.changeColsCost(len(objective_V), columns, objective_V / self._unit)


def _unit(objective_V: Floats) -> float:
    """What an objective is counted in, tolerances being absolute: 1, or a power of two near its largest number."""
    largest = float(np.abs(objective_V).max(initial=0.0))
    usual = largest == 0.0 or USUAL[0] <= largest <= USUAL[1]
    return 1.0 if usual else float(np.ldexp(1.0, np.frexp(largest)[1] - 1))


def highs_lp(
    cost_V: Floats,
    bounds_V: tuple[Floats, Floats],
    matrix_KV: sparse.csr_array | sparse.csc_array,
    bounds_K: tuple[Floats, Floats],
) -> HighsLp:
    lp = HighsLp()
    lp.num_row_, lp.num_col_ = matrix_KV.shape
    lp.col_cost_ = cost_V
    lp.col_lower_, lp.col_upper_ = bounds_V
    lp.row_lower_, lp.row_upper_ = bounds_K
    lp.a_matrix_.format_ = MatrixFormat.kRowwise if matrix_KV.format == "csr" else MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix_KV.indptr, matrix_KV.indices
    lp.a_matrix_.value_ = matrix_KV.data
    return lp


class _SilentHighs(Highs):
    """HiGHS whose banner is off: from 1.16 on it is printed in the constructor, as soon as there are callbacks."""

    def enableCallbacks(self) -> None:
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def new_highs() -> Highs:
    """HiGHS with our options, which stops when no time is left. Its own limit is of wall-clock time."""
    highs = _SilentHighs()  # type: ignore[no-untyped-call]
    highs.setCallback(_stop_in_time, None)
    _as_new(highs)
    return highs


def _as_new(highs: Highs) -> None:
    """Our options again, whatever the last program needed."""
    for option, value in OPTIONS.items():
        highs.setOptionValue(option, value)
    watch(highs, True)


def _borrowed() -> Highs:
    """One that no program uses; passing it a model makes it forget the last one."""
    try:
        highs = _spare.pop()
    except IndexError:
        return new_highs()
    _as_new(highs)
    return highs


def _give_back(highs: Highs) -> None:
    if highs.getNumCol() <= SMALL and len(_spare) < SPARE:
        _spare.append(highs)


def watch(highs: Highs, wanted: bool) -> None:
    """Whether HiGHS asks in every iteration if it shall go on."""
    for question in ASKS_TO_GO_ON:
        (highs.startCallback if wanted else highs.stopCallback)(question)


def _stop_in_time(question: cb.HighsCallbackType, message: str, seen: Any, answer: Any, data: Any) -> None:
    """HiGHS asks once an iteration."""
    answer.user_interrupt = time_is_up()


def _status_of(highs: Highs) -> HighsModelStatus:
    """Solve; a small program is not watched in its first iterations: most are done by then, and asking costs."""
    if highs.getNumCol() <= SMALL and highs_method() == "choose":
        watch(highs, False)
        highs.setOptionValue("simplex_iteration_limit", UNWATCHED)
        highs.run()
        watch(highs, True)
        highs.setOptionValue("simplex_iteration_limit", kHighsIInf)
        if highs.getModelStatus() != HighsModelStatus.kIterationLimit:
            return highs.getModelStatus()
    highs.run()
    return highs.getModelStatus()


def said(highs: Highs, status: HighsModelStatus) -> str:
    """How a solve ended, in words."""
    return OUT_OF_TIME if status == HighsModelStatus.kInterrupt else highs.modelStatusToString(status).lower()


def _run(highs: Highs) -> None:
    """Solve, trying again with other options where HiGHS gives up and time is left.

    Raises :class:`UnsolvedError` unless an optimum is reached.
    """
    highs.setOptionValue("solver", highs_method())
    for options in (BARE, REDUCED, LOOSE) if highs.getNumCol() <= SMALL else (REDUCED, BARE, LOOSE):
        if time_is_up():
            raise UnsolvedError(OUT_OF_TIME)
        for name, value in options.items():
            highs.setOptionValue(name, value)
        status = _status_of(highs)
        if status in ANSWERS:
            break
        highs.clearSolver()
    if status != HighsModelStatus.kOptimal:
        raise UnsolvedError(said(highs, status))
