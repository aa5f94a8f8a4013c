"""Allocations made by hand, to be judged.

Legend: J jobs, A accelerator types.
"""

import numpy as np

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from tests.policies.strategies import snapshot_of

UNKNOWN = float("nan")


def instant(
    devices: dict[str, int],
    speeds_JA: list[list[float]],
    scale_factors: list[int] | None = None,
    weights: list[float] | None = None,
) -> Snapshot:
    """Jobs 0, 1, ... with these speeds (0: cannot run, NaN: unknown) on these devices."""
    J = len(speeds_JA)
    wide, heavy = scale_factors or [1] * J, weights or [1.0] * J
    jobs = tuple(Job(j, f"type {j}", 1000.0, scale_factor=wide[j], weight=heavy[j]) for j in range(J))
    return snapshot_of(jobs, Cluster.of(devices), np.array(speeds_JA, dtype=float).reshape(J, len(devices)))


def given_shares(snapshot: Snapshot, share_JA: list[list[float]]) -> Allocation:
    """The allocation with these shares of time, whoever would want it."""
    table = snapshot.configurations
    share_C = np.zeros(len(table))
    alone = zip(table.job_M, table.configuration_M, strict=True)
    for job, c in alone:
        share_C[c] = share_JA[job][table.accelerator_C[c]]
    return certified(snapshot, share_C, path="by hand", seconds=0.0)
