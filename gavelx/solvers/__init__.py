"""From a stated program to a certified allocation.

`statement` is what a policy asks for; `collapse` finds classes of identical jobs; `linear` solves by HiGHS
(`highs`); `ratio` brings ratios down to linear programs; `spreading` breaks ties between accelerator types, by
Clarabel (`conic`); `certify` checks. `solve` joins them.
"""

import time

import numpy as np
from scipy import sparse

from gavelx.allocation import Allocation
from gavelx.errors import ProgramError, SolverError
from gavelx.solvers.certify import certified, repaired
from gavelx.solvers.conic import solve_logs
from gavelx.solvers.highs import UnsolvedError
from gavelx.solvers.linear import Answer, solve_linear
from gavelx.solvers.ratio import solve_ratio
from gavelx.solvers.spreading import spread
from gavelx.solvers.statement import Affine, RatioStatement, Statement

__all__ = ["RatioStatement", "Statement", "certified", "repaired", "solve", "spread"]


def solve(statement: Statement | RatioStatement) -> Allocation:
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
        answer = _answer(statement)
    except UnsolvedError as failure:
        if failure.status != "infeasible":
            raise SolverError(f"{statement.text}: {failure}") from failure
        raise _infeasible(statement) from failure
    share_C = repaired(snapshot, answer.share_C)
    sign = statement.sign if isinstance(statement, Statement) else 1.0
    return certified(
        snapshot,
        share_C,
        path=answer.path,
        seconds=time.perf_counter() - started,
        objective=sign * statement.objective(share_C),
        bound=None if answer.bound is None else sign * answer.bound,
        classes=answer.classes,
        marginal_A=None if answer.marginal_A is None else sign * answer.marginal_A,
        requirements=statement.requirements,
    )


def _answer(statement: Statement | RatioStatement) -> Answer:
    if isinstance(statement, RatioStatement):
        return solve_ratio(statement)
    return solve_logs(statement) if statement.logs else solve_linear(statement)


def _infeasible(statement: Statement | RatioStatement) -> ProgramError:
    """Which constraint cannot be met: alone if one is to blame, all of them if it takes several."""
    blamed = [r.text for r in statement.requirements if not _can_be_met(statement, r.text)]
    names = " and ".join(blamed or [r.text for r in statement.requirements])
    what = "cannot be met by any allocation" if blamed else "cannot all be met by one allocation"
    return ProgramError(
        f"the constraint {names} {what} of this cluster", where=statement.text, hint="relax it, or add devices"
    )


def _can_be_met(statement: Statement | RatioStatement, text: str) -> bool:
    alone = tuple(r for r in statement.requirements if r.text == text)
    if not len(statement.snapshot.configurations):
        return all((r.affine.constant_R >= 0.0).all() for r in alone)
    nothing = Affine(sparse.csr_array((1, len(statement.snapshot.configurations))), np.zeros(1), "total")
    try:
        solve_linear(Statement(statement.snapshot, (), nothing, alone, statement.text))
    except UnsolvedError:
        return False
    return True
