"""The price engine against plain linear programs, level by level.

Legend: G rows, A accelerator types.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from gavelx.solvers.price_engine.fitting import fitted
from gavelx.solvers.price_engine.levels import Levels, gains, rows_of, solve_levels
from gavelx.solvers.price_engine.ratios import Ratios, solve_ratios
from gavelx.solvers.price_engine.replies import LinearNeed, Rows
from gavelx.solvers.price_engine.search import LIMITS, Limits
from gavelx.solvers.program.errors import UnsolvedError

BOXED = Limits(few=0, all=0, direct=2, sample=3, program=3)
"""Limits that make a handful of rows go through samples, boxes and steady rows."""


@dataclass(frozen=True)
class Problem:
    gain_GA: np.ndarray
    constant_G: np.ndarray
    slope_G: np.ndarray
    scale_G: np.ndarray
    count_G: np.ndarray
    capacity_A: np.ndarray
    floor_G: np.ndarray | None = None

    def solve(self, limits: Limits = LIMITS, **options) -> Levels:
        return solve_levels(
            self.gain_GA,
            self.constant_G,
            self.slope_G,
            scale_G=self.scale_G,
            count_G=self.count_G,
            capacity_A=self.capacity_A,
            floor_G=self.floor_G,
            limits=limits,
            **options,
        )

    @property
    def load_G(self):
        return self.scale_G * self.count_G

    def value_G(self, share_GA):
        return (self.gain_GA * share_GA).sum(axis=1) + self.constant_G

    def violation(self, share_GA):
        over_A = self.load_G @ share_GA - self.capacity_A
        return max(-share_GA.min(), share_GA.sum(axis=1).max() - 1.0, over_A.max())


@st.composite
def problems(draw) -> Problem:
    """Small problems full of what is special: zeros, ties, floors, constants, counts, types without devices."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    G, A = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    gain_GA = 10 ** rng.uniform(-1, 1, (G, A)) if draw(st.booleans()) else rng.integers(1, 4, (G, A)).astype(float)
    gain_GA[rng.random((G, A)) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    gain_GA[:, 0] = np.where((gain_GA > 0).any(axis=1), gain_GA[:, 0], 1.0)
    scale_G = 2.0 ** rng.integers(0, 3, G) if draw(st.booleans()) else np.ones(G)
    count_G = rng.integers(1, 5, G).astype(float) if draw(st.booleans()) else np.ones(G)
    mean = (scale_G * count_G).sum() / A
    capacity_A = rng.uniform(0.3, 1.3, A) * mean * draw(st.sampled_from([0.1, 0.5, 1.0]))
    if draw(st.booleans()):
        capacity_A = rng.integers(0, 6, A).astype(float)
    constant_G = rng.uniform(-0.2, 0.5, G) if draw(st.booleans()) else np.zeros(G)
    slope_G = rng.uniform(0.3, 3, G) if draw(st.booleans()) else np.ones(G)
    if draw(st.booleans()):
        floor_G = rng.random(G) < 0.3
        floor_G[0] = False
        slope_G[floor_G] = 0.0
        constant_G[floor_G] = -(rng.uniform(0, 0.2, G) * gain_GA.max(axis=1))[floor_G]
    problem = Problem(gain_GA, constant_G, slope_G, scale_G, count_G, capacity_A)
    return replace(problem, floor_G=floors(problem, rng, draw(st.sampled_from([None, 0.5, 1.0, 1.05]))))


def floors(problem: Problem, rng, part: float | None):
    """Floors for some rows, which are this part of what all of these can have at once; 0 for the others."""
    if part is None:
        return None
    some_G = rng.random(len(problem.slope_G)) < 0.6
    wanted_G = np.where(some_G, rng.uniform(0.1, 1.0, len(some_G)) * problem.gain_GA.max(axis=1), 0.0)
    together = replace(problem, slope_G=wanted_G, constant_G=0 * wanted_G)
    fullest = linear_program(together, np.where(some_G, np.nan, 0.0))
    return wanted_G * part * (-fullest.fun if some_G.any() else 0.0)


def linear_program(problem: Problem, floor_G, raised: int | None = None):
    """Raise the level of the rows without a floor (nan), or one row's value alone. Dense rows, no scaling."""
    G, A = problem.gain_GA.shape
    level_G = np.where(np.isnan(floor_G), problem.slope_G, 0.0)
    values = _block_diagonal(problem.gain_GA)
    needs = np.hstack([-values, level_G[:, None]])
    floors = np.hstack([-values, np.zeros((G, 1))])
    time = np.hstack([_block_diagonal(np.ones((G, A))), np.zeros((G, 1))])
    devices = np.hstack([np.kron(problem.load_G, np.eye(A)), np.zeros((A, 1))])
    least_G = np.zeros(G) if problem.floor_G is None else problem.floor_G * (1.0 - 1e-11)
    at_least = problem.constant_G - np.nan_to_num(floor_G)
    limit = np.concatenate([at_least, -least_G, np.ones(G), problem.capacity_A])
    objective = np.zeros(G * A + 1)
    if raised is None:
        objective[-1] = -1.0
    else:
        objective[raised * A : (raised + 1) * A] = -problem.gain_GA[raised]
    usable = (problem.gain_GA > 0) & (problem.capacity_A > 0)
    bounds = [(0, 1 if use else 0) for use in usable.ravel()] + [(None, None) if raised is None else (0, 0)]
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    matrix = sparse.csr_array(np.vstack([needs, floors, time, devices]))
    return linprog(objective, matrix, limit, bounds=bounds, method="highs", options=options)


def _block_diagonal(row_GA):
    G, A = row_GA.shape
    matrix = np.zeros((G, G * A))
    for g in range(G):
        matrix[g, g * A : (g + 1) * A] = row_GA[g]
    return matrix


BOUND_BY_A_VARIABLE = Problem(
    gain_GA=np.array([[3.0, 0.0], [1.0, 1.0]]),
    constant_G=np.zeros(2),
    slope_G=np.ones(2),
    scale_G=np.ones(2),
    count_G=np.array([4.0, 1.0]),
    capacity_A=np.array([0.88786657, 1.43742342]),
)
"""HiGHS puts the price of the second row's time on the bound of its one variable, where nobody looked for it."""


def naive_levels(problem: Problem):
    """The first level and every row's final value, each row tested by a program of its own; None if infeasible."""
    first_G = (
        np.full(len(problem.slope_G), -np.inf) if problem.floor_G is None else problem.floor_G + problem.constant_G
    )
    floor_G, first = np.where(problem.slope_G > 0, np.nan, 0.0), None
    while np.isnan(floor_G).any():
        answer = linear_program(problem, floor_G)
        if answer.status == 2 and first is None:
            return None
        assert answer.status == 0, answer.message
        level = -answer.fun
        first = level if first is None else first
        active = np.flatnonzero(np.isnan(floor_G))
        reached_G = np.where(np.isnan(floor_G), problem.slope_G * level - 1e-9 * max(1.0, abs(level)), floor_G)
        for g in active:
            raised = linear_program(problem, reached_G, raised=int(g))
            value = max(problem.slope_G[g] * level, first_G[g])
            if -raised.fun + problem.constant_G[g] <= value + 1e-6 * max(1.0, abs(value)):
                floor_G[g] = value - 1e-10 * abs(value)
    return first, floor_G


@settings(max_examples=60, deadline=None)
@given(problem=problems(), limits=st.sampled_from([LIMITS, BOXED]))
@example(problem=BOUND_BY_A_VARIABLE, limits=LIMITS)
def test_levels_equal_those_of_plain_programs(problem, limits):
    expected = naive_levels(problem)
    if expected is None:
        with pytest.raises(UnsolvedError):
            problem.solve(limits)
        return
    first, value_G = expected
    answer = problem.solve(limits)
    scale = max(1.0, abs(first))
    assert problem.violation(answer.share_GA) <= 1e-9
    assert answer.level == pytest.approx(first, abs=1e-8 * scale)
    assert answer.level <= answer.bound <= answer.level + 1e-8 * scale
    rises_G, reached_G = problem.slope_G > 0, problem.value_G(answer.share_GA)
    assert (reached_G[~rises_G] >= -1e-9).all()
    if problem.floor_G is not None:
        assert (reached_G - problem.constant_G >= problem.floor_G - 1e-8 * scale).all()
    if answer.complete:
        np.testing.assert_allclose(reached_G[rises_G], value_G[rises_G], atol=3e-6 * scale)
    else:
        assert limits is BOXED, "few rows are solved without samples, so all levels are raised"


def test_incomplete_levels_are_rare():
    """The property above lets the boxed search give up on later levels; most of the time it must not."""
    rng = np.random.default_rng(3)
    answers = [contested(rng, 12, 3).solve(BOXED) for _ in range(20)]
    assert all(answer.complete for answer in answers)


def contested(rng, G: int, A: int, *, scaled: bool = False) -> Problem:
    """All rows distinct, relative to each row's mean speed, with a 16th of the demand of each type."""
    speed_GA = 10 ** rng.uniform(-1, 1, (G, A))
    scale_G = 2.0 ** rng.integers(0, 4, G) if scaled else np.ones(G)
    capacity_A = np.full(A, scale_G.sum() / 16)
    return Problem(
        speed_GA / speed_GA.mean(axis=1, keepdims=True),
        np.zeros(G),
        np.ones(G),
        scale_G,
        np.ones(G),
        capacity_A,
    )


@pytest.mark.parametrize("scaled", [False, True])
def test_three_thousand_rows_against_one_program(scaled):
    problem = contested(np.random.default_rng(1), 3000, 4, scaled=scaled)
    answer = problem.solve(lexicographic=False)
    optimum = sparse_optimum(problem)
    assert problem.violation(answer.share_GA) <= 1e-9
    assert answer.level == pytest.approx(optimum, rel=1e-8)
    assert answer.level <= answer.bound <= answer.level * (1 + 1e-8)


def sparse_optimum(problem: Problem) -> float:
    G, A = problem.gain_GA.shape
    row, column = np.repeat(np.arange(G), A), np.arange(G * A)
    needs = sparse.csr_array((-problem.gain_GA.ravel(), (row, column)), shape=(G, G * A))
    time = sparse.csr_array((np.ones(G * A), (row, column)), shape=(G, G * A))
    devices = sparse.csr_array((problem.load_G[row], (column % A, column)), shape=(A, G * A))
    level = sparse.csr_array(np.concatenate([problem.slope_G, np.zeros(G + A)])[:, None])
    matrix = sparse.hstack([sparse.vstack([needs, time, devices]), level])
    limit = np.concatenate([problem.constant_G, np.ones(G), problem.capacity_A])
    answer = linprog(
        np.append(np.zeros(G * A), -1.0), matrix, limit, bounds=[(0, None)] * (G * A + 1), method="highs-ipm"
    )
    assert answer.status == 0
    return -answer.fun


def test_prices_tell_what_one_more_device_is_worth():
    problem = contested(np.random.default_rng(2), 400, 3)
    answer = problem.solve()
    step = 1e-4
    for a, price in enumerate(answer.price_A):
        more_A = problem.capacity_A + step * (np.arange(3) == a)
        risen = replace(problem, capacity_A=more_A).solve()
        assert (risen.level - answer.level) / step == pytest.approx(price, rel=1e-3)


def test_classes_of_equal_jobs_count_as_often_as_they_have_members():
    problem = contested(np.random.default_rng(4), 40, 3)
    count_G = np.arange(1.0, 41.0)
    problem = replace(problem, count_G=count_G, capacity_A=np.full(3, count_G.sum() / 16))
    apart = Problem(
        *(array.repeat(count_G.astype(int), axis=0) for array in _per_row(problem)), problem.capacity_A
    )
    apart = replace(apart, count_G=np.ones(int(count_G.sum())))
    assert problem.solve().level == pytest.approx(apart.solve(BOXED).level, rel=1e-9)


def _per_row(problem: Problem):
    return problem.gain_GA, problem.constant_G, problem.slope_G, problem.scale_G, problem.count_G


def test_whole_classes_that_tie():
    """A handful of speed rows, each with a factor of its own: all jobs of a row are indifferent at once."""
    rng = np.random.default_rng(5)
    problem = contested(rng, 2000, 3)
    gain_GA = problem.gain_GA[rng.integers(0, 12, 2000)] * rng.uniform(0.5, 2, (2000, 1))
    problem = replace(problem, gain_GA=gain_GA)
    answer = problem.solve()
    assert answer.complete
    assert answer.level == pytest.approx(sparse_optimum(problem), rel=1e-8)


def test_start_prices_change_the_work_and_not_the_answer():
    problem = contested(np.random.default_rng(6), 2000, 3)
    cold = problem.solve()
    warm = problem.solve(start=cold.start)
    assert warm.level == pytest.approx(cold.level, rel=1e-10)
    assert warm.rounds <= cold.rounds


def test_same_input_same_bits():
    problem = contested(np.random.default_rng(7), 40000, 3)
    first, second = problem.solve(), problem.solve()
    assert first.share_GA.tobytes() == second.share_GA.tobytes()
    assert first.bound == second.bound


def test_input_is_left_alone():
    problem = contested(np.random.default_rng(8), 5, 1)
    before = problem.gain_GA.copy()
    problem.solve()
    np.testing.assert_array_equal(problem.gain_GA, before)


def test_saturated_rows_stay_at_their_best_and_the_others_go_on():
    """Worked by hand: the first row has all of its type and 0.5 at best; the others share 1.5 devices."""
    gain_GA = np.array([[0.5, 0.0], [0.0, 1.0], [0.0, 1.0]])
    problem = Problem(gain_GA, np.zeros(3), np.ones(3), np.ones(3), np.ones(3), np.array([2.0, 1.5]))
    answer = problem.solve()
    np.testing.assert_allclose(problem.value_G(answer.share_GA), [0.5, 0.75, 0.75], atol=1e-9)
    assert answer.level == pytest.approx(0.5, abs=1e-12)
    assert answer.bound == pytest.approx(0.5, abs=1e-11)
    np.testing.assert_array_equal(answer.price_A, 0.0)


def test_types_that_bind_one_after_the_other():
    """Worked by hand: two rows on 0.5 devices of one type, then two rows on 1.2 of the other."""
    gain_GA = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 1.0], [0.5, 1.0]])
    problem = Problem(gain_GA, np.zeros(4), np.ones(4), np.ones(4), np.ones(4), np.array([0.5, 1.2]))
    answer = problem.solve()
    np.testing.assert_allclose(problem.value_G(answer.share_GA), [0.25, 0.25, 0.6, 0.6], atol=1e-8)
    np.testing.assert_allclose(answer.price_A, [0.5, 0.0], atol=1e-9)


def test_floors_out_of_reach_and_no_slope_are_said_to_be_unsolved():
    one = np.ones(1)
    floors = Problem(np.ones((3, 1)), np.array([0.0, -0.9, -0.9]), np.array([1.0, 0, 0]), *(np.ones(3),) * 2, one)
    with pytest.raises(UnsolvedError):
        floors.solve()
    with pytest.raises(UnsolvedError):
        replace(floors, constant_G=np.array([0.0, -2.0, 0.0])).solve()
    with pytest.raises(UnsolvedError):
        replace(floors, slope_G=np.zeros(3)).solve()


# Ratios


@dataclass(frozen=True)
class Race:
    """Jobs that finish at elapsed + steps / throughput, each with a deadline."""

    throughput_GA: np.ndarray
    steps_G: np.ndarray
    elapsed_G: np.ndarray
    deadline_G: np.ndarray
    scale_G: np.ndarray
    capacity_A: np.ndarray

    def solve(self, limits: Limits = LIMITS, **options) -> Ratios:
        return solve_ratios(
            self.throughput_GA,
            self.steps_G,
            self.elapsed_G,
            self.deadline_G,
            scale_G=self.scale_G,
            count_G=np.ones(len(self.steps_G)),
            capacity_A=self.capacity_A,
            limits=limits,
            **options,
        )

    @property
    def least_at_best(self) -> float:
        return float(((self.elapsed_G + self.steps_G / self.throughput_GA.max(axis=1)) / self.deadline_G).max())

    def surplus(self, ratio: float) -> Problem:
        """What is left at a ratio, relative to each job's need, as a max-min problem."""
        gain_GA = self.throughput_GA * ((ratio * self.deadline_G - self.elapsed_G) / self.steps_G)[:, None]
        one_G = np.ones(len(gain_GA))
        return Problem(gain_GA, -one_G, one_G, self.scale_G, one_G, self.capacity_A)

    def bisect(self) -> float:
        """The least ratio at which the surplus of the worst job is not negative."""
        low = high = self.least_at_best
        nothing_G = np.full(len(self.steps_G), np.nan)
        while linear_program(self.surplus(high), nothing_G).fun > 1e-12:
            low, high = high, 2.0 * high
        while high - low > 1e-11 * high:
            middle = (low + high) / 2.0
            reached = -linear_program(self.surplus(middle), nothing_G).fun >= 0.0
            low, high = (low, middle) if reached else (middle, high)
        return high


@st.composite
def races(draw) -> Race:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    G, A = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    throughput_GA = 10 ** rng.uniform(-1, 1, (G, A))
    throughput_GA[rng.random((G, A)) < 0.25] = 0.0
    throughput_GA[:, 0] = np.where((throughput_GA > 0).any(axis=1), throughput_GA[:, 0], 1.0)
    steps_G, scale_G = 10 ** rng.uniform(0, 2, G), 2.0 ** rng.integers(0, 2, G)
    load = scale_G.sum() / A * draw(st.sampled_from([0.2, 0.6, 1.5]))
    alone_G = steps_G / throughput_GA.max(axis=1)
    elapsed_G = draw(st.sampled_from([0.0, 0.5, 5.0])) * rng.exponential(1, G) * alone_G
    deadline_G = (elapsed_G + alone_G) * 10 ** rng.uniform(-0.5, 0.5, G)
    return Race(throughput_GA, steps_G, elapsed_G, deadline_G, scale_G, rng.uniform(0.1, 1.2, A) * load)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(race=races(), limits=st.sampled_from([LIMITS, BOXED]))
def test_ratios_equal_bisection_and_the_rest_is_lexicographic(race, limits):
    answer = race.solve(limits)
    surplus = race.surplus(answer.ratio * (1 + 1e-11))
    assert surplus.violation(answer.share_GA) <= 1e-9
    assert answer.ratio == pytest.approx(race.bisect(), rel=1e-9)
    assert answer.ratio * (1 - 1e-8) <= answer.bound <= answer.ratio
    _, value_G = naive_levels(surplus)
    if answer.complete:
        np.testing.assert_allclose(surplus.value_G(answer.share_GA), value_G, atol=1e-5, rtol=1e-5)
    else:
        assert limits is BOXED, "few rows are solved without samples, so all levels are raised"


def test_a_job_at_its_own_best_sets_the_ratio_and_the_rest_goes_on():
    """Long histories: one job is far behind whatever it gets; what it cannot use goes to the others."""
    rng = np.random.default_rng(11)
    G = 3000
    throughput_GA, steps_G = 10 ** rng.uniform(-1, 1, (G, 3)), 10 ** rng.uniform(3, 6, G)
    alone_G = steps_G / throughput_GA.mean(axis=1)
    elapsed_G = 3.0 * rng.exponential(1, G) * alone_G
    deadline_G = (elapsed_G + alone_G) * 10 ** rng.uniform(-1, 0.5, G)
    race = Race(throughput_GA, steps_G, elapsed_G, deadline_G, np.ones(G), np.full(3, G / 16))
    answer = race.solve()
    assert answer.ratio == pytest.approx(race.least_at_best, rel=1e-9)
    assert answer.bound == pytest.approx(race.least_at_best, rel=1e-9)
    assert answer.complete
    used_A = race.scale_G @ answer.share_GA
    np.testing.assert_allclose(used_A, race.capacity_A, rtol=1e-8)
    least = race.surplus(answer.ratio).value_G(answer.share_GA)
    assert np.quantile(least, 0.01) > 0.0


def test_what_one_job_at_its_best_leaves_is_given_to_the_others():
    """The ratio is set by a job at its best, so the surplus starts at a level of exactly zero."""
    one = np.ones(3)
    race = Race(np.ones((3, 1)), np.array([10.0, 1, 1]), np.array([5.0, 0, 0]), one, one, np.array([1.6]))
    answer = race.solve()
    assert answer.complete
    assert answer.ratio == pytest.approx(15.0, rel=1e-12)
    np.testing.assert_allclose(answer.share_GA.ravel(), [1.0, 0.3, 0.3], atol=1e-8)


def test_makespan_is_a_ratio_without_history():
    """Worked by hand: 100 and 300 steps at one step a second on a single device take 400 seconds."""
    one = np.ones(2)
    race = Race(np.ones((2, 1)), np.array([100.0, 300.0]), 0 * one, one, one, np.array([1.0]))
    answer = race.solve()
    assert answer.ratio == pytest.approx(400.0, rel=1e-10)
    np.testing.assert_allclose(answer.share_GA.ravel(), [0.25, 0.75], atol=1e-9)


@pytest.mark.parametrize(("G", "seed"), [(3, 1), (6, 0), (40, 6)])
def test_a_ratio_that_only_tangents_reach_is_not_taken_for_reached(G, seed):
    """Without later levels to mend them, the shares at the level of the job at its best must be shares at it."""
    rng, one = np.random.default_rng(seed), np.ones(G)
    throughput_GA, steps_G = np.exp(rng.uniform(-3, 3, (G, 2))), 10 ** rng.uniform(2, 5, G)
    capacity_A = np.full(2, max(1.0, G // 5))
    sizes = {"scale_G": one, "count_G": one, "capacity_A": capacity_A}
    answer = solve_ratios(throughput_GA, steps_G, 0 * one, one, **sizes, lexicographic=False)
    assert answer.ratio == pytest.approx(answer.bound, rel=1e-8)


def test_rows_that_need_nothing_and_can_only_lose_cost_nothing() -> None:
    """A ratio program has such rows: jobs that are past help. Warnings are errors here."""

    class Nothing:
        cap_G, rises_G = np.array([np.inf, 1.0]), np.array([False, True])

        def __call__(self, level: float) -> tuple[np.ndarray, np.ndarray]:
            return np.array([0.0, max(level, 0.0)]), np.array([0.0, 1.0])

    rows = Rows(np.array([[-0.5, 0.5], [-1.0, 1.0]]), np.ones(2), np.ones(2), Nothing())
    price_A = np.array([0.25, 0.75])
    excess, rise = rows.excess(price_A, 0.25)
    assert (excess, rise) == (0.25 * 0.5 - 1.0, 0.5)
    replies = rows.replies(price_A, np.ones(2), 0.25, 1.0)
    assert replies.price_G[0] == 0.0 and replies.margin_G[0] == np.inf


# Shares without a program


@pytest.mark.parametrize(("level", "found"), [(0.3, True), (0.5, True), (2.0, False)])
def test_needs_that_take_half_of_the_devices_are_met_without_a_program(level, found):
    rng = np.random.default_rng(5)
    gain_AG, best_G = gains(rng.uniform(0.2, 1.0, (500, 4)), np.ones(4))
    need = LinearNeed(np.zeros(500), best_G, best_G, np.full(500, -np.inf))
    rows = rows_of(gain_AG, np.ones(500), np.full(4, 500 / 4 * 0.8), need)
    share_GA = fitted(rows, level)
    assert (share_GA is not None) == found
    if share_GA is not None:
        assert (share_GA >= 0).all() and (share_GA.sum(axis=1) <= 1 + 1e-12).all()
        assert (np.einsum("ag,ga->g", rows.gain_VG, share_GA) >= level * (1 - 1e-12)).all()
        assert (np.einsum("g,ga->a", rows.load_G, share_GA) <= rows.devices_A).all()
