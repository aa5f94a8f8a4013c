"""Throughput per dollar, and deadlines: which are met, which are given up, and what is said of them.

Legend: J jobs, A accelerator types.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError
from gavelx.jobs import Job
from gavelx.policies import Maximize, NeededThroughput, SumThroughput, Throughput, load_policy
from gavelx.policies.min_cost import SPARE
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs
from tests.policies.reference import Instance
from tests.policies.strategies import snapshots

SPEEDS = Throughputs({Setting("net", "fast"): 10.0, Setting("net", "slow"): 4.0})
PRICES = Prices({"fast": 5.0, "slow": 1.0})


def snapshot(*deadlines: float | None, devices: str = "fast=1,slow=1", steps: float = 1000.0) -> Snapshot:
    """Jobs of so many steps, with seconds from now to their deadlines."""
    jobs = [
        Job(j, "net", steps, slo=None if due is None else 1.0, duration_s=due) for j, due in enumerate(deadlines)
    ]
    return Snapshot.of(jobs, Cluster.parse(devices), SPEEDS, PRICES)


def test_the_dearer_type_is_used_only_where_it_is_worth_it() -> None:
    # 10/5 = 2 steps/s per dollar on the fast one, 4/1 = 4 on the slow one
    assert load_policy("min_cost").allocate(snapshot(None)).share_JA.tolist() == [[0.0, 1.0]]
    assert load_policy("min_cost").allocate(snapshot(None)).certificate.objective == pytest.approx(4.0)


def test_a_deadline_is_met_at_the_least_loss() -> None:
    # 1,150 steps in 230 s: 5 steps/s, 6 with what is kept in hand: 10 x + 4 (1 - x) = 6
    allocation = load_policy("min_cost_slo").allocate(snapshot(230.0, steps=1150.0))
    assert allocation.throughput_J == pytest.approx([5.0 * (1 + SPARE)])
    assert allocation.share_JA == pytest.approx(np.array([[2 / 6, 4 / 6]]))
    assert allocation.notes == ()
    assert allocation.execution.refresh_s == pytest.approx(230.0 * SPARE / 2), (
        "it may be late while it is on the slow one"
    )


def test_where_not_all_can_keep_something_in_hand_nobody_does() -> None:
    # both need 6.8 steps/s: the two devices give 14 in all, and 15.6 would be wanted
    allocation = load_policy("min_cost_slo").allocate(snapshot(1000 / 6.8, 1000 / 6.8))
    assert allocation.notes == ()
    assert allocation.throughput_J.min() >= 6.8 * (1 - 1e-9)


def test_who_runs_as_fast_as_he_can_needs_no_second_look() -> None:
    assert load_policy("min_cost_slo").allocate(snapshot(100.0)).execution.refresh_s is None
    assert load_policy("min_cost_slo").allocate(snapshot(None)).execution.refresh_s is None


def test_a_deadline_that_nobody_could_meet_is_given_up_alone() -> None:
    allocation = load_policy("min_cost_slo").allocate(snapshot(50.0, 200.0))
    assert allocation.notes == ("the deadline of job 0 cannot be met: it needs 20 steps/s and runs at most at 10",)
    assert allocation.throughput_J[1] >= 5.0 * (1 - 1e-9)


def test_of_deadlines_in_each_others_way_the_least_important_is_given_up() -> None:
    # both need 8 steps/s: the two devices give 14 in all
    both = snapshot(125.0, 125.0)
    jobs = (both.jobs[0], dataclasses.replace(both.jobs[1], weight=2.0))
    allocation = load_policy("min_cost_slo").allocate(both.replace(jobs=jobs))
    assert allocation.notes == ("the deadline of job 0 cannot be met beside those of other jobs",)
    assert allocation.throughput_J[1] >= 8.0 * (1 - 1e-9)


def test_a_deadline_that_has_passed_is_given_up() -> None:
    late = snapshot(100.0).replace(time_s=101.0)
    assert load_policy("min_cost_slo").allocate(late).notes == ("the deadline of job 0 has passed",)
    with pytest.raises(ProgramError, match="deadline of job 0 has passed"):
        Maximize(SumThroughput(), [Throughput() >= NeededThroughput()]).allocate(late)


def test_without_deadlines_it_is_min_cost() -> None:
    one, other = (load_policy(name).allocate(snapshot(None, None)) for name in ("min_cost", "min_cost_slo"))
    assert one.certificate.objective == pytest.approx(other.certificate.objective)


@pytest.mark.parametrize(("prices", "word"), [({"fast": 1.0}, "slow"), ({"fast": 0.0, "slow": 1.0}, "fast costs")])
def test_a_price_must_be_known_and_more_than_nothing(prices: dict[str, float], word: str) -> None:
    unpriced = Snapshot.of([Job(0, "net", 1.0)], Cluster.parse("fast=1,slow=1"), SPEEDS, Prices(prices))
    with pytest.raises(PolicyError, match=word):
        load_policy("min_cost").allocate(unpriced)


@settings(max_examples=60)
@given(case=snapshots(max_jobs=8), data=st.data())
def test_deadlines_are_met_or_named(case: Snapshot, data: st.DataObject) -> None:
    """... and those that are given up last stood in the way of the others."""
    left = data.draw(st.lists(st.none() | st.floats(10.0, 1e5), min_size=len(case.jobs), max_size=len(case.jobs)))
    jobs = tuple(
        dataclasses.replace(job, slo=None if s is None else 1.0, duration_s=None if s is None else s + case.time_s)
        for job, s in zip(case.jobs, left, strict=True)
    )
    jobs = tuple(dataclasses.replace(job, arrival_s=0.0) for job in jobs)
    case = case.replace(jobs=jobs)
    allocation = load_policy("min_cost_slo").allocate(case)
    assert Instance.of(case).violation(allocation.share_JA) <= 1e-9
    named = {int(note.split("job ")[1].split()[0]) for note in allocation.notes}
    for j, (job, s) in enumerate(zip(jobs, left, strict=True)):
        if s is not None and job.id not in named:
            assert allocation.throughput_J[j] * s >= case.steps_left_J[j] * (1 - 1e-7)
