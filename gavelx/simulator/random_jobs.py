"""Random jobs, drawn as the published Gavel experiments draw them.

The same seed gives the same jobs as theirs, to the last bit: every draw comes from the same generator in the same
order. Jobs come from one generator (seed + 2) and the gaps between them from another (seed + 3), so that job k is
the same job at any arrival rate.

========================  =================================================================================
scale factor              1, 2, 4, 8 with chances 0.7, 0.1, 0.15, 0.05; drawn, then ignored, without multi_gpu
duration on the v100      60 * 10**u s: u uniform over 1.5..3 with chance 0.8, else over 3..4 (32 min to 7 days)
job type                  uniform over JOB_TYPES; drawn again while it cannot run on several devices but must
priority weight           5 with chance 0.2, else 1; not drawn without multi_priority
total steps               duration x steps/s on the v100: fractional, not rounded
gap to the next job       exponential
========================  =================================================================================

Source: D. Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads (OSDI
2020), section 7.1, and the code published with it.
"""

import math
from collections.abc import Iterator
from itertools import count, islice
from random import Random
from typing import NamedTuple

from gavelx.errors import OptionError, WorkloadError
from gavelx.jobs import Job
from gavelx.throughputs import Throughputs

REFERENCE = "v100"
"""The accelerator type on which a job takes its drawn duration."""

DISTRIBUTABLE = tuple(
    f"{model} (batch size {batch_size})"
    for model, batch_sizes in (
        ("ResNet-18", (16, 32, 64, 128, 256)),
        ("ResNet-50", (16, 32, 64, 128)),
        ("Transformer", (16, 32, 64, 128, 256)),
        ("LM", (5, 10, 20, 40, 80)),
    )
    for batch_size in batch_sizes
)
ONE_DEVICE = (*(f"Recommendation (batch size {n})" for n in (512, 1024, 2048, 4096, 8192)), "A3C", "CycleGAN")
JOB_TYPES = DISTRIBUTABLE + ONE_DEVICE
"""The order matters: a draw picks an index."""
WIDTHS = (1, 2, 4, 8)


class JobTypes(NamedTuple):
    """Job types to draw from, those of them that run on several devices, and where a job takes its duration."""

    names: tuple[str, ...]
    distributable: tuple[str, ...]
    reference: str


PUBLISHED = JobTypes(JOB_TYPES, DISTRIBUTABLE, REFERENCE)


def random_jobs(
    job_count: int,
    throughputs: Throughputs,
    *,
    arrival_rate_per_hour: float = 0.0,
    seed: int = 0,
    multi_gpu: bool = False,
    multi_priority: bool = False,
    types: JobTypes = PUBLISHED,
) -> tuple[Job, ...]:
    """Draw so many jobs; with a rate of 0 (the default) all arrive at the start.

    ``throughputs`` must know every job type on the reference: use the ``simulation`` table for the published jobs.
    ``duration_s`` of each job is its drawn duration, on the reference (v100 for the published jobs).

    Raises :class:`OptionError` for a count below 1 or a rate that is none, :class:`WorkloadError` when the table
    does not know a drawn job type.
    """
    if job_count < 1:
        raise OptionError(f"{job_count} jobs", where="--jobs", expected="at least 1")
    jobs = draw_jobs(
        throughputs,
        arrival_rate_per_hour=arrival_rate_per_hour,
        seed=seed,
        multi_gpu=multi_gpu,
        multi_priority=multi_priority,
        types=types,
    )
    return tuple(islice(jobs, job_count))


def draw_jobs(
    throughputs: Throughputs,
    *,
    arrival_rate_per_hour: float = 0.0,
    seed: int = 0,
    multi_gpu: bool = False,
    multi_priority: bool = False,
    types: JobTypes = PUBLISHED,
) -> Iterator[Job]:
    """The same jobs without end, drawn one by one; what is raised is raised when the first is."""
    if arrival_rate_per_hour != 0 and not 1e-9 <= arrival_rate_per_hour <= 1e9:
        expected = "jobs per hour: 0, or a number from 1e-9 to 1e9"
        raise OptionError(f"{arrival_rate_per_hour!r}", where="--arrival-rate", expected=expected)
    gap_mean_s = 3600.0 / arrival_rate_per_hour if arrival_rate_per_hour > 0 else 0.0
    job_chance, gap_chance = Random(seed + 2), Random(seed + 3)
    arrival_s = 0.0
    for job_id in count():
        yield _draw(
            job_chance,
            throughputs,
            job_id=job_id,
            arrival_s=arrival_s,
            multi_gpu=multi_gpu,
            multi_priority=multi_priority,
            types=types,
        )
        if gap_mean_s > 0:
            # published experiments give the mean gap in seconds: one over it is their rate to the last bit
            arrival_s += gap_chance.expovariate(1.0 / gap_mean_s)


def _draw(
    chance: Random,
    throughputs: Throughputs,
    *,
    job_id: int,
    arrival_s: float,
    multi_gpu: bool,
    multi_priority: bool,
    types: JobTypes,
) -> Job:
    scale_factor = _scale_factor(chance)
    if not (multi_gpu and types.distributable):
        scale_factor = 1
    duration_s = _duration_s(chance)
    job_type = chance.choice(types.names)
    while scale_factor > 1 and job_type not in types.distributable:
        job_type = chance.choice(types.names)
    weight = 5.0 if multi_priority and chance.uniform(0.0, 1.0) <= 0.2 else 1.0
    speed = throughputs.get(job_type, types.reference, scale_factor)
    if not speed:
        raise WorkloadError(
            f"no speed of {job_type!r} on {scale_factor} {types.reference}",
            where=f"throughputs {throughputs.name}",
            expected="every job type that random jobs may have",
            hint="--table simulation",
        )
    return Job(
        id=job_id,
        job_type=job_type,
        total_steps=duration_s * speed,
        scale_factor=scale_factor,
        weight=weight,
        arrival_s=arrival_s,
        duration_s=duration_s,
    )


def _scale_factor(chance: Random) -> int:
    draw = chance.uniform(0.0, 1.0)
    if draw < 0.7:
        return 1
    if draw <= 0.8:
        return 2
    return 4 if draw <= 0.95 else 8


def _duration_s(chance: Random) -> float:
    low, high = (3.0, 4.0) if chance.random() >= 0.8 else (1.5, 3.0)
    return 60.0 * math.pow(10.0, chance.uniform(low, high))
