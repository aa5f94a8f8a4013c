"""Inputs: contested clusters with jobs drawn anew for every seed.

Every type has a device for each sixteen jobs, so the jobs compete: with more devices a max-min program may be
decided by one job at its own best type, and then says nothing about speed. Job types are drawn from the 26 of the
real throughput table, weights from 1, 2 and 5, durations as published traces draw them; a job takes one device.

Legend: J jobs, A accelerator types, K job types, P pairs of jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Cluster, Server
from gavelx.configurations import Configurations
from gavelx.files.throughput_tables import load_throughputs
from gavelx.job_table import Coded, JobTable
from gavelx.jobs import Job
from gavelx.snapshot import Snapshot
from gavelx.ways_to_run import ways_to_run

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
JOBS_PER_DEVICE = 16
"""Jobs for each device of each type: what makes an instance contested."""
WEIGHTS = (1.0, 2.0, 5.0)
USD_PER_HOUR = {"k80": 0.45, "p100": 1.46, "v100": 2.48}


@dataclass(frozen=True, eq=False)
class Instance:
    """What both formulations start from, as arrays.

    ``kind_J`` names job types (an index into ``kinds``). ``before`` is the instance that the allocator answered
    last, where the benchmark is about a change; ``pairs`` says whether jobs may share a device in pairs.
    """

    accelerators: tuple[str, ...]
    devices_A: Ints
    kinds: tuple[str, ...]
    kind_J: Ints
    throughput_JA: Floats
    weight_J: Floats
    steps_left_J: Floats
    elapsed_s_J: Floats
    equal_share_s_J: Floats
    usd_per_hour_A: Floats
    before: "Instance | None" = None
    pairs: bool = False

    @property
    def proportional_J(self) -> Floats:
        """Steps/s of each job with a slice of every type in proportion to its devices."""
        return np.asarray(self.throughput_JA @ self.devices_A / self.devices_A.sum())

    def equal_share_of(self, rate_JA: Floats) -> Floats:
        """The rate of each job with 1/m of every type, m being the number of jobs (one device each)."""
        share_A = self.devices_A / len(rate_JA)
        return np.asarray(rate_JA @ (share_A / max(1.0, share_A.sum())))

    def where(self, keep_J: NDArray[np.bool_]) -> "Instance":
        """The same cluster with just these jobs."""
        arrays = ("kind_J", "throughput_JA", "weight_J", "steps_left_J", "elapsed_s_J", "equal_share_s_J")
        return replace(self, **{name: getattr(self, name)[keep_J] for name in arrays})


def snapshot_of(instance: Instance) -> Snapshot:
    """The instance as policies see it: a new snapshot, of which nothing has been asked yet."""
    names, counts = instance.accelerators, instance.devices_A.tolist()
    jobs = JobTable(
        id=np.arange(len(instance.kind_J)),
        job_type=Coded(instance.kinds, instance.kind_J),
        total_steps=instance.steps_left_J,
        weight=instance.weight_J,
    )
    return Snapshot(
        cluster=Cluster(tuple(Server(a, names[a], counts[a]) for a in range(len(names))), names),
        jobs=jobs,
        known=_known(instance, jobs),
        steps_left_J=instance.steps_left_J.copy(),
        elapsed_s_J=instance.elapsed_s_J.copy(),
        usd_per_hour_A=instance.usd_per_hour_A.copy(),
        equal_share_s_J=instance.equal_share_s_J.copy(),
    )


def real_table(jobs: int, seed: int, devices: int = 0) -> Instance:
    """Jobs of the real table on K80, P100 and V100: fresh ones that have waited for a while.

    ``devices`` in all, in equal parts; left out, a device of each type for each sixteen jobs.
    """
    kinds, names, speed_KA = _real_speeds()
    random = np.random.default_rng([seed, jobs])
    kind_J = random.integers(len(kinds), size=jobs)
    throughput_JA = speed_KA[kind_J]
    duration_s_J = 60.0 * 10.0 ** random.uniform(1.5, 4.0, size=jobs)  # the published range, on the fastest type
    each = devices // len(names) if devices else max(1, jobs // JOBS_PER_DEVICE)
    return Instance(
        accelerators=names,
        devices_A=np.full(len(names), each),
        kinds=kinds,
        kind_J=kind_J,
        throughput_JA=throughput_JA,
        weight_J=random.choice(WEIGHTS, size=jobs),
        steps_left_J=throughput_JA.max(axis=1) * duration_s_J,
        elapsed_s_J=np.zeros(jobs),
        equal_share_s_J=np.zeros(jobs),
        usd_per_hour_A=np.array([USD_PER_HOUR[name] for name in names]),
    )


def with_history(jobs: int, seed: int) -> Instance:
    """The same, with up to half of each job done, a little faster or slower than with an equal share."""
    fresh = real_table(jobs, seed)
    random = np.random.default_rng([seed, jobs, 1])
    alone_s_J = fresh.steps_left_J / fresh.equal_share_of(fresh.throughput_JA)
    done_J = random.uniform(0.0, 0.5, size=jobs)
    equal_share_s_J = done_J * alone_s_J
    return replace(
        fresh,
        steps_left_J=(1.0 - done_J) * fresh.steps_left_J,
        equal_share_s_J=equal_share_s_J,
        elapsed_s_J=equal_share_s_J * random.uniform(0.7, 1.1, size=jobs),
    )


def with_waiting(jobs: int, seed: int) -> Instance:
    """The same, with no step done, after a wait of up to a tenth of the time alone."""
    fresh = real_table(jobs, seed)
    random = np.random.default_rng([seed, jobs, 2])
    alone_s_J = fresh.steps_left_J / fresh.equal_share_of(fresh.throughput_JA)
    return replace(fresh, elapsed_s_J=alone_s_J * random.uniform(0.0, 0.1, size=jobs))


def one_job_more_or_less(jobs: int, seed: int) -> Instance:
    """An instance of which all but one job were answered before (odd seeds), or one job more (even seeds)."""
    larger = real_table(jobs + 1, seed)
    gone = np.random.default_rng([seed, jobs, 3]).integers(jobs + 1)
    smaller = larger.where(np.arange(jobs + 1) != gone)
    return replace(larger, before=smaller) if seed % 2 else replace(smaller, before=larger)


def all_distinct(jobs: int, seed: int, types: int = 8) -> Instance:
    """Every job with speeds of its own on eight types: nothing to collapse."""
    random = np.random.default_rng([seed, jobs, 4])
    generation_A = np.linspace(1.0, 4.0, types)
    throughput_JA = generation_A * random.lognormal(0.0, 0.5, size=(jobs, types))
    return Instance(
        accelerators=tuple(f"type{a}" for a in range(types)),
        devices_A=np.full(types, max(1, jobs // JOBS_PER_DEVICE)),
        kinds=("distinct",),
        kind_J=np.zeros(jobs, dtype=np.int64),
        throughput_JA=throughput_JA,
        weight_J=np.ones(jobs),
        steps_left_J=np.full(jobs, 1e6),
        elapsed_s_J=np.zeros(jobs),
        equal_share_s_J=np.zeros(jobs),
        usd_per_hour_A=np.ones(types),
    )


def of_many_lengths(jobs: int, seed: int) -> Instance:
    """The same on twelve types, with jobs as short and long as published traces draw them."""
    instance = all_distinct(jobs, seed, types=12)
    duration_s_J = 60.0 * 10.0 ** np.random.default_rng([seed, jobs, 5]).uniform(1.5, 4.0, size=jobs)
    return replace(instance, steps_left_J=instance.throughput_JA.max(axis=1) * duration_s_J)


def all_pairs(jobs: int, seed: int) -> Instance:
    """Jobs of the real table, each of which may share a device with each other one."""
    return replace(real_table(jobs, seed), pairs=True)


@cache
def _real_speeds() -> tuple[tuple[str, ...], tuple[str, ...], Floats]:
    table = load_throughputs("simulation")
    speeds = [[table.get(kind, name) or 0.0 for name in table.accelerators] for kind in table.job_types]
    return table.job_types, table.accelerators, np.array(speeds)


def _known(instance: Instance, jobs: Sequence[Job]) -> Configurations:
    """Each job alone on each type and, where wanted, each pair on each type."""
    if len(instance.kinds) > 1:
        return ways_to_run(jobs, instance.accelerators, load_throughputs("simulation"), pairs=instance.pairs)
    return Configurations.of_matrix(instance.throughput_JA, np.ones(len(jobs), dtype=np.int64))
