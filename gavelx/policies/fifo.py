"""First come, first served."""

import numpy as np

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified


class Fifo(Policy):
    """Give jobs, in order of arrival, the fastest type that still has enough free devices.

    The first job that finds too few free devices everywhere ends the queue: nobody overtakes it. A job that
    cannot run on any type with enough free devices is passed over. Among equally fast types the job stays where
    it runs; a new one takes the type with the largest free part. Source: the heterogeneity-aware FIFO of Gavel
    (OSDI'20), section 4.2, placed anew at every call.
    """

    name = "fifo"

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table, devices_A = snapshot.configurations, snapshot.devices_A
        T_JA, free_A = np.nan_to_num(table.throughput_JA), devices_A.copy()
        type_J = np.full(len(snapshot.jobs), -1)
        for j in sorted(
            range(len(snapshot.jobs)), key=lambda j: (snapshot.jobs[j].arrival_s, snapshot.jobs[j].id)
        ):
            scale = snapshot.jobs[j].scale_factor
            fits = [a for a in range(len(devices_A)) if free_A[a] >= scale]
            if not fits:
                break
            best = max(fits, key=lambda a: (T_JA[j, a], a == snapshot.running_J[j], free_A[a] / devices_A[a]))
            if T_JA[j, best] > 0:
                type_J[j] = best
                free_A[best] -= scale
        share_C = np.zeros(len(table))
        share_C[table.configuration_M] = type_J[table.job_M] == table.accelerator_C[table.configuration_M]
        return certified(snapshot, share_C, path="greedy", seconds=0.0, strict=True, whole=True)
