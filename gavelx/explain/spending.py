"""Spending of owners under an allocation, and the effect of budgets on each owner.

Legend: J jobs, C configurations, M memberships.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation

Floats = NDArray[np.float64]
FULL = 1.0 - 1e-6
"""Part of a budget from which it counts as spent."""


class Spending(NamedTuple):
    """One owner in dollars per hour: budget (None: no budget), spending, and spending without any budgets.

    ``speed`` is the mean over the owner's jobs of their throughput over that without budgets. ``per_dollar`` is
    the relative change of the objective (of a sum of logarithms: of the geometric mean) with one more dollar per
    hour in the owner's budget; None if the policy has no objective, or a part of it means nothing.
    """

    owner: str
    budget: float | None
    usd_per_hour: float
    without_usd_per_hour: float
    speed: float | None
    per_dollar: float | None

    @property
    def is_spent(self) -> bool:
        return self.budget is not None and self.usd_per_hour >= self.budget * FULL

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "is_spent": self.is_spent}


def spending(
    within: Allocation,
    without: Allocation,
    budgets: Mapping[str, float],
    wider: Mapping[str, tuple[float, Allocation]],
) -> tuple[Spending, ...]:
    """The spending of each owner with a budget, each team, and all together.

    ``wider`` holds the allocation with one budget a little larger, and the dollars added; its objective gives the
    value of a dollar, like the multiplier of the budget's row.
    """
    jobs = within.snapshot.jobs
    teams = sorted({job.owner.partition("/")[0] for job in jobs} - {""})
    rows = []
    for owner in dict.fromkeys([*(path for path in budgets if path != "total"), *teams, "total"]):
        mine_J = np.array(
            [owner == "total" or f"{job.owner}/".startswith(f"{owner}/") for job in jobs], dtype=bool
        )
        before_J, after_J = without.throughput_J[mine_J], within.throughput_J[mine_J]
        ran_J = before_J > 0
        rows.append(
            Spending(
                owner,
                budgets.get(owner),
                float(usd_J(within)[mine_J].sum()),
                float(usd_J(without)[mine_J].sum()),
                float((after_J[ran_J] / before_J[ran_J]).mean()) if ran_J.any() else None,
                _per_dollar(within, *wider[owner]) if owner in wider else None,
            )
        )
    return tuple(rows)


def usd_J(allocation: Allocation) -> Floats:
    """Dollars per hour of each job; the members of a pair pay equal parts."""
    table = allocation.snapshot.configurations
    usd_C = table.usd_C(allocation.snapshot.usd_per_hour_A) * allocation.share_C
    usd_C = np.where(allocation.share_C > 0, usd_C / np.maximum(1, table.members_C), 0.0)
    return np.asarray(np.bincount(table.job_M, usd_C[table.configuration_M], table.shape[0]), dtype=float)


def _per_dollar(within: Allocation, more_usd: float, wider: Allocation) -> float | None:
    before, after = within.certificate.objective, wider.certificate.objective
    part = None if before is None or after is None else within.certificate.relative(after - before)
    return None if part is None else part / more_usd
