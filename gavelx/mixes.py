"""Mixes: devices of several accelerator types in one job, as fast as the best plan of its parts over them.

A job of P parts (logical workers) runs some of them on each device, more on a faster one, and a step is over when
the last device is (:mod:`gavelx.part_plans`). A device of type i in a mix of n devices runs C_i = T_i(n) P / n
parts/s, with T_i(n) the steps/s of a gang of n devices of that type: so a mix exchanges gradients as slowly as a
gang of as many devices. On one type this is the speed of :func:`gavelx.sizes.speed`. Once leases on a mix have
measured its speed, that is gone by.

Source: heterogeneous plans of EasyScale (SC'23), section 3.4. Our deviation: which mixes are looked at is bounded.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.measurements import Way
from gavelx.part_plans import DeviceType, PartPlan, best_plan
from gavelx.sizes import speed
from gavelx.throughputs import Setting, Throughputs

Mix = tuple[tuple[str, int], ...]
"""Accelerator types, each with a number of devices."""
MOST = 48
"""Mixes of a job: those whose plans waste least of their devices' speed."""
TYPES_MOST = 3
"""Of so many types, the fastest ones of a job, mixes are made."""


def speed_on(
    job: Job, mix: Mix, batch: int, throughputs: Throughputs, *, consolidated: bool = True
) -> float | None:
    """Steps/s of a job on these devices together; 0.0 if it cannot run on one of the types, None if unknown.

    On one type it is :func:`gavelx.sizes.speed`; on several, what leases measured, or else that of the plan.
    """
    if len(mix) == 1:
        return speed(job, *mix[0], batch, throughputs, consolidated=consolidated)
    if throughputs.mixed and (measured := throughputs.mixed.get(setting_of(job, mix))) is not None:
        return measured
    per_part = _parts_per_s(job, [name for name, _ in mix], sum(count for _, count in mix), throughputs)
    if None in per_part:
        return None
    if 0.0 in per_part:
        return 0.0
    plan = plan_of(job, mix, throughputs)
    assert plan is not None
    return 1.0 / plan.step_s


def setting_of(job: Job, mix: Mix) -> Setting:
    """The job on a mix, as tables and measurements call it: on a type such as ``k80=2+v100=1/16``, in 16 parts."""
    types = "+".join(f"{name}={count}" for name, count in sorted(mix))
    devices = sum(count for _, count in mix)
    return Setting(job.job_type, f"{types}/{_parts(job)}", devices, consolidated=False)


def is_mix(way: Way) -> bool:
    """Whether a measurement is of a mix; no accelerator type has such a name."""
    return "=" in way.accelerator


def plan_of(job: Job, mix: Mix, throughputs: Throughputs) -> PartPlan | None:
    """How many parts each device of a mix runs; None where a speed is not known, or 0."""
    per_part = _parts_per_s(job, [name for name, _ in mix], sum(count for _, count in mix), throughputs)
    types = [DeviceType(count, each) for (_, count), each in zip(mix, per_part, strict=True) if each]
    return best_plan(types, _parts(job)) if len(types) == len(mix) else None


def parts_of_devices(job: Job, mix: Mix, types: Sequence[str], throughputs: Throughputs) -> tuple[int, ...]:
    """How many parts each of these devices runs, by their types in the order of devices: at least one, and all.

    Each has at most as many as the plan says, the first ones first. Where a speed is not known, all have about as
    many.
    """
    plan = plan_of(job, mix, throughputs)
    left = _parts(job) - len(types)
    assert left >= 0, (mix, types)
    even = -(-_parts(job) // len(types))
    most = {name: even for name, _ in mix}
    if plan is not None:
        most = {name: each for (name, _), each in zip(mix, plan.parts_each, strict=True)}
    found = list[int]()
    for name in types:
        more = min(left, max(0, most[name] - 1))
        found.append(1 + more)
        left -= more
    assert left == 0, (mix, types, found)
    return tuple(found)


def mixes(
    job: Job, accelerators: Sequence[str], throughputs: Throughputs, devices_A: Sequence[int]
) -> tuple[Mix, ...]:
    """The mixes in which a job may run, where there are so many devices of each type; none if it may in none.

    Of each type it takes 1, 2, 4, ... devices, or all that there are. Those are left out in which a device runs
    no part, or that are no faster than one with no more devices of any type, be it of a single type; of the others
    :data:`MOST` are kept. A type where the speed of the job's own size is not known is in none of these; but the
    table may tell speeds of mixes (``Throughputs.mixed``), and such are there on any types.
    """
    if (elastic := job.elastic) is None or not elastic.mixed:
        return ()
    own = {name: throughputs.get(job.job_type, name, job.scale_factor) for name in accelerators}
    types = [a for a, name in enumerate(accelerators) if own[name] and devices_A[a]]
    types = sorted(sorted(types, key=lambda a: -(own[accelerators[a]] or 0.0))[:TYPES_MOST])
    names = [accelerators[a] for a in types]
    there = tuple(min(int(devices_A[a]), elastic.most) for a in types)
    sizes = range(elastic.least, min(elastic.most, sum(there)) + 1)
    speeds = tuple(tuple(_parts_per_s(job, names, n, throughputs)) for n in sizes)
    found = _best_mixes(_parts(job), elastic.least, there, speeds)
    planned = [
        tuple((name, count) for name, count in zip(names, counts, strict=True) if count) for counts in found
    ]
    told = _told(job, dict(zip(accelerators, devices_A, strict=True)), throughputs)
    return tuple(dict.fromkeys([*planned, *told]))


def _told(job: Job, devices: Mapping[str, int], throughputs: Throughputs) -> Iterable[Mix]:
    """The mixes of which a table tells the speed, where there are so many devices of each type."""
    assert job.elastic is not None
    for way, steps_per_s in throughputs.mixed.items():
        text, _, parts = way.accelerator.rpartition("/")
        if way.job_type != job.job_type or parts != str(_parts(job)) or not steps_per_s:
            continue
        uses = {name: int(count) for name, _, count in (use.rpartition("=") for use in text.split("+"))}
        if job.elastic.least <= sum(uses.values()) <= job.elastic.most and all(
            count <= devices.get(name, 0) for name, count in uses.items()
        ):
            yield tuple((name, uses[name]) for name in devices if name in uses)


Counts = tuple[int, ...]


@lru_cache(maxsize=1024)
def _best_mixes(
    parts: int, least: int, devices: Counts, speeds: tuple[tuple[float | None, ...], ...]
) -> tuple[Counts, ...]:
    """Devices of each type in each mix, where a device runs ``speeds[n - least]`` parts/s in a gang of n."""
    plans = dict[Counts, PartPlan]()
    for counts in _to_look_at(devices, most=least + len(speeds) - 1):
        per_part = speeds[sum(counts) - least] if sum(counts) >= least else ()
        types = [DeviceType(n, each or 0.0) for n, each in zip(counts, per_part, strict=False) if n and each]
        if len(types) < np.count_nonzero(counts):
            continue
        plan = best_plan(types, parts)
        if plan is not None and all(plan.devices):
            plans[counts] = plan
    every_P, speed_P = np.array(list(plans), dtype=np.int64), np.array([plan.perf for plan in plans.values()])
    mixed = [
        (plan.wasted_part, counts)
        for counts, plan in plans.items()
        if np.count_nonzero(counts) > 1 and not _is_dominated(counts, plan.perf, every_P, speed_P)
    ]
    return tuple(sorted(counts for _, counts in sorted(mixed)[:MOST]))


def _to_look_at(devices: Counts, most: int) -> Iterable[Counts]:
    """Doubled numbers of devices of each type, or all that there are: of one of them, and of several."""
    doubled = [[n for k in range(there.bit_length()) if (n := 1 << k) < there] for there in devices]
    for counts in product(*([0, *each, there] for each, there in zip(doubled, devices, strict=True))):
        if 0 < sum(counts) <= most:
            yield counts


def _is_dominated(counts: Counts, perf: float, every_P: NDArray[np.int64], speed_P: NDArray[np.float64]) -> bool:
    """Whether other devices, no more of any type, are as fast."""
    no_more_P = (every_P <= counts).all(axis=1) & (every_P != counts).any(axis=1)
    return bool((speed_P[no_more_P] >= perf).any())


def _parts(job: Job) -> int:
    assert job.elastic is not None
    return job.elastic.parts_of(job.scale_factor)


def _parts_per_s(job: Job, names: Sequence[str], devices: int, throughputs: Throughputs) -> list[float | None]:
    """Parts/s of a device of each type in a gang of so many; several types are always on several servers."""
    found = list[float | None]()
    for name in names:
        together, apart = (
            throughputs.get(job.job_type, name, devices, consolidated=here) for here in (True, False)
        )
        known = together if apart is None or together is None else min(together, apart)
        found.append(None if known is None else known * _parts(job) / devices)
    return found
