"""Snapshots written as a table of speeds: one row a job, one column a type."""

from collections.abc import Mapping, Sequence

import numpy as np

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.snapshot import WAITING, Snapshot
from tests.policies.strategies import snapshot_of


def instant(
    devices: Mapping[str, int],
    speeds: Sequence[Sequence[float]],
    left: Sequence[float] | None = None,
    *,
    scales: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    elapsed_s: Sequence[float] | None = None,
    held_s: Sequence[float] | None = None,
    running: Sequence[int] | None = None,
) -> Snapshot:
    """Jobs 0, 1, ... that arrived in this order, with so many steps left, 1,000 where nothing is said."""
    J = len(speeds)
    left, scales, weights = left or [1000.0] * J, scales or [1] * J, weights or [1.0] * J
    jobs = [Job(j, f"kind {j}", left[j], scales[j], weights[j], arrival_s=float(j)) for j in range(J)]
    snapshot = snapshot_of(jobs, Cluster.of(dict(devices)), np.array(speeds, dtype=float).reshape(J, len(devices)))
    return snapshot.replace(
        steps_left_J=np.array(left, dtype=float),
        elapsed_s_J=np.zeros(J) if elapsed_s is None else np.array(elapsed_s, dtype=float),
        held_s_J=np.zeros(J) if held_s is None else np.array(held_s, dtype=float),
        running_J=np.full(J, WAITING) if running is None else np.array(running),
    )


def types(share_JA: np.ndarray) -> list[int]:
    """The type that each job has all of, or WAITING; asserts that nobody has a part."""
    assert np.isin(share_JA, (0.0, 1.0)).all()
    return [int(row.argmax()) if row.any() else WAITING for row in share_JA]
