"""Shortest remaining time first.

Legend: J jobs, A accelerator types.
"""

import numpy as np
from hypothesis import given

from gavelx.policies import Srtf
from gavelx.policies.greedy import seconds_JA, usable_throughput_JA
from gavelx.snapshot import WAITING, Snapshot
from tests.policies.instants import instant, types
from tests.policies.strategies import snapshots


def test_the_job_that_could_be_done_soonest_runs_whoever_holds_the_device() -> None:
    snapshot = instant({"v100": 1}, [[1.0], [1.0], [10.0]], [100.0, 50.0, 200.0], running=[0, WAITING, WAITING])
    assert types(Srtf().allocate(snapshot).share_JA) == [WAITING, WAITING, 0]


def test_it_is_time_that_counts_and_not_the_part_that_is_left() -> None:
    """A month of which 5 % is left is longer than a minute of which all is left."""
    month, minute = 30 * 86400.0, 60.0
    snapshot = instant({"v100": 1}, [[1.0], [1.0]], [0.05 * month, minute])
    assert types(Srtf().allocate(snapshot).share_JA) == [WAITING, 0]


def test_a_job_takes_a_slow_type_when_the_fast_one_is_taken() -> None:
    snapshot = instant({"v100": 1, "k80": 1}, [[4.0, 1.0], [4.0, 1.0], [4.0, 0.0]], [300.0, 100.0, 200.0])
    assert types(Srtf().allocate(snapshot).share_JA) == [1, 0, WAITING]


def test_a_gang_that_does_not_fit_is_passed_over() -> None:
    snapshot = instant({"v100": 3}, [[1.0]] * 3, [10.0, 20.0, 30.0], scales=[2, 2, 1])
    assert types(Srtf().allocate(snapshot).share_JA) == [0, WAITING, 0]


@given(snapshots(max_jobs=20))
def test_nobody_waits_for_a_longer_job_of_the_same_width(snapshot: Snapshot) -> None:
    type_J = types(Srtf().allocate(snapshot).share_JA)
    T_JA = usable_throughput_JA(snapshot)
    left_s_J = seconds_JA(snapshot.steps_left_J, T_JA).min(axis=1)
    for j in np.flatnonzero(np.array(type_J) == WAITING):
        for i, a in enumerate(type_J):
            if a != WAITING and snapshot.scale_factor_J[i] == snapshot.scale_factor_J[j] and T_JA[j, a] > 0:
                assert left_s_J[i] <= left_s_J[j]
