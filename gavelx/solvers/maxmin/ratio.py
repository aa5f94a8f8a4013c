"""Minimise the largest of several ratios of linear functions: finish-time fairness, makespan.

A level t can be reached if some shares x have t q_r(x) - p_r(x) >= 0 in every row r. For a given t the best such x
is a max-min linear program; the largest ratio of *its* x is a better t. Repeated, with each row divided by its
denominator at the last x, this is the generalised Dinkelbach algorithm (Crouzeix, Ferland and Schaible, "An
algorithm for generalized fractional programs", Journal of Optimization Theory and Applications 47, 1985; the
scaling is Crouzeix and Ferland, 1991). It falls monotonically and converges superlinearly: five steps or so.

The published systems bisect and stop within 5 % (makespan), or take what is feasible at the optimum, which leaves
devices idle. Here, once the largest ratio cannot be smaller, what is left goes to the others, lexicographically.

Legend: C configurations, R rows of an expression (jobs).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.maxmin.lexicographic import solve_linear, spend_least
from gavelx.solvers.price_engine.dense_program import factor, least, ratios_by_price
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Affine, RatioStatement, Requirement, Statement, Worst

Floats = NDArray[np.float64]
STEPS = 60
ROUNDING = 1e-10
"""Part of its need by which a row may miss the level in the last stage."""
CONVERGED = 1e-11
"""Relative change of the level below which it is taken for the optimum."""
PROVEN = (1e-9, 1e-7)
"""How far below the optimum levels are tried that provably no shares reach, relative to it."""


def solve_ratio(statement: RatioStatement, *, lexicographic: bool = True) -> Answer:
    """Solve a ratio program, by prices where many rows differ; beyond the largest ratio only if ``lexicographic``.

    Raises :class:`UnsolvedError`.
    """
    if (answer := _by_price(statement, lexicographic)) is not None:
        return answer
    best = _at_their_floors(statement) or _dinkelbach(statement)
    if lexicographic:
        last = _with_what_is_left(statement, best, statement.objective(best.share_C))
        best = replace(best, share_C=last.share_C, path=f"{best.path}; {last.path}")
    return best


def _dinkelbach(statement: RatioStatement) -> Answer:
    """The least largest ratio, step by step.

    Raises :class:`UnsolvedError`, also where no shares give every row a finite ratio.
    """
    best = solve_linear(_begin(statement, best=True), lexicographic=False)
    if not np.isfinite(statement.objective(best.share_C)):
        best = solve_linear(_begin(statement, best=False), lexicographic=False)
    if not np.isfinite(statement.objective(best.share_C)):
        raise UnsolvedError("infeasible")  # the constraints leave some row nothing
    level, steps = statement.objective(best.share_C), 0
    while steps < STEPS:
        steps += 1
        answer = _try(_gain(statement, level, best.share_C), best.share_C)
        if answer is None or not statement.objective(answer.share_C) < level * (1.0 - CONVERGED):
            break
        best, level = answer, statement.objective(answer.share_C)
    bound = proven(statement, level, best.share_C)
    return Answer(best.share_C, bound, None, best.classes, f"dinkelbach, {steps} steps; {best.path}")


def _at_their_floors(statement: RatioStatement) -> Answer | None:
    """The same by one linear program, where every row must have some of its denominator; None elsewhere.

    A job that has more of it than it must can have a smaller part of all its shares: its ratio stays what it is,
    and every other limit holds all the more. So the ratios are those over the floors, which are linear.
    """
    floor_R = _floors(statement)
    if floor_R is None or not (floor_R[statement.finite_R] > 0).all():
        return None
    per_floor_R = np.divide(-1.0, floor_R, out=np.zeros(len(floor_R)), where=statement.finite_R)
    answer = _try(_program(statement, statement.numerator, per_floor_R, content=0.0), None)
    if answer is None or answer.bound is None:
        return None
    if not statement.objective(answer.share_C) <= -answer.bound * (1.0 + PROVEN[-1]):  # a floor of too few digits
        return None
    return replace(answer, bound=-answer.bound, path=f"at their floors; {answer.path}")


def _floors(statement: RatioStatement) -> Floats | None:
    """The least denominator that each row must have, if smaller parts of a job's shares can break nothing else."""
    top, bottom, table = statement.numerator, statement.denominator, statement.snapshot.configurations
    if top.constant_R.any() or bottom.constant_R.any() or (table.members_C > 1).any():
        return None
    least_R = least(statement.requirements, bottom)
    return None if least_R is None else least_R * factor(bottom)


def _with_what_is_left(statement: RatioStatement, best: Answer, level: float) -> Answer:
    """The last stage, unless the solver gives up or it would cost part of the level."""
    last = _try(_last(statement, level), best.share_C, lexicographic=True)
    return last if last is not None and statement.objective(last.share_C) <= level * (1.0 + 1e-9) else best


def _by_price(statement: RatioStatement, lexicographic: bool) -> Answer | None:
    """The answer of the price engine, where it applies and finds one."""
    priced = ratios_by_price(statement, lexicographic=lexicographic and statement.then is None)
    if priced is None:
        return None
    rows = len(statement.denominator.constant_R)
    best = Answer(priced.share_C, priced.bound, None, rows, priced.path)
    if not lexicographic:
        return best
    if statement.then is not None:
        last = _with_what_is_left(statement, best, statement.objective(best.share_C))
        return replace(best, share_C=last.share_C, path=f"{priced.path}; {last.path}")
    if priced.cheapest:
        return best
    return replace(best, share_C=spend_least(statement.snapshot, statement.denominator, best.share_C))


def proven(
    statement: RatioStatement, level: float, share_C: Floats, parts: tuple[float, ...] = PROVEN
) -> float | None:
    """A level that no shares reach, below this one by one of these parts of it; None if that cannot be proven."""
    priced = ratios_by_price(statement, lexicographic=False)  # one bound for all of them
    lows = (level * (1.0 - part) for part in parts)
    return next(
        (low for low in lows if (low < priced.bound if priced else _beyond(statement, low, share_C))), None
    )


def _try(program: Statement, near_C: Floats | None, *, lexicographic: bool = False) -> Answer | None:
    """The answer, or None where the solver gives up: what was reached before is kept then."""
    try:
        return solve_linear(program, lexicographic=lexicographic, near_C=near_C)
    except UnsolvedError:
        return None


def _beyond(statement: RatioStatement, level: float, share_C: Floats) -> bool:
    """Whether a dual bound proves that no shares reach this level."""
    answer = _try(_gain(statement, level, share_C), share_C)
    return answer is not None and answer.bound is not None and answer.bound < 0.0


def _begin(statement: RatioStatement, *, best: bool) -> Statement:
    """Where to begin: shares under which every ratio is finite.

    Those that are ``best`` of all, where numerators are numbers, unless a need is within the solver's tolerance.
    """
    most_R = statement.denominator.matrix_RC.max(axis=1).toarray().ravel() + statement.denominator.constant_R
    largest_R, need_R = np.maximum(most_R, 1e-300), statement.numerator.constant_R
    numbers = best and not statement.numerator.matrix_RC.data.any() and (need_R > 0.0).all()
    scale_R = 1.0 / (need_R if numbers else largest_R)
    return _program(statement, statement.denominator, scale_R, content=float((largest_R * scale_R).max()))


def _gain(statement: RatioStatement, level: float, share_C: Floats) -> Statement:
    """Maximise the least ``(q - p / level) / q(last x)``: how far each ratio stays below the level, in parts."""
    gain = statement.denominator.scaled(level).plus(statement.numerator.scaled(-1.0))
    whole_R = np.maximum((level or 1.0) * statement.denominator(share_C), 1e-300)
    return _program(statement, gain, 1.0 / whole_R, content=1.0)


def _last(statement: RatioStatement, level: float) -> Statement:
    """The program that uses what the level leaves free."""
    gain = statement.denominator.scaled(level).plus(statement.numerator.scaled(-1.0))
    need_R = statement.numerator.constant_R
    surplus = _program(statement, gain, 1.0 / np.where(need_R > 0, need_R, 1.0), content=1.0)
    if statement.then is None:
        return surplus
    met = Requirement(surplus.worst[0].affine.shifted(ROUNDING), f"{statement.text} stays at its optimum")
    return replace(surplus, worst=(Worst(1.0, statement.then),), requirements=(*statement.requirements, met))


def _program(statement: RatioStatement, affine: Affine, scale_R: Floats, content: float) -> Statement:
    """The max-min program over the rows that can have a finite ratio; the others have ``content`` in any case."""
    finite_R = statement.finite_R
    scaled = affine.scaled(np.where(finite_R, scale_R, 0.0)).shifted(np.where(finite_R, 0.0, content))
    nothing = Affine(sparse.csr_array((1, affine.matrix_RC.shape[1])), np.zeros(1), "total")
    return Statement(statement.snapshot, (Worst(1.0, scaled),), nothing, statement.requirements, statement.text)
