"""No failed round: whatever a solver does, an answer passes the check or is not used."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError, SolverError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies import (
    Cost,
    Linear,
    Maximize,
    NormalizedThroughput,
    SumThroughput,
    Throughput,
    View,
    Worst,
    load_policy,
)
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from gavelx.solvers import Settings, Statement, portfolio, settings, using
from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.portfolio import GAP, check, paths
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.settings import highs_method, left_s
from gavelx.solvers.program.statement import Affine, RatioStatement
from gavelx.throughputs import Setting, Throughputs
from tests.policies.small import snapshot

SNAPSHOT = snapshot("a", "b")
POLICY = Maximize(SumThroughput(), [Cost() <= 2.5])
BEST = 5.0


def statement(policy: Maximize = POLICY) -> Statement:
    stated = policy.state(SNAPSHOT)
    assert isinstance(stated, Statement)
    return stated


def failing(status: str, methods: tuple[str, ...]) -> Any:
    """A LinearProgram.solve that gives up where HiGHS works by one of these methods."""
    solve = LinearProgram.solve

    def planted(program: LinearProgram) -> tuple[np.ndarray, np.ndarray]:
        if highs_method() in methods:
            raise UnsolvedError(status)
        return solve(program)

    return planted


def gives_up(*_: object, **__: object) -> Answer:
    raise UnsolvedError("solve error")


def test_the_next_path_answers_and_the_certificate_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearProgram, "solve", failing("solve error", ("choose",)))
    certificate = POLICY.allocate(SNAPSHOT).certificate
    assert certificate.objective == pytest.approx(BEST)
    assert certificate.bound == pytest.approx(BEST)
    assert certificate.path == "highs failed (solve error); highs"


@pytest.mark.parametrize("name", ["max_min_fairness", "max_sum_throughput", "finish_time_fairness", "makespan"])
def test_without_highs_clarabel_answers(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    crowded = snapshot(*"abababab")  # with devices for all there would be nothing to solve
    expected = load_policy(name).allocate(crowded).certificate.objective
    monkeypatch.setattr(LinearProgram, "solve", failing("solve error", ("choose", "ipm")))
    certificate = load_policy(name).allocate(crowded).certificate
    assert certificate.objective == pytest.approx(expected, rel=1e-6)
    assert certificate.bound is None  # the proof is HiGHS's
    failed = "highs failed (solve error); highs interior point failed (solve error); "
    levels = ", first level only" * (name != "max_sum_throughput")
    assert certificate.path == f"{failed}clarabel by cvxpy{levels}"


def test_when_all_fail_the_message_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearProgram, "solve", failing("solve error", ("choose", "ipm")))
    monkeypatch.setattr(portfolio, "solve_reference", gives_up)
    with pytest.raises(SolverError) as caught:
        POLICY.allocate(SNAPSHOT)
    assert str(caught.value) == (
        f"{POLICY!r}: highs failed (solve error); highs interior point failed (solve error); "
        "clarabel failed (solve error)"
    )


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0 - 1e-5])
def test_shares_that_are_feasible_but_not_best_are_not_used(monkeypatch: pytest.MonkeyPatch, part: float) -> None:
    solve = portfolio.solve_linear

    def worse(stated: Statement, **options: bool) -> Answer:
        answer = solve(stated, **options)
        if highs_method() == "ipm":
            return answer
        return Answer(part * answer.share_C, answer.bound, answer.marginal_A, answer.classes, "worse")

    monkeypatch.setattr(portfolio, "solve_linear", worse)
    certificate = POLICY.allocate(SNAPSHOT).certificate
    assert certificate.objective == pytest.approx(BEST, rel=1e-9)
    assert "highs failed (objective " in certificate.path
    assert certificate.path.endswith("; highs")


def test_what_a_solver_rounds_to_nothing_is_given_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    light, heavy = Job(0, "a", 10.0), Job(1, "a", 10.0, weight=1e12)
    crowded = Snapshot.of([light, heavy], Cluster.parse("fast=1"), Throughputs({Setting("a", "fast"): 4.0}))
    policy = load_policy("max_min_fairness")
    best = policy.allocate(crowded).certificate

    def rounded(_: Statement, **__: bool) -> Answer:
        return Answer(np.array([0.0, 1.0]), best.bound, None, 2, "rounded")

    monkeypatch.setattr(portfolio, "solve_linear", rounded)
    allocation = policy.allocate(crowded)
    assert allocation.certificate.objective == pytest.approx(best.objective, rel=GAP)
    assert allocation.certificate.path == "rounded, 1e-07 of all shared equally"
    assert allocation.share_JA.ravel() == pytest.approx([5e-8, 1.0 - 5e-8], rel=1e-9)


@pytest.mark.parametrize(
    ("share_C", "words"),
    [
        (np.full(4, np.nan), "no numbers"),
        (np.zeros(3), "no numbers"),
        (np.array([1.0, 0.5, 0.0, 0.0]), "a limit exceeded by 5.0e-01"),
        (np.array([-0.1, 0.0, 0.0, 0.0]), "a limit exceeded by 1.0e-01"),
        (np.array([1.0, 0.0, 0.0, 1.0]), "a constraint missed by"),
        (np.array([0.5, 0.0, 0.0, 0.9]), "but the bound is 5"),
    ],
)
def test_what_is_wrong_with_an_answer(share_C: np.ndarray, words: str) -> None:
    assert words in (check(statement(), Answer(share_C, BEST, None, 2, "")).fault or "")


def test_shares_of_what_cannot_run_are_wrong() -> None:
    speeds = Throughputs({Setting("a", "fast"): 4.0, Setting("a", "slow"): 0.0})
    snapshot = Snapshot.of([Job(0, "a", 10.0)], Cluster.parse("fast=1,slow=1"), speeds)
    stated = Maximize(SumThroughput()).state(snapshot)
    assert check(stated, Answer(np.array([0.9, 0.1]), None, None, 1, "")).fault == "shares of what cannot run"
    assert check(stated, Answer(np.array([0.9, 0.0]), None, None, 1, "")).fault is None  # nothing is proven


def test_the_gap_is_relative_to_the_size_of_the_numbers() -> None:
    share_C = np.array([0.5, 0.0, 0.0, 1.0])
    for part, good in ((0.5, True), (2.0, False)):
        bound = BEST * (1.0 + part * GAP)
        assert (check(statement(), Answer(share_C, bound, None, 2, "")).fault is None) == good


def test_infeasible_is_an_answer_and_no_other_solver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("another solver was asked")

    monkeypatch.setattr(portfolio, "solve_reference", never)
    with pytest.raises(ProgramError, match=r"Throughput\(\) >= 99 cannot be met"):
        Maximize(SumThroughput(), [Throughput() >= 99]).allocate(SNAPSHOT)


def test_who_asks_for_no_reason_gets_none() -> None:
    with using(reasons=False), pytest.raises(ProgramError, match="constraints cannot be met"):
        Maximize(SumThroughput(), [Throughput() >= 99]).allocate(SNAPSHOT)


@pytest.mark.parametrize("status", ["infeasible", "unbounded"])
def test_a_program_that_must_have_an_answer_is_not_blamed(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    monkeypatch.setattr(LinearProgram, "solve", failing(status, ("choose",)))
    certificate = Maximize(SumThroughput()).allocate(SNAPSHOT).certificate
    assert certificate.objective == pytest.approx(7.0)
    assert certificate.path == f"highs failed ({status}); highs"


class NoRows(Linear):
    """A term of nothing."""

    def linear(self, view: View) -> Affine:
        return view.throughput.of_rows(np.zeros(0, dtype=np.int64))


def test_an_objective_without_rows_is_its_authors_mistake() -> None:
    with pytest.raises(PolicyError, match=r"NoRows\(\): linear\(\) returned 0 rows over 4 configurations"):
        Maximize(Worst(NoRows())).allocate(SNAPSHOT)


# -- time -----------------------------------------------------------------------------------------------------


def test_a_budget_that_is_spent_fails_and_says_so() -> None:
    with using(budget_s=0.0), pytest.raises(SolverError, match="time limit reached"):
        POLICY.allocate(SNAPSHOT)


def test_every_path_gets_half_of_the_time_left_and_the_last_one_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "thread_time", lambda: 1000.0)
    seen: list[float] = []

    def give_up(*_: object, **__: object) -> Answer:
        seen.append(left_s())
        raise UnsolvedError("gave up")

    monkeypatch.setattr(portfolio, "solve_linear", give_up)
    monkeypatch.setattr(portfolio, "solve_reference", give_up)
    with using(budget_s=8.0), pytest.raises(SolverError):
        POLICY.allocate(SNAPSHOT)
    assert seen == [4.0, 4.0, 8.0]  # on a clock that stands still


def test_levels_end_where_the_time_does_and_the_first_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = LinearProgram.solve
    policy, table = Maximize(Worst(NormalizedThroughput())), load_throughputs("simulation")
    of_many_levels = Snapshot.of(random_jobs(60, table), Cluster.of({"v100": 36, "p100": 36, "k80": 36}), table)
    expected = policy.allocate(of_many_levels).certificate
    cut_short = 0
    for most in range(1, 10):
        calls = iter(range(100))

        def slow(program: LinearProgram, calls: Iterator[int] = calls, most: int = most) -> tuple[Any, Any]:
            if next(calls) >= most:
                raise UnsolvedError("time limit reached")
            return solve(program)

        monkeypatch.setattr(LinearProgram, "solve", slow)
        try:
            certificate = policy.allocate(of_many_levels).certificate
        except SolverError:  # before the first level, where no other solver is installed
            assert not cut_short
            continue
        cut_short += certificate.path.endswith("levels not all raised")
        assert certificate.objective == pytest.approx(expected.objective)
    assert cut_short


# -- settings -------------------------------------------------------------------------------------------------


def test_settings_hold_inside_and_end_outside() -> None:
    before = settings()
    with using(solver="scs"), using(budget_s=5.0) as inner:
        assert inner == settings() == Settings("scs", 5.0)
    assert settings() == before == Settings("auto", 60.0)


def names(stated: Statement | RatioStatement, solver: Any) -> list[str]:
    return [path.name for path in paths(stated, solver)]


def test_which_paths_are_tried() -> None:
    assert names(statement(), "auto") == ["highs", "highs interior point", "clarabel"]
    assert names(statement(), "highs") == ["highs", "highs interior point"]
    for solver in ("clarabel", "ecos", "scs"):
        assert names(statement(), solver) == [solver]


def test_highs_solves_linear_programs_alone() -> None:
    from gavelx.solvers.program.statement import Logs

    view = View(SNAPSHOT)
    stated = Statement(SNAPSHOT, (), view.nothing, (), "logs", logs=(Logs(np.ones(2), view.throughput),))
    assert names(stated, "auto") == ["clarabel", "clarabel", "scs"]
    with pytest.raises(PolicyError, match="highs solves no other"):
        paths(stated, "highs")
