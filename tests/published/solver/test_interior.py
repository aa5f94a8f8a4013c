"""Answers as the published systems give them: near the centre of the optima, with traces of shares."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from benchmarks import instances
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.published.policies import bisected
from gavelx.published.solver.embedding import embedded_program
from gavelx.published.solver.kernel import (
    Cones,
    depth,
    equations,
    missing,
    norm,
    refined,
    scaling,
    solution,
    unit,
)
from gavelx.published.solver.newton import pattern_of
from gavelx.snapshot import Snapshot
from gavelx.solvers import available
from gavelx.solvers.program.errors import UnsolvedError
from tests.policies.strategies import snapshot_of
from tests.published.answers import as_published

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


def ratios(seed: int, jobs: int) -> tuple[np.ndarray, sparse.csr_array, np.ndarray]:
    """Finish-time fairness of so many jobs on 3 types, as cvxpy hands the published program to its solver.

    In rows of cones: ``(e + u, e - u, 2)``, so that u is at least 1 / e.
    """
    random, (J, A) = np.random.default_rng(seed), (jobs, 3)
    speed_JA, left_J = random.uniform(0.5, 8.0, (J, A)), random.uniform(1e2, 1e5, J)
    elapsed_J = random.uniform(0.0, 1e5, J)
    alone_J = elapsed_J + random.uniform(0.5, 2.0, J) * left_J / 2.0
    each, types, nothing = np.eye(J), np.eye(A), np.zeros((J, 1))
    time_JC, speed_JC = np.kron(each, np.ones(A)), np.kron(each, np.ones(A)) * speed_JA.ravel()
    cones = [
        np.hstack([-speed_JC, nothing, -each]),
        np.hstack([-speed_JC, nothing, each]),
        np.zeros((J, J * 4 + 1)),
    ]
    rows = [
        np.hstack([-np.eye(J * A), np.zeros((J * A, J + 1))]),
        np.hstack([np.tile(types, (1, J)), np.zeros((A, J + 1))]),
        np.hstack([time_JC, np.zeros((J, J + 1))]),
        np.hstack([np.zeros((J, J * A)), nothing - 1.0, np.diag(left_J / alone_J)]),
        np.stack(cones, axis=1).reshape(3 * J, -1),
    ]
    limits = [np.zeros(J * A), np.full(A, 4.0), np.ones(J), -elapsed_J / alone_J, np.tile([0.0, 0.0, 2.0], J)]
    cost = np.zeros(J * A + 1 + J)
    cost[J * A] = 1.0
    return cost, sparse.csr_array(np.vstack(rows)), np.concatenate(limits)


@pytest.mark.skipif(not available("ecos"), reason="ecos is not installed")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("jobs", [3, 12, 60])
def test_with_cones_it_ends_where_ecos_does(seed: int, jobs: int) -> None:
    import ecos

    cost, matrix, limits = ratios(seed, jobs)
    cones = {"l": len(limits) - 3 * jobs, "q": [3] * jobs}
    theirs = ecos.solve(cost, sparse.csc_matrix(matrix), limits, cones, verbose=False)["x"][: 3 * jobs + 1]
    ours = embedded_program(cost, matrix, limits, second_order=jobs)[0][: 3 * jobs + 1]
    assert ours[-1] == pytest.approx(theirs[-1], rel=1e-8)
    np.testing.assert_allclose(ours, theirs, atol=0.01)
    assert np.median(abs(ours - theirs)) < 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_the_level_of_ratios_is_the_least(seed: int) -> None:
    """By the multipliers of the rows: no other point has a smaller cost."""
    cost, matrix, limits = ratios(seed, 20)
    value, dual = embedded_program(cost, matrix, limits, second_order=20)
    assert cost @ value == pytest.approx(-limits @ dual, rel=1e-6)
    np.testing.assert_allclose(matrix.T @ dual, -cost, atol=1e-6)
    assert depth(Cones(len(limits) - 60, 20), dual).min() >= -1e-12
    assert depth(Cones(len(limits) - 60, 20), limits - matrix @ value).min() >= -1e-6


@pytest.mark.parametrize(("of_entries", "better"), [(1.0, True), (1.05, True), (-3.0, False)])
def test_a_refinement_that_makes_it_worse_is_not_taken(of_entries: float, better: bool) -> None:
    """The equations that are solved, ``of_entries`` times those that the factors are of."""
    G, cones = sparse.csr_array([[1.0, 2.0], [-1.0, 0.0], [0.0, -1.0]]), Cones(3)
    one = unit(cones)
    is_regular, by = equations(pattern_of(G, cones), G.data, scaling(cones, one, one)[1])
    assert is_regular
    by = by._replace(value_F=of_entries * by.value_F)
    b = np.arange(1.0, 1.0 + by.pattern.V + len(by.pattern.kept))
    at_once, found = solution(by.pattern.arrow, by.factors, b), refined(by, b)
    if better:
        assert norm(missing(by, found, b)) <= 1e-12 < norm(missing(by, at_once, b))
    else:
        assert found.tolist() == at_once.tolist()


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
    central = as_published(policy, snapshot)
    assert "interior" in central.certificate.path
    assert central.certificate.objective == pytest.approx(exact.certificate.objective, rel=1e-6)
    assert (central.share_JA[0] == central.share_JA[1]).all()
    assert (central.share_JA[0] == central.share_JA[2]).all()


@pytest.mark.parametrize("name", ["packed(max_min_fairness)", "packed(finish_time_fairness)"])
@pytest.mark.parametrize(("jobs", "seed"), [(3, 0), (3, 1), (6, 0), (6, 1), (12, 0), (30, 1), (33, 5), (40, 5)])
def test_it_is_as_good_where_jobs_share_devices(name: str, jobs: int, seed: int) -> None:
    """Pairs tie all jobs together, and equations get as uneven as can be; with seed 5 it ends on the border."""
    snapshot = instances.snapshot_of(replace(instances.with_history(jobs, seed), pairs=True))
    exact = load_policy(name).allocate(snapshot)
    central = as_published(load_policy(name), snapshot)
    assert central.certificate.path == "embedding, interior"
    assert central.certificate.objective == pytest.approx(exact.certificate.objective, rel=1e-6)


def test_those_who_were_nearly_promised_something_have_a_trace_of_it() -> None:
    """Three jobs for one device: it is promised to the fastest, and the next one is the nearer to it."""
    jobs, speed_JA = tuple(Job(j, "net", 3600.0) for j in range(3)), np.array([[2.0], [4.0], [7.9]])
    snapshot = snapshot_of(jobs, Cluster.of({"v100": 1}), speed_JA)
    share_J = as_published(load_policy("max_sum_throughput"), snapshot).share_JA[:, 0]
    assert 0 <= share_J[0] < share_J[1] < 1e-6
    assert share_J[2] == pytest.approx(1.0)


def test_makespan_is_bisected_as_published() -> None:
    snapshot, policy = four_jobs(), load_policy("makespan")
    best = policy.allocate(snapshot).certificate.objective
    assert best is not None
    published = as_published(policy, snapshot).certificate
    assert published.bound is not None
    assert best <= published.objective <= bisected(best)
    assert best <= bisected(best) <= 1.05 * best
    assert bisected(3e6) == pytest.approx(3e6, rel=0.05)


def test_without_the_types_all_run_as_on_a_v100() -> None:
    """Also in the past: 1,800 s with an equal share of both types are fewer if both are v100s."""
    snapshot = four_jobs().replace(equal_share_s_J=np.full(4, 1800.0))
    share_JA = as_published(load_policy("agnostic(max_min_fairness)"), snapshot).share_JA
    np.testing.assert_allclose(share_JA, np.tile([0.5, 0.25], (4, 1)), rtol=1e-6)


def test_a_remembered_pattern_is_not_taken_for_another_of_its_shape() -> None:
    """Two of three shares may each be 1, for as many rows with as many entries at other places."""
    for both, best in (([[1, 1, 0], [0, 1, 1]], [1, 0, 1]), ([[1, 1, 0], [1, 0, 1]], [0, 1, 1])):
        matrix = sparse.csr_array(np.vstack([both, -np.eye(3)]))
        value, _ = embedded_program(-np.ones(3), matrix, np.array([1.0, 1.0, 0.0, 0.0, 0.0]))
        assert value == pytest.approx(best, abs=1e-5)
