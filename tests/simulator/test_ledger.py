"""The ledger by itself, and what the leases of a run add up to.

First the books: each thing that must not happen is written down, and refused. Then small random workloads under
both sets of rules, checked from nothing but the leases, the jobs and their true speeds.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster, Server
from gavelx.configuration import Configuration
from gavelx.jobs import ARRIVAL_S_MAX, Job
from gavelx.mechanism.commands import Device, Lease
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.published import RULES
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.ledger import Ledger, LedgerError, usd_between
from gavelx.throughputs import Setting, Throughputs

POLICIES = ("fifo", "isolated", "max_min_fairness")
TYPES = ("v100", "p100", "k80")
USD_PER_HOUR = {"v100": 1.6, "p100": 1.35, "k80": 0.9}
SCALES = (1, 2, 4)
EPSILON_S = 1e-6

under_all_rules = pytest.mark.parametrize("rules", sorted(RULES))
for_each_policy = pytest.mark.parametrize("policy", POLICIES)


class Workload(NamedTuple):
    """Jobs, where they run, and how fast; every job can run somewhere."""

    jobs: tuple[Job, ...]
    cluster: Cluster
    throughputs: Throughputs


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """One seed fixes the whole workload: the numbers then look like numbers, and a failure is one number long."""
    return workload(draw(st.integers(0, 2**32 - 1)))


def workload(seed: int) -> Workload:
    random = np.random.default_rng(seed)
    counts = {
        "v100": int(random.integers(1, 5)),
        "p100": int(random.integers(0, 4)),
        "k80": int(random.integers(0, 6)),
    }
    speeds = random.uniform(0.2, 20.0, (4, len(TYPES)))
    speeds[:, 1:] *= random.random((4, len(TYPES) - 1)) < 0.8  # 0: cannot run there
    isolated = {
        Setting(f"kind {kind}", name, scale): float(speeds[kind, a] * scale**0.8)
        for kind in range(len(speeds))
        for a, name in enumerate(TYPES)
        for scale in SCALES
    }
    widest = max(scale for scale in SCALES if scale <= counts["v100"])
    gaps_s = random.exponential(random.choice([0.0, 300.0, 3000.0]), int(random.integers(1, 16)))
    jobs = tuple(
        Job(
            id=j,
            job_type=f"kind {random.integers(len(speeds))}",
            total_steps=float(random.uniform(1, 20_000)),
            scale_factor=int(min(widest, random.choice(SCALES, p=[0.7, 0.2, 0.1]))),
            weight=float(random.choice([1.0, 5.0])),
            arrival_s=float(arrival_s),
        )
        for j, arrival_s in enumerate(np.cumsum(gaps_s) - gaps_s[0])
    )
    return Workload(jobs, Cluster.of(counts, devices_per_server=2), Throughputs(isolated))


def run(case: Workload, policy: str, rules: str) -> Result:
    return simulate(
        load_policy(policy), case.jobs, case.cluster, case.throughputs, Prices(USD_PER_HOUR), rules=RULES[rules]
    )


@pytest.mark.slow
@under_all_rules
@for_each_policy
@settings(max_examples=25)
@given(case=workloads())
def test_the_books_add_up(policy: str, rules: str, case: Workload) -> None:
    result = run(case, policy, rules)
    check_devices(result)
    check_one_lease_a_job(result)
    check_work(result, case)
    check_money(result)


@under_all_rules
@for_each_policy
@settings(max_examples=5)
@given(case=workloads())
def test_the_same_run_twice_gives_the_same_result(policy: str, rules: str, case: Workload) -> None:
    assert without_stopwatch(run(case, policy, rules)) == without_stopwatch(run(case, policy, rules))


# -- the books themselves -------------------------------------------------------------------------------------

SERVER = Server(0, "v100", 2)
NARROW, OTHER, WIDE = Job(0, "kind 0", 100.0), Job(1, "kind 0", 100.0), Job(2, "kind 0", 100.0, scale_factor=2)


def books() -> Ledger:
    ledger = Ledger(usd_between(Prices({"v100": 3600.0}), ((50.0, Prices({"v100": 7200.0})),)))
    ledger.joined(SERVER)
    return ledger


def lease(lease_id: int, job: Job, *slots: int, shares_with: int | None = None) -> Lease:
    devices = tuple(Device(0, slot) for slot in slots)
    members = (job.id,) if shares_with is None else (job.id, shares_with)
    how = Configuration(tuple(sorted(members)), "v100", len(devices))
    return Lease(lease_id, job.id, how, devices, math.inf, job.total_steps, 0.0)


def test_the_books_count_steps_seconds_and_dollars() -> None:
    ledger = books()
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.goes_on(10.0, 1, 1.0, 100.0)
    ledger.check_credit(40.0, {0: 30.0})
    ledger.ended(110.0, 1, 100.0, 100.0)
    ledger.check_complete({0: 100.0})
    ledger.check_bill(50.0 * 1.0 + 60.0 * 2.0)
    ledger.check_bill_by_type({"v100": 170.0, "k80": 0.0})
    for wrong in ({"v100": 171.0}, {"v100": float("nan")}, {"k80": 1.0}):
        with pytest.raises(LedgerError, match="by the ledger"):
            ledger.check_bill_by_type(wrong)
    assert ledger.device_s == {"v100": 110.0}


def test_a_shared_device_is_paid_for_once() -> None:
    ledger = books()
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.started(10.0, lease(2, OTHER, 0, shares_with=0), OTHER)
    ledger.ended(20.0, 1, 0.0, 0.0)
    ledger.ended(30.0, 2, 0.0, 0.0)
    ledger.check_bill(30.0)


def half_a_gang(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, WIDE, 0), WIDE)


def the_same_device_twice(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.started(0.0, lease(2, OTHER, 0), OTHER)


def a_job_twice(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.started(0.0, lease(2, NARROW, 1), NARROW)


def a_third_on_a_shared_device(ledger: Ledger) -> None:
    for lease_id, job in enumerate((NARROW, OTHER, Job(3, "kind 0", 1.0))):
        ledger.started(0.0, lease(lease_id, job, 0, shares_with=0), job)


def a_device_that_is_not_there(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 2), NARROW)


def a_server_that_is_gone(ledger: Ledger) -> None:
    ledger.lost(0)
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)


def devices_held_on_a_server_that_goes(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.lost(0)


def time_that_goes_back(ledger: Ledger) -> None:
    ledger.started(10.0, lease(1, NARROW, 0), NARROW)
    ledger.ended(9.0, 1, 0.0, 0.0)


def more_credit_than_steps(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.goes_on(0.0, 1, 1.0, 100.0)
    ledger.check_credit(10.0, {0: 11.0})


def more_safe_than_done(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.goes_on(0.0, 1, 1.0, 100.0)
    ledger.ended(10.0, 1, 10.0, 11.0)


def more_busy_than_held(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.goes_on(0.0, 1, 1.0, 100.0)
    ledger.ended(10.0, 1, 11.0, 10.0)


def complete_too_early(ledger: Ledger) -> None:
    ledger.check_complete({0: 100.0})


def complete_and_nobody_knows(ledger: Ledger) -> None:
    ledger.started(0.0, lease(1, NARROW, 0), NARROW)
    ledger.goes_on(0.0, 1, 1.0, 100.0)
    ledger.ended(100.0, 1, 100.0, 100.0)
    ledger.check_complete({})


def a_bill_for_nothing(ledger: Ledger) -> None:
    ledger.check_bill(0.01)


@pytest.mark.parametrize(
    "wrong",
    [
        *(half_a_gang, the_same_device_twice, a_job_twice, a_third_on_a_shared_device, a_device_that_is_not_there),
        *(a_server_that_is_gone, devices_held_on_a_server_that_goes, time_that_goes_back, more_credit_than_steps),
        *(more_safe_than_done, more_busy_than_held, complete_too_early, complete_and_nobody_knows),
        a_bill_for_nothing,
    ],
)
def test_the_books_refuse(wrong: Callable[[Ledger], None]) -> None:
    with pytest.raises(LedgerError):
        wrong(books())


# -- runs -----------------------------------------------------------------------------------------------------


def check_devices(result: Result) -> None:
    """No accelerator type is oversubscribed at any instant; a gang has all its devices or none."""
    leases = result.leases
    for a, devices in enumerate(result.cluster.devices_A):
        mine = leases.accelerator_L == a
        assert peak(leases.start_s_L[mine], leases.end_s_L[mine], leases.devices_L[mine]) <= devices
    scale_L = np.array([result.jobs[j].scale_factor for j in leases.job_L], dtype=int)
    assert (leases.devices_L == scale_L).all()


def check_one_lease_a_job(result: Result) -> None:
    """A job is never in two leases at once, and in none before it arrives."""
    leases = result.leases
    assert (leases.end_s_L >= leases.start_s_L).all()
    for j, job in enumerate(result.jobs):
        mine = leases.job_L == j
        start_s, end_s = leases.start_s_L[mine], leases.end_s_L[mine]
        assert peak(start_s, end_s, np.ones(len(start_s), dtype=int)) <= 1
        assert (start_s >= job.arrival_s - EPSILON_S).all()


def check_work(result: Result, case: Workload) -> None:
    """Every job completes, has worked for just as long as its steps take, and no faster than light."""
    leases = result.leases
    for j, job in enumerate(result.jobs):
        mine = leases.job_L == j
        speed_A = np.array([case.throughputs.get(job.job_type, name, job.scale_factor) or 0.0 for name in TYPES])
        speed_A[result.cluster.devices_A < job.scale_factor] = 0.0
        speed_L = speed_A[leases.accelerator_L[mine]]
        assert (speed_L > 0).all(), f"job {job.id} held devices on which it cannot run"
        assert (leases.busy_s_L[mine] * speed_L).sum() == pytest.approx(job.total_steps, rel=1e-6)
        fastest_s = job.arrival_s + job.total_steps / speed_A.max()
        assert result.completion_s_J[j] >= fastest_s - EPSILON_S
        assert result.completion_s_J[j] == pytest.approx(leases.end_s_L[mine].max(), abs=EPSILON_S)


def check_money(result: Result) -> None:
    """The bill is price x devices x time, summed over leases; nothing is charged but what was held (or a gap)."""
    leases = result.leases
    usd = sum(
        USD_PER_HOUR[TYPES[a]] * devices * billed_s / 3600.0
        for a, devices, billed_s in zip(leases.accelerator_L, leases.devices_L, leases.billed_s_L, strict=True)
    )
    summary = result.summary()
    assert summary["cost_usd"] == pytest.approx(usd, rel=1e-9)
    assert sum(row["cost_usd"] for row in result.per_job()) == pytest.approx(usd, rel=1e-9)
    held_s_L = leases.end_s_L - leases.start_s_L
    assert (leases.busy_s_L <= held_s_L + EPSILON_S).all()
    assert (leases.billed_s_L >= leases.busy_s_L - EPSILON_S).all()
    if result.rules == "default":
        np.testing.assert_allclose(leases.billed_s_L, held_s_L, atol=EPSILON_S)
        assert summary["utilization"] <= 1.0 + 1e-9


def peak(start_s: np.ndarray, end_s: np.ndarray, amount: np.ndarray) -> int:
    """The largest amount held at one time; what ends at an instant is free for what starts at it."""
    time_s = np.concatenate([end_s - EPSILON_S, start_s])
    change = np.concatenate([-amount, amount])[np.lexsort([np.concatenate([-amount, amount]), time_s])]
    return int(np.cumsum(change).max(initial=0))


def without_stopwatch(result: Result) -> dict[str, Any]:
    return {key: value for key, value in result.to_json().items() if not key.endswith("_seconds")}


@pytest.mark.parametrize("steps_per_second", [1e6, 1e9, 1e15])
def test_a_job_that_is_shorter_than_the_clock_can_tell_is_complete(steps_per_second: float) -> None:
    """At 5,000,000 s the clock goes on by a nanosecond at least, in which such a job does thousands of steps."""
    throughputs = Throughputs({Setting("a", "v100", 1): steps_per_second})
    jobs = [Job(0, "a", 7.0, arrival_s=5e6 + 0.7), Job(1, "a", 0.01, arrival_s=5e6 + 0.7)]
    result = simulate(load_policy("max_min_fairness"), jobs, Cluster.parse("v100=1"), throughputs)
    assert result.summary()["jobs_completed"] == 2


@pytest.mark.parametrize("arrival_s", [5e6, 1e10, 1e11, ARRIVAL_S_MAX])
def test_the_books_are_as_coarse_as_the_clock(arrival_s: float) -> None:
    throughputs = Throughputs({Setting("a", "v100", 1): 1.0})
    jobs = [Job(n, "a", steps, arrival_s=arrival_s) for n, steps in enumerate((0.03, 0.7, 4.274))]
    result = simulate(load_policy("max_min_fairness"), jobs, Cluster.parse("v100=2"), throughputs)
    assert result.summary()["jobs_completed"] == 3
