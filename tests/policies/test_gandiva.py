"""Equal shares, random pairs, and which of them are kept.

Legend: J jobs, A accelerator types, C configurations.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import Gandiva
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs
from tests.policies.strategies import permuted, snapshots


def crowd(count: int, parts: dict[str, float], devices: int = 1) -> Snapshot:
    """So many like jobs, and devices of each type; side by side each job runs at these parts of 10 steps/s."""
    table = Throughputs(
        {Setting("net", name): 10.0 for name in parts},
        {Pairing("net", "net", name): 10.0 * part for name, part in parts.items()},
    )
    jobs = [Job(j, "net", 1000.0) for j in range(count)]
    return Snapshot.of(jobs, Cluster.of(dict.fromkeys(parts, devices)), table, pairs=True)


def pairs(allocation: Allocation) -> set[tuple[int, int]]:
    """The ids of the jobs that share devices."""
    promised = allocation.promises().configurations
    return {
        (first, second)
        for first, second in zip(promised.job.tolist(), promised.partner.tolist(), strict=True)
        if second >= 0
    }


def after(allocation: Allocation, time_s: float) -> Snapshot:
    """The same jobs later, remembering what they were promised."""
    return allocation.snapshot.replace(promised=allocation.promises(), time_s=time_s, opened=frozenset())


def test_where_there_is_room_for_everyone_nobody_shares() -> None:
    allocation = Gandiva().allocate(crowd(2, {"v100": 0.9, "k80": 0.9}))
    assert allocation.share_JA.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert not pairs(allocation)
    assert allocation.execution.refresh_s is None


def test_a_crowd_is_paired_and_each_pair_gets_an_equal_part() -> None:
    allocation = Gandiva().allocate(crowd(6, {"v100": 0.6, "k80": 0.6}))
    assert len(pairs(allocation)) == 3
    np.testing.assert_allclose(allocation.share_JA, np.full((6, 2), 1 / 3))
    assert allocation.execution.refresh_s == 360.0


def test_an_odd_job_has_a_part_of_its_own() -> None:
    allocation = Gandiva().allocate(crowd(5, {"v100": 0.6}, devices=2))
    assert len(pairs(allocation)) == 2
    np.testing.assert_allclose(allocation.share_JA, np.full((5, 1), 2 / 3))


def test_pairs_that_are_worth_it_stay_and_nothing_is_on_trial_any_more() -> None:
    allocation = first = Gandiva().allocate(crowd(6, {"v100": 0.6}))
    for time_s in (360.0, 720.0, 1080.0):
        allocation = Gandiva().allocate(after(allocation, time_s))
        assert pairs(allocation) == pairs(first)
        assert allocation.execution.refresh_s is None


@pytest.mark.parametrize("parts", [{"v100": 0.45}, {"v100": 0.9, "k80": 0.0}, {"a": 0.15, "b": 0.15, "c": 0.15}])
def test_bad_pairs_are_dissolved_and_drawn_again(parts: dict[str, float]) -> None:
    """Below 1 in sum over members and types, or nothing on some type."""
    allocation, seen = Gandiva().allocate(crowd(8, parts)), set()
    for time_s in range(360, 3600, 360):
        seen.add(frozenset(pairs(allocation)))
        allocation = Gandiva().allocate(after(allocation, float(time_s)))
    assert len(seen) > 5


def test_a_pair_is_judged_by_the_sum_over_all_types_as_published() -> None:
    """Three types at 0.2 for two members are 1.2, though the pair does less than half of one job on each."""
    allocation = Gandiva().allocate(crowd(8, {"a": 0.2, "b": 0.2, "c": 0.2}))
    assert pairs(Gandiva().allocate(after(allocation, 360.0))) == pairs(allocation)


def test_a_job_whose_partner_is_done_is_drawn_again_with_the_new_ones() -> None:
    allocation = Gandiva().allocate(crowd(6, {"v100": 0.6}))
    (gone, left), *kept = sorted(pairs(allocation))
    snapshot = after(allocation, 360.0)
    inner, _ = snapshot.of_jobs(np.array([j for j in range(6) if j != gone]), snapshot.cluster)
    again = Gandiva().allocate(inner)
    assert set(kept) == pairs(again)
    assert again.share_JA[[job.id for job in inner.jobs].index(left)] > 0


def test_only_jobs_of_which_a_pair_is_known_are_paired() -> None:
    """Two of four are of a type that nobody has seen beside another job."""
    table = Throughputs(
        {Setting(name, "v100"): 10.0 for name in ("net", "odd")}, {Pairing("net", "net", "v100"): 6.0}
    )
    jobs = [Job(j, "net" if j < 2 else "odd", 1000.0) for j in range(4)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 1}), table, pairs=True)
    seen = Counter(len(pairs(Gandiva(seed).allocate(snapshot))) for seed in range(40))
    assert seen.keys() == {0, 1}  # the two are drawn together once in three times


def test_chance_is_a_function_of_seed_and_instant() -> None:
    snapshot = crowd(12, {"v100": 0.6})
    assert pairs(Gandiva(1).allocate(snapshot)) == pairs(Gandiva(1).allocate(snapshot))
    assert pairs(Gandiva(1).allocate(snapshot)) != pairs(Gandiva(2).allocate(snapshot))
    assert pairs(Gandiva(1).allocate(snapshot)) != pairs(Gandiva(1).allocate(snapshot.replace(time_s=1.0)))


@given(snapshots(extras=True, max_jobs=20))
def test_everyone_is_in_one_combination_with_an_equal_part(snapshot: Snapshot) -> None:
    """Also when the pairs of the last time are remembered, and whatever the order of the jobs."""
    allocation = Gandiva().allocate(snapshot)
    again = Gandiva().allocate(after(allocation, snapshot.time_s + 360.0))
    for answer in (allocation, again):
        members = Counter(job_id for pair in pairs(answer) for job_id in pair)
        assert set(members.values()) <= {1}
        alone = {job_id for job_id, second in zip(*ids(answer), strict=True) if second < 0}
        assert not alone & members.keys()
    backwards = permuted(after(allocation, snapshot.time_s + 360.0), range(len(snapshot.jobs))[::-1])
    assert pairs(Gandiva().allocate(backwards)) == pairs(again)


def ids(allocation: Allocation) -> tuple[list[int], list[int]]:
    promised = allocation.promises().configurations
    return promised.job.tolist(), promised.partner.tolist()
