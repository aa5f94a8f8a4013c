"""Modifiers: take a policy and give a policy, by changing what it sees.

Legend: J jobs, A accelerator types, C configurations.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.policies.base import Policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired, spread

Floats = NDArray[np.float64]


class agnostic(Policy):  # noqa: N801  (used like a function: agnostic(max_min_fairness))
    """The same policy as a scheduler that counts GPUs would have it: one speed for all accelerator types.

    Every job is shown the mean of its speeds, weighted by devices, on each type that it can run on; a type it
    cannot run on stays so. Such a program does not care which type a job gets, and a solver's vertex sends whole
    job types to one accelerator, which would flatter everything compared with it. So ties are spread: each job's
    time is divided over the types in proportion to their devices (:mod:`gavelx.solvers.spreading`). A policy that
    queues (its allocation is ``strict``) chose whole devices, and keeps them.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def allocate(self, snapshot: Snapshot) -> Allocation:
        snapshot = snapshot.alone()
        answer = ask(self.policy, one_speed(snapshot))
        share_C = answer.share_C if answer.strict else repaired(snapshot, spread(snapshot, answer.share_C))
        seen = answer.certificate
        return certified(
            snapshot,
            share_C,
            path=seen.path if answer.strict else f"{seen.path}, spread",
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
