"""First come, first served without preemption, and EASY backfill on top.

Legend: J jobs, A accelerator types.
"""

import numpy as np
from hypothesis import given

from gavelx.policies import Backfill, GangFifo
from gavelx.policies.greedy import by_arrival, seconds_JA, usable_throughput_JA
from gavelx.snapshot import WAITING, Snapshot
from tests.policies.instants import instant, types
from tests.policies.strategies import snapshots

FOUR = {"v100": 4}


def test_a_wide_job_holds_up_the_queue_and_nobody_is_preempted() -> None:
    snapshot = instant(FOUR, [[1.0]] * 4, scales=[3, 2, 1, 1], running=[WAITING, 0, WAITING, WAITING])
    assert types(GangFifo().allocate(snapshot).share_JA) == [WAITING, 0, WAITING, WAITING]


def test_a_job_that_can_run_nowhere_holds_up_nobody() -> None:
    snapshot = instant(FOUR, [[1.0], [0.0], [1.0]], scales=[5, 1, 4])
    assert types(GangFifo().allocate(snapshot).share_JA) == [WAITING, WAITING, 0]


def test_speeds_do_not_matter_as_long_as_there_are_any() -> None:
    snapshot = instant({"v100": 1, "k80": 3}, [[100.0, 1.0], [1.0, 0.0]])
    assert types(GangFifo().allocate(snapshot).share_JA) == [1, 0]


def test_only_what_is_done_in_time_goes_before_the_head() -> None:
    """Three of four devices for 100 s, a head of four: EASY fills one device for those 100 s."""
    snapshot = instant(
        FOUR, [[1.0]] * 4, [100.0, 500.0, 101.0, 100.0], scales=[3, 4, 1, 1], running=[0, *[WAITING] * 3]
    )
    assert types(GangFifo().allocate(snapshot).share_JA) == [0, WAITING, WAITING, WAITING]
    assert types(Backfill().allocate(snapshot).share_JA) == [0, WAITING, WAITING, 0]


def test_a_long_job_may_go_before_the_head_if_it_fits_beside_it() -> None:
    """After 100 s four devices are free, the head needs three: one is to spare, once."""
    snapshot = instant(
        FOUR, [[1.0]] * 4, [100.0, 500.0, 1e6, 1e6], scales=[2, 3, 1, 1], running=[0, *[WAITING] * 3]
    )
    assert types(Backfill().allocate(snapshot).share_JA) == [0, WAITING, 0, WAITING]


def test_other_types_are_free_for_all() -> None:
    snapshot = instant(
        {"v100": 2, "k80": 1},
        [[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]],
        [100.0, 100.0, 1e6],
        scales=[1, 2, 1],
        running=[0, WAITING, WAITING],
    )
    assert types(Backfill().allocate(snapshot).share_JA) == [0, WAITING, 1]


def held(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which everyone runs whom gang_fifo would start, and then some are done."""
    type_J = np.array(types(GangFifo().allocate(snapshot).share_JA), dtype=np.int64)
    type_J[::3] = WAITING
    return snapshot.replace(running_J=type_J)


@given(snapshots(max_jobs=20).map(held))
def test_nobody_who_runs_is_moved(snapshot: Snapshot) -> None:
    for policy in (GangFifo(), Backfill()):
        type_J = np.array(types(policy.allocate(snapshot).share_JA), dtype=np.int64)
        runs_J = snapshot.running_J != WAITING
        assert (type_J[runs_J] == snapshot.running_J[runs_J]).all()


@given(snapshots(max_jobs=20).map(held))
def test_nobody_overtakes(snapshot: Snapshot) -> None:
    type_J = types(GangFifo().allocate(snapshot).share_JA)
    can_run_J = (usable_throughput_JA(snapshot) > 0).any(axis=1)
    queue = [j for j in by_arrival(snapshot) if snapshot.running_J[j] == WAITING and can_run_J[j]]
    starts = [type_J[j] != WAITING for j in queue]
    assert starts == sorted(starts, reverse=True)


@given(snapshots(max_jobs=20).map(held))
def test_backfill_never_delays_the_head_of_the_queue(snapshot: Snapshot) -> None:
    before, after = (types(policy.allocate(snapshot).share_JA) for policy in (GangFifo(), Backfill()))
    assert all(b in (a, WAITING) for b, a in zip(before, after, strict=True))
    can_run_J = (usable_throughput_JA(snapshot) > 0).any(axis=1)
    waiting = [j for j in by_arrival(snapshot) if before[j] == WAITING and can_run_J[j]]
    if waiting:
        assert after[waiting[0]] == WAITING
        assert first_start_s(snapshot, after, waiting[0]) <= first_start_s(snapshot, before, waiting[0])


def first_start_s(snapshot: Snapshot, type_J: list[int], head: int) -> float:
    """When enough devices of one type are free for a job, looking at every end in turn."""
    T_JA = usable_throughput_JA(snapshot)
    left_s_JA, found = seconds_JA(snapshot.steps_left_J, T_JA), []
    for a in np.flatnonzero(T_JA[head] > 0):
        running = [j for j, held in enumerate(type_J) if held == a]
        for end_s in [0.0, *(left_s_JA[j, a] for j in running)]:
            busy = sum(snapshot.jobs[j].scale_factor for j in running if left_s_JA[j, a] > end_s)
            if snapshot.devices_A[a] - busy >= snapshot.jobs[head].scale_factor:
                found.append(end_s)
    return min(found)
