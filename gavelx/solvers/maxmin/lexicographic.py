"""Solve a stated program as a linear program over classes of identical jobs, level by level where it is max-min.

Variables are the kinds of configurations y of the classes, then one level per ``Worst`` of the objective::

    maximise    sum_i weight_i level_i + linear(y)
    subject to  time of each class <= 1, devices of each type <= W_a, requirement(y) >= 0,
                (worst_i(y))_r >= base_r + rate_r level_i for every row r, at first with base 0 and rate 1

A pure max-min program has many optima, most of them wasteful. So it is solved lexicographically (water filling):
rows with a positive multiplier are at the optimum in *every* solution; they are frozen there (rate 0) and the
level of the others is raised, until all are frozen. What is left free is spent on the least money. The result is
Pareto efficient and its throughputs are unique: they do not depend on the solver. Rates other than 1 that change
when rows freeze make hierarchies.

Source: lexicographic max-min by successive linear programs, see Nace and Pioro, "Max-min fairness and its
applications to routing and load-balancing in communication networks: a tutorial" (IEEE Communications Surveys
10(4), 2008), section III; Gavel (OSDI'20), section 4.3, uses a MILP for the step that multipliers give us free.

Legend: G classes, A accelerator types, Z kinds of configurations, R rows of an expression, K constraints.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.snapshot import Snapshot
from gavelx.solvers.lp.column_generation import ColumnGeneration, worth_it
from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.maxmin.unconstrained import all_at_maximum
from gavelx.solvers.maxmin.vertex_rounding import sparser
from gavelx.solvers.price_engine.dense_program import levels_by_price, sums_by_price
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.assemble_lp import ALL, Rows, money
from gavelx.solvers.program.collapse import Classes, collapse
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Affine, Requirement, Statement

Floats = NDArray[np.float64]
SLACKS = (1e-11, 1e-10, 1e-9, 1e-8)
CHEAPEST_MAX = 20_000
"""Different rows up to which the cheapest of equally good shares are looked for after the price engine."""
JUST = 1.0 - 1e-12
"""What is as good as the best, for a solver that rounds."""
NEAR = 1e-9
LEAP_MIN = 3
"""Levels that are worth a leap."""
POSITIVE = 1e-8
"""A row is frozen if its multiplier, times its rate, is at least this part of the largest. What is less may be
rounding; a row that is missed is at its end at the next level too, and frozen then."""


def solve_linear(
    statement: Statement, *, lexicographic: bool = True, near_C: Floats | None = None, by_price: bool = True
) -> Answer:
    """Solve a stated program; a pure max-min one beyond its first level only if ``lexicographic``.

    ``near_C``: shares that may be near the answer; where there are very many configurations it begins with theirs.
    ``by_price``: prices may be tried, which do not settle where hardly any shares meet all requirements.
    Raises :class:`UnsolvedError`.
    """
    if lexicographic and (best := all_at_maximum(statement)) is not None:
        nothing_A = np.zeros(len(statement.snapshot.devices_A))  # one more device would change nothing
        return Answer(
            best.share_C, best.bound, nothing_A, len(statement.snapshot.jobs), "every row at its largest"
        )
    classes = collapse(statement)
    if by_price and (answer := _by_price(statement, classes, lexicographic)) is not None:
        return answer
    rows = Rows(statement, classes)
    program = _program(rows, near_C)
    value_V, multiplier_K = program.solve()
    bound, marginal_A = rows.bound(multiplier_K)
    path = "highs"
    if lexicographic and rows.is_max_min:
        value_V, complete = _raise_levels(program, rows, value_V, multiplier_K)
        path = "highs-lexicographic" if complete else "highs-lexicographic, levels not all raised"
        value_V = _cheapest(program, rows, value_V) if complete else value_V
    share_C = classes.shares(np.maximum(0.0, value_V[: rows.Z]))
    if lexicographic and _goes_by_throughput(statement):
        share_C = sparser(statement.snapshot, classes, share_C)
    return Answer(share_C, bound, marginal_A, len(classes), path)


def _program(rows: Rows, near_C: Floats | None) -> LinearProgram:
    """The program of all rows; sifted where there are very many kinds, first those of one class alone."""
    parts: dict[str, Any] = {
        "objective_V": rows.objective_V,
        "upper_V": rows.upper_V,
        "lower_V": rows.lower_V,
        "matrix_KV": rows.matrix_KV,
        "lower_K": rows.lower_K,
        "upper_K": rows.upper_K,
        "primal": not rows.statement.requirements,
    }
    if not worth_it(rows.matrix_KV):
        return LinearProgram(**parts)
    first_V = np.ones(len(rows.upper_V), dtype=bool)
    first_V[: rows.Z] = np.bincount(rows.time_GZ.indices, minlength=rows.Z) <= 1
    if near_C is not None:
        first_V[rows.classes.kinds(np.flatnonzero(near_C))] = True
    return ColumnGeneration(first_V=first_V, **parts)


def _by_price(statement: Statement, classes: Classes, lexicographic: bool) -> Answer | None:
    """The answer of the price engine, where it applies and finds one."""
    priced = levels_by_price(statement, classes, lexicographic) or sums_by_price(statement, classes)
    if priced is None:
        return None
    share_C = priced.share_C
    if lexicographic:
        if not priced.cheapest and not _all_in_use(priced.marginal_A):
            share_C = spend_least(statement.snapshot, statement.worst[0].affine, share_C)
        if share_C is priced.share_C and _goes_by_throughput(statement):  # cheaper ones are sparse already
            share_C = sparser(statement.snapshot, classes, share_C)
    return Answer(share_C, priced.bound, priced.marginal_A, len(classes), priced.path, priced.memory)


def _all_in_use(marginal_A: Floats | None) -> bool:
    """Whether no device can be idle, as one more of any type would help: then their cost is what it is."""
    return marginal_A is not None and bool((marginal_A > 0).all())


def _goes_by_throughput(statement: Statement) -> bool:
    """Whether all that the program says of single jobs follows from their throughputs, and not from their mix."""
    speed_JC = statement.snapshot.configurations.throughput_JC
    parts = [*(part.affine for part in statement.worst), *(part.affine for part in statement.requirements)]
    return all(part.rows != "job" or part.base_RC is speed_JC for part in parts)


def spend_least(snapshot: Snapshot, affine: Affine, share_C: Floats) -> Floats:
    """The cheapest shares with which the rows of ``affine`` keep their values, or the same ones.

    Where all devices are in use their cost is what it is; where very many rows differ it is left at that.
    """
    in_use_A = snapshot.configurations.devices_A(share_C)
    idle = (in_use_A < snapshot.devices_A * ALL).any()
    if not idle or len(affine.constant_R) > CHEAPEST_MAX:
        return share_C
    value_R = affine(share_C)
    floor = Requirement(affine.shifted(SLACKS[1] * np.abs(value_R) - value_R), "what everyone has")
    cost = Affine(snapshot.configurations.devices_AC, np.zeros(len(in_use_A)), "accelerator")
    least = cost.scaled(-money(snapshot)).total()
    program = Statement(snapshot, (), least, (floor,), "least money")
    try:
        return solve_linear(program, near_C=share_C, by_price=False).share_C
    except UnsolvedError:
        return share_C


def _raise_levels(
    program: LinearProgram, rows: Rows, value_V: Floats, multiplier_K: Floats
) -> tuple[Floats, bool]:
    """Freeze the rows that cannot rise, raise the level of the others, until all rows are frozen.

    Says whether it got there: data over very many orders of magnitude may defeat the solver at a later level.
    """
    first, rate_R = rows.worst.start, rows.rate_R.copy()
    lower_R, scale_R = rows.lower_K[rows.worst].copy(), rows.scale_K[rows.worst]
    rising_R = np.ones(len(rate_R), dtype=bool)
    while True:
        push_R = np.where(rising_R, np.abs(multiplier_K[rows.worst]) * scale_R * rate_R, 0.0)
        if not push_R.any():
            return value_V, False
        bound_R = (push_R >= POSITIVE * push_R.max()) | rows.at_floor(multiplier_K, POSITIVE * push_R.max())
        bound_R &= rising_R
        rising_R &= ~bound_R
        if not rising_R.any() and rows.uses_all(value_V):
            return value_V, True
        if (leap := _leap(program, rows, lower_R, rising_R | bound_R, value_V[rows.Z])) is not None:
            value_V, multiplier_K, at_best_R = leap
            rising_R = (rising_R | bound_R) & ~at_best_R
            rate_R = np.where(at_best_R, 0.0, rate_R)
            assert rows.best_R is not None
            lower_R = np.where(at_best_R, rows.best_R * JUST, lower_R)
            if not rising_R.any():
                return value_V, True
            continue
        new_R = rows.rates(rising_R)
        lower_R += (rate_R - new_R) * scale_R * value_V[rows.Z]
        for r in np.flatnonzero(rate_R != new_R).tolist():
            program.set_coefficient(first + r, rows.Z, -new_R[r] * scale_R[r])
            program.set_lower(first + r, lower_R[r])
        rate_R = new_R
        if not rate_R.any():
            return value_V, True
        try:
            value_V, multiplier_K = _solve_on_floors(
                program, first + np.flatnonzero(~rising_R), lower_R[~rising_R]
            )
        except UnsolvedError:
            return value_V, False


def _leap(
    program: LinearProgram, rows: Rows, lower_R: Floats, rising_R: NDArray[np.bool_], level: float
) -> tuple[Floats, Floats, NDArray[np.bool_]] | None:
    """Freeze many rows at once that end at the best of their job, instead of one level after the other.

    If every job can have the lesser of its best and some level, then in the lexicographic optimum every job whose
    best is below that level has it: were it below, all that have less than it are at their best and lose nothing
    by what raises it. The highest such level is found by bisection over the bests.
    """
    if rows.best_R is None or isinstance(program, ColumnGeneration):  # sifted, many levels are quicker
        return None
    level_R = (rows.best_R - lower_R) / rows.scale_K[rows.worst]
    levels = np.unique(level_R[rising_R])
    low, high = int(np.searchsorted(levels, level * (1 + NEAR), side="right")), len(levels)
    if low == 0 or high - low < LEAP_MIN:
        return None  # no job is at its best yet, or there is little to be gained
    attempt = high
    while low < high:
        at_best_R = rising_R & (level_R <= levels[attempt - 1])
        if (
            _with_the_best(program, rows, lower_R, rising_R, at_best_R=at_best_R, level=levels[attempt - 1])
            is None
        ):
            high = attempt - 1
        else:
            low = attempt
        attempt = (low + high + 1) // 2
    at_best_R = rising_R & (level_R <= levels[low - 1])
    found = _with_the_best(program, rows, lower_R, rising_R, at_best_R=at_best_R, level=levels[low - 1])
    if found is None:
        _put_at_best(program, rows, lower_R, rising_R, at_best_R=np.zeros_like(rising_R))
        return None
    return (*found, at_best_R)


def _with_the_best(
    program: LinearProgram,
    rows: Rows,
    lower_R: Floats,
    rising_R: NDArray[np.bool_],
    *,
    at_best_R: NDArray[np.bool_],
    level: float,
) -> tuple[Floats, Floats] | None:
    """The optimum with these rows at their best, or None if others would fall below the level for it."""
    all_at_best = _put_at_best(program, rows, lower_R, rising_R, at_best_R=at_best_R)
    try:
        value_V, multiplier_K = program.solve()
    except UnsolvedError:
        return None
    return (value_V, multiplier_K) if all_at_best or value_V[rows.Z] >= level * (1 - NEAR) else None


def _put_at_best(
    program: LinearProgram,
    rows: Rows,
    lower_R: Floats,
    rising_R: NDArray[np.bool_],
    *,
    at_best_R: NDArray[np.bool_],
) -> bool:
    """State the program with these rows at their best and the others rising; says whether none of them is."""
    first, best_R, scale_R = rows.worst.start, rows.best_R, rows.scale_K[rows.worst]
    assert best_R is not None
    for r in np.flatnonzero(rising_R).tolist():
        program.set_coefficient(first + r, rows.Z, 0.0 if at_best_R[r] else -scale_R[r])
        program.set_lower(first + r, best_R[r] * JUST if at_best_R[r] else lower_R[r])
    all_at_best = not (rising_R & ~at_best_R).any()  # then nothing holds the level
    program.set_objective(np.concatenate([-rows.cost_Z, [0.0]]) if all_at_best else rows.objective_V)
    return all_at_best


def _solve_on_floors(
    program: LinearProgram, frozen_F: NDArray[np.int64], floor_F: Floats
) -> tuple[Floats, Floats]:
    """Solve with all frozen rows exactly at their level; a hair below it where rounding makes that impossible."""
    for slack in SLACKS:
        try:
            return program.solve()
        except UnsolvedError:
            program.forget()
            for row, floor in zip(frozen_F.tolist(), floor_F.tolist(), strict=True):
                program.set_lower(row, floor - slack * abs(floor))
    return program.solve()


def _cheapest(program: LinearProgram, rows: Rows, value_V: Floats) -> Floats:
    """Among the allocations with these throughputs, the one that costs least (or holds the fewest devices).

    Where all devices are in use their cost is what it is.
    """
    if rows.uses_all(value_V):
        return value_V
    program.set_objective(np.concatenate([-rows.cost_Z, [0.0]]))
    try:
        cheapest_V, _ = program.solve()
    except UnsolvedError:
        return value_V
    saved_Z = rows.cost_Z * (value_V - cheapest_V)[: rows.Z]
    return cheapest_V if saved_Z.sum() > 0 else value_V
