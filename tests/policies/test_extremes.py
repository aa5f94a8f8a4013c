"""Legal numbers that nobody expects: programs end, with an answer or with a message."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError, SolverError
from gavelx.explain.properties import pareto_slack
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import WEIGHT_MAX, WEIGHT_MIN, Job
from gavelx.policies import Maximize, MaxMinFairness, SumThroughput, Throughput, Worst, catalog, load_policy
from gavelx.prices import Prices
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from gavelx.testing.snapshots import snapshot_of
from gavelx.throughputs import Pairing, Setting, Throughputs


def speeds(**speed: float) -> Throughputs:
    return Throughputs({Setting("net", name): value for name, value in speed.items()})


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e-15, 1e15, 1e30, 1e300])
def test_levels_end_whatever_the_size_of_the_numbers(size: float) -> None:
    cluster = Cluster.of({"v100": 1, "k80": 1})
    same = Snapshot.of([Job(j, "net", 1.0) for j in range(3)], cluster, speeds(v100=10 * size, k80=size))
    weight = min(max(size, WEIGHT_MIN), WEIGHT_MAX)
    weighed = Snapshot.of(
        [Job(0, "net", 1.0), Job(1, "net", 1.0, weight=weight)], cluster, speeds(v100=10.0, k80=1.0)
    )
    for policy, snapshot in ((Maximize(Worst(Throughput())), same), (MaxMinFairness(), weighed)):
        with contextlib.suppress(SolverError):
            policy.allocate(snapshot)


def test_a_type_without_devices_needs_no_price() -> None:
    cluster = Cluster.of({"v100": 2, "p100": 2, "k80": 0})
    for prices in ({"v100": 3.0, "p100": 1.0}, {"v100": 1.0, "p100": 3.0}):
        snapshot = Snapshot.of([Job(0, "net", 1.0)], cluster, speeds(v100=5.0, p100=5.0, k80=1.0), Prices(prices))
        allocation = MaxMinFairness().allocate(snapshot)
        assert allocation.share_JA.argmax() == min((0, 1), key=lambda a: snapshot.usd_per_hour_A[a])


@pytest.mark.parametrize(
    "name", ["max_sum_throughput_per_dollar", "min_cost", "min_cost_slo", "shared_cloud_cost_fairness_alg51"]
)
def test_a_type_without_devices_may_be_free(name: str) -> None:
    cluster, table = Cluster.of({"v100": 1, "p100": 1, "k80": 0}), speeds(v100=5.0, p100=2.0, k80=1.0)
    jobs = [Job(j, "net", 1e4) for j in range(3)]
    free, dear = (
        Snapshot.of(jobs, cluster, table, Prices({"v100": 2.0, "p100": 1.0, "k80": usd})) for usd in (0.0, 7.0)
    )
    policy = catalog()[name]
    assert policy.allocate(free).share_JA.tolist() == policy.allocate(dear).share_JA.tolist()


def test_a_constraint_on_jobs_that_can_run_nowhere_cannot_be_met() -> None:
    snapshot = Snapshot.of([Job(0, "net", 1.0)], Cluster.of({"k80": 1}), speeds(v100=1.0))
    with pytest.raises(ProgramError, match=r"Throughput\(\) >= 1 cannot be met"):
        Maximize(SumThroughput(), [Throughput() >= 1.0]).allocate(snapshot)
    assert Maximize(SumThroughput(), [Throughput() >= 0.0]).allocate(snapshot).share_JA.tolist() == [[0.0]]


def test_where_no_server_is_known_yet_nothing_is_promised() -> None:
    """The news of a job may come before that of the first server."""
    snapshot = Snapshot.of([Job(0, "net", 10.0), Job(1, "net", 10.0)], Cluster((), ()), speeds(v100=1.0))
    for name, policy in {**catalog(), "agnostic(srtf)": load_policy("agnostic(srtf)")}.items():
        with contextlib.suppress(PolicyError, ProgramError):
            assert policy.allocate(snapshot).share_JA.shape == (2, 0), name


@pytest.mark.parametrize("left", [0.0, 1e-9, 1e-6, 1.0])
@pytest.mark.parametrize("long", [1e6, 1e8, 1e12])
@pytest.mark.parametrize("text", ["makespan", "packed(makespan)"])
def test_the_makespan_is_that_of_the_longest_job_beside_one_that_is_nearly_done(
    text: str, long: float, left: float
) -> None:
    """What rounding leaves of a job is no reason to hold up the others."""
    jobs = [Job(0, "net", long), Job(1, "net", 1.0), Job(2, "net", 100.0)]
    table = Throughputs(speeds(v100=1.0, k80=0.3).isolated, {Pairing("net", "net", "v100"): 0.6})
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 1, "k80": 1}), table, pairs=True)
    snapshot = snapshot.replace(opened=frozenset(), steps_left_J=np.array([long, left, 100.0]))
    certificate = load_policy(text).allocate(snapshot).certificate
    assert certificate.objective == pytest.approx(long, rel=1e-6)
    assert certificate.bound == pytest.approx(long, rel=1e-6)


def test_a_constraint_under_which_a_job_has_no_ratio_is_named() -> None:
    """A job that has cost more than it may is within its limit only as long as it gets nothing."""
    table, prices = speeds(v100=1.0), Prices({"v100": 1.0})
    snapshot = Snapshot.of([Job(0, "net", 10.0), Job(1, "net", 10.0)], Cluster.of({"v100": 1}), table, prices)
    snapshot = snapshot.replace(spent_usd_J=np.array([9.0, 0.0]), equal_share_usd_J=np.array([1.0, 1.0]))
    with pytest.raises(ProgramError, match=r"CostRatio\(\) <= 5 cannot be met .* in which every job runs"):
        load_policy("Minimize(Largest(FinishTimeRatio()), [CostRatio() <= 5])").allocate(snapshot)


@pytest.mark.parametrize("left", [1e-3, 1e-6, 1e-9])
def test_costs_are_fair_where_a_job_is_nearly_done(left: float) -> None:
    """What it still needs is too little for the solver to see."""
    cluster, prices = Cluster.of({"v100": 5, "p100": 4, "k80": 5}), Prices({"v100": 0.0, "p100": 30.0, "k80": 1.0})
    snapshot = Snapshot.of([Job(0, "net", 1e4)], cluster, speeds(v100=10.0, p100=20.0, k80=40.0), prices)
    snapshot = snapshot.replace(
        steps_left_J=np.array([left]),
        elapsed_s_J=np.array([1.0]),
        equal_share_s_J=np.array([2.0]),
        spent_usd_J=np.array([5.0]),
        equal_share_usd_J=np.array([2.0]),
    )
    certificate = load_policy("shared_cloud_cost_fairness").allocate(snapshot).certificate
    assert certificate.objective == pytest.approx(certificate.bound, abs=1e-6)


@pytest.mark.parametrize("seed", [129, 174, 420, 452])
def test_no_device_idles_beside_jobs_that_are_nearly_complete(seed: int) -> None:
    """What they need then is a small difference of large times, and rounding makes devices look a hair too few."""
    random = np.random.default_rng(seed)
    types, count = int(random.integers(1, 4)), int(random.integers(2, 9))
    devices = random.integers(1, 5, types).tolist()
    speed_JA = random.lognormal(0, 1, (count, types))
    speed_JA[random.random((count, types)) < 0.4] = 0.0
    jobs = [Job(j, f"kind {j}", 1e6, int(random.choice([1, 1, 1, 2]))) for j in range(count)]
    cluster = Cluster.of({f"type {a}": n for a, n in enumerate(devices)}, 8)
    left_J, age_s_J = 1e6 * 10 ** -random.uniform(0, 7, count), 10 ** random.uniform(0, 6, count)
    snapshot = snapshot_of(jobs, cluster, speed_JA).replace(
        steps_left_J=left_J, elapsed_s_J=age_s_J, equal_share_s_J=age_s_J * random.uniform(0.3, 2, count)
    )
    assert pareto_slack(load_policy("finish_time_fairness").allocate(snapshot)) <= 1e-6


@pytest.mark.parametrize("seed", [2, 7, 8])
@pytest.mark.parametrize("name", ["finish_time_fairness", "makespan"])
def test_many_levels_are_all_raised(name: str, seed: int) -> None:
    """A hair that rounding adds at each level must not grow from one to the next."""
    random = np.random.default_rng(seed)
    types, count = int(random.integers(1, 4)), int(random.integers(60, 140))
    speed_JA = random.lognormal(0, 1, (count, types))
    speed_JA[random.random((count, types)) < 0.3] = 0.0
    jobs = [Job(j, f"kind {j}", 1e6, int(random.choice([1, 1, 1, 2]))) for j in range(count)]
    cluster = Cluster.of({f"type {a}": int(random.integers(5, 60)) for a in range(types)}, 8)
    left_J, age_s_J = 1e6 * 10 ** -random.uniform(0, 3, count), 10 ** random.uniform(2, 6, count)
    snapshot = snapshot_of(jobs, cluster, speed_JA).replace(
        steps_left_J=left_J, elapsed_s_J=age_s_J, equal_share_s_J=age_s_J * random.uniform(0.5, 1.5, count)
    )
    allocation = load_policy(name).allocate(snapshot)
    assert "not all raised" not in allocation.certificate.path
    assert pareto_slack(allocation) <= 1e-4


@pytest.mark.parametrize("seed", [76, 228, 251])
def test_jobs_that_are_at_their_best_together_stop_no_other(seed: int) -> None:
    """Of those that can rise no further at one level, the solver's multipliers name only some."""
    random, table = np.random.default_rng(seed), load_throughputs("simulation")
    count = int(random.integers(8, 14))
    weights = random.choice([1.0, 1.0, 5.0, 2.0], count).tolist()
    drawn = random_jobs(count, table, seed=seed)
    jobs = [replace(job, weight=weight) for job, weight in zip(drawn, weights, strict=True)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 5}), table, pairs=True)
    allocation = load_policy("packed(max_min_fairness)").allocate(snapshot)
    assert "not all raised" not in allocation.certificate.path
    assert pareto_slack(allocation) <= 1e-6


@pytest.mark.parametrize("seed", [2, 93, 122, 156, 161, 169])  # on which every solver failed
def test_owners_share_whatever_their_jobs_weigh(seed: int) -> None:
    """A job of weight 1e-9 beside one of 1e12 is due less than a solver can tell from nothing."""
    random = np.random.default_rng(seed)
    weights = 10.0 ** random.uniform(np.log10(WEIGHT_MIN), np.log10(WEIGHT_MAX), random.integers(2, 14))
    jobs = [
        Job(j, f"kind {j}", 1000.0, weight=float(weight), owner=f"team {random.integers(4)}")
        for j, weight in enumerate(weights)
    ]
    cluster = Cluster.of({"v100": int(random.integers(1, 6)), "k80": int(random.integers(1, 6))})
    snapshot = snapshot_of(jobs, cluster, random.uniform(0.5, 10.0, (len(jobs), 2)))
    certificate = load_policy("hierarchical(max_min_fairness)").allocate(snapshot).certificate
    assert certificate.objective == pytest.approx(certificate.bound, rel=2e-6)


@pytest.mark.parametrize("name", ["max_sum_throughput", "fifo_program", "min_cost"])
def test_speeds_on_a_type_without_devices_hide_no_others(name: str) -> None:
    cluster, prices = Cluster.of({"v100": 0, "k80": 1}), Prices({"v100": 3.0, "k80": 1.0})
    snapshot = Snapshot.of([Job(0, "net", 1.0)], cluster, speeds(v100=1e10, k80=1e-4), prices)
    allocation = catalog()[name].allocate(snapshot)
    assert allocation.share_JA.tolist() == [[0.0, 1.0]]
    assert allocation.certificate.objective == pytest.approx(allocation.certificate.bound)


def test_a_job_that_is_nearly_complete_beside_one_that_can_run_nowhere_warns_of_nothing() -> None:
    table = Throughputs({Setting("net", "k80"): 1.0, Setting("other", "v100"): 1.0})
    jobs = [Job(0, "net", 1e-9), Job(1, "other", 1.0)]
    snapshot = Snapshot.of(jobs, Cluster.of({"k80": 1}), table, Prices({"k80": 1.0}))
    allocation = load_policy("Minimize(Largest(TimeLeft()), [Cost() <= 5])").allocate(snapshot)
    assert allocation.share_JA.tolist() == [[1.0], [0.0]]
