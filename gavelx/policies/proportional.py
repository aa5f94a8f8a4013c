"""The same slice of every accelerator type for everyone."""

import numpy as np

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired


class Proportional(Policy):
    """Give every job all its time, divided over the types in proportion to their devices.

    y_ja = W_a / sum_b W_b; where the devices do not suffice for that, everyone gets the same part of it. Source:
    Gavel (OSDI'20), section 4.1, the slice that max-min fairness normalises by; its code does not scale down and
    so oversubscribes a cluster with more jobs (or wider gangs) than devices.
    """

    name = "proportional"
    ignores = ("weights",)
    promises = ("envy_freeness", "strategy_proofness")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table, devices_A = snapshot.configurations, snapshot.devices_A
        fits = min(1.0, devices_A.sum() / max(1, snapshot.scale_factor_J.sum()))
        share_C = fits * devices_A[table.accelerator_C] / max(1, devices_A.sum())
        share_C = np.where(snapshot.fits_C, share_C, 0.0)
        return certified(snapshot, repaired(snapshot, share_C), path="closed-form", seconds=0.0)
