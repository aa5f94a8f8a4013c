"""Programs as the published systems answer them: by ECOS's interior point and no more."""

from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.statement import RatioStatement, Statement

__all__ = ["solve_interior"]


def solve_interior(statement: Statement | RatioStatement) -> Answer:
    """See :func:`gavelx.published.solver.interior.solve_interior`, which is loaded when it is first asked.

    Where numba is installed, it takes long to load, and most policies never ask.
    """
    from gavelx.published.solver import interior  # noqa: PLC0415

    return interior.solve_interior(statement)
