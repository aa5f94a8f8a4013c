"""Generated snapshots, in which the cases that break schedulers are common.

Zero and unknown throughputs, gangs wider than a type, types without devices, more jobs than devices, jobs that can
run nowhere, identical jobs, no job at all, deadlines and owners or none, and strange names of accelerators. Many
snapshots know pairs, placements and sizes as well, which a policy sees only if it opens them.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from gavelx.cluster import Cluster
from gavelx.configurations import Configurations
from gavelx.elastic import Elastic
from gavelx.job_table import column
from gavelx.jobs import Job
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs
from gavelx.ways_to_run import ways_to_run

ODD_NAMES = ("v100", "p100", "k80", "a100 80gb", "x=1,y", "größe", "(", "mi300x_unconsolidated", "0", "🐢", "nan")
POSITIVE = st.floats(0.05, 50.0)
SPEEDS = st.sampled_from((0.4, 0.7, 1.0, 1.6, 2.5, 4.0, 6.3, 10.0, 16.0))
"""Drawn evenly, unlike floats, which tend to be all alike: jobs and types that really differ."""
THROUGHPUTS = st.one_of(POSITIVE, SPEEDS, SPEEDS, st.sampled_from((0.0, np.nan, 1.0)))
SCALE_FACTORS = st.sampled_from((1, 1, 1, 2, 4, 8))
WEIGHTS = st.sampled_from((1.0, 1.0, 5.0, 0.3))
OWNERS = st.sampled_from(("", "a", "a/ann", "a/bob", "b", "b/cy"))
SLOS = st.sampled_from((None, None, 1.2, 3.0, 50.0))
STEPS = st.sampled_from((30.0, 200.0, 900.0, 4e3, 2e4, 1e5, 6e5))
ELASTIC = st.sampled_from((None, None, Elastic("workers", 1, 8), Elastic("workers", 1, 16, mixed=True)))
LEFT = st.sampled_from((1.0, 0.75, 0.4, 0.05))
"""Part of the steps that is still to do."""
AGES_S = st.sampled_from((0.0, 60.0, 800.0, 3600.0, 2e4, 9e4))
NOW_S = st.integers(300, 1_000).map(lambda hours: 3600.0 * hours + 123.0)
IDS = st.integers(0, 9_999)


@st.composite
def clusters(draw: st.DrawFn, max_types: int = 5, min_devices: int = 0, max_devices: int = 8) -> Cluster:
    """One to ``max_types`` types in servers of one to four devices, at least one device in all."""
    names = draw(st.lists(st.sampled_from(ODD_NAMES), min_size=1, max_size=max_types, unique=True))
    counts = draw(
        st.lists(st.integers(min_devices, max_devices), min_size=len(names), max_size=len(names)).filter(any)
    )
    return Cluster.of(dict(zip(names, counts, strict=True)), draw(st.sampled_from((4, 4, 1, 2))))


@st.composite
def snapshots(
    draw: st.DrawFn,
    *,
    min_jobs: int = 0,
    max_jobs: int = 12,
    max_types: int = 5,
    min_devices: int = 0,
    max_devices: int = 8,
    throughputs: st.SearchStrategy[float] = THROUGHPUTS,
    scale_factors: st.SearchStrategy[int] = SCALE_FACTORS,
    weights: st.SearchStrategy[float] = WEIGHTS,
    extras: bool | None = None,
) -> Snapshot:
    """Some jobs of a few kinds on some cluster, each of them somewhere between its start and its end.

    Half of the clusters are small, so that jobs compete. ``extras``: whether pairs and placements are known too;
    by default, they often are.
    """
    crowded = draw(st.booleans())
    cluster = draw(clusters(max_types, min_devices, min(2, max_devices) if crowded else max_devices))
    A = len(cluster.accelerators)
    kinds = draw(
        st.lists(st.lists(throughputs, min_size=A, max_size=A), min_size=min(3, max(1, min_jobs)), max_size=6)
    )
    kind_J = draw(st.lists(st.integers(0, len(kinds) - 1), min_size=min_jobs, max_size=max_jobs))
    slo_J = draw(st.lists(SLOS, min_size=len(kind_J), max_size=len(kind_J)))
    id_J = draw(st.lists(IDS, min_size=len(kind_J), max_size=len(kind_J), unique=True))
    now_s = draw(NOW_S)
    jobs = tuple(  # length, age, weight and number of a job are independent of each other
        Job(
            id=id_J[j],
            job_type=f"kind {kind}",
            total_steps=draw(STEPS),
            scale_factor=draw(scale_factors),
            weight=draw(weights),
            arrival_s=now_s - draw(AGES_S),
            slo=slo_J[j],
            duration_s=None if slo_J[j] is None else draw(AGES_S) + 3600.0,
            owner=draw(OWNERS),
            elastic=draw(ELASTIC),
        )
        for j, kind in enumerate(kind_J)
    )
    table = speeds(kinds, cluster.accelerators, jobs)
    extras = draw(st.sampled_from((True, True, False))) if extras is None else extras
    known = ways_to_run(
        *(jobs, cluster.accelerators, table),
        pairs=extras,
        placements=extras,
        sizes=extras,
        mixes=extras,
        devices_A=cluster.devices_A.tolist(),
    )
    T_JA = np.array([kinds[kind] for kind in kind_J], dtype=float).reshape(len(jobs), A)
    left_J = draw(st.lists(LEFT, min_size=len(jobs), max_size=len(jobs)))
    snapshot = snapshot_of(jobs, cluster, T_JA, known=known).replace(
        time_s=now_s,
        elapsed_s_J=now_s - column(jobs, "arrival_s"),
        steps_left_J=np.array(
            [job.total_steps * left for job, left in zip(jobs, left_J, strict=True)], dtype=float
        ),
    )
    return draw(_progressed(snapshot))


ESTIMATED = {f"kind {k}" for k in range(1, 9, 2)}
"""Kinds of job in generated tables whose speeds are not exact."""


def speeds(kinds: Sequence[Sequence[float]], names: Sequence[str], jobs: Sequence[Job]) -> Throughputs:
    """The throughput table of these kinds of job: whole jobs at these speeds whatever their scale factor, spread
    gangs at 0.7 of them, and beside another kind at a part that depends on both. Every other kind is estimated. At
    numbers of devices that no job was submitted for, more devices are faster, but not in proportion."""
    isolated, colocated = {}, {}
    scales = {job.scale_factor for job in jobs}
    part_of = dict.fromkeys(scales, 1.0) | {n: (n / 2) ** 0.7 for n in (1, 2, 4, 8, 16) if n not in scales}
    for k, row in enumerate(kinds):
        for name, speed in zip(names, row, strict=True):
            if np.isnan(speed):
                continue
            for scale, part in part_of.items():
                isolated[Setting(f"kind {k}", name, scale)] = part * float(speed)
                isolated[Setting(f"kind {k}", name, scale, consolidated=False)] = 0.7 * part * float(speed)
            for other in range(len(kinds)):
                part = (0.95, 0.7, 0.8, 0.0, 0.55)[(k + 2 * other) % 5]
                colocated[Pairing(f"kind {k}", f"kind {other}", name)] = part * float(speed)
    everything = (isolated | colocated).items()
    ranges = {way: (0.7 * speed, 1.2 * speed) for way, speed in everything if way.job_type in ESTIMATED}
    return Throughputs(isolated, colocated, ranges=ranges)


@st.composite
def _progressed(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """The snapshot with a past: what equal shares would have taken, what it held and spent, and who runs where."""
    J, A = snapshot.known.shape
    part = draw(st.sampled_from((0.0, 0.5, 2.0)))
    return snapshot.replace(
        equal_share_s_J=part * snapshot.elapsed_s_J,
        spent_usd_J=np.linspace(0.0, 5.0 * part, J),
        equal_share_usd_J=np.linspace(2.0 * part, 0.0, J),
        held_s_J=min(1.0, part) * np.linspace(0.0, 1.0, J) * snapshot.elapsed_s_J,
        running_J=np.array(draw(st.lists(st.integers(-1, A - 1), min_size=J, max_size=J)), dtype=np.int64),
        restart_s_J=part * np.linspace(200.0, 0.0, J),
    )


CONTESTED: dict[str, Any] = {
    "min_jobs": 3,
    "max_jobs": 6,
    "max_types": 3,
    "min_devices": 1,
    "max_devices": 2,
    "throughputs": st.one_of(SPEEDS, THROUGHPUTS),
}
"""For :func:`snapshots`: mostly more jobs than devices, and several kinds of both; promises are tried on them."""
EQUALS: dict[str, Any] = {"scale_factors": st.just(1), "weights": st.just(1.0)}
"""One-device jobs of equal weight, among which fairness is plainly defined."""


def snapshot_of(
    jobs: Sequence[Job], cluster: Cluster, T_JA: NDArray[np.float64], known: Configurations | None = None
) -> Snapshot:
    """A snapshot of jobs with these speeds (NaN: unknown) an hour after the last one arrived.

    ``known`` holds more configurations than those of the matrix, where there are.
    """
    now_s = 3600.0 + max((job.arrival_s for job in jobs), default=0.0)
    scale_J = column(jobs, "scale_factor")
    return Snapshot(
        cluster=cluster,
        jobs=tuple(jobs),
        known=Configurations.of_matrix(T_JA, scale_J) if known is None else known,
        steps_left_J=column(jobs, "total_steps") * 0.75,
        elapsed_s_J=now_s - column(jobs, "arrival_s"),
        usd_per_hour_A=np.linspace(3.0, 0.5, len(cluster.accelerators)),
        time_s=now_s,
    )


def of_size(J: int, widest: int = 1) -> Snapshot:
    """Jobs, all different, on a cluster for half of them; every third needs ``widest`` devices."""
    random = np.random.default_rng(J)
    steps_J, age_s_J = random.integers(100, 100_000, J), random.integers(0, 50_000, J)
    jobs = [
        Job(int(i), f"kind {i}", float(steps), widest if j % 3 == 0 else 1, arrival_s=float(age_s))
        for j, (i, steps, age_s) in enumerate(zip(random.permutation(1000)[:J], steps_J, age_s_J, strict=True))
    ]
    cluster = Cluster.of({"v100": max(widest, J // 4), "k80": max(widest, J // 4)})
    return snapshot_of(jobs, cluster, random.uniform(0.5, 10.0, (J, 2)))
