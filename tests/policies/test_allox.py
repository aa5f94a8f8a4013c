"""AlloX: what it plans, who starts, who stays, and what it refuses.

Legend: J jobs, A accelerator types.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.errors import PolicyError
from gavelx.jobs import Job
from gavelx.policies import Allox, load_policy
from gavelx.snapshot import WAITING, Snapshot
from gavelx.throughputs import Setting, Throughputs
from tests.policies.published_allox import assert_starts_of, published_allox
from tests.policies.strategies import snapshot_of, snapshots
from tests.published.answers import as_published

ONE_DEVICE = snapshots(max_jobs=20, max_types=4, scale_factors=st.just(1)).map(
    lambda snapshot: snapshot.replace(running_J=np.full(len(snapshot.jobs), WAITING))
)


def snapshot(
    steps: list[float], cluster: dict[str, int], running: list[int] | None = None, **speed: float
) -> Snapshot:
    """Jobs of one kind with so many steps to do, oldest first."""
    jobs = [Job(j, "net", count, arrival_s=float(j)) for j, count in enumerate(steps)]
    table = Throughputs({Setting("net", name): value for name, value in speed.items()})
    made = Snapshot.of(jobs, Cluster.of(cluster), table)
    return made.replace(running_J=np.array(running)) if running else made


def test_the_first_job_of_each_device_runs_and_the_rest_waits() -> None:
    allocation = Allox().allocate(snapshot([30.0, 10.0, 20.0], {"v100": 1}, v100=1.0))
    assert allocation.share_JA.tolist() == [[0.0], [1.0], [0.0]]
    assert allocation.certificate.objective == 1 * 30.0 + 2 * 20.0 + 3 * 10.0
    assert allocation.certificate.bound == allocation.certificate.objective


def test_a_long_job_behind_a_short_one_on_a_fast_device_beats_a_slow_device() -> None:
    allocation = Allox().allocate(snapshot([100.0, 10.0], {"v100": 1, "k80": 1}, v100=10.0, k80=1.0))
    # one after the other on the v100: 1 + 11; side by side: 10 + 10
    assert allocation.share_JA.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert allocation.certificate.objective == pytest.approx(12.0)


def test_of_equal_jobs_the_older_start() -> None:
    for count in range(1, 9):
        share_JA = Allox().allocate(snapshot([7.0] * count, {"a": 1, "b": 2}, a=1.0, b=1.0)).share_JA
        assert share_JA.sum(axis=1).tolist() == [float(j < 3) for j in range(count)]


def test_a_job_keeps_the_device_that_it_holds() -> None:
    held = snapshot([1000.0, 1.0, 2.0], {"v100": 1, "k80": 1}, [0, WAITING, WAITING], v100=10.0, k80=1.0)
    assert Allox().allocate(held).share_JA.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


def test_a_free_device_goes_to_whom_it_saves_most_of_those_to_whom_it_is_as_much_faster() -> None:
    """Job 1 has the most left on the k80s; its k80 stays free, for nobody would gain by it."""
    held = snapshot([500.0, 1000.0, 100.0], {"v100": 1, "k80": 3}, [1, 1, 1], v100=10.0, k80=1.0)
    assert Allox().allocate(held).share_JA.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


def test_it_goes_to_the_fastest_and_stays_there() -> None:
    held = snapshot([1000.0], {"v100": 1, "p100": 1, "k80": 1}, [2], v100=10.0, p100=5.0, k80=1.0)
    assert Allox().allocate(held).share_JA.tolist() == [[1.0, 0.0, 0.0]]


def moving(speed_JA: list[list[float]], steps: list[float], running: list[int]) -> list[int]:
    """The type of each job, of those who run on one device of each of three types."""
    jobs = tuple(Job(j, "net", 1e6, arrival_s=float(j)) for j in range(len(steps)))
    held = snapshot_of(jobs, Cluster.of({"v100": 1, "p100": 1, "k80": 1}), np.array(speed_JA))
    share_JA = Allox().allocate(held.replace(running_J=np.array(running), steps_left_J=np.array(steps))).share_JA
    return [int(row.argmax()) if row.any() else WAITING for row in share_JA]


def test_a_free_device_goes_to_whom_it_is_faster_by_the_largest_factor() -> None:
    """The job on the p100 would save more seconds; the one on the k80 is four times as fast, not twice."""
    assert moving([[4.0, 2.0, 1.0], [4.0, 2.0, 1.0]], [9000.0, 1000.0], [1, 2]) == [1, 0]


def test_what_is_moved_leaves_a_device_for_the_next_and_then_for_those_who_wait() -> None:
    assert moving([[9.0, 2.0, 1.0], [4.0, 2.0, 1.0]], [1000.0, 1000.0], [1, 2]) == [0, 1]
    assert moving([[9.0, 2.0, 1.0], [4.0, 2.0, 1.0], 3 * [1.0]], 3 * [1000.0], [1, 2, WAITING]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("steps", "speed", "moves"), [(1e4, 1.09, False), (1e4, 1.11, True), (66.0, 1.5, False), (599.0, 1.112, True)]
)
def test_nobody_moves_for_a_tenth_or_a_minute(steps: float, speed: float, moves: bool) -> None:
    little = snapshot([steps], {"v100": 1, "k80": 1}, [1], v100=speed, k80=1.0)
    assert Allox().allocate(little).share_JA.tolist() == [[float(moves), float(not moves)]]


def test_those_who_run_come_before_those_who_wait() -> None:
    """The one that waits is complete at once on the k80 too, and the other ten times sooner."""
    waits = snapshot([1000.0, 1.0], {"v100": 1, "k80": 1}, [1, WAITING], v100=10.0, k80=1.0)
    assert Allox().allocate(waits).share_JA.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_under_the_published_rules_the_policy_moves_nobody() -> None:
    held = snapshot([1000.0], {"v100": 1, "k80": 1}, [1], v100=10.0, k80=1.0)
    assert as_published(Allox(), held).share_JA.tolist() == [[0.0, 1.0]]


def test_a_job_gives_up_a_device_on_which_it_cannot_run() -> None:
    held = snapshot([10.0, 10.0], {"v100": 1, "k80": 1}, [1, 1], v100=10.0, k80=0.0)
    assert Allox().allocate(held).share_JA.sum(axis=0).tolist() == [1.0, 0.0]


def test_no_share_where_nothing_is_free_or_a_job_cannot_run() -> None:
    full = snapshot([5.0, 5.0], {"v100": 1, "k80": 1}, [0, WAITING], v100=2.0, k80=0.0)
    assert Allox().allocate(full).share_JA.tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("speed", [1e-300, 1e-40])
def test_a_speed_that_never_gets_anywhere_is_none(speed: float) -> None:
    given = snapshot([1e9, 1e9, 1e9], {"v100": 1, "k80": 1}, v100=1.0, k80=speed)
    assert Allox().allocate(given).share_JA.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_gang_is_refused_by_name() -> None:
    made = snapshot([5.0], {"v100": 4}, v100=1.0)
    jobs = (Job(7, "net", 5.0, scale_factor=2), Job(8, "net", 5.0, scale_factor=4))
    gangs = snapshot_of(jobs, made.cluster, np.ones((2, 1)))
    with pytest.raises(
        PolicyError, match=r"allox: job 7 needs 2 devices at once; expected .* Try: fifo"
    ) as caught:
        Allox().allocate(gangs)
    assert (
        "its place in the line of one device, and a gang would stand in several at once" in caught.value.expected
    )
    for name in ("fifo", "srtf", "optimus", "max_min_fairness"):
        assert name in caught.value.hint
        assert load_policy(name).allocate(gangs).throughput_J.any()


@given(snapshot=ONE_DEVICE)
def test_shares_are_whole_and_where_a_job_makes_progress(snapshot: Snapshot) -> None:
    share_JA = Allox().allocate(snapshot).share_JA
    assert np.isin(share_JA, (0.0, 1.0)).all()
    assert not share_JA[np.isinf(lengths(snapshot))].any()
    assert share_JA.any() == np.isfinite(lengths(snapshot)).any()


def objective(snapshot: Snapshot) -> float:
    """The least sum of completion times, from the published matrix."""
    seconds_JA = lengths(snapshot)
    return published_allox(seconds_JA[np.isfinite(seconds_JA).any(axis=1)], snapshot.devices_A).cost


def lengths(snapshot: Snapshot) -> np.ndarray:
    """Seconds on each type; infinite where a job cannot run or there is no device."""
    T_JA = np.nan_to_num(snapshot.configurations.throughput_JA)
    usable_JA = (T_JA > 0) & (snapshot.devices_A > 0)
    return np.where(usable_JA, snapshot.steps_left_J[:, None] / np.where(usable_JA, T_JA, 1.0), np.inf)


@given(snapshot=ONE_DEVICE)
def test_the_objective_is_that_of_the_published_matrix(snapshot: Snapshot) -> None:
    certificate = Allox().allocate(snapshot).certificate
    assert certificate.objective == pytest.approx(objective(snapshot), rel=1e-9)
    assert certificate.objective * (1.0 - 1e-9) <= certificate.bound <= certificate.objective


@pytest.mark.parametrize("seed", range(20))
def test_those_start_whom_the_published_plan_may_start(seed: int) -> None:
    """Lengths are random numbers, so one plan is best."""
    random = np.random.default_rng(seed)
    J, devices_A = int(random.integers(1, 40)), random.integers(1, 6, size=3)
    jobs = tuple(Job(j, "any", float(random.uniform(1e3, 1e6)), arrival_s=float(j)) for j in range(J))
    cluster = Cluster.of(dict(zip(("a", "b", "c"), devices_A.tolist(), strict=True)))
    given = snapshot_of(jobs, cluster, random.uniform(0.1, 10.0, size=(J, 3)))
    published = published_allox(lengths(given), devices_A)
    assert_starts_of(published.type_J, published.position_J, Allox().allocate(given).share_JA, devices_A)


@given(snapshot=ONE_DEVICE, data=st.data())
def test_nobody_is_moved_when_asked_again(snapshot: Snapshot, data: st.DataObject) -> None:
    """Those who started hold their devices in the next snapshot, and keep them, with fewer steps left."""
    share_JA = Allox().allocate(snapshot).share_JA
    running_J = np.where(share_JA.any(axis=1), share_JA.argmax(axis=1), WAITING)
    left = data.draw(st.floats(0.01, 1.0))
    later = snapshot.replace(running_J=running_J, steps_left_J=snapshot.steps_left_J * left)
    again_JA = Allox().allocate(later).share_JA
    assert (again_JA[running_J != WAITING] == share_JA[running_J != WAITING]).all()


def test_it_has_a_name_and_promises_nothing() -> None:
    policy = load_policy("allox")
    assert isinstance(policy, Allox)
    assert policy.promises == ()
