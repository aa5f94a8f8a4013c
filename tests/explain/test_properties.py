"""Each property on an allocation that has it and one that has not, with the numbers worked out by hand; then all
of them against slow formulas and promises on generated snapshots.

Legend: J jobs, A accelerator types.
"""

import numpy as np
import pytest
from hypothesis import given, settings

from gavelx.configurations import Configurations, joined
from gavelx.explain import properties
from gavelx.explain.properties import (
    NO_JOB,
    envy_JJ,
    equal_share_gain_J,
    pareto_slack,
    speed_JA,
    top_speed_J,
    utility_J,
    worst_envy_J,
)
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from tests.explain.allocations import UNKNOWN, given_shares, instant
from tests.policies.reference import Instance, room_for_improvement
from tests.policies.strategies import snapshots

# Two jobs, one fast and one slow device. Job 0 is 4 times as fast on the v100, job 1 twice.
TWO = instant({"v100": 1, "k80": 1}, [[4.0, 1.0], [2.0, 1.0]])
APART = given_shares(TWO, [[1.0, 0.0], [0.0, 1.0]])
HALVES = given_shares(TWO, [[0.5, 0.5], [0.5, 0.5]])


def test_sharing_incentive() -> None:
    # Half of each device: job 0 has 2.5 steps/s, job 1 has 1.5. Apart they have 4 and 1.
    np.testing.assert_allclose(equal_share_gain_J(HALVES), [0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(equal_share_gain_J(APART), [4 / 2.5 - 1, 1 / 1.5 - 1])


def test_an_equal_share_of_a_type_on_which_a_job_cannot_run_is_worth_nothing() -> None:
    # Job 0, four devices wide, does not fit the two v100s; a quarter of the k80s' time is 1 step/s. Job 1 fits
    # both, a whole one of each; its whole time halves that: (8 + 2) / 2 = 5. Job 2 is known to run nowhere.
    snapshot = instant({"v100": 3, "k80": 4}, [[9.0, 4.0], [8.0, 2.0], [0.0, UNKNOWN], [1.0, 1.0]], [4, 1, 1, 1])
    # n = 4: shares of job 0: 3/16 and 1/4; of job 1: 3/4 and 1, together 7/4, so 3/7 and 4/7.
    allocation = given_shares(snapshot, [[0.0, 0.5], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    gain_J = equal_share_gain_J(allocation)
    np.testing.assert_allclose(gain_J[:2], [2.0 / 1.0 - 1, 8.0 / ((24 + 8) / 7) - 1])
    assert np.isnan(gain_J[2])
    assert gain_J[3] == pytest.approx(-1.0)


def test_shares_where_a_job_cannot_run_are_worth_nothing() -> None:
    snapshot = instant({"v100": 1, "k80": 2}, [[9.0, 4.0]], [2])
    allocation = given_shares(snapshot, [[0.5, 0.5]])
    assert utility_J(allocation).tolist() == [2.0]


def test_envy() -> None:
    # Apart: job 1 would run at 2 with the v100 instead of 1, job 0 at 1 instead of 4.
    np.testing.assert_allclose(envy_JJ(APART), [[0.0, -0.75], [1.0, 0.0]])
    worst_J, envied_J = worst_envy_J(APART)
    assert (worst_J.tolist(), envied_J.tolist()) == ([0.0, 1.0], [NO_JOB, 0])
    # With halves of each, the other's bundle is one's own.
    np.testing.assert_allclose(envy_JJ(HALVES), np.zeros((2, 2)), atol=1e-12)
    assert worst_envy_J(HALVES)[1].tolist() == [NO_JOB, NO_JOB]


def test_a_job_uses_a_larger_bundle_fastest_type_first_for_its_whole_time_and_no_more() -> None:
    # Job 1 is four wide and holds 4 * 0.5 v100 and 4 * 0.5 k80 on average. With these job 0 would be on a v100
    # all its time: 4 instead of 1. Job 1 with the bundle of job 0, one k80: a quarter of its time at 8.
    snapshot = instant({"v100": 4, "k80": 5}, [[4.0, 1.0], [20.0, 8.0]], [1, 4])
    allocation = given_shares(snapshot, [[0.0, 1.0], [0.5, 0.5]])
    np.testing.assert_allclose(envy_JJ(allocation), [[0.0, 3.0], [2.0 / 14.0 - 1.0, 0.0]])


def test_a_job_that_has_nothing_envies_infinitely_unless_it_could_run_nowhere() -> None:
    snapshot = instant({"v100": 1}, [[4.0], [2.0], [0.0]])
    allocation = given_shares(snapshot, [[1.0], [0.0], [0.0]])
    np.testing.assert_array_equal(envy_JJ(allocation), [[0, -1, -1], [np.inf, 0, 0], [0, 0, 0]])


def test_pareto_slack() -> None:
    # Job 1 does not care where it runs. With halves it has 1 step/s, as it would with all of the k80; then job 0
    # has all of the v100, 4 instead of 2.5: 1.5 / 4 of its top speed.
    indifferent = instant({"v100": 1, "k80": 1}, [[4.0, 1.0], [1.0, 1.0]])
    assert pareto_slack(given_shares(indifferent, [[0.5, 0.5], [0.5, 0.5]])) == pytest.approx(0.375)
    assert pareto_slack(given_shares(indifferent, [[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(0.0, abs=1e-9)
    # Job 1 of the other two has 1.5 with halves and no time left: less of the v100 it cannot make up for.
    assert pareto_slack(HALVES) == pytest.approx(0.0, abs=1e-9)
    assert pareto_slack(APART) == pytest.approx(0.0, abs=1e-9)


def test_an_idle_device_is_slack() -> None:
    # Job 1 could have the k80 all the time instead of half of it: half of its top speed of 2 is 1, so 0.5 / 2.
    assert pareto_slack(given_shares(TWO, [[1.0, 0.0], [0.0, 0.5]])) == pytest.approx(0.25)


def paired(speeds: tuple[float, float] = (3.0, 1.8)) -> Snapshot:
    """Two jobs on one device, alone at 4 and 2 steps/s, side by side at these speeds."""
    snapshot = instant({"v100": 1}, [[4.0], [2.0]])
    pair = Configurations(
        shape=(2, 1),
        accelerator_C=np.array([0]),
        devices_C=np.array([1]),
        job_M=np.array([0, 1]),
        configuration_M=np.array([0, 0]),
        throughput_M=np.array(speeds),
    )
    return snapshot.replace(known=joined([snapshot.known, pair]))


def test_pairs_count_where_they_are_open() -> None:
    # Half of the time each: 2 and 1 steps/s. Side by side they have 3 and 1.8: gains of 1/4 and 0.8/2. Could job 0
    # give less? No: it keeps at least 2 = 4 a + 3 p with a + b + p = 1, and p = 1 is the best sum already.
    closed, opened = paired(), paired().open("pairs")
    assert pareto_slack(certified(closed, np.array([0.5, 0.5]), path="", seconds=0)) == pytest.approx(
        0.0, abs=1e-9
    )
    assert pareto_slack(certified(opened, np.array([0.5, 0.5, 0.0]), path="", seconds=0)) == pytest.approx(0.65)
    assert top_speed_J(opened).tolist() == [4.0, 2.0]


def test_members_of_a_pair_hold_half_a_device_each() -> None:
    # With half of the device job 0 would have 2 instead of 3, job 1 1 instead of 1.8.
    allocation = certified(paired().open("pairs"), np.array([0.0, 0.0, 1.0]), path="", seconds=0)
    np.testing.assert_allclose(envy_JJ(allocation), [[0.0, 2 / 3 - 1], [1 / 1.8 - 1, 0.0]])


def test_who_does_badly_in_a_pair_envies_the_other_member_but_not_itself() -> None:
    # Side by side job 0 has 1 step/s; half of the device alone, which job 1 holds as well, would give it 2.
    opened = paired((1.0, 1.8)).open("pairs")
    worst_J, envied_J = worst_envy_J(certified(opened, np.array([0.0, 0.0, 1.0]), path="", seconds=0))
    assert (worst_J.tolist(), envied_J.tolist()) == ([1.0, 0.0], [1, NO_JOB])
    # A quarter alone and half of the time side by side: 4 / 4 + 1 / 2 = 1.5, on half a device in all. Alone that
    # would be 2, but nobody else holds as much: job 1 has a quarter of the device, which is 1 to job 0.
    allocation = certified(opened, np.array([0.25, 0.0, 0.5]), path="", seconds=0)
    assert worst_envy_J(allocation)[1][0] == NO_JOB
    assert envy_JJ(allocation)[0].tolist() == [0.0, pytest.approx(1 / 1.5 - 1)]


def test_no_job_at_all() -> None:
    allocation = load_policy("max_min_fairness").allocate(instant({"v100": 1}, []))
    assert equal_share_gain_J(allocation).shape == (0,)
    assert envy_JJ(allocation).shape == (0, 0)
    assert [len(column) for column in worst_envy_J(allocation)] == [0, 0]
    assert pareto_slack(allocation) == 0.0


@given(snapshot=snapshots())
def test_isolated_gives_everybody_an_equal_share(snapshot: Snapshot) -> None:
    gain_J = equal_share_gain_J(load_policy("isolated").allocate(snapshot))
    assert (gain_J[~np.isnan(gain_J)] >= -1e-9).all()
    known_J = ~np.isnan(snapshot.configurations.throughput_JA).any(axis=1)
    np.testing.assert_allclose(np.nan_to_num(gain_J[known_J]), 0.0, atol=1e-9)
    np.testing.assert_array_equal(np.isnan(gain_J), ~Instance.of(snapshot).usable_JA.any(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max_min_fairness", "max_sum_throughput", "isolated", "fifo"])
@settings(max_examples=40)
@given(snapshot=snapshots())
def test_worst_envy_is_the_largest_of_each_row(name: str, snapshot: Snapshot) -> None:
    allocation = load_policy(name).allocate(snapshot)
    envy, (worst_J, envied_J) = envy_JJ(allocation), worst_envy_J(allocation)
    np.testing.assert_allclose(worst_J, envy.max(axis=1, initial=0.0), rtol=1e-9, atol=1e-9)
    for j, i in enumerate(envied_J):
        assert (worst_J[j] <= 1e-9) if i == NO_JOB else (i != j and envy[j, i] == pytest.approx(worst_J[j]))


@pytest.mark.parametrize("chunk", [1, 40])
def test_envy_is_looked_for_chunk_by_chunk(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds_JA = np.random.default_rng(7).uniform(1.0, 9.0, size=(11, 3))
    snapshot = instant({"v100": 2, "p100": 1, "k80": 3}, speeds_JA.tolist(), [1, 2, 1] * 3 + [1, 1])
    allocation = load_policy("max_min_fairness").allocate(snapshot)
    worst_J, envied_J = worst_envy_J(allocation)
    monkeypatch.setattr(properties, "CHUNK", chunk)
    again_J, other_J = worst_envy_J(allocation)
    assert worst_J.max() > 0.1
    np.testing.assert_array_equal(again_J, worst_J)
    np.testing.assert_array_equal(other_J, envied_J)


@settings(max_examples=40)
@given(snapshot=snapshots())
def test_max_min_fairness_is_pareto_efficient(snapshot: Snapshot) -> None:
    allocation = load_policy("max_min_fairness").allocate(snapshot)
    assert pareto_slack(allocation) <= 1e-7 * max(1, len(snapshot.jobs))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max_min_fairness", "isolated", "fifo"])
@settings(max_examples=40)
@given(snapshot=snapshots(max_jobs=6))
def test_pareto_slack_agrees_with_the_dense_reference(name: str, snapshot: Snapshot) -> None:
    """The reference sums gains in normalised throughput; with s_j, p_j, e_j(proportional) such that this factor is
    1 / top speed, both sums are the same."""
    allocation, instance = load_policy(name).allocate(snapshot), Instance.of(snapshot)
    top_J = (instance.throughput_JA * instance.usable_JA).max(axis=1, initial=0.0)
    known_J = (instance.proportional_J > 0) & (top_J > 0)
    proportional_J = np.where(known_J, instance.proportional_J, 1.0)
    same = Instance(
        throughput_JA=instance.throughput_JA * instance.usable_JA,
        scale_J=instance.scale_J,
        weight_J=np.where(known_J, instance.scale_J * top_J / proportional_J, 1.0),
        devices_A=instance.devices_A,
    )
    # proportional_J of ``same`` is smaller where a gang is too wide; put its factor right again
    ratio_J = np.where(known_J, proportional_J / np.where(same.proportional_J > 0, same.proportional_J, 1.0), 1.0)
    same = Instance(same.throughput_JA, same.scale_J, same.weight_J * ratio_J, same.devices_A)
    if len(snapshot.jobs):
        expected = room_for_improvement(same, allocation.share_JA * instance.usable_JA)
        assert pareto_slack(allocation) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(snapshot=snapshots())
def test_speeds_are_those_of_the_table_where_a_job_fits(snapshot: Snapshot) -> None:
    instance = Instance.of(snapshot)
    np.testing.assert_array_equal(speed_JA(snapshot), np.where(instance.usable_JA, instance.throughput_JA, 0.0))
