"""Generated snapshots: the cases that broke earlier schedulers are all in here, and common.

Zero and unknown throughputs, gangs wider than a type, types without devices, more jobs than devices, jobs that
can run nowhere, identical jobs, no job at all, and names that nobody would give an accelerator.

Legend: J jobs, A accelerator types, K kinds of job.
"""

import numpy as np
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.configurations import Configurations
from gavelx.jobs import Job
from gavelx.snapshot import Snapshot

ODD_NAMES = ("v100", "p100", "k80", "a100 80gb", "x=1,y", "größe", "(", "mi300x_unconsolidated", "0", "🐢", "nan")
POSITIVE = st.floats(0.05, 50.0)
THROUGHPUTS = st.one_of(POSITIVE, POSITIVE, POSITIVE, st.just(0.0), st.just(np.nan))
SCALE_FACTORS = st.sampled_from((1, 1, 1, 2, 4, 8))
WEIGHTS = st.sampled_from((1.0, 1.0, 5.0, 0.3))


@st.composite
def clusters(draw: st.DrawFn, max_types: int = 5, min_devices: int = 0) -> Cluster:
    """One to ``max_types`` types, at least one device in all."""
    names = draw(st.lists(st.sampled_from(ODD_NAMES), min_size=1, max_size=max_types, unique=True))
    counts = draw(st.lists(st.integers(min_devices, 8), min_size=len(names), max_size=len(names)).filter(any))
    return Cluster.of(dict(zip(names, counts, strict=True)))


@st.composite
def snapshots(
    draw: st.DrawFn,
    *,
    max_jobs: int = 12,
    max_types: int = 5,
    min_devices: int = 0,
    throughputs: st.SearchStrategy[float] = THROUGHPUTS,
    scale_factors: st.SearchStrategy[int] = SCALE_FACTORS,
    weights: st.SearchStrategy[float] = WEIGHTS,
) -> Snapshot:
    """Some jobs of a few kinds on some cluster, each of them somewhere between its start and its end."""
    cluster = draw(clusters(max_types, min_devices))
    A = len(cluster.accelerators)
    kinds = draw(st.lists(st.lists(throughputs, min_size=A, max_size=A), min_size=1, max_size=6))
    kind_J = draw(st.lists(st.integers(0, len(kinds) - 1), max_size=max_jobs))
    jobs = tuple(
        Job(
            id=10 * j + 3,
            job_type=f"kind {kind}",
            total_steps=1000.0 * (j + 1),
            scale_factor=draw(scale_factors),
            weight=draw(weights),
            arrival_s=60.0 * j,
        )
        for j, kind in enumerate(kind_J)
    )
    T_JA = np.array([kinds[kind] for kind in kind_J], dtype=float).reshape(len(jobs), A)
    return snapshot_of(jobs, cluster, T_JA)


def snapshot_of(jobs: tuple[Job, ...], cluster: Cluster, T_JA: np.ndarray) -> Snapshot:
    """A snapshot of jobs with these speeds (NaN: unknown) an hour after the last one arrived."""
    now_s = 3600.0 + max((job.arrival_s for job in jobs), default=0.0)
    scale_J = np.array([job.scale_factor for job in jobs], dtype=np.int64)
    return Snapshot(
        cluster=cluster,
        jobs=jobs,
        known=Configurations.of_matrix(T_JA, scale_J),
        steps_left_J=np.array([job.total_steps * 0.75 for job in jobs], dtype=float),
        elapsed_s_J=np.array([now_s - job.arrival_s for job in jobs], dtype=float),
        usd_per_hour_A=np.linspace(3.0, 0.5, len(cluster.accelerators)),
        time_s=now_s,
    )


def permuted(snapshot: Snapshot, order: list[int]) -> Snapshot:
    """The same instant with its jobs listed in another order."""
    T_JA = snapshot.configurations.throughput_JA[order].reshape(len(order), len(snapshot.accelerators))
    return snapshot_of(tuple(snapshot.jobs[j] for j in order), snapshot.cluster, T_JA)


def renamed(snapshot: Snapshot, names: list[str]) -> Snapshot:
    """The same instant with other names for the accelerator types."""
    counts = dict(zip(names, snapshot.devices_A.tolist(), strict=True))
    return snapshot.replace(cluster=Cluster.of(counts))
