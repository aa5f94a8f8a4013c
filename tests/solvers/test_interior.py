"""Answers as the published systems give them: near the centre of the optima, with traces of shares."""

import numpy as np
import pytest
from scipy import sparse

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.policies.makespan import bisected
from gavelx.snapshot import Snapshot
from gavelx.solvers import available, using
from gavelx.solvers.embedding import embedded_program
from gavelx.solvers.highs import UnsolvedError
from tests.policies.strategies import snapshot_of

POLICIES = ("max_min_fairness", "max_sum_throughput", "finish_time_fairness", "max_sum_throughput_per_dollar")


def program(seed: int) -> tuple[np.ndarray, sparse.csr_array, np.ndarray]:
    """Max-min fairness of 12 jobs on 3 types, as the published code states it."""
    random, (J, A) = np.random.default_rng(seed), (12, 3)
    speed_JA, width_J = random.uniform(0.5, 8.0, (J, A)), random.integers(1, 4, J)
    jobs, types = np.eye(J), np.eye(A)
    rows = [
        -np.eye(J * A),
        np.kron(width_J, types),
        np.kron(jobs, np.ones(A)),
        -jobs.repeat(A, axis=1) * speed_JA.ravel(),
    ]
    level = np.concatenate([np.zeros(J * A + A + J), np.ones(J)])
    limits = np.concatenate([np.zeros(J * A), np.full(A, 4.0), np.ones(J), np.zeros(J)])
    cost = np.concatenate([np.zeros(J * A), [-1.0]])
    return cost, sparse.csr_array(np.column_stack([np.vstack(rows), level])), limits


@pytest.mark.skipif(not available("ecos"), reason="ecos is not installed")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("aims", [True, False])
def test_it_ends_where_ecos_does(seed: int, aims: bool) -> None:
    """Also where nothing is aimed at, and any point of the interior would do."""
    import ecos

    cost, matrix, limits = program(seed)
    if not aims:
        best = embedded_program(cost, matrix, limits)[0][-1]
        matrix, limits = matrix[:, :-1], limits - (matrix[:, [-1]] * (0.97 * best)).toarray().ravel()
        cost = np.zeros(matrix.shape[1])
    theirs = ecos.solve(cost, sparse.csc_matrix(matrix), limits, {"l": len(limits), "q": []}, verbose=False)["x"]
    np.testing.assert_allclose(embedded_program(cost, matrix, limits)[0], theirs, atol=1e-5)


def test_what_nothing_meets_is_not_solved() -> None:
    with pytest.raises(UnsolvedError):
        embedded_program(np.zeros(1), sparse.csr_array([[1.0], [-1.0]]), np.array([-1.0, 0.0]))


def four_jobs() -> Snapshot:
    """Three jobs alike and one that is twice as fast, on two devices of each type."""
    jobs = tuple(Job(j, "net", 3600.0) for j in range(4))
    speed_JA = np.array([[4.0, 1.0]] * 3 + [[8.0, 2.0]])
    return snapshot_of(jobs, Cluster.of({"v100": 2, "k80": 1}), speed_JA).replace(
        usd_per_hour_A=np.array([3.0, 1.0]), steps_left_J=np.full(4, 3600.0), elapsed_s_J=np.zeros(4)
    )


@pytest.mark.parametrize("name", POLICIES)
def test_it_is_as_good_and_jobs_alike_get_shares_alike(name: str) -> None:
    snapshot, policy = four_jobs(), load_policy(name)
    exact = policy.allocate(snapshot)
    with using(interior=True):
        central = policy.allocate(snapshot)
    assert "interior" in central.certificate.path
    assert central.certificate.objective == pytest.approx(exact.certificate.objective, rel=1e-6)
    assert (central.share_JA[0] == central.share_JA[1]).all()
    assert (central.share_JA[0] == central.share_JA[2]).all()


def test_those_who_were_nearly_promised_something_have_a_trace_of_it() -> None:
    """Three jobs for one device: it is promised to the fastest, and the next one is the nearer to it."""
    jobs, speed_JA = tuple(Job(j, "net", 3600.0) for j in range(3)), np.array([[2.0], [4.0], [7.9]])
    with using(interior=True):
        policy = load_policy("max_sum_throughput")
        share_J = policy.allocate(snapshot_of(jobs, Cluster.of({"v100": 1}), speed_JA)).share_JA[:, 0]
    assert 0 <= share_J[0] < share_J[1] < 1e-6
    assert share_J[2] == pytest.approx(1.0)


def test_makespan_is_bisected_as_published() -> None:
    snapshot, policy = four_jobs(), load_policy("makespan")
    best = policy.allocate(snapshot).certificate.objective
    assert best is not None
    with using(interior=True):
        published = policy.allocate(snapshot).certificate
    assert published.bound is not None
    assert best <= published.objective <= bisected(best)
    assert best <= bisected(best) <= 1.05 * best
    assert bisected(3e6) == pytest.approx(3e6, rel=0.05)


def test_without_the_types_all_run_as_on_a_v100() -> None:
    """Also in the past: 1,800 s with an equal share of both types are fewer if both are v100s."""
    snapshot = four_jobs().replace(equal_share_s_J=np.full(4, 1800.0))
    with using(interior=True):
        share_JA = load_policy("agnostic(max_min_fairness)").allocate(snapshot).share_JA
    np.testing.assert_allclose(share_JA, np.tile([0.5, 0.25], (4, 1)), rtol=1e-6)
