"""``--solver`` and ``--time-budget``: the settings of every program that a command solves."""

from gavelx.errors import OptionError, did_you_mean
from gavelx.solvers import SOLVERS, Settings, available

TIME_BUDGET_S = (0.001, 1e6)


def solver_settings(solver: str, time_budget_s: float) -> Settings:
    """The solver, and the time for each allocation. Raises :class:`OptionError`."""
    if solver not in SOLVERS:
        raise OptionError(f"there is no solver {solver!r}", where="--solver", hint=did_you_mean(solver, SOLVERS))
    if solver == "ecos" and not available(solver):
        raise OptionError("ecos is not installed", where="--solver", hint="pip install 'gavelx[ecos]'")
    low, high = TIME_BUDGET_S
    if not low <= time_budget_s <= high:
        raise OptionError(
            f"a budget of {time_budget_s:g} s", where="--time-budget", expected=f"{low:g} to {high:g} seconds"
        )
    return Settings(solver, time_budget_s)
