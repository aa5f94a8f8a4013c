"""The cheapest devices for work with deadlines: worked by hand, and against every cluster there is.

Legend: J jobs, P pools, K intervals.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.lp.integer import solve_integer
from gavelx.solvers.planning.fluid import Demand, Fluid
from gavelx.solvers.planning.purchase import Purchase
from gavelx.solvers.program.errors import UnsolvedError

HOUR_S = 3600.0


def demand(*jobs: tuple[float, float, float, int], speeds: list[list[float]]) -> Demand:
    """Jobs as (arrival, deadline, hours at speed 1, devices); all times in hours."""
    release, due, hours, scale = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    return Demand(release * HOUR_S, due * HOUR_S, hours * HOUR_S, scale, np.array(speeds))


def purchase(
    wanted: Demand, usd: list[float], size: list[int] | None = None, most: float = np.inf, intervals: int = 99
) -> Purchase:
    """All pools are of one group, of which there are ``most`` devices."""
    P = len(usd)
    return Purchase(
        Fluid(wanted, wanted.edges(intervals)),
        np.array(size or [1] * P),
        np.array(usd),
        np.ones((1, P), dtype=bool),
        np.array([most]),
    )


def suffices(wanted: Demand, devices_P: tuple[int, ...]) -> bool:
    """Whether these devices do the work, by the fluid program with the devices given."""
    fluid = Fluid(wanted, wanted.edges(99))
    program = LinearProgram(
        objective_V=np.zeros(fluid.E),
        lower_V=np.zeros(fluid.E),
        upper_V=np.ones(fluid.E),
        matrix_KV=sparse.vstack([fluid.time_RE, fluid.devices_QE, fluid.done_JE], format="csr"),
        lower_K=np.concatenate(
            [np.full(len(fluid.window_R) + fluid.P * fluid.K, -np.inf), np.full(fluid.J, 1 - 1e-8)]
        ),
        upper_K=np.concatenate(
            [fluid.window_R, np.repeat(devices_P, fluid.K).astype(float), np.full(fluid.J, np.inf)]
        ),
    )
    try:
        program.solve()
    except UnsolvedError as failure:
        assert failure.status == "infeasible", failure
        return False
    return True


def test_two_jobs_that_fit_one_after_the_other_need_one_device() -> None:
    wanted = demand((0, 1, 1, 1), (0, 2, 1, 1), speeds=[[1.0], [1.0]])
    assert purchase(wanted, [2.0]).cheapest(0.0).value_V.tolist() == [1]


def test_at_once_they_need_two_and_half_of_the_second_is_enough_on_paper() -> None:
    wanted = demand((0, 2, 2, 1), (0, 2, 1, 1), speeds=[[1.0], [1.0]])
    assert purchase(wanted, [2.0]).bound().usd_per_hour == pytest.approx(3.0)
    assert purchase(wanted, [2.0]).cheapest(0.0).value_V.tolist() == [2]


def test_a_slow_cheap_type_serves_where_there_is_time() -> None:
    wanted = demand((0, 1, 1, 1), (0, 4, 1, 1), speeds=[[1.0, 0.25], [1.0, 0.25]])
    assert purchase(wanted, [3.0, 1.0]).cheapest(0.0).value_V.tolist() == [1, 0]  # one after the other
    wanted = demand((0, 4, 4, 1), (0, 4, 1, 1), speeds=[[1.0, 0.25], [1.0, 0.25]])
    assert purchase(wanted, [3.0, 1.0]).cheapest(0.0).value_V.tolist() == [1, 1]


def test_a_gang_needs_all_its_devices_at_once() -> None:
    wanted = demand((0, 4, 1, 2), speeds=[[1.0]])
    assert purchase(wanted, [2.0]).bound().instances_P == pytest.approx([0.5])
    assert purchase(wanted, [2.0]).cheapest(0.0).value_V.tolist() == [2]
    assert purchase(wanted, [5.0], size=[4]).cheapest(0.0).value_V.tolist() == [1]


def test_a_cluster_that_failed_and_all_within_it_are_ruled_out() -> None:
    wanted = demand((0, 2, 2, 1), (0, 2, 1, 1), speeds=[[1.0, 0.9], [1.0, 0.9]])
    buy = purchase(wanted, [2.0, 2.5])
    first = buy.cheapest(0.0).value_V
    assert first.tolist() == [2, 0]
    second = buy.cheapest(0.0, [first.astype(np.int64)]).value_V
    assert second.tolist() in ([1, 1], [3, 0])
    assert 2.0 * second[0] + 2.5 * second[1] == 4.5


def test_limits_bind_and_may_be_too_tight() -> None:
    wanted = demand((0, 2, 2, 1), (0, 2, 2, 1), speeds=[[1.0], [1.0]])
    assert purchase(wanted, [2.0], most=2).cheapest(0.0).cost == 4.0
    for solve in (purchase(wanted, [2.0], most=1).bound, lambda: purchase(wanted, [2.0], most=1).cheapest(0.0)):
        with pytest.raises(UnsolvedError, match="infeasible"):
            solve()


def test_a_margin_asks_for_no_more_than_can_be_done() -> None:
    wanted = demand((0, 2, 2, 1), (0, 4, 1, 1), speeds=[[1.0], [1.0]])
    assert purchase(wanted, [1.0]).cheapest(9.0).value_V.tolist() == [2]


def test_what_is_bought_is_worth_its_price_and_nothing_is_worth_more() -> None:
    wanted = demand((0, 1, 1, 1), (0, 8, 2, 1), (3, 9, 1, 1), speeds=[[1.0, 0.5]] * 3)
    buy = purchase(wanted, [3.0, 2.5])
    bound = buy.bound()
    worth_P = bound.worth_PK @ (buy.fluid.length_s_K / buy.fluid.length_s_K.sum())
    assert (worth_P <= np.array([3.0, 2.5]) + 1e-7).all()
    assert worth_P[bound.instances_P > 1e-9] == pytest.approx(np.array([3.0, 2.5])[bound.instances_P > 1e-9])
    assert worth_P[0] > worth_P[1]
    assert bound.worth_PK[0].max() >= worth_P[0]


JOBS = st.tuples(
    st.integers(0, 3), st.integers(1, 4), st.floats(0.2, 1.0), st.just(1), st.sampled_from([1.0, 0.5, 0.25, 0.0])
)


@settings(max_examples=40)
@given(rows=st.lists(JOBS, min_size=1, max_size=5), usd=st.sampled_from([(3.0, 1.0), (2.0, 1.9), (1.0, 4.0)]))
def test_bound_optimum_and_brute_force(
    rows: list[tuple[int, int, float, int, float]], usd: tuple[float, float]
) -> None:
    """LP <= proven <= whole numbers = the cheapest cluster that suffices; a coarse grid bounds from below."""
    wanted = demand(
        *((start, start + window, part * window, scale) for start, window, part, scale, _ in rows),
        speeds=[[1.0, slow] for *_, slow in rows],
    )
    buy = purchase(wanted, list(usd))
    bound, found = buy.bound(), buy.cheapest(0.0)
    enough = [n for n in product(range(len(rows) + 1), repeat=2) if suffices(wanted, n)]
    best = min(usd[0] * n + usd[1] * m for n, m in enough)
    assert bound.usd_per_hour <= found.bound + 1e-6
    assert found.bound <= found.cost + 1e-6
    assert found.cost == pytest.approx(best)
    assert purchase(wanted, list(usd), intervals=2).cheapest(0.0).cost <= found.cost + 1e-6


def test_whole_numbers_out_of_time_and_without_an_answer() -> None:
    row = sparse.csr_array(np.array([[2.0, 1.0]]))
    bounds = np.array([4.5]), np.array([np.inf])
    whole = np.ones(2, dtype=bool)
    answer = solve_integer(np.array([3.0, 2.0]), (np.zeros(2), np.full(2, 10.0)), row, bounds, whole)
    assert (answer.value_V.tolist(), answer.cost, answer.bound) == ([2.0, 1.0], 8.0, pytest.approx(8.0))
    with pytest.raises(UnsolvedError, match="infeasible"):
        solve_integer(np.array([3.0, 2.0]), (np.zeros(2), np.ones(2)), row, bounds, whole)
