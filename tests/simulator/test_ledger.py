"""An independent ledger: what the leases of a run add up to, whatever the mechanism believed.

Small random workloads under both sets of rules. The books are kept from nothing but the leases, the jobs and
their true speeds.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism.rules import RULES
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator import simulate
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
    """Every job completes, has held devices for long enough to do its steps, and no faster than light."""
    leases = result.leases
    for j, job in enumerate(result.jobs):
        mine = leases.job_L == j
        speed_A = np.array([case.throughputs.get(job.job_type, name, job.scale_factor) or 0.0 for name in TYPES])
        speed_A[result.cluster.devices_A < job.scale_factor] = 0.0
        speed_L = speed_A[leases.accelerator_L[mine]]
        assert (speed_L > 0).all(), f"job {job.id} held devices on which it cannot run"
        done = ((leases.end_s_L - leases.start_s_L)[mine] * speed_L).sum()
        assert done >= job.total_steps * (1 - 1e-6)
        assert done <= job.total_steps * (1 + 1e-6) + 1.0, "devices were held for work that was not there"
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
    assert (leases.billed_s_L >= held_s_L - EPSILON_S).all()
    if not RULES[result.rules].charge_gaps:
        np.testing.assert_allclose(leases.billed_s_L, held_s_L, atol=EPSILON_S)
        assert summary["utilization"] <= 1.0 + 1e-9


def peak(start_s: np.ndarray, end_s: np.ndarray, amount: np.ndarray) -> int:
    """The largest amount held at one time; what ends at an instant is free for what starts at it."""
    time_s = np.concatenate([end_s - EPSILON_S, start_s])
    change = np.concatenate([-amount, amount])[np.lexsort([np.concatenate([-amount, amount]), time_s])]
    return int(np.cumsum(change).max(initial=0))


def without_stopwatch(result: Result) -> dict[str, Any]:
    return {key: value for key, value in result.to_json().items() if not key.endswith("_seconds")}
