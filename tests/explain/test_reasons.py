"""The words for each case, on allocations made by hand; that no case is without words, on generated ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.configurations import Configurations, joined
from gavelx.execution import Execution
from gavelx.explain.reasons import WANTS_NO_MORE, Reasons, one_more_device, why_nowhere
from gavelx.policies import Cost, Maximize, Minimize, Sum, SumThroughput, Throughput, load_policy
from gavelx.policies.terms import Log
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from tests.explain.allocations import UNKNOWN, given_shares, instant
from tests.policies.reference import Instance
from tests.policies.strategies import snapshots

THREE = instant({"v100": 1, "k80": 1}, [[4.0, 1.0], [4.0, 1.0], [2.0, 3.0]])


def limits(allocation: Allocation) -> list[str]:
    return [Reasons(allocation).limited_by(j) for j in range(len(allocation.snapshot.jobs))]


def test_full_types() -> None:
    assert limits(given_shares(THREE, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])) == [
        "runs all the time on its fastest type (v100)",
        "runs all the time; faster types are full (v100)",
        "the devices it can use are in full use: v100, k80",
    ]


def test_free_devices() -> None:
    assert limits(given_shares(THREE, [[0.0, 1.0], [0.5, 0.0], [0.0, 0.0]])) == [
        f"runs all the time; faster types have free devices (v100), but {WANTS_NO_MORE}",
        f"v100 has free devices ({WANTS_NO_MORE})",
        f"no share though v100 has free devices ({WANTS_NO_MORE})",
    ]


def test_types_in_use_full_and_idle() -> None:
    snapshot = instant({"v100": 4, "k80": 3, "p100": 0}, [[4.0, 1.0, 1.0], [4.0, 1.0, 1.0]], [4, 2])
    reasons = Reasons(given_shares(snapshot, [[0.5, 0.0, 0.0], [0.5, 0.0, 0.0]]))
    np.testing.assert_allclose(reasons.in_use_A, [4 * 0.5 + 2 * 0.5, 0.0, 0.0])
    assert reasons.idle_A.tolist() == [False, True, False]
    full = Reasons(given_shares(snapshot, [[0.75, 0.0, 0.0], [0.5, 0.5, 0.0]]))
    assert full.full_A.tolist() == [True, False, True]  # of no device, none is free
    assert full.time_J.tolist() == [0.75, 1.0]


def test_a_queue() -> None:
    # The second job is too wide for the k80 that is left; the third could have it, but waits behind the second.
    snapshot = instant({"v100": 2, "k80": 1}, [[4.0, 1.0], [4.0, 1.0], [4.0, 1.0]], [2, 2, 1])
    shares = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    queue = certified(snapshot, shares, path="queue", seconds=0.0, execution=Execution(backfill=False))
    assert limits(queue) == [
        "runs all the time on its fastest type (v100)",
        *["waits for its turn: jobs before it come first"] * 2,
    ]


def test_half_a_free_gang_is_no_room_where_shares_are_whole() -> None:
    snapshot = instant({"v100": 3, "k80": 2}, [[4.0, 1.0], [4.0, 1.0]], [2, 2])
    shares = np.array([1.0, 0.0, 0.0, 1.0])
    strict = certified(snapshot, shares, path="queue", seconds=0.0, execution=Execution(backfill=False))
    assert limits(strict)[1] == "runs all the time; faster types have no room for it (v100)"
    shared = certified(snapshot, shares.copy(), path="by hand", seconds=0.0)
    assert "faster types have free devices (v100)" in limits(shared)[1]


def test_a_job_that_can_run_nowhere() -> None:
    snapshot = instant({"v100": 4, "k80": 2, "p100": 8, "a100": 8}, [[1.0, 2.0, 0.0, UNKNOWN]], [8])
    expected = (
        "it needs 8 devices at once (v100 has 4, k80 has 2); it does not run on p100; its speed is unknown on a100"
    )
    assert why_nowhere(snapshot, 0) == expected
    assert limits(load_policy("isolated").allocate(snapshot)) == [f"can run nowhere: {expected}"]


def test_a_gang_that_is_wider_than_a_server_fits_also_where_placements_are_told_apart() -> None:
    snapshot = instant({"v100": 8}, [[1.0]], [8]).replace(cluster=Cluster.of({"v100": 8}, devices_per_server=4))
    for text in ("max_min_fairness", "placed(max_min_fairness)"):
        assert limits(load_policy(text).allocate(snapshot)) == ["runs all the time on its fastest type (v100)"]


def test_a_job_that_a_partner_slows_down() -> None:
    plain = instant({"v100": 1}, [[4.0], [2.0]])
    pair = Configurations(
        shape=(2, 1),
        accelerator_C=np.array([0]),
        devices_C=np.array([1]),
        job_M=np.array([0, 1]),
        configuration_M=np.array([0, 0]),
        throughput_M=np.array([3.0, 1.8]),
    )
    snapshot = plain.replace(known=joined([plain.known, pair])).open("pairs")
    words = limits(certified(snapshot, np.array([0.0, 0.0, 1.0]), path="by hand", seconds=0.0))
    assert words == ["runs all the time on its fastest type (v100), but beside another job or spread"] * 2


def test_what_one_more_device_is_worth() -> None:
    # The sum is 4 on the v100 and 3 on the k80. A second v100 brings 4 to a job that had nothing; the k80 is best
    # kept for job 2, so a second one brings 1 step/s to one of the others. One k80 less would cost 3: its price
    # may be anything from 1 to 3, and is a limit on the gain in any case.
    worth = one_more_device(Maximize(SumThroughput()).allocate(THREE))
    assert worth["v100"] == pytest.approx(4 / 7)
    assert 1 / 7 * (1 - 1e-9) <= worth["k80"] <= 3 / 7 * (1 + 1e-9)
    more = Maximize(SumThroughput()).allocate(THREE.replace(cluster=Cluster.of({"v100": 2, "k80": 1})))
    assert more.certificate.objective == pytest.approx(7 * (1 + worth["v100"]))


def test_a_sum_of_logarithms_is_told_as_its_geometric_mean() -> None:
    # A part of such a sum would depend on the unit of speeds, and be infinite where the sum happens to be 0.
    fair, weights = Maximize(Sum(Log(Throughput()))), np.array([1.0, 2.0, 3.0])
    heavy = THREE.replace(jobs=tuple(replace(job, weight=w) for job, w in zip(THREE.jobs, weights, strict=True)))
    worth = one_more_device(fair.allocate(heavy))
    in_minutes = heavy.replace(known=replace(heavy.known, throughput_M=heavy.known.throughput_M * 60))
    assert one_more_device(fair.allocate(in_minutes)) == pytest.approx(worth, rel=1e-4)
    less = Minimize(-1.0 * Sum(Log(Throughput())))
    assert one_more_device(less.allocate(heavy)) == pytest.approx(worth, rel=1e-4)
    more = fair.allocate(heavy.replace(cluster=Cluster.of({"v100": 2, "k80": 1}))).throughput_J
    means = [
        np.exp(np.average(np.log(speed_J), weights=weights))
        for speed_J in (fair.allocate(heavy).throughput_J, more)
    ]
    assert 1 < means[1] / means[0] <= 1 + worth["v100"] < 2
    priced = heavy.replace(usd_per_hour_A=np.array([3.0, 0.5]))
    assert one_more_device(Maximize(Sum(Log(Throughput())) - 0.1 * Cost()).allocate(priced)) == {}


def test_one_more_device_makes_a_cost_smaller() -> None:
    # Each job must run at 1 step/s. A k80 costs 0.5 dollars an hour, a v100 3. Job 2 has a third of its time,
    # jobs 0 and 1 the other two thirds, and for the 4/3 steps/s that they lack a third of the v100's: 1.5 dollars.
    # More k80 would take over from the v100: 1 step/s costs 0.75 on the v100 and 0.5 on the k80.
    snapshot = THREE.replace(usd_per_hour_A=np.array([3.0, 0.5]))
    frugal = Minimize(Cost(), [Throughput() >= 1.0]).allocate(snapshot)
    assert frugal.certificate.objective == pytest.approx(1.5)
    assert one_more_device(frugal) == {"v100": 0.0, "k80": pytest.approx(-0.25 / 1.5)}
    negative = Maximize(-1.0 * Cost(), [Throughput() >= 1.0]).allocate(snapshot)
    assert one_more_device(negative) == {"v100": 0.0, "k80": pytest.approx(0.25 / 1.5)}
    assert one_more_device(Minimize(Cost()).allocate(snapshot)) == {}  # nothing runs: 0 has no per cent


@pytest.mark.parametrize("name", ["fifo", "isolated", "makespan"])
def test_without_prices_nothing_is_said_of_one_more_device(name: str) -> None:
    assert one_more_device(load_policy(name).allocate(THREE)) == {}


@pytest.mark.parametrize("name", ["max_min_fairness", "max_sum_throughput", "isolated", "fifo", "makespan"])
@settings(max_examples=40)
@given(snapshot=snapshots())
def test_every_job_has_a_reason(name: str, snapshot: Snapshot) -> None:
    allocation, usable_JA = load_policy(name).allocate(snapshot), Instance.of(snapshot).usable_JA
    for words, usable_A in zip(limits(allocation), usable_JA, strict=True):
        assert words
        assert words.startswith("can run nowhere") == (not usable_A.any())


@settings(max_examples=60)
@given(snapshot=snapshots())
def test_max_min_fairness_leaves_nothing_free_that_somebody_could_use(snapshot: Snapshot) -> None:
    assert not [words for words in limits(load_policy("max_min_fairness").allocate(snapshot)) if "free" in words]
