"""An equal share for everyone.

Legend: J jobs, A accelerator types, C configurations.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired

Floats = NDArray[np.float64]


class Isolated(Policy):
    """Give each of the n jobs 1/n of every accelerator type, as if the cluster were cut into n small ones.

    z_ja = W_a / (n s_j), scaled down where a job's shares add up to more than its whole time. Source: Gavel
    (OSDI'20), section 4; the baseline of the sharing incentive. A slice of a type on which the job cannot run
    is part of its share and stays idle.
    """

    name = "isolated"
    ignores = ("weights",)
    promises = ("sharing_incentive", "strategy_proofness")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table = snapshot.configurations
        part_C = snapshot.devices_A[table.accelerator_C] / (max(1, len(snapshot.jobs)) * table.devices_C)
        share_C = within_time(snapshot, part_C)
        blind = Execution(knows_types=False)
        return certified(snapshot, repaired(snapshot, share_C), path="closed-form", seconds=0.0, execution=blind)


def within_time(snapshot: Snapshot, share_C: Floats) -> Floats:
    """The same shares, scaled down where those of a job add up to more than its whole time.

    They are added type by type, the last one first, for every job alike: so those of jobs that differ in width are
    equal to the last bit, as they are in the published system, where ties decide who runs.
    """
    table = snapshot.configurations
    order_M = np.argsort(-table.accelerator_C[table.configuration_M], kind="stable")
    time_J, time_C = np.zeros(len(snapshot.jobs)), np.ones(len(table))
    np.add.at(time_J, table.job_M[order_M], share_C[table.configuration_M[order_M]])
    time_C[table.configuration_M] = np.maximum(1.0, time_J)[table.job_M]
    return np.asarray(share_C / time_C)
