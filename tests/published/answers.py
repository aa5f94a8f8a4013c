"""What the published code of a policy answers."""

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.published import policies
from gavelx.published.solver import solve_interior
from gavelx.snapshot import Snapshot
from gavelx.solvers import using


def as_published(policy: Policy, snapshot: Snapshot) -> Allocation:
    """The allocation that the published simulator gets."""
    with using(first=solve_interior):
        return policies.as_published(policy).allocate(snapshot)
