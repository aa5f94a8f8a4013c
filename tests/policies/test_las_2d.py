"""Least attained service: queues, promotion, and the Gittins index.

Legend: J jobs, H jobs of the history.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.errors import PolicyError
from gavelx.policies import Las2d, Las2dGittins
from gavelx.policies.baselines.las_2d import gittins_index
from gavelx.snapshot import WAITING
from tests.policies.instants import instant, types

ONE = {"v100": 4}


def test_service_is_devices_times_seconds() -> None:
    """Four devices for 1,000 s are more than one for 3,000 s, and 3,250 device-seconds end the first queue."""
    snapshot = instant(ONE, [[1.0]] * 2, scales=[4, 1], held_s=[1000.0, 3000.0], elapsed_s=[9000.0] * 2)
    assert types(Las2d().allocate(snapshot).share_JA) == [WAITING, 0]
    assert types(Las2d(thresholds=(4001.0,)).allocate(snapshot).share_JA) == [0, WAITING]


def test_within_a_queue_the_older_job_runs_whatever_it_had() -> None:
    snapshot = instant({"v100": 1}, [[1.0]] * 3, held_s=[3249.0, 0.0, 0.0], elapsed_s=[9000.0] * 3)
    assert types(Las2d().allocate(snapshot).share_JA) == [0, WAITING, WAITING]
    snapshot = snapshot.replace(held_s_J=np.array([3250.0, 1.0, 0.0]))
    assert types(Las2d().allocate(snapshot).share_JA) == [WAITING, 0, WAITING]


def test_it_is_asked_again_when_a_running_job_reaches_its_threshold() -> None:
    snapshot = instant(ONE, [[1.0]] * 3, scales=[2, 1, 4], held_s=[1000.0, 3000.0, 800.0], elapsed_s=[9000.0] * 3)
    allocation = Las2d().allocate(snapshot)
    assert types(allocation.share_JA) == [0, 0, WAITING]
    assert allocation.execution.refresh_s == min((3250.0 - 2000.0) / 2, 3250.0 - 3000.0)
    last = snapshot.replace(held_s_J=np.array([1e5, 1e5, 1e5]))
    assert Las2d().allocate(last).execution.refresh_s is None


def test_a_job_that_waited_long_is_promoted_until_it_has_caught_up() -> None:
    """held 4,000 s of 20,000 s: it waited 4 times as long as it ran."""
    snapshot = instant({"v100": 1}, [[1.0]] * 2, held_s=[4000.0, 0.0], elapsed_s=[20000.0, 0.0])
    assert types(Las2d().allocate(snapshot).share_JA) == [WAITING, 0]
    allocation = Las2d(promote_knob=4.0).allocate(snapshot)
    assert types(allocation.share_JA) == [0, WAITING]
    later = snapshot.replace(held_s_J=np.array([3999.0, 0.0]), elapsed_s_J=np.array([19000.0, 0.0]))
    allocation = Las2d(promote_knob=4.0).allocate(later)
    assert types(allocation.share_JA) == [WAITING, 0]
    assert allocation.execution.refresh_s == (1 + 4.0) * 3999.0 - 19000.0


def test_gittins_by_hand() -> None:
    """A third of all jobs take 4, 8 and 12. Within 4 more: P = 1/3, 1/2, 1 at 0, 4 and 8, at a cost of 4 each."""
    index_J = gittins_index(np.array([0.0, 4.0, 8.0, 12.0]), np.full(4, 4.0), np.array([8.0, 4.0, 12.0]))
    np.testing.assert_allclose(index_J, [1 / 12, 1 / 8, 1 / 4, 0.0])
    assert gittins_index(np.zeros(1), np.full(1, np.inf), np.array([4.0, 8.0, 12.0])) == pytest.approx(1 / 8)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=12),
    st.integers(0, 40),
    st.one_of(st.integers(1, 30), st.just(np.inf)),
)
def test_gittins_is_the_ratio_of_its_two_means(service: list[int], attained: int, quantum: float) -> None:
    above = [s - attained for s in service if s > attained]
    expected = 0.0
    if above:
        expected = np.mean([s <= quantum for s in above]) / np.mean([min(s, quantum) for s in above])
    got = gittins_index(np.array([float(attained)]), np.array([float(quantum)]), np.array(service, dtype=float))
    np.testing.assert_allclose(got, [expected], rtol=1e-9)


def test_the_job_that_history_says_is_nearly_done_runs_first() -> None:
    """All jobs took 3,000 device-seconds, or 100,000: whoever had 2,900 will soon be done."""
    snapshot = instant({"v100": 1}, [[1.0]] * 2, held_s=[0.0, 2900.0], elapsed_s=[9000.0] * 2)
    assert types(Las2d().allocate(snapshot).share_JA) == [0, WAITING]
    history = [3000.0] * 3 + [100000.0]
    assert types(Las2dGittins(history).allocate(snapshot).share_JA) == [WAITING, 0]


def test_without_a_history_it_is_that_of_the_live_jobs() -> None:
    """100 + 900 and 0 + 1,000 device-seconds in all: the one that had 100 is nearer to 1,000."""
    snapshot = instant({"v100": 1}, [[1.0]] * 2, [1000.0, 900.0], held_s=[0.0, 100.0], elapsed_s=[9000.0] * 2)
    assert types(Las2dGittins().allocate(snapshot).share_JA) == [WAITING, 0]


def test_thresholds_rise_and_the_knob_is_positive() -> None:
    with pytest.raises(PolicyError, match="thresholds that do not rise"):
        Las2d(thresholds=(7200.0, 3250.0))
    with pytest.raises(PolicyError, match="promote_knob is 0"):
        Las2dGittins(promote_knob=0.0)
