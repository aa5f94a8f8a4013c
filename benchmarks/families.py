"""The benchmarks: which formulation against which policy, at which sizes, and what we aim at.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import instances, published
from benchmarks.instances import Instance
from benchmarks.sides import (
    Answer,
    Side,
    by_policy,
    in_a_process_of_its_own,
    of_certificate,
    of_throughput,
)

Floats = NDArray[np.float64]
Size = tuple[int, ...]


@dataclass(frozen=True)
class Benchmark:
    """One comparison.

    ``against(size)`` is the size that the published side solves where it cannot be asked for the full one.
    ``objective(instance, value)`` recomputes from an answer what both sides make large or small. ``targets`` are
    ratios, published seconds over ours; ``gap_max`` and ``peak_mb_max`` further promises of ours. Where the other
    side is not ``exact`` its objective is reported and need not agree. ``speed`` is what a job would choose its
    type by if there were devices for all, None where it is not asked whether capacity binds.
    """

    name: str
    says: str
    sizes: tuple[Size, ...]
    warm: Size
    make: Callable[[Size, int], Instance]
    published: Side
    ours: Side
    objective: Callable[[Instance, Any], float]
    targets: Mapping[Size, float] = field(default_factory=dict)
    against: Callable[[Size], Size] = lambda size: size
    gap_max: float | None = None
    peak_mb_max: float | None = None
    exact: bool = True
    speed: Callable[[Instance], Floats] | None = attrgetter("throughput_JA")


def level(instance: Instance, share_JA: Floats) -> float:
    """The least normalised throughput: min_j e_j / (p_j e_j(proportional))."""
    return level_of_throughput(instance, (instance.throughput_JA * share_JA).sum(axis=1))


def level_of_throughput(instance: Instance, throughput_J: Floats) -> float:
    """The same from effective throughputs."""
    return float((throughput_J / (instance.weight_J * instance.proportional_J)).min())


def ratio(instance: Instance, share_JA: Floats) -> float:
    """The largest finish-time ratio: max_j (a_j + r_j/e_j) / (D_j + r_j/e_j(equal share))."""
    return ratio_of_throughput(instance, (instance.throughput_JA * share_JA).sum(axis=1))


def ratio_of_throughput(instance: Instance, throughput_J: Floats) -> float:
    """The same from effective throughputs."""
    return _largest_ratio(instance, throughput_J, instance.throughput_JA, instance.equal_share_s_J)


def cost_ratio(instance: Instance, share_JA: Floats) -> float:
    """The same with speeds divided by prices and nothing spent so far (Algorithm 5.1)."""
    rate_JA = per_dollar(instance)
    return _largest_ratio(instance, (rate_JA * share_JA).sum(axis=1), rate_JA, np.zeros(len(rate_JA)))


def makespan(instance: Instance, share_JA: Floats) -> float:
    """The time until the last job is complete: max_j r_j / e_j."""
    with np.errstate(divide="ignore"):
        return float((instance.steps_left_J / (instance.throughput_JA * share_JA).sum(axis=1)).max())


def per_dollar(instance: Instance) -> Floats:
    """Steps/s per dollar/hour, as Algorithm 5.1 compares types."""
    return instance.throughput_JA / instance.usd_per_hour_A


def _largest_ratio(instance: Instance, rate_J: Floats, rate_JA: Floats, past_J: Floats) -> float:
    with np.errstate(divide="ignore"):
        left_J = instance.steps_left_J / rate_J
    return float(((instance.elapsed_s_J + left_J) / published.alone(instance, rate_JA, past_J)).max())


def total(instance: Instance, value: float) -> float:
    """The sum of completion times that a plan states."""
    return float(value)


def _real(size: Size, seed: int) -> Instance:
    return instances.real_table(size[0], seed)


MAX_MIN_ECOS = Side("cvxpy, ECOS", published.least_attained_service)
MAX_MIN = by_policy("max_min_fairness")

BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        name="least_attained_service",
        says="max-min fairness on the real table",
        sizes=((2048,), (8192,), (32768,)),
        warm=(64,),
        make=_real,
        published=MAX_MIN_ECOS,
        ours=MAX_MIN,
        objective=level,
        targets={(2048,): 10.0, (8192,): 25.0, (32768,): 100.0},
    ),
    Benchmark(
        name="million",
        says="max-min fairness, a million jobs of the real table against cvxpy with ECOS on 8,192",
        sizes=((1_000_000,),),
        warm=(64,),
        make=_real,
        published=MAX_MIN_ECOS,
        ours=MAX_MIN,
        objective=level,
        targets={(1_000_000,): 1.0},
        against=lambda size: (min(8192, size[0]),),
        gap_max=1e-8,
    ),
    Benchmark(
        name="finish_time_fairness",
        says="finish-time fairness, one cvxpy expression per job",
        sizes=((256,), (1024,)),
        warm=(16,),
        make=lambda size, seed: instances.with_history(size[0], seed),
        published=Side("cvxpy per job, ECOS", published.finish_time_fairness),
        ours=by_policy("finish_time_fairness"),
        objective=ratio,
        targets={(256,): 50.0, (1024,): 100.0},
    ),
    Benchmark(
        name="cost_fairness",
        says="shared cloud cost fairness as printed (Algorithm 5.1), one cvxpy expression per job",
        sizes=((256,), (1024,)),
        warm=(16,),
        make=lambda size, seed: instances.with_waiting(size[0], seed),
        published=Side("cvxpy per job, ECOS", published.shared_cloud_cost_fairness),
        ours=by_policy("shared_cloud_cost_fairness_alg51"),
        objective=cost_ratio,
        speed=per_dollar,
        targets={(256,): 50.0, (1024,): 100.0},
    ),
    Benchmark(
        name="all_distinct",
        says="max-min fairness, a million jobs all distinct on 8 types against the full program on 20,000",
        sizes=((1_000_000,),),
        warm=(200,),
        make=lambda size, seed: instances.all_distinct(size[0], seed),
        published=Side("HiGHS interior point", published.full_linear_program),
        ours=in_a_process_of_its_own("max_min_fairness"),
        objective=level,
        targets={(1_000_000,): 1.0},
        against=lambda size: (min(20_000, size[0]),),
        gap_max=1e-8,
        peak_mb_max=1500.0,
    ),
    Benchmark(
        name="makespan",
        says="makespan, then max-min fairness, all distinct on 12 types, against the first level alone",
        sizes=((256,), (512,), (1024,), (2048,)),
        warm=(64,),
        make=lambda size, seed: instances.of_many_lengths(size[0], seed),
        published=Side("HiGHS, first level", published.makespan),
        ours=by_policy("makespan"),
        objective=makespan,
        targets={(2048,): 1 / 3},
        gap_max=1e-8,
        speed=None,  # the longest job may decide, and the rest is for the others
    ),
    Benchmark(
        name="one_job_changes",
        says="max-min fairness when one job joins or leaves",
        sizes=((2048,),),
        warm=(64,),
        make=lambda size, seed: instances.one_job_more_or_less(size[0], seed),
        published=MAX_MIN_ECOS,
        ours=MAX_MIN,
        objective=level,
        targets={(2048,): 10.0},
    ),
    Benchmark(
        name="allox",
        says="AlloX, jobs x machines, against the jobs x (machines times positions) matrix",
        sizes=((200, 36), (400, 36), (400, 108)),
        warm=(20, 6),
        make=lambda size, seed: instances.real_table(size[0], seed, devices=size[1]),
        published=Side("scipy on the matrix", published.allox, read=lambda instance, value: Answer(value)),
        ours=by_policy("allox", of_certificate),
        objective=total,
        targets={(200, 36): 50.0, (400, 36): 250.0, (400, 108): 1000.0},
        speed=None,
    ),
    Benchmark(
        name="distinct_pairs",
        says="packed finish-time fairness over every pair of jobs that all differ, one cvxpy expression per job",
        sizes=((64,), (128,), (256,)),
        warm=(16,),
        make=lambda size, seed: replace(instances.with_history(size[0], seed), pairs=True),
        published=Side(
            "cvxpy per job, ECOS",
            published.packed_finish_time_fairness,
            ready=lambda instance: (instance, instances.snapshot_of(instance)),
            read=lambda instance, throughput_J: Answer(throughput_J),
        ),
        ours=by_policy("packed(finish_time_fairness)", of_throughput),
        objective=ratio_of_throughput,
        speed=None,
    ),
    Benchmark(
        name="all_pairs",
        says="packed max-min fairness over every pair, beside the same in 8 parts",
        sizes=((2048,),),
        warm=(48,),
        make=lambda size, seed: instances.all_pairs(size[0], seed),
        published=by_policy("partitioned(packed(max_min_fairness), 8)", of_throughput),
        ours=by_policy("packed(max_min_fairness)", of_throughput),
        objective=level_of_throughput,
        exact=False,
        speed=None,
    ),
)
