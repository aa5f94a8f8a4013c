"""What owners are entitled to, and what they hold, in dollars; each owner a team of weight 1.

It is independent of the policies: value and slices are computed row by row, and the most that an owner could hold
by a plain linear program.

Legend: J jobs, A accelerator types, C configurations.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from gavelx.allocation import Allocation
from gavelx.files.configuration_rows import rows_of
from gavelx.snapshot import Snapshot
from gavelx.testing import plain

Floats = NDArray[np.float64]
HAIR = 1e-7
"""Part by which floors of the linear program are below what was seen, so that rounding leaves it a solution."""


def of_teams(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with each job owned by a team: the first part of its owner's path, ``c`` for none."""
    jobs = (dataclasses.replace(job, owner=job.owner.partition("/")[0] or "c") for job in snapshot.jobs)
    return snapshot.replace(jobs=tuple(jobs))


def slice_J(snapshot: Snapshot) -> Floats:
    """Steps/s of each job with its part of its team's 1/n of every type; n teams have jobs that can run.

    The part is scaled down where it is more than the job's whole time.
    """
    alone_JA = np.zeros((len(snapshot.jobs), len(snapshot.accelerators)))
    runs_J = np.zeros(len(snapshot.jobs), dtype=bool)
    for row in rows_of(snapshot.configurations):
        if plain.can_run(snapshot, row):
            runs_J[list(row.jobs)] = True
            if len(row.jobs) == 1 and not row.spread and not row.others:
                alone_JA[row.jobs[0], row.accelerator] = row.steps_per_second[0]
    members = Counter(job.owner for job, runs in zip(snapshot.jobs, runs_J, strict=True) if runs)
    out_J = np.zeros(len(snapshot.jobs))
    for j in np.flatnonzero(runs_J).tolist():
        job = snapshot.jobs[j]
        time_A = snapshot.devices_A / (len(members) * members[job.owner] * job.scale_factor)
        out_J[j] = (alone_JA[j] * time_A).sum() / max(1.0, time_A.sum())
    return out_J


def usd_of_all(snapshot: Snapshot) -> float:
    """Dollars per hour of all devices."""
    return float((snapshot.devices_A * snapshot.usd_per_hour_A).sum())


def values(allocation: Allocation) -> Iterator[tuple[str, float, float]]:
    """Each owner, the dollars per hour of what they hold, and the most that they could hold.

    That is while owners who hold no more than they do keep what they hold, and every job its slice. A device
    counts where no cheaper one is as fast for the job, and no other of the same price faster.
    """
    snapshot, share_C = allocation.snapshot, allocation.share_C
    rows = [row if plain.can_run(snapshot, row) else None for row in rows_of(snapshot.configurations)]
    J, A, C = len(snapshot.jobs), len(snapshot.accelerators), len(rows)
    speed_JC, usd_JC, time_JC, devices_AC = np.zeros((J, C)), np.zeros((J, C)), np.zeros((J, C)), np.zeros((A, C))
    for c, row in enumerate(rows):
        if row is not None:
            for a, devices in row.uses:
                devices_AC[a, c] = devices
            for j, speed in zip(row.jobs, row.steps_per_second, strict=True):
                usd = sum(n * snapshot.usd_per_hour_A[a] for a, n in row.uses) / len(row.jobs)
                speed_JC[j, c], usd_JC[j, c], time_JC[j, c] = speed, usd, 1.0
    usd_JC *= _worth(speed_JC, usd_JC)
    names = sorted({job.owner for job in snapshot.jobs})
    mine_NJ = np.array([[job.owner == name for job in snapshot.jobs] for name in names])
    usd_NC = mine_NJ @ usd_JC if names else np.zeros((0, C))
    held_N = usd_NC @ share_C
    for n, name in enumerate(names):
        poorer_N = (held_N <= held_N[n] + HAIR * usd_of_all(snapshot)) & (np.arange(len(names)) != n)
        floors = np.concatenate([slice_J(snapshot), held_N[poorer_N]]) * (1.0 - HAIR)
        found = linprog(
            -usd_NC[n],
            A_ub=np.concatenate([time_JC, devices_AC, -speed_JC, -usd_NC[poorer_N]]),
            b_ub=np.concatenate([np.ones(J), snapshot.devices_A, -floors]),
            bounds=[(0.0, 0.0 if row is None else None) for row in rows],
        )
        assert found.success, found.message
        yield name, float(held_N[n]), -float(found.fun)


def _worth(speed_JC: Floats, usd_JC: Floats) -> NDArray[np.bool_]:
    """Whether a configuration is worth its price to a job: none other is as good in both, and better in one."""
    faster_JCC = speed_JC[:, None, :] > speed_JC[:, :, None]
    cheaper_JCC = usd_JC[:, None, :] < usd_JC[:, :, None]
    runs_JC = speed_JC > 0
    better_JCC = (faster_JCC & ~cheaper_JCC.swapaxes(1, 2)) | (cheaper_JCC & ~faster_JCC.swapaxes(1, 2))
    return runs_JC & ~(better_JCC & runs_JC[:, None, :]).any(axis=2)
