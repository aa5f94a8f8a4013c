"""Fair share by value: owners share the dollars of the devices, not their number.

Legend: J jobs.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.metrics import equal_share_throughput
from gavelx.policies.greedy import usable_throughput_JA
from gavelx.policies.hierarchical import Hierarchical, Owner, OwnerRates
from gavelx.policies.max_min_fairness import MaxMinFairness
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers import solve
from gavelx.solvers.program import statement as stated
from gavelx.solvers.program.statement import Affine, Requirement, Statement

Floats = NDArray[np.float64]
HAIR = 1e-9
"""Part by which a floor is lower than the optimum that it comes from, which is rounded."""


class ValueFairShare(Hierarchical):
    """Share the dollars of the devices between owners by weight: two devices at $1 count as much as one at $2.

    1. What owners hold, in dollars per hour, rises together, at their weights, as far as their jobs can use it:
       max-min fairness of value, lexicographically. A device is worth nothing to a job that is as fast on a
       cheaper one.
    2. With that value for each owner, jobs are as fast as ``hierarchical(max_min_fairness)`` would make them.

    In both, no job is slower than with its slice: its part of every accelerator type, by owner and priority.
    So an owner holds less than another, in dollars per unit of weight, only if they cannot use more. Owners are
    paths, as in :class:`Hierarchical`, and each shares by their part of the cluster. ``certificate.objective`` is
    the least row of step 2 over its rate. Raises :class:`PolicyError` where a type has no known price. Source:
    ours; users of Kueue (issue 8902) and KAI Scheduler (issue 1400), which count devices, ask for quotas by value.
    """

    name = "value_fair_share"
    promises: tuple[str, ...] = ("value_fairness", "owner_sharing_incentive")

    def __init__(self, owners: Mapping[str, Owner] | None = None) -> None:
        super().__init__(MaxMinFairness(), owners or {})

    def between(self, owners: Mapping[str, Owner]) -> Hierarchical:
        other = ValueFairShare(owners)
        return other.constrained(self.constraints) if self.constraints else other

    def state(self, snapshot: Snapshot) -> Statement:
        """The program of step 2, in which step 1 is solved."""
        fast, view = super().state(snapshot), View(snapshot)
        assert isinstance(fast, Statement)
        rates = OwnerRates(snapshot.jobs, self.owners, snapshot.runs_J)
        limits = (*fast.requirements, _slices(view, rates.part_J))
        values = _values(view, rates)
        first = replace(fast, worst=(stated.Worst(1.0, values),), requirements=limits, text=f"value of {self}")
        floor_J = values(solve(first).share_C) * (1.0 - HAIR)
        return replace(fast, requirements=(*limits, Requirement(values.shifted(-floor_J), "value of every owner")))

    def __repr__(self) -> str:
        limits = ", ".join(map(repr, self.constraints))
        plain = f"with_constraints({ValueFairShare.name}, {limits})" if limits else ValueFairShare.name
        return self._named(plain) if self.owners else plain

    __str__ = __repr__


def _slices(view: View, part_J: Floats) -> Requirement:
    """No job is slower than with its part of every type."""
    sharers_J = np.divide(1.0, part_J, out=np.full(len(part_J), np.inf), where=part_J > 0)
    slice_J = equal_share_throughput(
        usable_throughput_JA(view.snapshot), view.scale_factor_J, view.snapshot.devices_A, sharers_J
    )
    return Requirement(view.throughput.shifted(-slice_J * (1.0 - HAIR)), "no job is slower than with its slice")


def _values(view: View, rates: OwnerRates) -> Affine:
    """What each owner holds, in dollars per hour, over their part: in the row of their first job that can run.

    The rows of other jobs are more than any owner can have, and bind none.
    """
    runs_J = rates.part_J > 0
    _, first_N, owner_R = np.unique(rates.owner_J[runs_J], return_index=True, return_inverse=True)
    part_N = np.bincount(owner_R, rates.part_J[runs_J], len(first_N))
    job_R, first_N = np.flatnonzero(runs_J), np.flatnonzero(runs_J)[first_N]
    sums_JJ = sparse.csr_array((1.0 / part_N[owner_R], (first_N[owner_R], job_R)), shape=(view.J, view.J))
    beyond_J = np.full(view.J, 1.0 + view.usd_per_hour_of_all / part_N.min(initial=1.0))
    beyond_J[first_N] = 0.0
    return Affine(sparse.csr_array(sums_JJ @ view.value_of_job.matrix_RC), beyond_J, "job")
