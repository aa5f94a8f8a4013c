"""The time of a solver is processor time: once spent it ends solvers of every kind; a busy machine ends none."""

import itertools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from gavelx.cluster import Cluster
from gavelx.files.throughput_tables import load_throughputs
from gavelx.policies import load_policy
from gavelx.published.solver import embedding, kernel
from gavelx.published.solver.embedding import embedded_program
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from gavelx.solvers import using
from gavelx.solvers.conic import reference
from gavelx.solvers.conic.clarabel import quadratic_program
from gavelx.solvers.conic.reference import solve_reference
from gavelx.solvers.lp import highs
from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.lp.integer import solve_integer
from gavelx.solvers.price_engine import replies
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.settings import left_s, limited, time_is_up

TABLE = load_throughputs("simulation")
SNAPSHOT = Snapshot.of(random_jobs(40, TABLE), Cluster.of({"v100": 6, "p100": 6, "k80": 6}), TABLE)
BUDGET_S = 30.0


def by_highs(method: Any) -> Callable[[], Any]:
    """A program of many more steps than go unwatched, by this method."""
    K, V = 200, 300
    rng = np.random.default_rng(0)
    sides: Any = {"lower_K": np.full(K, -np.inf), "upper_K": np.ones(K)}
    matrix = sparse.csr_array(rng.uniform(0.0, 1.0, (K, V)))
    bounds: Any = {"lower_V": np.zeros(V), "upper_V": np.full(V, np.inf)}
    objective_V = rng.uniform(0.5, 1.0, V)

    def solve() -> Any:
        with limited(left_s(), method):
            return LinearProgram(objective_V=objective_V, matrix_KV=matrix, **bounds, **sides).solve()

    return solve


def by_branch_and_cut() -> Any:
    rng = np.random.default_rng(1)
    matrix = sparse.csr_array(rng.integers(1, 40, (4, 30)).astype(float))
    bounds = np.zeros(30), np.full(30, 3.0)
    limits = np.full(4, -np.inf), np.full(4, 211.0)
    return solve_integer(-rng.integers(5, 40, 30).astype(float), bounds, matrix, limits, np.ones(30, dtype=bool))


def by_clarabel() -> Any:
    one = np.ones(5)
    nothing = np.zeros((0, 5))
    return quadratic_program(
        curvature_V=one, equal_EV=one[None, :], equal_E=one[:1], at_most_KV=nothing, at_most_K=np.zeros(0)
    )


def by_embedding() -> Any:
    return embedded_program(np.array([-1.0, -2.0]), sparse.csr_array(np.eye(2)), np.ones(2))


SOLVERS = {
    "simplex": by_highs("choose"),
    "interior point of HiGHS": by_highs("ipm"),
    "branch and cut": by_branch_and_cut,
    "Clarabel": by_clarabel,
    "embedding": by_embedding,
}


@pytest.mark.parametrize("name", sorted(SOLVERS.keys() - {"branch and cut"}))
def test_every_solver_ends_when_its_processor_time_is_spent(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with limited(BUDGET_S):
        SOLVERS[name]()
    for steps in (embedding, kernel):
        # the interior point looks at the clock every ten steps, and needs fewer here
        monkeypatch.setattr(steps, "AT_ONCE", 1)
    ticks = itertools.count()
    for clock in ("thread_time", "perf_counter"):
        monkeypatch.setattr(time, clock, lambda: float(next(ticks)))
    with limited(5.0), pytest.raises(UnsolvedError, match=highs.OUT_OF_TIME):
        SOLVERS[name]()
    assert next(ticks) < 20  # it asked soon after


def test_branch_and_cut_ends_with_the_best_answer_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    done = by_branch_and_cut()
    assert done.cost == pytest.approx(done.bound, rel=1e-5)
    ticks = itertools.count()
    for clock in ("thread_time", "perf_counter"):
        monkeypatch.setattr(time, clock, lambda: float(next(ticks)))
    with limited(5.0):
        stopped = by_branch_and_cut()
    assert stopped.bound < done.bound <= done.cost <= stopped.cost
    with limited(0.0), pytest.raises(UnsolvedError, match=highs.OUT_OF_TIME):
        by_branch_and_cut()


@pytest.mark.parametrize(
    "text",
    ["max_min_fairness", "makespan", "max_sum_throughput", "nash_welfare", "finish_time_fairness", "deadlines"],
)
def test_a_clock_on_the_wall_that_runs_ahead_ends_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    hours = itertools.count(1.0, 3600.0)
    for clock in ("perf_counter", "monotonic", "time"):
        monkeypatch.setattr(time, clock, lambda: next(hours))
    with using(budget_s=BUDGET_S):
        assert "time limit" not in load_policy(text).allocate(SNAPSHOT).certificate.path


@pytest.mark.parametrize("name", ["simplex", "interior point of HiGHS", "branch and cut"])
def test_waiting_for_a_processor_costs_no_time(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each question is answered late, as on a busy machine: in all much later than the budget."""
    ahead_s, real = [0.0], time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: real() + ahead_s[0])

    def late() -> bool:
        ahead_s[0] += BUDGET_S
        return time_is_up()

    monkeypatch.setattr(highs, "time_is_up", late)
    with limited(BUDGET_S):
        SOLVERS[name]()
    assert ahead_s[0] > BUDGET_S


class FakeProblem:
    """A problem that a solver is done with after so many seconds of waiting for a processor."""

    def __init__(self, clock: list[float], takes_s: float) -> None:
        self.clock, self.takes_s, self.limits = clock, takes_s, list[float]()

    def solve(self, *, time_limit: float, **_: Any) -> None:
        self.limits.append(time_limit)
        self.status = "optimal" if time_limit >= self.takes_s else "user_limit"
        self.clock[0] += min(time_limit, self.takes_s)


def test_a_limit_of_wall_clock_time_grows_where_the_processor_was_not_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(reference.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(reference, "left_s", lambda: 2.0)
    program, problem = reference._Program(SimpleNamespace(), "clarabel"), FakeProblem(clock, 15.0)
    assert program._solved(problem, {}) == "optimal"
    assert problem.limits == [2.0, 4.0, 8.0, 16.0]
    monkeypatch.setattr(reference, "left_s", iter([2.0, 0.0]).__next__)
    assert program._solved(FakeProblem(clock, 15.0), {}) == "user_limit"


def test_a_limit_of_steps_is_no_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference.TOLERANCES, "clarabel", ({"max_iter": 2}, {"max_iter": 1}))
    statement = load_policy("max_sum_throughput").state(SNAPSHOT)
    with limited(BUDGET_S), pytest.raises(UnsolvedError, match="iteration limit reached"):
        solve_reference(statement, "clarabel")


def test_the_thread_whose_time_is_budgeted_does_its_part_of_the_work() -> None:
    import threading

    parts = replies._each_chunk(lambda part: (part.start, threading.get_ident()), 5 * replies.CHUNK)
    assert [start for start, _ in parts] == [n * replies.CHUNK for n in range(5)]
    assert [who == threading.get_ident() for _, who in parts] == [True, False, True, False, True]


@pytest.mark.parametrize(("waited_s", "worked_s", "up"), [(9.0, 1.0, False), (9.0, 4.0, True), (1.0, 1.0, False)])
def test_time_is_up_when_the_processor_was_used_for_so_long(
    monkeypatch: pytest.MonkeyPatch, waited_s: float, worked_s: float, up: bool
) -> None:
    wall, processor = [100.0], [5.0]
    monkeypatch.setattr(time, "perf_counter", lambda: wall[0])
    monkeypatch.setattr(time, "thread_time", lambda: processor[0])
    with limited(3.0):
        wall[0], processor[0] = 100.0 + waited_s, 5.0 + worked_s
        assert time_is_up() is up
    assert not time_is_up()
