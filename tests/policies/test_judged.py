"""``robust`` and ``optimistic``: policies that take estimated speeds to be at one end of their ranges.

Legend: J jobs, C configurations, M memberships.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import Maximize, Sum, Throughput, agnostic, load_policy, packed, robust
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs
from gavelx.ways_to_run import ways_to_run
from tests.policies.strategies import snapshots

ESTIMATED = Throughputs(
    {Setting("a", "v100"): 10.0, Setting("b", "v100"): 8.0},
    {Pairing("a", "b", "v100"): 9.0, Pairing("b", "a", "v100"): 7.5},
    ranges={Setting("a", "v100"): (5.0, 30.0), Pairing("a", "b", "v100"): (1.0, 9.0)},
)
FASTEST = Maximize(Sum(Throughput()))


def one_of_two(table: Throughputs = ESTIMATED, pairs: bool = False) -> Snapshot:
    jobs = [Job(0, "a", 100.0), Job(1, "b", 100.0)]
    return Snapshot.of(jobs, Cluster.of({"v100": 1}), table, pairs=pairs)


@pytest.mark.parametrize(
    ("policy", "winner", "objective"),
    [("{}", 0, 10.0), ("robust({})", 1, 8.0), ("optimistic({})", 0, 30.0), ("agnostic(robust({}))", 1, 8.0)],
)
def test_the_device_goes_to_who_is_fastest_at_that_end(policy: str, winner: int, objective: float) -> None:
    allocation = load_policy(policy.format("max_sum_throughput")).allocate(one_of_two())
    assert allocation.share_JA[winner] == pytest.approx([1.0])
    assert allocation.throughput_J[winner] == pytest.approx((10.0, 8.0)[winner])  # at the likeliest speed
    state = FASTEST.state(one_of_two())
    assert state.objective(allocation.share_C) == pytest.approx((10.0, 8.0)[winner])


def test_the_certificate_says_at_which_end_the_answer_was_judged() -> None:
    certificate = robust(FASTEST).allocate(one_of_two()).certificate
    assert certificate.path.endswith("at lower ends")
    assert certificate.objective == pytest.approx(8.0)
    assert certificate.bound == pytest.approx(8.0)


def test_pairs_have_ranges_of_their_own() -> None:
    snapshot = one_of_two(pairs=True)
    assert packed(FASTEST).allocate(snapshot).certificate.objective == pytest.approx(16.5)
    for policy in (robust(packed(FASTEST)), packed(robust(FASTEST))):
        assert policy.allocate(snapshot).certificate.objective == pytest.approx(8.5)  # 1 + 7.5 together, 8 alone


def test_without_ranges_it_is_the_same_policy_and_nothing_is_stored() -> None:
    snapshot = one_of_two(replace(ESTIMATED, ranges={}), pairs=True)
    assert snapshot.known.lower_M is snapshot.known.upper_M is None
    assert snapshot.known.at("lower") is snapshot.known
    plain, doubted = FASTEST.allocate(snapshot), robust(FASTEST).allocate(snapshot)
    assert doubted.certificate.path == plain.certificate.path
    assert np.array_equal(doubted.share_C, plain.share_C)


def test_jobs_of_one_kind_stay_so_and_different_ranges_are_different_kinds() -> None:
    known = ways_to_run([Job(j, "ab"[j % 2], 1.0) for j in range(6)], ["v100"], ESTIMATED, pairs=True)
    assert known.kind_J is not None
    assert known.kind_J.tolist() == [0, 1] * 3
    assert known.unlike() is None
    assert known.lower_M is not None
    lower_M = known.lower_M.copy()
    lower_M[0] -= 1.0
    assert replace(known, lower_M=lower_M).unlike() == (0, 2)


@given(snapshots(extras=True))
def test_ranges_go_where_their_configurations_go(snapshot: Snapshot) -> None:
    known = snapshot.known
    of_jobs, place = known.of_jobs(np.arange(known.shape[0])[::2])
    for table, kept_C in ((of_jobs, place), (known.where(known.members_C == 1), known.members_C == 1)):
        keep_C = np.zeros(len(known), dtype=bool)
        keep_C[kept_C] = True
        kept_M = keep_C[known.configuration_M]
        for end in ("lower", "upper"):
            assert np.array_equal(table.at(end).throughput_M, known.at(end).throughput_M[kept_M])


@given(snapshots(min_jobs=1, max_jobs=5))
def test_a_robust_promise_holds_wherever_speeds_are_within_their_ranges(snapshot: Snapshot) -> None:
    allocation = robust(FASTEST).allocate(snapshot)
    table, objective = allocation.snapshot.configurations, allocation.certificate.objective
    if objective is None:  # nobody can run anywhere
        assert not table.at("lower").runnable_C.any()
        return
    for part in (0.0, 0.4, 1.0):
        lower_M, upper_M = (table.at(end).throughput_M for end in ("lower", "upper"))
        speed_M = lower_M + part * (upper_M - lower_M)
        delivered = float(speed_M @ allocation.share_C[table.configuration_M])
        assert delivered >= objective - 1e-6 * max(1.0, objective)


@given(snapshots(min_jobs=1, max_jobs=4))
def test_agnostic_means_are_means_of_either_end(snapshot: Snapshot) -> None:
    max_min = load_policy("max_min_fairness")
    doubting = agnostic(robust(max_min)).allocate(snapshot)
    told_the_ends = agnostic(max_min).allocate(snapshot.replace(known=snapshot.known.at("lower")))
    assert doubting.share_JA == pytest.approx(told_the_ends.share_JA, abs=1e-9)
