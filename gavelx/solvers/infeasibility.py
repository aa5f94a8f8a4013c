"""Why a program has no answer, in its author's words."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from gavelx.errors import ProgramError
from gavelx.solvers.conic.reference import solve_reference
from gavelx.solvers.maxmin.lexicographic import solve_linear
from gavelx.solvers.program.convex import ConvexStatement
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.settings import settings
from gavelx.solvers.program.statement import Affine, RatioStatement, Required, Requirement, Statement


def infeasible(statement: Statement | RatioStatement) -> ProgramError:
    """Which constraint cannot be met: alone if one is to blame, all of them if it takes several."""
    texts = [required.text for required in statement.required]
    if not texts:
        return _without_a_value(statement)
    if not settings().reasons:
        return ProgramError("its constraints cannot be met", where=statement.text)
    blamed = [required.text for required in statement.required if not can_be_met(statement, required)]
    what = (
        "cannot be met by any allocation" if blamed or len(texts) == 1 else "cannot all be met by one allocation"
    )
    problem = f"the constraint {' and '.join(blamed or texts)} {what} of this cluster"
    if isinstance(statement, RatioStatement) and not blamed:  # alone, each is met by allocations of nothing
        problem += " in which every job runs"
    if jobs := hopeless_jobs(statement):
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
        problem += f": nothing that job {', '.join(map(str, jobs[:3]))}{more} may get helps"
        hint = "a bound that is 0 or less for such jobs: they can run nowhere, or where(...) left nothing of them"
        return ProgramError(problem, where=statement.text, hint=hint)
    return ProgramError(problem, where=statement.text, hint="relax it, or add devices")


def hopeless_jobs(statement: Statement | RatioStatement) -> list[int]:
    """Ids of jobs whose row of a constraint stays unmet whatever the shares are: nothing in it can grow."""
    snapshot, found = statement.snapshot, set()
    for required in statement.requirements:
        if required.affine.rows == "job":
            most_R = required.affine.matrix_RC.maximum(0) @ snapshot.usable_C.astype(float)
            found.update(np.flatnonzero((most_R <= 0) & (required.affine.constant_R < 0)).tolist())
    return [snapshot.jobs[j].id for j in sorted(found)]


def unbounded(statement: Statement | RatioStatement) -> ProgramError:
    """An objective that can be made as large (or small) as one likes."""
    return ProgramError(
        f"{_objective(statement)} has no limit", where=statement.text, hint="a term whose values are bounded"
    )


def can_be_met(statement: Statement | RatioStatement, required: Required) -> bool:
    """Whether some allocation meets this constraint, and constraints of the same text, alone."""
    snapshot, text = statement.snapshot, required.text
    alone = tuple(r for r in statement.requirements if r.text == text)
    if not len(snapshot.configurations):
        return all(r.missing(np.zeros(0)) <= 0.0 for r in statement.required if r.text == text)
    nothing = Affine(sparse.csr_array((1, len(snapshot.configurations))), np.zeros(1), "total")
    program = Statement(snapshot, (), nothing, alone, statement.text)
    try:
        if isinstance(required, Requirement) or not isinstance(statement, ConvexStatement):
            solve_linear(program)
        else:
            limits = tuple(limit for limit in statement.limits if limit.text == text)
            solve_reference(
                replace(
                    statement, worst=(), linear=nothing, requirements=alone, pieces=(), limits=limits, logs=()
                ),
                "clarabel",
            )
    except UnsolvedError as failure:
        return failure.status != "infeasible"
    return True


def valueless(statement: Statement | RatioStatement) -> ProgramError | None:
    """The mistake, if the objective is infinite although every job runs wherever it can."""
    snapshot, table = statement.snapshot, statement.snapshot.configurations
    share_C = np.where(snapshot.usable_C, 1.0 / (1.0 + len(table)), 0.0)
    return None if np.isfinite(statement.objective(share_C)) else _without_a_value(statement)


def _without_a_value(statement: Statement | RatioStatement) -> ProgramError:
    """No answer, and no constraint to blame: the objective is infinite whatever the shares are."""
    return ProgramError(
        f"{_objective(statement)} has no value, even with every job running wherever it can",
        where=statement.text,
        hint="leave out jobs that can run nowhere, as in view.throughput[view.runs_J]: "
        "a logarithm or a reciprocal of nothing is infinite",
    )


def _objective(statement: Statement | RatioStatement) -> str:
    texts = [piece.text for piece in statement.pieces] if isinstance(statement, ConvexStatement) else []
    return " + ".join(texts) or "the objective"
