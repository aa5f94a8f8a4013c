"""Changed snapshots: jobs in another order, other names, other units, a misreported speed.

Legend: J jobs, A accelerator types, C configurations, M memberships.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Cluster
from gavelx.configurations import Configurations
from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
PER_JOB = (
    *("steps_left_J", "elapsed_s_J", "equal_share_s_J", "spent_usd_J", "equal_share_usd_J"),
    *("held_s_J", "running_J", "restart_s_J"),
)


def permuted(snapshot: Snapshot, order: Sequence[int]) -> Snapshot:
    """The same instant with its jobs listed in another order, and their configurations with them."""
    index = np.array(order, dtype=np.int64)
    return snapshot.replace(
        jobs=tuple(snapshot.jobs[j] for j in order),
        known=_relabelled(snapshot.known, np.argsort(index)),
        **{name: getattr(snapshot, name)[index] for name in PER_JOB},
        left_range_JE=None if snapshot.left_range_JE is None else snapshot.left_range_JE[index],
    )


def _relabelled(table: Configurations, place_J: NDArray[np.int64]) -> Configurations:
    """The table in which job j has become ``place_J[j]``, sorted by kind, then by job."""
    job_M = place_J[table.job_M]
    first_C = np.full(len(table), table.shape[0], dtype=np.int64)
    np.minimum.at(first_C, table.configuration_M, job_M)
    order_C = np.lexsort((first_C, table.spread_C, table.members_C))
    place_C = np.argsort(order_C)[table.configuration_M]
    order_M = np.lexsort((job_M, place_C))
    return Configurations(
        shape=table.shape,
        accelerator_C=table.accelerator_C[order_C],
        devices_C=table.devices_C[order_C],
        job_M=job_M[order_M],
        configuration_M=place_C[order_M],
        throughput_M=table.throughput_M[order_M],
        spread_C=table.spread_C[order_C],
        batch_C=table.batch_C[order_C],
        own_C=table.own_C[order_C],
        others_CA=table.others_CA[order_C],
        lower_M=None if table.lower_M is None else table.lower_M[order_M],
        upper_M=None if table.upper_M is None else table.upper_M[order_M],
    )


def renamed(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """The same instant with other names for the accelerator types."""
    new = dict(zip(snapshot.accelerators, names, strict=True))
    servers = tuple(
        dataclasses.replace(server, accelerator=new[server.accelerator]) for server in snapshot.cluster.servers
    )
    return snapshot.replace(cluster=Cluster(servers, tuple(names)))


def with_job_types_called_otherwise(snapshot: Snapshot, *, backwards: bool = False) -> Snapshot:
    """The same instant with other names for the types of jobs, of other lengths, in the same order or the
    reverse."""
    names = sorted({job.job_type for job in snapshot.jobs}, reverse=backwards)
    new = {name: f"{n:03}" + "x" * (7 * n % 11) for n, name in enumerate(names)}
    return snapshot.replace(
        jobs=tuple(dataclasses.replace(job, job_type=new[job.job_type]) for job in snapshot.jobs)
    )


def with_owners_called_otherwise(snapshot: Snapshot) -> Snapshot:
    """The same instant with other names for owners and their teams, in the same order, of other lengths."""
    names = sorted({name for job in snapshot.jobs for name in job.owner.split("/") if name})
    new = {"": ""} | {name: f"{n:03}" + "y" * (5 * n % 7) for n, name in enumerate(names)}
    jobs = (
        dataclasses.replace(job, owner="/".join(new[name] for name in job.owner.split("/")))
        for job in snapshot.jobs
    )
    return snapshot.replace(jobs=tuple(jobs))


def in_other_steps(snapshot: Snapshot, factor: float) -> Snapshot:
    """The same instant where what was one step counts as ``factor`` steps."""
    table = snapshot.known
    jobs = tuple(dataclasses.replace(job, total_steps=job.total_steps * factor) for job in snapshot.jobs)
    return snapshot.replace(
        jobs=jobs,
        known=table.with_speeds(lambda speed_M: speed_M * factor),
        steps_left_J=snapshot.steps_left_J * factor,
        left_range_JE=None if snapshot.left_range_JE is None else snapshot.left_range_JE * factor,
    )


def in_other_money(snapshot: Snapshot, factor: float) -> Snapshot:
    """The same instant where what cost a dollar costs ``factor`` of another currency."""
    return snapshot.replace(
        usd_per_hour_A=snapshot.usd_per_hour_A * factor,
        spent_usd_J=snapshot.spent_usd_J * factor,
        equal_share_usd_J=snapshot.equal_share_usd_J * factor,
    )


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The same instant, ``seconds`` later: all arrivals and deadlines are later, too."""
    jobs = tuple(dataclasses.replace(job, arrival_s=job.arrival_s + seconds) for job in snapshot.jobs)
    return snapshot.replace(jobs=jobs, time_s=snapshot.time_s + seconds)


def weighing(snapshot: Snapshot, weight: float) -> Snapshot:
    """The same instant in which every job has this weight."""
    return snapshot.replace(jobs=tuple(dataclasses.replace(job, weight=weight) for job in snapshot.jobs))


def misreported(snapshot: Snapshot, j: int, factor_A: Sequence[float]) -> Snapshot:
    """The snapshot if job j misreports its speeds: on each type times a factor, alone and in pairs."""
    table = snapshot.known
    mine_M = table.job_M == j
    factor_M = np.where(mine_M, np.array(factor_A)[table.accelerator_C[table.configuration_M]], 1.0)
    lied = table.with_speeds(lambda speed_M: speed_M * factor_M)
    return snapshot.replace(known=dataclasses.replace(lied, kind_J=None))  # jobs that were alike no longer are


def knowing_only(snapshot: Snapshot, opened: frozenset[str]) -> Snapshot:
    """The same instant without the kinds of configuration that are not opened."""
    table = snapshot.known
    keep_C = np.ones(len(table), dtype=bool)
    if "pairs" not in opened:
        keep_C &= table.members_C == 1
    if "placements" not in opened:
        keep_C &= ~table.spread_C
    if "sizes" not in opened:
        keep_C &= table.own_C
    if "mixes" not in opened:
        keep_C &= ~table.mixed_C
    return snapshot.replace(known=table.where(keep_C))
