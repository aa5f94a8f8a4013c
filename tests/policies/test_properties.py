"""What particular policies optimise, found anew from plain arrays (:mod:`tests.policies.reference`).

What holds for every policy, and what policies promise, is in :mod:`gavelx.testing` and tried in
:mod:`tests.policies.test_conformance`.

Legend: J jobs, A accelerator types.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from tests.policies.reference import Instance, lexicographic_max_min
from tests.policies.strategies import POSITIVE, permuted, snapshot_of, snapshots

SMALL = settings(max_examples=40)


@given(snapshot=snapshots())
def test_throughput_is_what_the_shares_give(snapshot: Snapshot) -> None:
    allocation = load_policy("max_min_fairness").allocate(snapshot)
    expected_J = (Instance.of(snapshot).throughput_JA * allocation.share_JA).sum(axis=1)
    np.testing.assert_allclose(allocation.throughput_J, expected_J, rtol=1e-12, atol=1e-12)


@SMALL
@given(snapshot=snapshots(max_jobs=5, max_types=3))
def test_max_min_fairness_is_lexicographically_optimal(snapshot: Snapshot) -> None:
    instance = Instance.of(snapshot)
    got_J = instance.normalized(load_policy("max_min_fairness").allocate(snapshot).share_JA)
    np.testing.assert_allclose(got_J, lexicographic_max_min(instance), rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@given(snapshot=snapshots())
def test_max_sum_throughput_is_the_largest_sum(snapshot: Snapshot) -> None:
    assume(snapshot.jobs)
    instance, zero_J = Instance.of(snapshot), np.zeros(len(snapshot.jobs))
    assume(instance.throughput_JA.any())
    best, _ = instance.best(instance.throughput_JA, zero_J.astype(bool), zero_J)
    allocation = load_policy("max_sum_throughput").allocate(snapshot)
    assert allocation.throughput_J.sum() == pytest.approx(best, rel=1e-7)
    assert allocation.certificate.objective == pytest.approx(best, rel=1e-7)


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
