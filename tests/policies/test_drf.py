"""Progressive filling.

Legend: J jobs, A accelerator types.
"""

import numpy as np
import pytest
from hypothesis import given

from gavelx.policies import Drf
from gavelx.policies.greedy import usable_throughput_JA
from gavelx.snapshot import Snapshot
from tests.policies.instants import instant
from tests.policies.strategies import snapshots


def shares(snapshot: Snapshot) -> np.ndarray:
    return Drf().allocate(snapshot).share_JA


def test_dominant_shares_of_one_resource_are_equal() -> None:
    """A gang of two and a single job on two devices: half of the type is half of its time, or all of it."""
    np.testing.assert_allclose(shares(instant({"v100": 2}, [[1.0], [1.0]], scales=[2, 1])), [[0.5], [1.0]])
    np.testing.assert_allclose(shares(instant({"v100": 1}, [[1.0]] * 4)), [[0.25]] * 4)


def test_what_is_left_of_the_time_is_spent_on_the_next_type() -> None:
    two = {"v100": 1, "k80": 1}
    np.testing.assert_allclose(shares(instant(two, [[4.0, 1.0], [4.0, 3.0]])), [[0.5, 0.5], [0.5, 0.5]])
    weighed = instant(two, [[4.0, 1.0], [4.0, 3.0]], weights=[1.0, 3.0])
    np.testing.assert_allclose(shares(weighed), [[0.25, 0.75], [0.75, 0.25]])


def test_jobs_that_want_different_types_do_not_compete() -> None:
    np.testing.assert_allclose(
        shares(instant({"a": 1, "b": 1}, [[2.0, 1.0], [1.0, 2.0]])), [[1.0, 0.0], [0.0, 1.0]]
    )


def test_shares_of_several_types_add_up() -> None:
    """Two want a, one b. At 1/2 a is used up; they go on with b, of which the third has 1/2: 1/6 more for each."""
    snapshot = instant({"a": 1, "b": 1}, [[2.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(shares(snapshot), [[1 / 2, 1 / 6], [1 / 2, 1 / 6], [0.0, 2 / 3]])


@given(snapshots(max_jobs=20))
def test_whoever_still_wants_something_is_level_with_all_who_do_and_nobody_is_above(snapshot: Snapshot) -> None:
    """The share per weight of a job that lacks time and may use every type; no job has more."""
    share_JA, T_JA = shares(snapshot), usable_throughput_JA(snapshot)
    share_J = share_JA * snapshot.scale_factor_J[:, None] / np.maximum(1, snapshot.devices_A)
    level_J = share_J.sum(axis=1) / snapshot.weight_J
    lacks_J = (share_JA.sum(axis=1) < 1 - 1e-9) & (T_JA > 0)[:, snapshot.devices_A > 0].all(axis=1)
    if lacks_J.any():
        assert level_J[lacks_J].min() == pytest.approx(level_J.max(initial=0.0))


@given(snapshots(max_jobs=20))
def test_nothing_is_idle_that_anybody_could_use(snapshot: Snapshot) -> None:
    share_JA, T_JA = shares(snapshot), usable_throughput_JA(snapshot)
    left_A = snapshot.devices_A - snapshot.scale_factor_J @ share_JA
    lacks_J = share_JA.sum(axis=1) < 1 - 1e-9
    assert not ((T_JA > 0) & (left_A > 1e-9))[lacks_J].any()


def test_jobs_that_need_just_what_there_is_have_all_their_time() -> None:
    """However the sum of what they use is rounded: 1 + 2 + 1 devices of 4 in two types."""
    speeds = [[3.0, 1.0], [3.0, 1.0], [3.0, 1.0]]
    exact = shares(instant({"v100": 2, "p100": 2}, speeds, scales=[1, 2, 1]))
    np.testing.assert_allclose(exact.sum(axis=1), 1.0)
