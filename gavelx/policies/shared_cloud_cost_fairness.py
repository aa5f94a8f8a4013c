"""Fairness in money: no job worse off than alone and few dollars wasted; and the form that a thesis printed."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError, ProgramError
from gavelx.policies.base import Policy
from gavelx.policies.program import Minimize
from gavelx.policies.terms import (
    Constraint,
    CostRatio,
    FinishTimeRatio,
    Largest,
    Linear,
    Sum,
    ThesisCostRatio,
    digits,
    finite,
)
from gavelx.policies.v100 import on_v100
from gavelx.policies.view import View
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import using
from gavelx.solvers.program.statement import Affine, RatioStatement, Statement

HAIR = 1e-7
"""Part by which a cap is wider than the optimum that it comes from; a solver's tolerance is less."""
HURRY = 0.1
"""Part of its cheapest price that a step may cost more, to be done now and not later."""


class Overpaid(Linear):
    """Dollars per hour that each job pays beyond what its steps are worth.

    (price.x)_j - worth c_j e_j, where c_j is what a step costs where it is cheapest for the job. With ``worth`` 1
    nothing is overpaid there, however fast the job runs; with more, a dearer device may be worth its price.
    """

    def __init__(self, worth: float = 1.0) -> None:
        self.worth = finite(worth, f"Overpaid({worth!r})")

    def linear(self, view: View) -> Affine:
        return view.usd_per_hour_of_job.plus(view.throughput.scaled(-self.worth * view.cheapest_usd_J))

    def __repr__(self) -> str:
        return f"Overpaid({digits(self.worth)})"


class SharedCloudCostFairness(Policy):
    """Waste the fewest dollars with no job worse off than alone with an equal share, in time or in money.

    1. rho* = the least largest finish-time ratio; no job's may pass rho = max(rho_cap, rho*).
    2. mu* = under that, the least largest cost ratio; no job's may pass max(1, mu*). If mu* is above 1 and rho
       below, rho is 1 and mu* is found again: an equal share keeps both.
    3. Under both, the fewest dollars overpaid, a step being worth a tenth more than where it is cheapest.

    So a job that can run on the device that is cheapest for it does, at full speed; dearer ones are bought as far
    as the caps ask. Which of several jobs has the rest of a device that is cheapest for all of them is open. A
    device that is not worth its price to any job stays idle: the allocation allows no ``backfill``.
    ``rho_cap`` trades cost against waiting. It is below 1 (an equal share) because rounds make jobs up to a tenth
    later than planned. Shares are kept on average over time: a gang that is wider than half of a type's devices
    may wait far longer (``docs/policies.md``). ``certificate.objective`` is that of step 3, dollars per hour.
    Minimising the largest cost ratio alone is empty, for a thinner slice costs as much per step.
    Source: our correction of "shared cloud cost fairness" (see ``shared_cloud_cost_fairness_alg51``); figures are
    in ``experiments/thesis/results``.
    """

    name = "shared_cloud_cost_fairness"
    ignores = ("weights",)
    uses = frozenset[Kind]({"pairs", "placements", "sizes", "mixes"})

    def __init__(self, rho_cap: float = 0.9) -> None:
        if not (rho_cap > 0 and np.isfinite(rho_cap)):
            raise PolicyError(f"rho_cap is {rho_cap}", where=self.name, expected="a finite number above 0")
        self.rho_cap = rho_cap

    def allocate(self, snapshot: Snapshot) -> Allocation:
        with using(lexicographic=False):
            soonest = Minimize(Largest(FinishTimeRatio())).allocate(snapshot)
        rho = max(self.rho_cap, soonest.certificate.objective or 0.0)
        for cap in sorted({rho, max(rho, 1.0)}):  # which mu* it is does not matter where it is 1 or less
            with suppress(ProgramError), using(reasons=False):
                return _cheapest(snapshot, cap, 1.0)
        with using(lexicographic=False):
            mu = _least_cost_ratio(snapshot, max(rho, 1.0))
        return _cheapest(snapshot, max(rho, 1.0), max(1.0, mu))

    def __repr__(self) -> str:
        return (
            self.name
            if self.rho_cap == SharedCloudCostFairness().rho_cap
            else f"capped({self.name}, {digits(self.rho_cap)})"
        )

    def __str__(self) -> str:
        return repr(self)


def _cheapest(snapshot: Snapshot, rho: float, mu: float) -> Allocation:
    """The fewest dollars overpaid under these caps. Raises :class:`ProgramError` where no shares keep both."""
    caps = [_in_time(rho), CostRatio() <= mu * (1.0 + HAIR)]
    return Minimize(Sum(Overpaid(1.0 + HURRY)), caps).allocate(snapshot).with_execution(backfill=False)


def _in_time(rho: float) -> Constraint:
    return FinishTimeRatio() <= rho * (1.0 + HAIR)


def _least_cost_ratio(snapshot: Snapshot, rho: float) -> float:
    """mu*, the least largest cost ratio of shares under which no finish-time ratio passes ``rho``."""
    return Minimize(Largest(CostRatio()), [_in_time(rho)]).allocate(snapshot).certificate.objective or 0.0


class SharedCloudCostFairnessAlg51(Minimize):
    """Algorithm 5.1 as printed: finish-time fairness in which throughput per dollar stands for throughput.

    minimise max_j (a_j + r_j / e'_j) / (K_j + r_j / e'_j(z)); see ``ThesisCostRatio`` for the symbols and for what
    is wrong with it. As in the thesis's code, a job is taken to run on a type on which it cannot at the speed that
    it has on a V100, and may be given a share there, which stays idle. For reproduction;
    ``shared_cloud_cost_fairness`` is the one to use.
    """

    name = "shared_cloud_cost_fairness_alg51"
    ignores = ("weights",)
    uses = frozenset[Kind]({"pairs", "placements", "sizes"})

    def __init__(self) -> None:
        super().__init__(Largest(ThesisCostRatio()))

    def state(self, snapshot: Snapshot) -> Statement | RatioStatement:
        return super().state(on_v100(snapshot, only_where_it_cannot_run=True) or snapshot)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return replace(super().allocate(snapshot), snapshot=snapshot).with_execution(knows_types=False)
