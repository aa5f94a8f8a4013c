"""Dominant resource fairness, with accelerator types for resources.

Legend: J jobs, E jobs that still take, A accelerator types, C configurations.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.policies.greedy import usable_throughput_JA
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired

Floats = NDArray[np.float64]
ROUNDED_UP = 1.0 + 1e-12
"""Jobs that need just what there is use none of it up before they are full, whatever their sum is rounded to."""


class Drf(Policy):
    """Let every job's share of what it wants most rise at the same pace, until nothing that any job wants is left.

    A job wants the fastest type that is not used up. Its share, sum_a s_j x_ja / W_a, rises at the rate of its
    weight until it has all its time or the type is used up; then it goes on with the next fastest. Source: DRF
    (NSDI'11), section 4, progressive filling. There a user needs its resources together, and is done when one of
    them is used up; a job here can take one type instead of another, and the shares that it has of several add up.
    So nothing is left idle that someone could use, and the paper's promises, made for needs that are fixed, are
    not made.
    """

    name = "drf"

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table = snapshot.configurations
        share_JA = progressive_filling(snapshot)
        share_C = np.zeros(len(table))
        share_C[table.configuration_M] = share_JA[table.job_M, table.accelerator_C[table.configuration_M]]
        return certified(snapshot, repaired(snapshot, share_C), path="progressive filling", seconds=0.0)


def progressive_filling(snapshot: Snapshot) -> Floats:
    """Share of time of each job on each type. No job changes type until one is used up."""
    T_JA, scale_J, weight_J = usable_throughput_JA(snapshot), snapshot.scale_factor_J, snapshot.weight_J
    left_A, time_left_J = snapshot.devices_A.astype(float), np.ones(len(T_JA))
    share_JA, A = np.zeros(T_JA.shape), len(left_A)
    while True:
        open_JA = (T_JA > 0) & (left_A > 0) & (time_left_J > 0)[:, None]
        eats = np.flatnonzero(open_JA.any(axis=1))
        if not len(eats):
            return share_JA
        type_E = np.where(open_JA[eats], T_JA[eats], 0.0).argmax(axis=1)
        devices_E = weight_J[eats] * snapshot.devices_A[type_E]  # in use, for a rise of 1
        full_E = time_left_J[eats] * scale_J[eats] / devices_E  # the rise at which it has all its time
        rise_A = np.array([_used_up(left_A[a], devices_E[type_E == a], full_E[type_E == a]) for a in range(A)])
        rise = rise_A.min()
        used_E = devices_E * np.minimum(full_E, rise)
        time_E = np.where(full_E <= rise, time_left_J[eats], used_E / scale_J[eats])
        share_JA[eats, type_E] += time_E
        time_left_J[eats] -= time_E
        left_A -= np.bincount(type_E, used_E, A)
        left_A[rise_A <= rise] = 0.0


def _used_up(left: float, devices_E: Floats, full_E: Floats) -> float:
    """The rise at which the jobs on a type have used it up, each up to its own ``full_E``; infinite if never."""
    order = full_E.argsort()
    devices_E, full_E = devices_E[order], full_E[order]
    used_E = devices_E * full_E
    before_E, rising_E = used_E.cumsum() - used_E, devices_E[::-1].cumsum()[::-1]
    too_much_E = before_E + rising_E * full_E > left * ROUNDED_UP
    if not too_much_E.any():
        return np.inf
    first = int(too_much_E.argmax())  # the first that will not be full
    return float((left - before_E[first]) / rising_E[first])
