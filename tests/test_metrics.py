"""Finish-time fairness and the other figures, on cases small enough to work out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx import metrics
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.published import PUBLISHED
from gavelx.simulator import simulate
from gavelx.simulator.capacity import Capacity
from gavelx.throughputs import Pairing, Setting, Throughputs

NAN = np.nan


def test_live_jobs_are_averaged_over_each_life() -> None:
    # a lives 0..10, b 5..15, c 20..21: a shares half its life, b half of its own, c none
    arrival_s, leave_s = np.array([0.0, 5.0, 20.0]), np.array([10.0, 15.0, 21.0])
    assert metrics.mean_live_jobs(arrival_s, leave_s).tolist() == [1.5, 1.5, 1.0]


def test_a_life_of_no_length_counts_itself() -> None:
    assert metrics.mean_live_jobs(np.array([3.0]), np.array([3.0])).tolist() == [1.0]


def test_an_equal_share_is_one_nth_of_every_type_and_at_most_a_whole_life() -> None:
    T_JA = np.array([[4.0, 2.0], [4.0, NAN]])
    devices_A = np.array([1, 3])
    # 4 sharers: 1/4 of fast and 3/4 of slow, just a whole life; nothing known of slow gives nothing
    shared = metrics.equal_share_throughput(T_JA, np.ones(2), devices_A, np.full(2, 4.0))
    assert shared.tolist() == [4.0 / 4 + 2.0 * 3 / 4, 4.0 / 4]
    # alone: 1 and 3 devices' worth, scaled down to a quarter and three quarters of its time
    alone = metrics.equal_share_throughput(T_JA, np.ones(2), devices_A, np.ones(2))
    assert alone.tolist() == shared.tolist()
    # a gang of two gets half as long a turn
    gang = metrics.equal_share_throughput(T_JA, np.full(2, 2.0), devices_A, np.full(2, 4.0))
    assert gang == pytest.approx(shared / 2)


def test_rho_is_completion_time_over_that_of_an_equal_share() -> None:
    """Two jobs of 100 s on one device, one after the other: sharing equally, each would take 200 s or 150 s."""
    jobs = [Job(0, "a", 100.0), Job(1, "a", 100.0)]
    rho_J = metrics.finish_time_fairness(jobs, np.ones((2, 1)), np.array([1]), np.array([100.0, 200.0]), 200.0)
    # the first shares with 2 all its life: 100 s / 200 s; the second with 1.5 on average: 200 s / 150 s
    assert rho_J.tolist() == pytest.approx([0.5, 4.0 / 3.0])


def test_rho_of_an_incomplete_job_is_not_known_and_it_counts_as_a_sharer() -> None:
    jobs = [Job(0, "a", 100.0), Job(1, "a", 1e9)]
    rho_J = metrics.finish_time_fairness(jobs, np.ones((2, 1)), np.array([1]), np.array([200.0, NAN]), 400.0)
    assert rho_J[0] == pytest.approx(1.0)
    assert np.isnan(rho_J[1])
    assert len(metrics.finish_time_fairness([], np.zeros((0, 1)), np.array([1]), np.zeros(0), 0.0)) == 0


@given(st.integers(1, 6), st.integers(1, 4))
def test_equal_jobs_that_share_equally_have_rho_1(jobs_total: int, devices: int) -> None:
    """The isolated policy gives each of n equal jobs an equal share, so none is better or worse off."""
    speeds = Throughputs({Setting("a", "v"): 2.0})
    jobs = [Job(j, "a", 72_000.0) for j in range(jobs_total)]
    result = simulate(load_policy("isolated"), jobs, Cluster.of({"v": devices}), speeds, Prices({"v": 3.0}))
    # rounds of 360 s: whoever has the last turn completes a round before or after the others
    assert result.rho_J == pytest.approx(np.ones(jobs_total), rel=0.06)


def test_figures_of_a_run_worked_out_by_hand() -> None:
    """Job 0 needs 500 s on the only device; job 1 comes at 100 s, needs 200 s, and waits."""
    speeds = Throughputs({Setting("a", "v"): 2.0})
    jobs = [Job(0, "a", 1000.0), Job(1, "a", 400.0, arrival_s=100.0), Job(2, "a", 20.0, arrival_s=1000.0)]
    result = simulate(load_policy("fifo"), jobs, Cluster.of({"v": 1, "w": 0}), _with_w(speeds), Prices({"v": 3.6}))
    summary = result.summary()
    assert result.completion_s_J.tolist() == [500.0, 700.0, 1010.0]
    assert (summary["makespan_s"], summary["jct_mean_s"], summary["jct_p50_s"]) == (1010.0, 370.0, 500.0)
    assert summary["utilization"] == pytest.approx(710.0 / 1010.0)  # idle from 700 s to 1000 s
    assert summary["cost_usd"] == pytest.approx(710.0 * 3.6 / 3600.0)
    assert summary["total_usd"] == pytest.approx(1010.0 * 3.6 / 3600.0)
    assert result.cost_usd_J == pytest.approx(np.array([500.0, 200.0, 10.0]) * 0.001)
    time_s_K, busy_KA = result.busy_devices()
    assert time_s_K.tolist() == [0.0, 500.0, 700.0, 1000.0, 1010.0]
    assert busy_KA[:, 0].tolist() == [1, 1, 0, 1, 0]
    assert (summary["restarts"], summary["jobs_completed"], summary["jobs_total"]) == (0, 3, 3)


def test_a_cost_is_unknown_only_if_a_type_without_a_price_was_used() -> None:
    speeds = Throughputs({Setting("a", "v"): 2.0, Setting("a", "w"): 1.0})
    cluster = Cluster.of({"v": 1, "w": 1})
    used = simulate(load_policy("isolated"), [Job(0, "a", 9000.0)], cluster, speeds, Prices({"v": 3.6}))
    assert used.summary()["cost_usd"] is None
    unused = simulate(load_policy("fifo"), [Job(0, "a", 1000.0)], cluster, speeds, Prices({"v": 3.6}))
    assert unused.summary()["cost_usd"] == pytest.approx(0.5)
    assert unused.summary()["total_usd"] is None, "it was there all the same"


def test_the_whole_bill_is_of_all_devices_that_were_there_at_the_prices_of_each_moment() -> None:
    """Two devices for 500 s, one of which is away from 250 s on; twice as dear from 100 s on."""
    cluster, half = Cluster.of({"v": 2}, devices_per_server=1), Capacity("v", ((250.0, 1.0), (1e9, 0.5)))
    result = simulate(
        load_policy("fifo"),
        [Job(0, "a", 1000.0)],
        cluster,
        Throughputs({Setting("a", "v"): 2.0}),
        Prices({"v": 3600.0}),
        price_changes=[(100.0, Prices({"v": 7200.0})), (1e6, Prices({"v": 1.0}))],
        capacities=[half],
    )
    summary = result.summary()
    assert summary["cost_usd"] == pytest.approx(100.0 + 2 * 400.0)
    assert summary["total_usd"] == pytest.approx(summary["cost_usd"] + 100.0 + 2 * 150.0)


def test_devices_that_jobs_pay_for_twice_are_not_cheaper_for_it() -> None:
    """Under the published rules both of a pair pay in full."""
    speeds = Throughputs({Setting("a", "v"): 2.0}, {Pairing("a", "a", "v"): 1.5})
    jobs, cluster = [Job(0, "a", 1000.0), Job(1, "a", 1000.0)], Cluster.of({"v": 1})
    packed = load_policy("packed(max_min_fairness)")
    summary = simulate(packed, jobs, cluster, speeds, Prices({"v": 3600.0}), rules=PUBLISHED).summary()
    assert summary["total_usd"] == summary["cost_usd"] > summary["makespan_s"]


def _with_w(speeds: Throughputs) -> Throughputs:
    return Throughputs({**speeds.isolated, Setting("a", "w"): 1.0})


def test_mu_is_what_was_spent_over_the_same_steps_on_an_equal_share() -> None:
    """1 fast device at 4 $/h and 1 slow one at 1 $/h; the equal share: 5/2 $/h for 3 steps/s."""
    jobs = [Job(0, "a", 10_800.0), Job(1, "a", 10_800.0, scale_factor=2)]
    T_JA, devices_A = np.array([[4.0, 2.0], [4.0, 2.0]]), np.array([1, 1])
    mu_J = metrics.cost_fairness(jobs, T_JA, devices_A, np.full((2, 2), (4.0, 1.0)), np.array([2.5, 2.5]))
    assert mu_J == pytest.approx([1.0, 0.5]), "a gang of two pays for two devices"


@given(st.floats(0.1, 10.0), st.floats(0.1, 10.0), st.integers(1, 4), st.integers(1, 8), st.floats(360.0, 1e6))
def test_a_job_alone_on_one_type_has_mu_1(speed: float, usd: float, gang: int, more: int, steps: float) -> None:
    speeds, jobs = Throughputs({Setting("a", "v", gang): speed}), [Job(0, "a", steps, scale_factor=gang)]
    result = simulate(load_policy("fifo"), jobs, Cluster.of({"v": gang + more}), speeds, Prices({"v": usd}))
    assert result.mu_J == pytest.approx([1.0])
    assert result.summary()["mu_max"] == pytest.approx(1.0)


@pytest.mark.parametrize("policy", ["max_min_fairness", "finish_time_fairness"])
@given(st.floats(0.01, 100.0), st.integers(0, 5))
@settings(max_examples=8, deadline=None)
def test_mu_does_not_know_the_currency(policy: str, rate: float, seed: int) -> None:
    speeds = Throughputs(
        {Setting("a", "v"): 4.0, Setting("a", "w"): 1.0, Setting("b", "v"): 3.0, Setting("b", "w"): 2.0}
    )
    jobs = [Job(j, "ab"[(j + seed) % 2], 3600.0 * (1 + j)) for j in range(5)]
    runs = [
        simulate(load_policy(policy), jobs, Cluster.of({"v": 1, "w": 2}), speeds, Prices({"v": 2 * k, "w": k}))
        for k in (1.0, rate)
    ]
    assert runs[1].mu_J == pytest.approx(runs[0].mu_J, rel=1e-6)


def test_mu_is_not_known_without_prices_or_before_the_end() -> None:
    speeds = Throughputs({Setting("a", "v"): 2.0})
    for prices, jobs in ((Prices({}), 1), (Prices({"v": 0.0}), 1)):
        result = simulate(load_policy("fifo"), [Job(0, "a", 100.0)] * jobs, Cluster.of({"v": 1}), speeds, prices)
        assert np.isnan(result.mu_J).all()
        assert result.summary()["mu_max"] is result.summary()["mu_mean"] is result.per_job()[0]["mu"] is None


def test_mu_follows_prices_that_change() -> None:
    """Alone from 0 to 100 s, the first half at 1 $/h and the second at 3: the equal share pays both as well."""
    speeds = Throughputs({Setting("a", "v"): 1.0})
    result = simulate(
        load_policy("fifo"),
        [Job(0, "a", 100.0)],
        Cluster.of({"v": 1}),
        speeds,
        Prices({"v": 1.0}),
        price_changes=[(50.0, Prices({"v": 3.0}))],
    )
    assert result.cost_usd_J == pytest.approx([200.0 / 3600.0])
    assert result.mu_J == pytest.approx([1.0])


def test_a_deadline_is_missed_by_who_is_late_or_never_done() -> None:
    """One device, first come first served: 100 s, then 100 s; the second was due at 150 s, the third has none."""
    speeds = Throughputs({Setting("a", "v"): 1.0})
    jobs = [Job(0, "a", 100.0, slo=1.0, duration_s=100.0), Job(1, "a", 100.0, slo=1.5, duration_s=100.0)]
    result = simulate(load_policy("fifo"), [*jobs, Job(2, "a", 100.0)], Cluster.of({"v": 1}), speeds)
    assert result.missed_J.tolist() == [False, True, False]
    assert (result.summary()["deadlines"], result.summary()["deadlines_missed"]) == (2, 1)
    assert [row["deadline_s"] for row in result.per_job()] == [100.0, 150.0, None]
