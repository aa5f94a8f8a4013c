"""Teams and their members: worked by hand, and against a slow progressive filling.

With one type of device and jobs of one speed, s_j e_j / e_j(proportional) is just the devices that a job holds.

Legend: J jobs, A accelerator types.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError
from gavelx.jobs import Job
from gavelx.policies import (
    Convex,
    Cost,
    Fifo,
    Maximize,
    MaxMinFairness,
    Minimize,
    Owner,
    TimeShare,
    Worst,
    hierarchical,
    load_policy,
    packed,
)
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs
from tests.policies.filling import filled
from tests.policies.reference import Instance
from tests.policies.strategies import snapshots

ALIKE = Throughputs({Setting("net", "v100"): 1.0})


def held(devices: int, owners: dict[str, Any], *jobs: tuple[str, float] | str) -> list[float]:
    """Devices that each job holds: jobs are an owner, or an owner and a priority."""
    pairs = [(job, 1.0) if isinstance(job, str) else job for job in jobs]
    made = [Job(j, "net", 100.0, owner=owner, weight=weight) for j, (owner, weight) in enumerate(pairs)]
    snapshot = Snapshot.of(made, Cluster.of({"v100": devices}), ALIKE)
    allocation = hierarchical(MaxMinFairness(), owners).allocate(snapshot)
    return [round(value, 9) for value in allocation.share_JA[:, 0].tolist()]


def test_a_team_of_three_gets_no_more_than_a_team_of_one() -> None:
    # 1 device, half to each team; a third of it to each of a's jobs
    assert held(1, {}, "a", "a", "a", "b") == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])


def test_weights_of_teams_and_priorities_of_jobs_multiply() -> None:
    # a has 2 of 3 parts; in it 3 : 1
    assert held(1, {"a": 2}, ("a", 3.0), ("a", 1.0), "b") == pytest.approx([1 / 2, 1 / 6, 1 / 3])


def test_what_a_saturated_job_leaves_goes_to_its_siblings_first() -> None:
    # 3 devices: 1.5 to a's only job, which can use 1; the 0.5 go to b, whose two jobs then have 1 each
    assert held(3, {}, "a", "b", "b") == pytest.approx([1.0, 1.0, 1.0])
    # 2 devices, a weighs 3: 1.5 to a, of which its only job can use 1; b shares the other device
    assert held(2, {"a": 3}, "a", "b", "b") == pytest.approx([1.0, 0.5, 0.5])
    # 3 devices, two teams of two, a's priorities 3 : 1: 1.5 each; a's first would have 1.125, keeps 1, and its
    # sibling gets the rest of a's part: 1.5 - 1 = 0.5
    assert held(3, {}, ("a", 3.0), ("a", 1.0), "b", "b") == pytest.approx([1.0, 0.5, 0.75, 0.75])


def test_a_queue_serves_its_first_job_before_its_second() -> None:
    # 1.5 devices to each team: a's first job runs all the time, its second half of it, its third waits
    assert held(3, {"a": "fifo"}, "a", "a", "a", "b", "b") == pytest.approx([1.0, 0.5, 0.0, 0.75, 0.75])


def test_users_share_their_teams_part() -> None:
    # 1 device: 1/2 to each team; in ml ann weighs 3 and bob 1; bob's two jobs share his eighth
    owners = {"ml/ann": 3}
    assert held(1, owners, "ml/ann", "ml/bob", "ml/bob", "ops/eve") == pytest.approx(
        [3 / 8, 1 / 16, 1 / 16, 1 / 2]
    )


def test_owners_may_nest_three_deep_and_jobs_may_stand_beside_them() -> None:
    # 1 device: a job without an owner (weight 1) beside ml (1): 1/2 each; ml: a job of its own (1) beside ml/x (1)
    assert held(1, {}, "", "ml", "ml/x/y", "ml/x/z") == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 8])


def test_everyone_below_a_queue_stands_in_it() -> None:
    assert held(1, {"ml": "fifo"}, "ml/bob", "ml/ann", "ml", "ops") == pytest.approx([0.5, 0.0, 0.0, 0.5])


def test_the_whole_cluster_may_be_a_queue() -> None:
    assert held(2, {"": "fifo"}, "a", "b", "c") == [1.0, 1.0, 0.0]


def test_one_team_of_all_is_plain_max_min_fairness() -> None:
    assert held(1, {}, ("a", 1.0), ("a", 4.0)) == pytest.approx([0.2, 0.8])


@st.composite
def teams(draw: st.DrawFn) -> tuple[Snapshot, dict[str, Owner], dict[str, Any]]:
    """A snapshot whose jobs belong to teams and users, the owners, and the same as a tree of lists."""
    snapshot = draw(snapshots(max_jobs=5, max_types=3))
    owners = {
        name: Owner(draw(st.sampled_from((1.0, 2.0, 0.5))), draw(st.booleans()) and "/" in name)
        for name in ("a", "b", "a/x", "a/y")
    }
    names = draw(st.lists(st.sampled_from(("a/x", "a/y", "b")), min_size=5, max_size=5))
    jobs = tuple(dataclasses.replace(job, owner=name) for job, name in zip(snapshot.jobs, names, strict=False))
    members: dict[str, list[tuple[float, int]]] = {name: [] for name in owners}
    for j, job in sorted(enumerate(jobs), key=lambda one: (one[1].arrival_s, one[1].id)):
        members[job.owner].append((job.weight, j))

    def node(name: str) -> tuple[float, dict[str, Any]]:
        return owners[name].weight, {"fifo": owners[name].fifo, "children": members[name]}

    team_a = {"fifo": False, "children": [node("a/x"), node("a/y")]}
    tree = {"fifo": False, "children": [(owners["a"].weight, team_a), node("b")]}
    return snapshot.replace(jobs=jobs), owners, tree


@settings(deadline=None, max_examples=60)
@given(case=teams())
def test_it_equals_progressive_filling(case: tuple[Snapshot, dict[str, Owner], dict[str, Any]]) -> None:
    snapshot, owners, tree = case
    instance = Instance.of(snapshot)
    expected_J = filled(instance, tree)
    got = hierarchical(MaxMinFairness(), owners).allocate(snapshot)
    got_J = instance.factor_J * instance.weight_J * got.throughput_J
    np.testing.assert_allclose(got_J, expected_J, rtol=1e-5, atol=1e-6)


def test_it_prints_as_what_the_command_line_reads() -> None:
    text = "hierarchical(max_min_fairness, ml=2, ml/ann=3, ops=0.5 fifo)"
    assert str(load_policy(text)) == text
    assert str(load_policy("hierarchical(max_min_fairness)")) == "hierarchical(max_min_fairness)"


def test_constraints_stay_whatever_is_put_around_them() -> None:
    jobs = [Job(j, "net", 100.0, owner="ab"[j % 2]) for j in range(8)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 4}), ALIKE, Prices({"v100": 2.0}))
    text = "hierarchical(with_constraints({}, TimeShare() <= 0.5), a=3)"
    assert (
        load_policy(text.format("hierarchical(max_min_fairness)")).allocate(snapshot).share_JA.max() <= 0.5 + 1e-9
    )
    with pytest.raises(ProgramError, match=r"TimeShare\(\) <= 0.5 and no job is slower than with its slice"):
        load_policy(text.format("value_fair_share")).allocate(snapshot)


def test_what_is_constrained_prints_as_what_the_command_line_reads() -> None:
    text = "hierarchical(with_constraints(value_fair_share, Cost() <= 1234567.89), ml=0.12345678)"
    assert str(load_policy(text)) == text
    text = "hierarchical(Maximize(Worst(NormalizedThroughput()), [Cost() <= 40]), ml=2)"
    assert str(load_policy("with_constraints(hierarchical(max_min_fairness, ml=2), Cost() <= 40)")) == text
    assert str(load_policy(text)) == text


def test_other_modifiers_stay_around_it() -> None:
    policy = hierarchical(packed(Maximize(Worst(TimeShare()), [Cost() <= 3])), {"a": "fifo"})
    assert str(policy) == "packed(hierarchical(Maximize(Worst(TimeShare()), [Cost() <= 3]), a=fifo))"


@pytest.mark.parametrize(
    "around", ["{}", "agnostic({})", "packed({})", "partitioned({}, 2)", "with_constraints({}, Cost() <= 5)"]
)
def test_its_shares_say_that_they_are_divided_between_owners(around: str) -> None:
    jobs = [Job(j, "net", 100.0, owner="ab"[j % 2]) for j in range(4)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 2}, 1), ALIKE, Prices({"v100": 1.0}))
    assert load_policy(around.format("hierarchical(max_min_fairness)")).allocate(snapshot).execution.by_owner
    assert not load_policy(around.format("max_min_fairness")).allocate(snapshot).execution.by_owner


class Own(Convex):
    """A term that is not linear: it has rows that cvxpy alone understands."""

    def expression(self, view: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    "policy", [Fifo(), Maximize(Cost() * 1.0), Minimize(Cost()), Maximize(Worst(Own()))], ids=str
)
def test_what_has_no_worst_row_is_refused(policy: Any) -> None:
    with pytest.raises(PolicyError, match="does not raise its worst row"):
        hierarchical(policy)


class Halved(MaxMinFairness):
    """Half of each share: its answer is not that of its formula."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        answer = super().allocate(snapshot)
        return dataclasses.replace(answer, share_C=answer.share_C / 2)


def test_a_policy_whose_own_answer_would_be_passed_over_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"Halved has its own allocate\(\), which would never be asked"):
        hierarchical(Halved())


@pytest.mark.parametrize("owner", ["", "fast", "0", "-1", "1 2", "fifo fifo", "nan", "inf", "2 lifo"])
def test_an_owner_is_a_weight_or_a_queue(owner: str) -> None:
    with pytest.raises(PolicyError, match=r"weigh|expected a weight"):
        hierarchical(MaxMinFairness(), {"ml": owner})
    with pytest.raises(PolicyError):
        load_policy(f"hierarchical(max_min_fairness, ml={owner})")
