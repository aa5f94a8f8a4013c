"""Fairness in money: fewest dollars with nobody worse off than alone, and the form that a thesis printed."""

from dataclasses import replace

import numpy as np

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.policies.base import Policy
from gavelx.policies.program import Minimize
from gavelx.policies.terms import CostRatio, FinishTimeRatio, Largest, Linear, Sum, ThesisCostRatio
from gavelx.policies.v100 import on_v100
from gavelx.policies.view import View
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers.statement import Affine, RatioStatement, Statement

HAIR = 1e-9
"""Part by which a cap is wider than the optimum that it comes from."""


class DollarsToGo(Linear):
    """Dollars that each job still costs if it completes just within ``rho`` times its time with an equal share.

    (price.x)_j (rho D_j - a_j), where (price.x)_j is what it holds per second and the bracket its time left.
    """

    def __init__(self, rho: float) -> None:
        self.rho = rho

    def linear(self, view: View) -> Affine:
        ratio = FinishTimeRatio()
        budget_s_J = ratio.equal_share_s(view) * self.rho - view.elapsed_s_J
        return view.usd_per_hour_of_job.scaled(np.maximum(0.0, budget_s_J) / 3600.0)

    def __repr__(self) -> str:
        return f"DollarsToGo({self.rho:g})"


class SharedCloudCostFairness(Policy):
    """Spend the fewest dollars with nobody worse off than alone with an equal share, in time or in money.

    1. rho* = the least largest finish-time ratio; no job's may pass max(rho_cap, rho*).
    2. mu* = under that, the least largest cost ratio; no job's may pass max(1, mu*).
    3. Under both, the fewest dollars still to pay, for jobs as fast as their cap on time asks.

    ``rho_cap`` (1: an equal share) trades cost against waiting. ``certificate.objective`` is the dollars of step
    3. Minimising the largest cost ratio alone is empty, for a thinner slice costs as much per step. Source: our
    correction of "shared cloud cost fairness" (see ``shared_cloud_cost_fairness_alg51``); 3 to 8 % cheaper than
    finish-time fairness under load at 3 to 12 % longer completion times, by first measurements.
    """

    name = "shared_cloud_cost_fairness"
    uses = frozenset[Kind]({"pairs", "placements"})

    def __init__(self, rho_cap: float = 1.0) -> None:
        if not (rho_cap > 0 and np.isfinite(rho_cap)):
            raise PolicyError(f"rho_cap is {rho_cap}", where=self.name, expected="a finite number above 0")
        self.rho_cap = rho_cap

    def allocate(self, snapshot: Snapshot) -> Allocation:
        soonest = Minimize(Largest(FinishTimeRatio())).allocate(snapshot)
        rho = max(self.rho_cap, soonest.certificate.objective or 0.0) * (1.0 + HAIR)
        in_time = FinishTimeRatio() <= rho
        fairest = Minimize(Largest(CostRatio()), [in_time]).allocate(snapshot)
        mu = max(1.0, fairest.certificate.objective or 0.0) * (1.0 + HAIR)
        return Minimize(Sum(DollarsToGo(rho)), [in_time, CostRatio() <= mu]).allocate(snapshot)

    def __repr__(self) -> str:
        return self.name if self.rho_cap == 1.0 else f"SharedCloudCostFairness(rho_cap={self.rho_cap:g})"

    def __str__(self) -> str:
        return repr(self)


class SharedCloudCostFairnessAlg51(Minimize):
    """Algorithm 5.1 as printed: finish-time fairness in which throughput per dollar stands for throughput.

    minimise max_j (a_j + r_j / e'_j) / (K_j + r_j / e'_j(z)); see ``ThesisCostRatio`` for the symbols and for what
    is wrong with it. As in the thesis's code, a job is taken to run on a type on which it cannot at the speed that
    it has on a V100, and may be given a share there, which stays idle. For reproduction;
    ``shared_cloud_cost_fairness`` is the one to use.
    """

    name = "shared_cloud_cost_fairness_alg51"

    def __init__(self) -> None:
        super().__init__(Largest(ThesisCostRatio()))

    def state(self, snapshot: Snapshot) -> Statement | RatioStatement:
        return super().state(on_v100(snapshot, only_where_it_cannot_run=True) or snapshot)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return replace(super().allocate(snapshot), snapshot=snapshot, type_blind=True)
