"""What must hold for every policy on every snapshot, and what a policy promises.

Feasibility, fairness and efficiency are computed anew from plain arrays (:mod:`tests.policies.reference`), not
with the package's own checks.

Legend: J jobs, A accelerator types.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import Policy, catalog, load_policy
from gavelx.snapshot import Snapshot
from tests.policies.reference import Instance, lexicographic_max_min, room_for_improvement
from tests.policies.strategies import POSITIVE, permuted, renamed, snapshot_of, snapshots

NAMES = tuple(catalog())
EVERY = (*NAMES, *(f"agnostic({name})" for name in NAMES))
UNIQUE = tuple(name for name in EVERY if "max_sum_throughput" not in name)
"""Policies whose effective throughputs are unique; the largest sum can often be had in several ways."""
EPSILON = 1e-9
SMALL = settings(max_examples=40)

SLICES = ("isolated", "proportional", "alg51")
"""Policies that give every job a slice of every type: one on which it cannot run stays idle."""
NO_GANGS = ("allox", "agnostic(allox)")
"""Policies that refuse jobs of several devices."""

every_policy = pytest.mark.parametrize("policy", [load_policy(name) for name in EVERY], ids=str)


def suited(snapshot: Snapshot, policy: Policy | str) -> Snapshot:
    """The snapshot with one device for each job, if the policy wants it so."""
    if str(policy) not in NO_GANGS:
        return snapshot
    jobs = tuple(dataclasses.replace(job, scale_factor=1) for job in snapshot.jobs)
    return snapshot_of(jobs, snapshot.cluster, snapshot.configurations.throughput_JA)


def those_that_promise(what: str) -> list[Policy]:
    return [policy for policy in catalog().values() if what in policy.promises]


@every_policy
@given(snapshot=snapshots())
def test_allocations_are_feasible(policy: Policy, snapshot: Snapshot) -> None:
    snapshot = suited(snapshot, policy)
    allocation = policy.allocate(snapshot)
    assert allocation.share_JA.shape == (len(snapshot.jobs), len(snapshot.accelerators))
    assert Instance.of(snapshot).violation(allocation.share_JA) <= EPSILON
    assert allocation.certificate.violation <= EPSILON


@every_policy
@given(snapshot=snapshots())
def test_throughput_is_what_the_shares_give(policy: Policy, snapshot: Snapshot) -> None:
    snapshot = suited(snapshot, policy)
    allocation = policy.allocate(snapshot)
    expected_J = (Instance.of(snapshot).throughput_JA * allocation.share_JA).sum(axis=1)
    np.testing.assert_allclose(allocation.throughput_J, expected_J, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in EVERY if not any(slices in name for slices in SLICES)])
@given(snapshot=snapshots())
def test_no_share_where_a_job_cannot_run(name: str, snapshot: Snapshot) -> None:
    snapshot = suited(snapshot, name)
    allocation = load_policy(name).allocate(snapshot)
    assert not allocation.share_JA[~Instance.of(snapshot).usable_JA].any()


@every_policy
@given(snapshot=snapshots())
def test_the_same_snapshot_gets_the_same_answer(policy: Policy, snapshot: Snapshot) -> None:
    snapshot = suited(snapshot, policy)
    first, again = policy.allocate(snapshot), policy.allocate(snapshot.replace())
    assert first.share_C.tobytes() == again.share_C.tobytes()
    assert first.marginal_A == again.marginal_A


@pytest.mark.parametrize("name", UNIQUE)
@given(snapshot=snapshots(), data=st.data())
def test_the_order_of_jobs_does_not_matter(name: str, snapshot: Snapshot, data: st.DataObject) -> None:
    snapshot = suited(snapshot, name)
    order = data.draw(st.permutations(range(len(snapshot.jobs))))
    throughput_J = load_policy(name).allocate(snapshot).throughput_J
    other_J = load_policy(name).allocate(permuted(snapshot, order)).throughput_J
    np.testing.assert_allclose(other_J, throughput_J[order], rtol=1e-7, atol=1e-7)


@given(snapshot=snapshots(), data=st.data())
def test_the_largest_sum_does_not_depend_on_the_order_of_jobs(snapshot: Snapshot, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(snapshot.jobs))))
    policy = load_policy("max_sum_throughput")
    one, other = policy.allocate(snapshot), policy.allocate(permuted(snapshot, order))
    assert one.throughput_J.sum() == pytest.approx(other.throughput_J.sum(), rel=1e-7, abs=1e-7)


@every_policy
@given(snapshot=snapshots())
def test_the_names_of_types_do_not_matter(policy: Policy, snapshot: Snapshot) -> None:
    snapshot = suited(snapshot, policy)
    names = [f"type {a} of another name" for a in range(len(snapshot.accelerators))][::-1]
    share_JA = policy.allocate(snapshot).share_JA
    assert policy.allocate(renamed(snapshot, names)).share_JA.tobytes() == share_JA.tobytes()


@SMALL
@given(snapshot=snapshots(max_jobs=5, max_types=3))
def test_max_min_fairness_is_lexicographically_optimal(snapshot: Snapshot) -> None:
    instance = Instance.of(snapshot)
    got_J = instance.normalized(load_policy("max_min_fairness").allocate(snapshot).share_JA)
    np.testing.assert_allclose(got_J, lexicographic_max_min(instance), rtol=1e-6, atol=1e-7)


@given(snapshot=snapshots())
def test_max_sum_throughput_is_the_largest_sum(snapshot: Snapshot) -> None:
    assume(snapshot.jobs)
    instance, zero_J = Instance.of(snapshot), np.zeros(len(snapshot.jobs))
    assume(instance.throughput_JA.any())
    best, _ = instance.best(instance.throughput_JA, zero_J.astype(bool), zero_J)
    allocation = load_policy("max_sum_throughput").allocate(snapshot)
    assert allocation.throughput_J.sum() == pytest.approx(best, rel=1e-7)
    assert allocation.certificate.objective == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("policy", those_that_promise("pareto_efficiency"), ids=str)
@SMALL
@given(snapshot=snapshots())
def test_nobody_can_gain_without_another_losing(policy: Policy, snapshot: Snapshot) -> None:
    assume(snapshot.jobs)
    share_JA, instance = policy.allocate(snapshot).share_JA, Instance.of(snapshot)
    size = 1.0 + instance.normalized(instance.usable_JA.astype(float)).sum()
    assert room_for_improvement(instance, share_JA) <= 1e-7 * size


@pytest.mark.parametrize("policy", those_that_promise("sharing_incentive"), ids=str)
@given(snapshot=snapshots(scale_factors=st.just(1), weights=st.just(1.0)))
def test_no_job_is_worse_off_than_with_its_equal_share(policy: Policy, snapshot: Snapshot) -> None:
    instance = Instance.of(snapshot)
    fits = min(1.0, instance.devices_A.sum() / max(1, len(snapshot.jobs)))
    equal_share_J = instance.proportional_J * fits
    throughput_J = policy.allocate(snapshot).throughput_J
    assert (throughput_J >= equal_share_J * (1 - 1e-9)).all()


@given(snapshot=snapshots(throughputs=POSITIVE, scale_factors=st.just(1)))
def test_agnostic_spreads_every_job_over_the_types_by_their_devices(snapshot: Snapshot) -> None:
    share_JA = load_policy("agnostic(max_min_fairness)").allocate(snapshot).share_JA
    mix_A = snapshot.devices_A / snapshot.devices_A.sum()
    np.testing.assert_allclose(share_JA, share_JA.sum(axis=1)[:, None] * mix_A, atol=1e-9)
    if snapshot.jobs and len({job.weight for job in snapshot.jobs}) == 1:
        expected = min(1.0, float(snapshot.devices_A.sum()) / len(snapshot.jobs))
        np.testing.assert_allclose(share_JA.sum(axis=1), expected, rtol=1e-9)


def test_agnostic_does_not_depend_on_the_order_of_jobs_where_types_are_full() -> None:
    """Three jobs that need all of two types push the fourth, which could run anywhere, to the third type.

    In proportion to devices the fourth would stay on all of them, so the spread only approaches its limit; what is
    left of the fitting must not fall back on the vertex that a solver happened to find.
    """
    kinds_JA = np.array([[1.0, 0.0, 2.0]] * 3 + [[1.0, 1.0, 1.0]])
    weights = (1.0, 5.0, 1.0, 1.0)
    jobs = tuple(Job(j, "any", total_steps=1000.0, weight=weight) for j, weight in enumerate(weights))
    snapshot = snapshot_of(jobs, Cluster.of({"a": 1, "b": 1, "c": 1}), kinds_JA)
    policy, order = load_policy("agnostic(max_min_fairness)"), [1, 0, 2, 3]
    throughput_J = policy.allocate(snapshot).throughput_J
    other_J = policy.allocate(permuted(snapshot, order)).throughput_J
    np.testing.assert_allclose(other_J, throughput_J[order], rtol=1e-7)
