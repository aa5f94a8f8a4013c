"""Figures of owners in a run: completion times, fairness and dollars of their jobs, and the effect of a budget.

Legend: J jobs, K instants at which an owner's jobs come or go.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.metrics import known, mean
from gavelx.result import Result

Floats = NDArray[np.float64]
TOTAL = "total"
NO_OWNER = "(no owner)"


class OwnerFigures(NamedTuple):
    """Figures of the jobs of one owner, with those of owners below: number, completion times, cost.

    ``usd_per_hour`` is over the hours in which the owner had any job; None if a price is unknown.
    """

    jobs: int
    completed: int
    jct_mean_s: float | None
    rho_mean: float | None
    usd: float | None
    usd_per_hour: float | None


def owner_figures(result: Result, path: str) -> OwnerFigures:
    """The figures of one owner; ``total`` is all jobs, ``(no owner)`` the jobs without an owner.

    Jobs and their times are those in the measured window; dollars are of the whole run, as in its summary.
    """
    mine_J = np.array([_is_of(job.owner, path) for job in result.jobs], dtype=bool)
    counts_J = np.zeros(len(result.jobs), dtype=bool)
    counts_J[result.measured or slice(None)] = True
    counts_J &= mine_J
    done_J = counts_J & ~np.isnan(result.completion_s_J)
    usd, live_s = float(result.cost_usd_J[mine_J].sum()), _live_s(result, mine_J)
    return OwnerFigures(
        jobs=int(counts_J.sum()),
        completed=int(done_J.sum()),
        jct_mean_s=mean(result.jct_s_J[done_J]),
        rho_mean=mean(result.rho_J[done_J]),
        usd=known(usd),
        usd_per_hour=known(usd / live_s * 3600.0) if live_s > 0 else 0.0,
    )


def budget_effect(without: Result, within: Result, budgets: Mapping[str, float]) -> dict[str, Any]:
    """For each owner with a budget, each team and the total: the figures without budgets and within them."""
    teams = sorted({job.owner.partition("/")[0] or NO_OWNER for job in within.jobs})
    paths = dict.fromkeys([*(path for path in budgets if path != TOTAL), *teams, TOTAL])
    return {
        path: {
            "budget_usd_per_hour": budgets.get(path),
            "without": owner_figures(without, path)._asdict(),
            "within": owner_figures(within, path)._asdict(),
        }
        for path in paths
    }


def _is_of(owner: str, path: str) -> bool:
    if path == NO_OWNER:
        return not owner
    return path == TOTAL or f"{owner}/".startswith(f"{path}/")


def _live_s(result: Result, mine_J: NDArray[np.bool_]) -> float:
    """Seconds in which at least one of these jobs was live."""
    leave_s_J = np.where(np.isnan(result.completion_s_J), result.end_s, result.completion_s_J)[mine_J]
    total_s, until_s = 0.0, 0.0
    for arrival_s, leave_s in sorted(zip(result.arrival_s_J[mine_J].tolist(), leave_s_J.tolist(), strict=True)):
        total_s += max(0.0, leave_s - max(until_s, arrival_s))
        until_s = max(until_s, leave_s)
    return total_s
