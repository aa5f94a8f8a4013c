"""The rules named ``published`` give the published simulator's runs, also those of which there is no recording.

``literally.py`` is a second reading of those rules, one by one; the sources are named there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.files.price_tables import load_prices
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.published import RULES
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import draw_jobs, random_jobs
from tests.published import literally
from tests.published.literally import POLICIES, TYPES

TABLE = load_throughputs("simulation")
PRICES = ({"v100": 1.6, "p100": 1.35, "k80": 0.9}, {"v100": 0.74, "p100": 0.43, "k80": 0.135})
SMALL_NET = Job(0, "ResNet-18 (batch size 64)", 300_000.0)


@dataclass(frozen=True)
class Case:
    """All that a run depends on."""

    policy: str
    jobs: tuple[Job, ...]
    device_counts: Mapping[str, int]
    devices_per_server: int = 1
    usd_per_hour: Mapping[str, float] = field(default_factory=lambda: PRICES[0])
    seed: int = 0
    round_s: float = 360.0
    window: slice | None = None


def drawn(seed: int) -> Case:
    """Any cluster and queue within the rules: servers are full, jobs can run, and with gandiva all have room."""
    chance = Random(seed)
    policy = ("isolated", *POLICIES)[seed % 5]
    gangs = policy != "allox" and chance.random() < 0.5
    server = chance.choice((1, 2, 4)) if gangs else 1
    device_counts = {name: server * chance.randint(0, 8 // server) for name in chance.sample(TYPES, 3)}
    device_counts[chance.choice(TYPES)] = 8 if gangs else chance.randint(1, 4)
    if chance.random() < 0.5:  # a type may be absent or have no devices
        device_counts = {name: count for name, count in device_counts.items() if count}
    jobs = drawn_jobs(chance, device_counts, gangs)
    if policy == "gandiva":
        wanted = np.cumsum([job.scale_factor for job in jobs])
        jobs = jobs[: int(np.sum(wanted <= sum(device_counts.values())))]
    window = slice(*sorted(chance.sample(range(len(jobs) + 1), 2))) if chance.random() < 0.3 else None
    round_s = chance.choice((120.0, 360.0, 360.0, 360.0, 1200.0, 7200.0))
    prices = chance.choice(PRICES)
    return Case(policy, jobs, device_counts, server, prices, chance.randrange(1000), round_s, window)


def drawn_jobs(chance: Random, device_counts: Mapping[str, int], gangs: bool) -> tuple[Job, ...]:
    """Up to 30 jobs: long or short, some of them equal, the first at the start or later."""
    rate = chance.choice((0.0, 0.5, 2.0, 5.0, 20.0))
    priorities = chance.random() < 0.5
    seed = chance.randrange(10**6)
    queue = draw_jobs(TABLE, arrival_rate_per_hour=rate, seed=seed, multi_gpu=gangs, multi_priority=priorities)
    jobs = list(islice((job for job in queue if can_run(job, device_counts)), chance.randint(1, 30)))
    kinds = chance.choice((3, len(jobs), len(jobs)))
    part = chance.choice((0.01, 0.1, 0.5))
    late_s = chance.choice((0.0, 0.0, 1000.0, 5000.0))
    return tuple(
        replace(
            jobs[i % kinds],
            id=i,
            total_steps=max(1.0, part * jobs[i % kinds].total_steps),
            weight=job.weight,
            arrival_s=job.arrival_s + late_s,
        )
        for i, job in enumerate(jobs)
    )


def can_run(job: Job, device_counts: Mapping[str, int]) -> bool:
    room = (name for name, count in device_counts.items() if count >= job.scale_factor)
    return any(TABLE.get(job.job_type, name, job.scale_factor) for name in room)


def ours(case: Case) -> Result:
    cluster = Cluster.of(case.device_counts, case.devices_per_server)
    prices = ",".join(f"{name}={usd}" for name, usd in case.usd_per_hour.items())
    return simulate(
        load_policy(case.policy),
        case.jobs,
        cluster,
        TABLE,
        load_prices(prices, cluster.accelerators),
        rules=replace(RULES["published"], seed=case.seed, round_s=case.round_s),
        window=case.window,
    )


def check(case: Case) -> Result:
    """Every job completes at the published instant, and makespan, cost and utilization are the published ones."""
    result = ours(case)
    run = literally.simulate(
        case.policy,
        case.jobs,
        case.device_counts,
        TABLE,
        usd_per_hour=case.usd_per_hour,
        seed=case.seed,
        round_s=case.round_s,
        window=case.window,
    )
    jct_s = zip(result.jobs, result.jct_s_J.tolist(), strict=True)
    assert {job.id: s for job, s in jct_s if np.isfinite(s)} == pytest.approx(run.completion_s, rel=1e-6)
    leases = result.leases
    device_s_L = leases.billed_s_L * leases.devices_L
    usd = float((device_s_L * result.usd_per_hour_A[leases.accelerator_L]).sum() / 3600.0)
    seen = (result.end_s, usd, float(device_s_L.sum()))
    assert seen == pytest.approx((run.now_s, run.usd, run.busy_device_s), rel=1e-6)
    return result


@pytest.mark.parametrize("seed", range(60))
def test_any_run_is_the_published_one(seed: int) -> None:
    check(drawn(seed))


def test_the_idle_gap_before_a_round_counts_as_time_received() -> None:
    """After the first job the device is idle; whoever has the first round after that has had more than a round."""
    arrivals = ((0.0, 3_000.0), (5_000.0, 200_000.0), (5_000.0, 200_000.0))
    jobs = tuple(
        replace(SMALL_NET, id=i, arrival_s=arrival_s, total_steps=steps)
        for i, (arrival_s, steps) in enumerate(arrivals)
    )
    result = check(Case("isolated", jobs, {"v100": 1}))
    assert result.jct_s_J[2] == pytest.approx(11_900.85, abs=0.01)


def test_times_that_are_equal_parts_of_the_sum_are_equal() -> None:
    """They may differ in the last bit before they are divided by it; then what is owed decides."""
    jobs = random_jobs(3, TABLE, seed=177)
    check(Case("isolated", jobs, {"v100": 1, "p100": 1, "k80": 1}, seed=177))


def test_gandiva_gives_a_gang_parts_of_types_on_which_it_cannot_run() -> None:
    """The gang of eight fits on the V100s alone; its parts of the other types still take up some of its time."""
    jobs = (SMALL_NET, replace(SMALL_NET, id=1, scale_factor=8))
    check(Case("gandiva", jobs, {"v100": 8, "p100": 6, "k80": 6}))


def test_shares_of_wide_and_narrow_jobs_are_added_in_one_order() -> None:
    """Else they differ in the last bit, and ties are none. The cluster is named in the published order here."""
    case = drawn(513)
    check(replace(case, device_counts={name: case.device_counts[name] for name in TYPES}))


def test_types_are_served_in_the_published_order_however_they_are_named() -> None:
    jobs = random_jobs(5, TABLE, seed=0)
    case = Case("allox", jobs, {"k80": 1, "p100": 1, "v100": 1})
    as_named = check(case)
    otherwise = check(replace(case, device_counts={"v100": 1, "p100": 1, "k80": 1}))
    np.testing.assert_allclose(as_named.jct_s_J, otherwise.jct_s_J, rtol=1e-12)
