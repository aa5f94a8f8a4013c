"""Modifiers: take a policy and give a policy, by changing what it sees.

Legend: J jobs, A accelerator types, C configurations.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired

Floats = NDArray[np.float64]
SWEEPS = 1000


class agnostic(Policy):  # noqa: N801  (used like a function: agnostic(max_min_fairness))
    """The same policy as a scheduler that counts GPUs would have it: one speed for all accelerator types.

    Every job is shown the mean of its speeds, weighted by devices, on each type that it can run on; a type it
    cannot run on stays so. Such a program does not care which type a job gets, and a solver's vertex sends whole
    job types to one accelerator, which would flatter everything compared with it. So ties are spread: each job's
    time is divided over the types in proportion to their devices. A policy that queues (its allocation is
    ``strict``) chose whole devices, and keeps them.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def allocate(self, snapshot: Snapshot) -> Allocation:
        snapshot = snapshot.alone()
        answer = self.policy.allocate(one_speed(snapshot))
        share_C = answer.share_C if answer.strict else repaired(snapshot, spread(snapshot, answer.share_C))
        seen = answer.certificate
        return certified(
            snapshot,
            share_C,
            path=f"{seen.path}, spread",
            seconds=seen.seconds,
            objective=seen.objective,
            bound=seen.bound,
            classes=seen.classes,
            strict=answer.strict,
        )

    def __repr__(self) -> str:
        return f"agnostic({self.policy!r})"

    def __str__(self) -> str:
        return f"agnostic({self.policy})"


def one_speed(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which each job runs equally fast wherever it runs at all."""
    table, devices_A = snapshot.configurations, snapshot.devices_A
    type_M = table.accelerator_C[table.configuration_M]
    weight_M = np.where(table.throughput_M > 0, np.maximum(devices_A[type_M], 1e-9), 0.0)
    total_J = np.bincount(table.job_M, weight_M, minlength=table.shape[0])
    speed_J = np.bincount(table.job_M, weight_M * table.throughput_M, minlength=table.shape[0])
    speed_J = np.divide(speed_J, total_J, out=np.zeros(len(speed_J)), where=total_J > 0)
    throughput_M = np.where(table.throughput_M > 0, speed_J[table.job_M], 0.0)
    return snapshot.replace(configurations=dataclasses.replace(table, throughput_M=throughput_M))


def spread(snapshot: Snapshot, share_C: Floats) -> Floats:
    """Divide each job's total time over the types it can use, in proportion to their devices.

    x_ja = y_j W_a u_a / sum_b W_b u_b over the types b that j can use, with u = 1 unless jobs that can only use
    some types make that too much for one; then u_a is lowered until it fits (iterative proportional fitting).
    Where the fitting does not end, the shares are left as they were.
    """
    table, devices_A = snapshot.configurations, snapshot.devices_A
    job_C = np.empty(len(table), dtype=np.int64)
    job_C[table.configuration_M] = table.job_M
    time_J = table.membership_JC @ share_C
    usable_C = snapshot.usable_C
    u_A = np.ones(len(devices_A))
    for _ in range(SWEEPS):
        weight_C = np.where(usable_C, (devices_A * u_A)[table.accelerator_C], 0.0)
        total_J = np.bincount(job_C, weight_C, minlength=len(time_J))
        spread_C = time_J[job_C] * weight_C / np.where(total_J > 0, total_J, 1.0)[job_C]
        in_use_A = table.devices_AC @ spread_C
        if (in_use_A <= devices_A * (1 + 1e-12)).all():
            return np.asarray(spread_C)
        u_A *= np.minimum(1.0, np.divide(devices_A, in_use_A, out=np.ones(len(u_A)), where=in_use_A > 0))
    return share_C
