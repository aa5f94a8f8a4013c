"""Programs as the published systems answer them: by ECOS's interior point and no more."""

from gavelx.published.solver.interior import solve_interior

__all__ = ["solve_interior"]
