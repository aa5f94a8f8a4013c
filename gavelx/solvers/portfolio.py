"""No failed round: several solvers in order, each of which answers only if its answer passes the check.

The check knows nothing of solvers: the repaired shares are feasible, every constraint holds, and where a bound is
proven the objective is next to it. An answer that fails is not used, unless a tiny part that all jobs share mends
it; the next path is tried in the time that is left. The certificate says either. Whether a program is infeasible
is an answer too, about the user's program.

Legend: C configurations.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import FEASIBLE, Allocation
from gavelx.errors import PolicyError, SolverError
from gavelx.solvers.conic.logarithms import solve_logs
from gavelx.solvers.conic.reference import solve_reference
from gavelx.solvers.infeasibility import infeasible, unbounded, valueless
from gavelx.solvers.maxmin.lexicographic import solve_linear
from gavelx.solvers.maxmin.ratio import solve_ratio
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.certify import BITS, certified, missing, repaired, violation
from gavelx.solvers.program.convex import ConvexStatement
from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import HighsMethod, SolverName, left_s, limited, settings
from gavelx.solvers.program.statement import Affine, RatioStatement, Statement

Floats = NDArray[np.float64]
GAP = 1e-6
"""How far an objective may be from its bound, relative to the size of its numbers."""
LOOSE_GAP = 1e-4
"""The same for a first-order solver that the user has asked for, and where the bound is that of a tangent."""
CRUMBS = 1e-7
"""Part of the cluster that all jobs share equally where a solver rounds what is due to some of them to nothing: to
a job that weighs 1e-9 beside one that weighs 1e12, say. It is far below :data:`GAP`."""
NOTHING = 1e-300
"""A gap that is none, whatever the size of the numbers: solvers count in such units where nothing has a size."""


@dataclass(frozen=True)
class Path:
    """One way to an answer: its name, the function, how HiGHS is to work in it, and the gap it may leave."""

    name: str
    solve: Callable[[Any], Answer]
    method: HighsMethod = "choose"
    gap: float = GAP


def solve(statement: Statement | RatioStatement, *, budget_s: float | None = None) -> Allocation:
    """Solve a stated program and certify the answer, within the time that the settings allow.

    Raises :class:`ProgramError` where the program has no answer (and names the constraint), and
    :class:`SolverError` where every solver failed.
    """
    started = time.perf_counter()
    snapshot = statement.snapshot
    if not snapshot.runs_J.any():
        return _idle(statement)
    with limited(settings().budget_s if budget_s is None else budget_s):
        answer, check = _first_good(statement, paths(statement, settings().solver))
    sign = _sign(statement)
    allocation = certified(
        snapshot,
        answer.share_C,
        path=answer.path,
        seconds=time.perf_counter() - started,
        objective=sign * check.objective,
        bound=None if answer.bound is None else sign * answer.bound,
        classes=answer.classes,
        marginal_A=None if answer.marginal_A is None else sign * answer.marginal_A,
        excess=check.excess,
        log_weight=_log_weight(statement),
    )
    return allocation.with_memory(answer.memory) if answer.memory else allocation


def _idle(statement: Statement | RatioStatement) -> Allocation:
    """The one allocation that there is where no job can run: nothing to solve, and no noise of solvers."""
    share_C = np.zeros(len(statement.snapshot.configurations))
    if missing(statement.required, share_C) > FEASIBLE:
        raise infeasible(statement)
    value = _sign(statement) * statement.objective(share_C) + 0.0  # -0.0 is 0.0
    of_jobs = isinstance(statement, RatioStatement) or not np.isfinite(value)  # the worst of no job has no value
    known = None if of_jobs else value
    return certified(
        statement.snapshot, share_C, path="no job can run", seconds=0.0, classes=0, objective=known, bound=known
    )


def paths(statement: Statement | RatioStatement, solver: SolverName = "auto") -> list[Path]:
    """The ways to an answer that suit the program, best first. Raises :class:`PolicyError` if there is none."""
    found, first = [], settings().first
    if solver == "auto" and first is not None and _is_linear(statement):
        found.append(Path(first.__name__, first))
    if solver in ("auto", "highs") and _is_linear(statement):
        found += [Path("highs", _by_highs), Path("highs interior point", _by_highs, "ipm")]
    if solver == "auto" and isinstance(statement, Statement) and _has_only_logs(statement):
        found.append(Path("clarabel", solve_logs))
    if solver in ("auto", "clarabel"):
        found.append(_by_cvxpy("clarabel"))
    if solver == "ecos":
        found.append(_by_cvxpy("ecos"))
    if solver == "scs" or (solver == "auto" and not _is_linear(statement)):
        found.append(_by_cvxpy("scs", LOOSE_GAP))
    if not found:
        problem = "it is no linear program, and highs solves no other"
        raise PolicyError(problem, where=statement.text, hint="--solver auto")
    return found


@dataclass(frozen=True)
class Check:
    """What an answer is found to be: its objective, its worst excess, and what is wrong with it, if anything."""

    objective: float
    excess: float
    fault: str | None


def check(statement: Statement | RatioStatement, answer: Answer, gap: float = GAP) -> Check:
    """Look an answer over, from its shares alone."""
    snapshot, share_C = statement.snapshot, answer.share_C
    if share_C.shape != (len(snapshot.configurations),) or not np.isfinite(share_C).all():
        return Check(np.nan, np.inf, "shares that are no numbers")
    objective, sign, words = statement.objective(share_C), _sign(statement), None
    excess, missed = violation(snapshot, share_C), missing(statement.required, share_C)
    gap = gap if _is_linear(statement) else LOOSE_GAP
    if not snapshot.usable_C.all() and share_C[~snapshot.usable_C].max(initial=0.0) > FEASIBLE:
        words = "shares of what cannot run"
    elif excess > FEASIBLE:
        words = f"a limit exceeded by {excess:.1e}"
    elif missed > FEASIBLE:
        words = f"a constraint missed by {missed:.1e}"
    elif not np.isfinite(objective):
        words = "an objective without a value"
    elif answer.bound is not None and not _near(statement, objective, answer.bound, gap):
        words = f"objective {sign * objective:.9g}, but the bound is {sign * answer.bound:.9g}"
    return Check(objective, max(excess, missed), words)


def _first_good(statement: Statement | RatioStatement, candidates: list[Path]) -> tuple[Answer, Check]:
    """The first answer that passes the check. Half of the time left is for the next path, if there is one."""
    failures: list[str] = []
    for path in candidates:
        seconds = left_s() if path is candidates[-1] else left_s() / 2.0
        try:
            with limited(seconds, path.method):
                answer = path.solve(statement)
        except UnsolvedError as failure:
            _blame(statement, failure)
            failures.append(f"{path.name} failed ({failure.status})")
            continue
        answer, found = _mended(statement, answer, path.gap)
        if found.fault is None:
            return replace(answer, path="; ".join([*failures, answer.path])), found
        failures.append(f"{path.name} failed ({found.fault})")
    hint = ". Try: a larger --time-budget" if any(OUT_OF_TIME in failure for failure in failures) else ""
    raise valueless(statement) or SolverError(f"{statement.text}: {'; '.join(failures)}{hint}")


def _mended(statement: Statement | RatioStatement, answer: Answer, gap: float) -> tuple[Answer, Check]:
    """The answer with the solver's rounding mended where that can be done, and its check."""
    snapshot, found = statement.snapshot, check(statement, answer, gap)
    if found.excess > BITS and np.isfinite(answer.share_C).all():
        answer = replace(answer, share_C=repaired(snapshot, answer.share_C))
        found = check(statement, answer, gap)
    if found.fault is None or found.excess > FEASIBLE:
        return answer, found
    equal_C = repaired(snapshot, snapshot.usable_C.astype(float))
    share_C = (1.0 - CRUMBS) * answer.share_C + CRUMBS * equal_C
    shared = replace(answer, share_C=share_C, path=f"{answer.path}, {CRUMBS:g} of all shared equally")
    again = check(statement, shared, gap)
    return (shared, again) if again.fault is None else (answer, found)


def _blame(statement: Statement | RatioStatement, failure: UnsolvedError) -> None:
    """Raise :class:`ProgramError` where it is the program that has no answer.

    Shares are from 0 to 1. So a linear program without constraints has an answer, and every objective a limit
    unless it is the worst of nothing: if a solver says otherwise, then the numbers are too much for it.
    """
    if failure.status == "infeasible" and (statement.required or not _is_linear(statement)):
        raise infeasible(statement) from failure
    worst = statement.worst if isinstance(statement, Statement) else ()
    if failure.status == "unbounded" and not all(len(w.affine.constant_R) for w in worst):
        raise unbounded(statement) from failure


def _is_linear(statement: Statement | RatioStatement) -> bool:
    """Whether HiGHS solves it: a linear program, or ratios that come down to some."""
    if isinstance(statement, RatioStatement):
        return True
    return not isinstance(statement, ConvexStatement) and not statement.logs


def _has_only_logs(statement: Statement) -> bool:
    """Whether it is a linear program but for logarithms."""
    return bool(statement.logs) and not isinstance(statement, ConvexStatement)


def _by_highs(statement: Statement | RatioStatement) -> Answer:
    lexicographic = settings().lexicographic
    if isinstance(statement, Statement):
        return solve_linear(statement, lexicographic=lexicographic)
    return solve_ratio(statement, lexicographic=lexicographic)


def _by_cvxpy(solver: SolverName, gap: float = GAP) -> Path:
    return Path(solver, lambda statement: solve_reference(statement, solver), gap=gap)


def _log_weight(statement: Statement | RatioStatement) -> float | None:
    """As in a certificate."""
    if isinstance(statement, RatioStatement) or not statement.logs:
        return None
    others = bool(statement.worst or statement.linear.matrix_RC.data.any()) or not _has_only_logs(statement)
    return 0.0 if others else statement.sign * float(sum(part.weight_R.sum() for part in statement.logs))


def _sign(statement: Statement | RatioStatement) -> float:
    return statement.sign if isinstance(statement, Statement) else 1.0


def _near(statement: Statement | RatioStatement, objective: float, bound: float, gap: float) -> bool:
    """Whether a gap is only rounding. What rounding is relative to is looked up where it matters."""
    away = abs(bound - objective)
    return away <= max(gap * abs(objective), NOTHING) or away <= gap * _size(statement)


def _size(statement: Statement | RatioStatement) -> float:
    """The size of the numbers in the objective, in its own unit."""
    if isinstance(statement, RatioStatement):
        return 0.0
    usable_C = statement.snapshot.usable_C
    worst = [part.weight * _row_sizes(part.affine, usable_C).min(initial=np.inf) for part in statement.worst]
    logs = [float(part.weight_R.sum()) for part in statement.logs]
    sizes = [_row_sizes(statement.linear, usable_C).max(), *worst, *logs]
    sizes += [1.0] if isinstance(statement, ConvexStatement) else []  # the unit of its pieces is unknown
    return float(max((size for size in sizes if np.isfinite(size)), default=0.0))


def _row_sizes(affine: Affine, usable_C: NDArray[np.bool_]) -> Floats:
    largest_R = abs(affine.matrix_RC).multiply(usable_C).max(axis=1).toarray().ravel()
    return np.asarray(np.maximum(largest_R, np.abs(affine.constant_R)))
