"""From a stated program to a certified allocation.

`statement` is what a policy asks for; `collapse` finds classes of identical jobs; `linear` solves by HiGHS
(`highs`); `certify` checks. `solve` joins them. `spread` breaks ties between accelerator types.
"""

import time

import numpy as np

from gavelx.allocation import Allocation
from gavelx.errors import ProgramError, SolverError
from gavelx.solvers.certify import certified, repaired
from gavelx.solvers.highs import UnsolvedError
from gavelx.solvers.linear import solve_linear
from gavelx.solvers.spreading import spread
from gavelx.solvers.statement import Statement

__all__ = ["Statement", "certified", "repaired", "solve", "spread"]


def solve(statement: Statement) -> Allocation:
    """Solve a stated program and certify the answer.

    Raises :class:`ProgramError` where the program has no answer (and names the constraint), and
    :class:`SolverError` where the solver failed.
    """
    started = time.perf_counter()
    snapshot = statement.snapshot
    if not len(snapshot.configurations):
        if not all(_can_be_met(statement, r.text) for r in statement.requirements):
            raise _infeasible(statement)
        return certified(snapshot, np.zeros(0), path="empty", seconds=0.0, classes=0)
    try:
        answer = solve_linear(statement)
    except UnsolvedError as failure:
        if failure.status != "infeasible":
            raise SolverError(f"{statement.text}: {failure}") from failure
        raise _infeasible(statement) from failure
    share_C = repaired(snapshot, answer.share_C)
    return certified(
        snapshot,
        share_C,
        path=answer.path,
        seconds=time.perf_counter() - started,
        objective=statement.sign * statement.objective(share_C),
        bound=statement.sign * answer.bound,
        classes=answer.classes,
        marginal_A=statement.sign * answer.marginal_A,
        requirements=statement.requirements,
    )


def _infeasible(statement: Statement) -> ProgramError:
    """Which constraint cannot be met: alone if one is to blame, all of them if it takes several."""
    blamed = [r.text for r in statement.requirements if not _can_be_met(statement, r.text)]
    names = " and ".join(blamed or [r.text for r in statement.requirements])
    what = "cannot be met by any allocation" if blamed else "cannot all be met by one allocation"
    return ProgramError(
        f"the constraint {names} {what} of this cluster", where=statement.text, hint="relax it, or add devices"
    )


def _can_be_met(statement: Statement, text: str) -> bool:
    alone = tuple(r for r in statement.requirements if r.text == text)
    if not len(statement.snapshot.configurations):
        return all((r.affine.constant_R >= 0.0).all() for r in alone)
    nothing = statement.linear.scaled(0.0)
    try:
        solve_linear(Statement(statement.snapshot, (), nothing, alone, statement.text))
    except UnsolvedError:
        return False
    return True
