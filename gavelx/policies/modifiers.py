"""Modifiers: take a policy and give a policy, by changing what it sees.

Legend: J jobs, A accelerator types, C configurations.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import FEASIBLE, Allocation
from gavelx.asking import ask
from gavelx.policies.base import Policy
from gavelx.policies.program import Maximize
from gavelx.snapshot import Snapshot
from gavelx.solvers import Statement, certified, repaired, spread
from gavelx.solvers.certify import missing

Floats = NDArray[np.float64]


class agnostic(Policy):  # noqa: N801  (used like a function: agnostic(max_min_fairness))
    """The same policy as a scheduler that counts GPUs would have it: one speed for all accelerator types.

    Every job is shown the mean of its speeds, weighted by devices, on each type that it can run on; a type it
    cannot run on stays so. Such a program does not care which type a job gets, and a solver's vertex sends whole
    job types to one accelerator, which would flatter everything compared with it. So ties are spread: each job's
    time is divided over the types in proportion to their devices (:mod:`gavelx.solvers.spreading`). A policy that
    queues (its allocation is ``strict``) chose whole devices, and keeps them; so does a program of which spreading
    would break a constraint or the objective (one with a budget, say, that tells types apart by their price).
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def allocate(self, snapshot: Snapshot) -> Allocation:
        seen = one_speed(snapshot)
        answer = ask(self.policy, seen)
        if answer.strict:
            return self._certified(snapshot, answer, answer.share_C, answer.certificate.path)
        share_C = repaired(snapshot, spread(snapshot, answer.share_C))
        if self._is_worse(seen, answer, share_C):  # a budget, say, that only the unspread shares keep
            return self._certified(snapshot, answer, answer.share_C, answer.certificate.path)
        return self._certified(snapshot, answer, share_C, f"{answer.certificate.path}, spread")

    def _is_worse(self, seen: Snapshot, answer: Allocation, share_C: Floats) -> bool:
        """Whether spreading broke a constraint or cost a part of the objective of a program."""
        if not isinstance(self.policy, Maximize):
            return False
        statement = self.policy.state(seen)
        before, after = statement.objective(answer.share_C), statement.objective(share_C)
        lost = before - after if isinstance(statement, Statement) else after - before  # a ratio is made small
        return missing(statement.required, share_C) > FEASIBLE or lost > 1e-6 * max(1e-12, abs(before))

    def _certified(self, snapshot: Snapshot, answer: Allocation, share_C: Floats, path: str) -> Allocation:
        seen = answer.certificate
        return certified(
            snapshot,
            share_C,
            path=path,
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
    return snapshot.replace(known=dataclasses.replace(table, throughput_M=throughput_M))
