"""Marginal gains.

Legend: J jobs, A accelerator types.
"""

import numpy as np
from hypothesis import given

from gavelx.policies import Optimus
from gavelx.policies.greedy import Handout, by_arrival, seconds_JA
from gavelx.snapshot import WAITING, Snapshot
from tests.policies.instants import instant, types
from tests.policies.strategies import snapshots


def test_the_fast_device_goes_where_it_takes_most_time_off() -> None:
    """Both would take 10 s on the v100; on the k80 one takes 20 s and the other 100 s."""
    snapshot = instant({"v100": 1, "k80": 1}, [[10.0, 5.0], [10.0, 1.0]], [100.0, 100.0])
    assert types(Optimus().allocate(snapshot).share_JA) == [1, 0]


def test_every_job_is_served_before_any_is_served_well() -> None:
    """The shorter takes the v100s at first; the longer would need 2,000 s without them: they change places."""
    snapshot = instant({"v100": 2, "k80": 2}, [[4.0, 3.0], [4.0, 0.1]], [100.0, 200.0], scales=[2, 2])
    assert types(Optimus().allocate(snapshot).share_JA) == [1, 0]


def test_what_a_step_leaves_free_is_given_out() -> None:
    """The b that the second job takes from the first sends it to c, not to a; then there is an a for the third."""
    speeds = [[1.0, 10.0, 5.0], [1.0, 9.0, 0.0], [9.0, 0.0, 0.0]]
    snapshot = instant({"a": 1, "b": 1, "c": 1}, speeds, [100.0, 1000.0, 10000.0])
    assert types(Optimus().allocate(snapshot).share_JA) == [2, 1, 0]


def test_a_decision_every_interval() -> None:
    assert Optimus(interval_s=60.0).allocate(instant({"v100": 1}, [[1.0]])).execution.refresh_s == 60.0


@given(snapshots(max_jobs=20))
def test_no_exchange_and_no_move_is_left_that_gains_anything(snapshot: Snapshot) -> None:
    handout = Handout(snapshot)
    left_s_JA = seconds_JA(snapshot.steps_left_J, handout.T_JA)
    allocation = Optimus().allocate(snapshot)
    type_J = types(allocation.share_JA)
    free_A = snapshot.devices_A - snapshot.configurations.devices_A(allocation.share_C)
    running = [j for j, a in enumerate(type_J) if a != WAITING]
    for j in running:
        for b in range(len(free_A)):
            if free_A[b] >= snapshot.scale_factor_J[j]:
                assert left_s_JA[j, type_J[j]] <= left_s_JA[j, b] * (1 + 1e-6)
        for i in running:
            if snapshot.scale_factor_J[i] == snapshot.scale_factor_J[j]:
                now = left_s_JA[j, type_J[j]] + left_s_JA[i, type_J[i]]
                assert now <= (left_s_JA[j, type_J[i]] + left_s_JA[i, type_J[j]]) * (1 + 1e-6)


@given(snapshots(max_jobs=20))
def test_whoever_runs_in_the_order_of_device_seconds_runs(snapshot: Snapshot) -> None:
    handout = Handout(snapshot)
    left_s_JA = seconds_JA(snapshot.steps_left_J, handout.T_JA)
    handout.in_order(by_arrival(snapshot, snapshot.scale_factor_J * left_s_JA.min(axis=1)))
    runs_J = Optimus().allocate(snapshot).share_JA.any(axis=1)
    assert runs_J[np.array(handout.type_J, dtype=np.int64) != WAITING].all()
