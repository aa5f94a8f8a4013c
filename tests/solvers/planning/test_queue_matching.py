"""The matching over slots against the matrix of every position of every device, solved by scipy.

Legend: J jobs, A accelerator types.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.files.throughput_tables import load_throughputs
from gavelx.simulator.random_jobs import JOB_TYPES
from gavelx.solvers.planning import queue_matching
from gavelx.solvers.planning.queue_matching import Plan, match, starts_by_matrix
from tests.policies.published_allox import grown_matrix, matrix_at_once, published_allox

REAL = load_throughputs("simulation")
SPEED_KA = np.array([[REAL.get(kind, name) for name in ("k80", "p100", "v100")] for kind in JOB_TYPES])


def contested(J: int, seed: int) -> np.ndarray:
    """Lengths of jobs of the real table: 32 minutes to 7 days on the v100. All distinct, so one plan is best."""
    random = np.random.default_rng(seed)
    T_JA = SPEED_KA[random.integers(len(SPEED_KA), size=J)]
    return 60.0 * 10.0 ** random.uniform(1.5, 4.0, size=(J, 1)) * T_JA[:, -1:] / T_JA


def assert_sound(plan: Plan, seconds_JA: np.ndarray, devices_A: np.ndarray) -> None:
    """Every job has a place where it can run; positions have no holes; cost and bound are what they claim."""
    jobs = np.arange(len(seconds_JA))
    assert plan.cost == pytest.approx((plan.position_J * seconds_JA[jobs, plan.type_J]).sum(), rel=1e-12)
    assert plan.cost * (1.0 - 1e-9) <= plan.bound <= plan.cost
    for a, devices in enumerate(devices_A):
        taken = np.bincount(plan.position_J[plan.type_J == a] - 1)
        assert (taken[:-1] == devices).all()
        assert (taken <= devices).all()


@pytest.mark.parametrize(
    ("J", "devices"), [(1, (1, 0, 0)), (7, (2, 1, 3)), (40, (5, 5, 5)), (90, (1, 2, 1)), (120, (4, 12, 8))]
)
@pytest.mark.parametrize("seed", range(3))
def test_the_plan_is_the_matrix_plan(J: int, devices: tuple[int, ...], seed: int) -> None:
    seconds_JA, devices_A = contested(J, seed), np.array(devices)
    plan, published = match(seconds_JA, devices_A), published_allox(seconds_JA, devices_A)
    assert_sound(plan, seconds_JA, devices_A)
    assert plan.cost == pytest.approx(published.cost, rel=1e-12)
    np.testing.assert_array_equal(plan.type_J, published.type_J)
    np.testing.assert_array_equal(plan.position_J, published.position_J)


LENGTHS = st.one_of(st.floats(0.01, 1e4), st.integers(0, 3).map(float), st.just(np.inf))
"""Any, often equal, sometimes nothing left to do, sometimes a type where the job cannot run."""


@given(data=st.data())
def test_the_cost_is_the_least_whatever_the_lengths(data: st.DataObject) -> None:
    A = data.draw(st.integers(1, 4))
    devices_A = np.array(data.draw(st.lists(st.integers(0, 4), min_size=A, max_size=A).filter(any)))
    row = st.lists(LENGTHS, min_size=A, max_size=A)
    seconds_JA = np.array(data.draw(st.lists(row, max_size=14)), dtype=float).reshape(-1, A)
    seconds_JA = seconds_JA[(seconds_JA[:, devices_A > 0] < np.inf).any(axis=1)]
    plan = match(seconds_JA, devices_A)
    assert_sound(plan, seconds_JA, devices_A)
    assert plan.cost == pytest.approx(published_allox(seconds_JA, devices_A).cost, rel=1e-9)


@pytest.mark.parametrize("size", [1e-30, 1e-9, 1e9, 1e30])
def test_the_unit_of_time_does_not_matter(size: float) -> None:
    seconds_JA, devices_A = contested(60, 5), np.array([2, 3, 1])
    plan, scaled = match(seconds_JA, devices_A), match(seconds_JA * size, devices_A)
    np.testing.assert_array_equal(plan.type_J, scaled.type_J)
    np.testing.assert_array_equal(plan.position_J, scaled.position_J)


def test_lengths_of_very_different_size() -> None:
    random = np.random.default_rng(2)
    seconds_JA, devices_A = 10.0 ** random.uniform(-6, 6, size=(80, 3)), np.array([3, 1, 2])
    plan = match(seconds_JA, devices_A)
    assert_sound(plan, seconds_JA, devices_A)
    assert plan.cost == pytest.approx(published_allox(seconds_JA, devices_A).cost, rel=1e-9)


def test_one_place_that_takes_ages_makes_nothing_coarse() -> None:
    seconds_JA, devices_A = contested(60, 3), np.array([2, 2, 1])
    seconds_JA[::7, 0] = 1e29
    plan = match(seconds_JA, devices_A)
    assert_sound(plan, seconds_JA, devices_A)
    assert plan.cost == pytest.approx(published_allox(seconds_JA, devices_A).cost, rel=1e-12)


@pytest.mark.parametrize("start", ["all on the first", "all on the last", "anywhere"])
@pytest.mark.parametrize("devices", [(2, 3, 1), (1, 1, 9), (12, 1, 4)])
def test_a_bad_guess_makes_no_difference(
    start: str, devices: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds_JA, devices_A = contested(60, 4), np.array(devices)
    best = match(seconds_JA, devices_A)
    anywhere = np.random.default_rng(0).integers(3, size=60)
    guess = {"all on the first": np.zeros(60, int), "all on the last": np.full(60, 2), "anywhere": anywhere}
    monkeypatch.setattr(queue_matching, "_guess", lambda *_: guess[start])
    plan = match(seconds_JA, devices_A)
    assert_sound(plan, seconds_JA, devices_A)
    np.testing.assert_array_equal(plan.type_J, best.type_J)
    np.testing.assert_array_equal(plan.position_J, best.position_J)


def test_the_guess_is_close() -> None:
    """So that few cycles are left to find; not within 25 % of the best without the rounds of prices."""
    seconds_JA, devices_A = contested(400, 0), np.array([12, 12, 12])
    guess_J = queue_matching._guess(seconds_JA, devices_A)
    position_J = queue_matching._positions(seconds_JA, devices_A, guess_J)
    cost = (position_J * seconds_JA[np.arange(400), guess_J]).sum()
    assert cost == pytest.approx(match(seconds_JA, devices_A).cost, rel=0.01)


def test_of_several_best_plans_it_is_the_same_every_time() -> None:
    first, again = (match(np.full((9, 2), 7.0), np.array([1, 2])) for _ in range(2))
    assert_sound(first, np.full((9, 2), 7.0), np.array([1, 2]))
    assert first.type_J.tolist() == again.type_J.tolist()
    assert first.position_J.tolist() == again.position_J.tolist()


def test_many_jobs_are_planned_with_a_proof() -> None:
    seconds_JA, devices_A = contested(1000, 0), np.array([36, 36, 36])
    plan = match(seconds_JA, devices_A)
    assert_sound(plan, seconds_JA, devices_A)
    assert plan.bound == pytest.approx(plan.cost, rel=1e-12)


def test_both_ways_to_build_the_published_matrix_agree() -> None:
    random = np.random.default_rng(0)
    seconds_JN, age_s_J = random.uniform(size=(6, 4)), random.uniform(size=6)
    np.testing.assert_array_equal(grown_matrix(seconds_JN, age_s_J), matrix_at_once(seconds_JN, age_s_J))


@pytest.mark.parametrize("seed", range(40))
def test_positions_that_nobody_takes_make_no_difference_to_the_matrix(seed: int) -> None:
    """Also where jobs are alike, so that the order of reading decides, and where one type takes nearly all."""
    random = np.random.default_rng(seed)
    J, devices_A = int(random.integers(1, 80)), random.integers(0, 6, 3)
    lengths_TA = random.lognormal(8.0, (0.0, 1.0, 3.0)[seed % 3], (max(1, J // (1 + seed % 4)), 3))
    seconds_JA = lengths_TA[random.integers(0, len(lengths_TA), J)] * np.array([1.0, 1.0, (1.0, 300.0)[seed % 2]])
    age_s_J = random.uniform(0.0, 1e5, J) * (seed % 5 > 0)
    published = published_allox(seconds_JA, devices_A, age_s_J).starts_J
    np.testing.assert_array_equal(starts_by_matrix(seconds_JA, devices_A, age_s_J), published)
