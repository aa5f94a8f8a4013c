"""Jobs that can run nowhere are left out of what a program makes large, and named; others are as without them."""

import re

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.errors import ProgramError
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.testing import snapshot_of
from tests.published.answers import as_published

CLUSTER = Cluster.of({"v100": 3, "k80": 4})
LEVELS = (
    "max_min_fairness",
    "water_filling",
    "makespan",
    "nash_welfare",
    "agnostic(max_min_fairness)",
    "packed(max_min_fairness)",
    "robust(max_min_fairness)",
    "hierarchical(max_min_fairness, a=2, b=1)",
    "hierarchical(max_min_fairness, a=fifo, b=3)",
    "with_constraints(max_min_fairness, Cost() <= 6)",
)
FORMULAS = (
    "Maximize(Worst(Throughput()))",
    "Maximize(Worst(NormalizedThroughput() - 0.9))",
    "Maximize(Worst(NormalizedThroughput()) - 0.001 * Cost())",
    "Maximize(Worst(NormalizedThroughput()) + 2 * Worst(TimeShare()))",
    "Minimize(Largest(TimeLeft()), [Cost() <= 8])",
)


def instant(jobs: int, hopeless: int) -> Snapshot:
    """So many different jobs of two owners; among them some too wide for the cluster, and some without speed."""
    random, every = np.random.default_rng(jobs), jobs + hopeless
    nowhere = set(random.permutation(every)[:hopeless].tolist())
    live, speeds = [], []
    for j in range(every):
        wide = j in nowhere and j % 2 == 0
        live.append(
            Job(j, f"kind {j}", 1000.0 + j, scale_factor=16 if wide else 1, weight=1.0 + j % 3, owner="ab"[j % 2])
        )
        speeds.append(np.zeros(2) if j in nowhere and not wide else random.lognormal(size=2))
    return snapshot_of(live, CLUSTER, np.array(speeds))


def named(snapshot: Snapshot, most: int = 5) -> str:
    """What is said of the jobs that can run nowhere."""
    ids = np.flatnonzero(~snapshot.runs_J).tolist()
    if len(ids) == 1:
        return f"job {ids[0]} can run nowhere, and is left out"
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"jobs {', '.join(map(str, ids[:most]))}{more} can run nowhere, and are left out"


def those_that_run(snapshot: Snapshot) -> Snapshot:
    return snapshot.of_jobs(np.flatnonzero(snapshot.runs_J), snapshot.cluster)[0]


@pytest.mark.parametrize("jobs", [3, 20, 400])
@pytest.mark.parametrize("name", [*LEVELS, *FORMULAS])
def test_the_certificate_is_that_of_the_jobs_that_run(name: str, jobs: int) -> None:
    policy, snapshot = load_policy(name), instant(jobs, 3)
    with_them, without = policy.allocate(snapshot), policy.allocate(those_that_run(snapshot))
    seen, expected = with_them.certificate, without.certificate
    assert seen.objective == pytest.approx(expected.objective, rel=1e-6)
    assert seen.objective != 0.0
    if expected.bound is not None:
        assert seen.bound == pytest.approx(expected.bound, rel=1e-6)
    assert "not all raised" not in seen.path
    if len(re.findall("Worst|Cost", name)) <= 1:  # beside another term, what the jobs get is open
        np.testing.assert_allclose(with_them.throughput_J[snapshot.runs_J], without.throughput_J, rtol=1e-5)


@pytest.mark.parametrize("name", ["finish_time_fairness", "shared_cloud_cost_fairness"])
def test_ratios_are_of_the_jobs_that_run(name: str) -> None:
    """The others count as sharers of the cluster, so figures are not those without them."""
    allocation = load_policy(name).allocate(snapshot := instant(20, 3))
    certificate = allocation.certificate
    assert certificate.objective == pytest.approx(certificate.bound, rel=1e-6)
    assert allocation.notes == (named(snapshot),)


@pytest.mark.parametrize("hopeless", [0, 1, 3, 7])
@pytest.mark.parametrize("name", [*LEVELS, "strategy_proof"])
def test_they_are_named(name: str, hopeless: int) -> None:
    snapshot = instant(4, hopeless)
    assert load_policy(name).allocate(snapshot).notes == ((named(snapshot),) if hopeless else ())


def test_each_part_of_a_cluster_names_its_own() -> None:
    allocation = load_policy("partitioned(max_min_fairness, 2)").allocate(snapshot := instant(4, 4))
    ids = sorted(int(word) for word in re.findall(r"\d+", " ".join(allocation.notes)))
    assert ids == np.flatnonzero(~snapshot.runs_J).tolist()


@pytest.mark.parametrize("name", LEVELS)
def test_where_none_can_run_nothing_is_reached(name: str) -> None:
    allocation = load_policy(name).allocate(snapshot := instant(0, 2))
    assert not allocation.share_C.any()
    assert not allocation.certificate.objective  # 0, or None
    assert allocation.notes == (named(snapshot),)


@pytest.mark.parametrize("name", ["max_min_fairness", "makespan"])
def test_so_it_is_under_the_published_rules(name: str) -> None:
    allocation = as_published(load_policy(name), snapshot := instant(6, 2))
    assert allocation.certificate.objective > 0.0
    assert allocation.notes == (named(snapshot),)


def test_a_logarithm_that_can_be_positive_counts() -> None:
    """All shares of all jobs would cost more than any makes; those of an optimum do not."""
    speeds = np.array([[4.0]] * 8 + [[2.0]])
    snapshot = snapshot_of([Job(j, "x", 1e3) for j in range(9)], Cluster.of({"v100": 2}), speeds)
    answer = load_policy("Maximize(Sum(Log(Throughput() - 0.1 * Cost())))").allocate(snapshot)
    net_J = answer.throughput_J - 0.1 * 2 * 3.0
    assert net_J.min() > 0
    assert answer.certificate.objective == pytest.approx(np.log(net_J).sum())


@pytest.mark.parametrize("inside", ["-Throughput()", "Throughput() - 5", "-1.0 * Cost()"])
def test_a_logarithm_that_nothing_makes_positive_is_an_error(inside: str) -> None:
    snapshot = snapshot_of([Job(0, "x", 1e3)], Cluster.of({"v100": 2}), np.full((1, 1), 4.0))
    with pytest.raises(ProgramError, match="logarithm of nothing or less"):
        load_policy(f"Maximize(Sum(Log({inside})))").allocate(snapshot)


def test_logarithms_of_types_are_no_labels_of_jobs() -> None:
    snapshot = snapshot_of(
        [Job(j, "x", 1e3) for j in range(5)], Cluster.of({"v100": 2, "k80": 3}), np.ones((5, 2))
    )
    answer = load_policy("Maximize(Sum(Log(Devices())))").allocate(snapshot)
    assert answer.certificate.objective == pytest.approx(np.log(2.0) + np.log(3.0))
