"""An equal share for everyone.

Legend: J jobs, A accelerator types, C configurations.
"""

import numpy as np

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired


class Isolated(Policy):
    """Give each of the n jobs 1/n of every accelerator type, as if the cluster were cut into n small ones.

    z_ja = W_a / (n s_j), scaled down where a job's shares add up to more than its whole time. Source: Gavel
    (OSDI'20), section 4; the baseline of the sharing incentive. A slice of a type on which the job cannot run
    is part of its share and stays idle.
    """

    name = "isolated"
    promises = ("sharing_incentive", "strategy_proofness")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table = snapshot.configurations
        share_C = snapshot.devices_A[table.accelerator_C] / (max(1, len(snapshot.jobs)) * table.devices_C)
        time_J = np.maximum(1.0, table.membership_JC @ share_C)
        share_C[table.configuration_M] /= time_J[table.job_M]
        return certified(snapshot, repaired(snapshot, share_C), path="closed-form", seconds=0.0, type_blind=True)
