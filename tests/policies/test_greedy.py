"""The skeleton of policies that hand out whole devices.

Legend: J jobs, A accelerator types.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.policies import load_policy
from gavelx.policies.greedy import Handout, by_arrival, usable_throughput_JA
from gavelx.snapshot import WAITING, Snapshot
from tests.policies.instants import instant, types
from tests.policies.strategies import snapshots

HAND_OUT = ["backfill", "fifo", "gang_fifo", "las_2d", "las_2d_gittins", "optimus", "random", "srtf", "tetris"]
WORK_CONSERVING = ["las_2d", "las_2d_gittins", "optimus", "random", "srtf", "tetris"]


def test_ties_stay_where_they_run_and_else_go_where_most_is_free() -> None:
    handout = Handout(instant({"a": 4, "b": 2}, [[1.0, 1.0]] * 2, running=[1, WAITING]))
    handout.start(1, 0)
    assert handout.fastest(0, handout.room(0)) == 1
    handout = Handout(instant({"a": 4, "b": 2}, [[1.0, 1.0]] * 2))
    handout.start(1, 0)
    assert handout.fastest(0, handout.room(0)) == 1


def test_the_oldest_keep_their_devices_when_there_are_fewer_than_before() -> None:
    handout = Handout(instant({"a": 3}, [[1.0], [1.0], [0.0], [1.0]], scales=[2, 2, 1, 1], running=[0, 0, 0, 0]))
    handout.keep_running()
    assert handout.type_J == [0, WAITING, WAITING, 0]
    assert handout.free_A == [0]


def test_equals_go_by_arrival_then_by_id() -> None:
    snapshot = instant({"a": 1}, [[1.0]] * 3)
    assert by_arrival(snapshot, np.array([1.0, 0.0, 0.0])) == [1, 2, 0]


@given(snapshot=snapshots(max_jobs=20), seed=st.integers(0, 99))
def test_a_job_takes_the_fastest_type_that_has_room(snapshot: Snapshot, seed: int) -> None:
    """Types are gone through in an order that is worked out once for all jobs."""
    handout, rng = Handout(snapshot), np.random.default_rng(seed)
    for j in range(len(snapshot.jobs)):
        handout.free_A = rng.integers(0, snapshot.devices_A + 1).tolist()
        room = handout.room(j)
        assert handout.choice(j) == (handout.fastest(j, room) if room else WAITING)


@pytest.mark.slow
@pytest.mark.parametrize("name", HAND_OUT)
@given(snapshot=snapshots(max_jobs=20))
def test_gangs_get_all_their_devices_or_none(name: str, snapshot: Snapshot) -> None:
    allocation = load_policy(name).allocate(snapshot)
    assert allocation.execution.whole_devices
    type_J = types(allocation.share_JA)
    in_use_A = np.zeros(len(snapshot.accelerators), dtype=int)
    for job, a in zip(snapshot.jobs, type_J, strict=True):
        if a != WAITING:
            in_use_A[a] += job.scale_factor
    assert (in_use_A <= snapshot.devices_A).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK_CONSERVING)
@given(snapshot=snapshots(max_jobs=20))
def test_nothing_that_a_waiting_job_could_use_is_idle(name: str, snapshot: Snapshot) -> None:
    allocation = load_policy(name).allocate(snapshot)
    free_A = snapshot.devices_A - allocation.snapshot.configurations.devices_A(allocation.share_C)
    waits_J = ~allocation.share_JA.any(axis=1)
    could_JA = (usable_throughput_JA(snapshot) > 0) & (snapshot.scale_factor_J[:, None] <= free_A)
    assert not could_JA[waits_J].any()
