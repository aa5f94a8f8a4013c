"""A proven bound on a concave program: the value of the linear program that touches it at the answer.

A concave objective lies below its tangent, and shares that meet a convex constraint meet its tangent. So the
largest value of the tangents' program, which has a proven bound of its own
(:mod:`gavelx.solvers.maxmin.lexicographic`), bounds the program itself. cvxpy gives some tangent where there are
several, so the bound may be too loose to be of use.

Legend: C configurations, R rows of one affine expression.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gavelx.solvers.maxmin.lexicographic import solve_linear
from gavelx.solvers.program.certify import repaired
from gavelx.solvers.program.convex import ConvexStatement
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Affine, Logs, Statement

Floats = NDArray[np.float64]
TIGHT = 1e-4
"""Bounds on what is not linear that are further away than this part of the objective are left out."""


def tangent_bound(statement: Statement, share_C: Floats) -> float | None:
    """A proven bound on the objective, from the linear program that touches this one at the shares."""
    share_C = repaired(statement.snapshot, share_C)
    touching = tangent(statement, share_C)
    try:
        bound = None if touching is None else solve_linear(touching, lexicographic=False).bound
    except UnsolvedError:
        return None
    if touching is statement or bound is None:
        return bound
    objective = statement.objective(share_C)
    return bound if abs(bound - objective) <= TIGHT * max(1.0, abs(objective)) else None


def tangent(statement: Statement, share_C: Floats) -> Statement | None:
    """The linear program that lies above this one and touches it at these shares; None where there is none.

    A program that is linear is its own.
    """
    pieces = statement.pieces if isinstance(statement, ConvexStatement) else ()
    limits = statement.limits if isinstance(statement, ConvexStatement) else ()
    if not (pieces or limits or statement.logs):
        return statement
    linear, requirements = statement.linear, list(statement.requirements)
    for piece in pieces:
        if (part := piece.tangent(share_C)) is None:
            return None
        linear = linear.plus(part)
    for logs in statement.logs:
        if (part := _of_logs(logs, share_C)) is None:
            return None
        linear = linear.plus(part)
    for limit in limits:
        if (requirement := limit.tangent(share_C)) is None:
            return None
        requirements.append(requirement)
    plain = Statement(statement.snapshot, statement.worst, linear, (), statement.text, statement.sign)
    return replace(plain, requirements=tuple(requirements))


def _of_logs(logs: Logs, share_C: Floats) -> Affine | None:
    value_R, counts_R = logs.affine(share_C), logs.weight_R > 0
    if (value_R[counts_R] <= 0).any():
        return None
    slope_R = np.divide(logs.weight_R, value_R, out=np.zeros(len(value_R)), where=counts_R)
    part = logs.affine.scaled(slope_R).total()
    return part.shifted(logs(share_C) - float(part(share_C)[0]))
