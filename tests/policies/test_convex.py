"""The open hatch: terms that return any cvxpy expression, and what they may not return."""

import contextlib
import re
import textwrap
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from gavelx import policies
from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError, SolverError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies import (
    Convex,
    ConvexView,
    Cost,
    Largest,
    Maximize,
    Minimize,
    NormalizedThroughput,
    Policy,
    Sum,
    SumThroughput,
    Term,
    Throughput,
    TimeLeft,
    TimeShare,
    View,
    Worst,
    agnostic,
    convex,
)
from gavelx.prices import Prices
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from gavelx.solvers import using
from gavelx.solvers.program.convex import ConvexStatement
from gavelx.solvers.program.statement import Affine
from gavelx.testing import PolicyConformance
from gavelx.throughputs import Setting, Throughputs
from tests.explain.allocations import instant
from tests.policies.small import snapshot

pytestmark = pytest.mark.slow

BOTH = snapshot("a", "b")


class Roots(Convex):
    """Concave, one number."""

    def expression(self, view: ConvexView) -> Any:
        return cp.sum(cp.sqrt(view.throughput))


class RootOfEach(Convex):
    """Concave, one row per job."""

    def expression(self, view: ConvexView) -> Any:
        return cp.sqrt(view.throughput)


class Logs(Convex):
    """Concave, and without a value where a throughput is 0."""

    def expression(self, view: ConvexView) -> Any:
        return cp.sum(cp.log(view.throughput))


class Crowding(Convex):
    """Convex: the sum of squares of the devices in use."""

    def expression(self, view: ConvexView) -> Any:
        return cp.sum_squares(view.devices)


class Product(Convex):
    """Neither convex nor concave."""

    def expression(self, view: ConvexView) -> Any:
        return view.throughput[0] * view.throughput[1]


class Returns(Convex):
    """Whatever it is told."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def expression(self, view: ConvexView) -> Any:
        return self.make(view)


def squares(share_JA: np.ndarray) -> float:
    return float((share_JA.sum(axis=0) ** 2).sum())


class TestRoots(PolicyConformance):
    """A term of one's own goes through the kit like ours do."""

    policy = Maximize(Roots())
    unique = True
    tolerance = 1e-3  # of what a conic solver tells apart where speeds are 10,000 times as large
    examples = 5
    test_weights_count = None  # its sum has none


def documented() -> Policy:
    """The example in the docstring of gavelx/policies/convex.py, word for word: a term, then a program with it."""
    example = "".join(re.findall(r"^(?:    .*)?\n", convex.__doc__ or "", re.MULTILINE))
    term, _, program = textwrap.dedent(example).strip().rpartition("\n")
    names: dict[str, Any] = {**vars(policies), "cvxpy": cp}
    exec(term, names)
    policy: Policy = eval(program, names)
    return policy


@pytest.mark.parametrize("jobs", ["a", "ab", "aaa"])
@pytest.mark.parametrize("cluster", ["fast=1", "fast=2,slow=1"])
def test_the_documented_example_runs_whatever_there_is_to_share(jobs: str, cluster: str) -> None:
    policy = documented()
    certificate = policy.allocate(snapshot(*jobs, cluster=cluster)).certificate
    assert repr(policy) == "Maximize(Evenness() - 0.01 * Cost(), [Evenness() >= 0.5])"
    assert certificate.objective == pytest.approx(certificate.bound, rel=1e-4)


@pytest.mark.parametrize("term", [Roots(), Sum(RootOfEach()), Worst(RootOfEach()), -1.0 * Crowding()])
def test_one_way_to_run_has_a_tangent_too(term: Term) -> None:
    """What is left at the end of a run on a cluster of one type."""
    certificate = Maximize(term, [RootOfEach() >= 0.1]).allocate(snapshot("a", cluster="fast=1")).certificate
    assert certificate.objective == pytest.approx(certificate.bound, rel=1e-4, abs=1e-4)


def test_a_run_on_one_type_goes_to_its_end() -> None:
    table = load_throughputs("simulation")
    result = simulate(Maximize(Roots()), random_jobs(4, table, seed=2), Cluster.of({"v100": 2}), table)
    assert not result.unfinished
    assert not result.solver_failures


def test_the_view_offers_the_same_words() -> None:
    plain, words = View(BOTH), ConvexView(View(BOTH), cp)
    share_C = np.array([0.1, 0.2, 0.3, 0.4])
    words.share.value = share_C
    for name in ("throughput", "normalized_throughput", "time_share", "devices", "usd_per_hour", "nothing"):
        expected = getattr(plain, name)(share_C)
        assert np.ravel(getattr(words, name).value) == pytest.approx(expected), name
    assert words.usd_per_hour.shape == ()
    assert words.steps_left_J.tolist() == plain.steps_left_J.tolist()
    assert words.J == 2
    with pytest.raises(AttributeError, match="no 'speed'; it has J, cheapest_usd_J, devices"):
        _ = words.speed


def test_proportional_fairness_as_a_term_of_ones_own() -> None:
    """Two equal jobs on one device: the product of throughputs is largest at half each."""
    allocation = Maximize(Logs()).allocate(snapshot("a", "a", cluster="fast=1"))
    assert allocation.share_JA == pytest.approx(np.full((2, 1), 0.5), abs=1e-5)
    certificate = allocation.certificate
    assert certificate.objective == pytest.approx(2 * np.log(2.0), rel=1e-9)
    assert certificate.objective <= certificate.bound <= certificate.objective + 1e-4
    assert certificate.path == "clarabel by cvxpy"


def test_terms_mix_with_the_built_in_ones() -> None:
    allocation = Maximize(SumThroughput() - 0.5 * Crowding() + 2 * Worst(Throughput())).allocate(BOTH)
    shares, speeds = allocation.share_JA, allocation.throughput_J
    expected = speeds.sum() - 0.5 * squares(shares) + 2 * speeds.min()
    assert allocation.certificate.objective == pytest.approx(expected, rel=1e-12)
    assert allocation.certificate.objective == pytest.approx(7.0 - 1.0 + 6.0, rel=1e-6)


@pytest.mark.parametrize("solver", ["auto", "ecos", "scs"])
def test_a_constraint_of_ones_own_binds(solver: str) -> None:
    """a on fast and b on slow are best, 4 x + 3 y with x^2 + y^2 <= 1: x = 0.8, y = 0.6."""
    if solver == "ecos":
        pytest.importorskip("ecos")
    with using(solver=solver):
        allocation = Maximize(SumThroughput(), [Crowding() <= 1.0]).allocate(BOTH)
    assert allocation.share_JA == pytest.approx(np.array([[0.8, 0.0], [0.0, 0.6]]), abs=1e-3)
    assert squares(allocation.share_JA) <= 1.0 + 1e-9
    assert allocation.certificate.objective == pytest.approx(5.0, rel=1e-6)


def test_a_constraint_may_mix_both_sides() -> None:
    policy = Maximize(SumThroughput(), [Crowding() + Cost() <= 2.0 + Sum(TimeShare()), Throughput() >= 0.1])
    allocation = policy.allocate(BOTH)
    shares = allocation.share_JA
    dollars = [3.0, 1.0] @ shares.sum(axis=0)
    assert squares(shares) + dollars == pytest.approx(2.0 + shares.sum(), rel=1e-6)
    assert squares(shares) + dollars <= 2.0 + shares.sum() + 1e-8
    assert allocation.throughput_J.min() >= 0.1 - 1e-9


def test_rows_make_a_constraint_for_each_job() -> None:
    allocation = Minimize(Cost(), [RootOfEach() >= 1.2]).allocate(BOTH)
    linear = Minimize(Cost(), [Throughput() >= 1.44]).allocate(BOTH)
    assert allocation.throughput_J == pytest.approx([1.44, 1.44], abs=1e-6)
    assert allocation.certificate.objective == pytest.approx(linear.certificate.objective, rel=1e-6)


def test_convex_is_made_small_and_concave_large_in_a_minimisation_too() -> None:
    allocation = Minimize(Crowding() - Roots(), [Cost() <= 3.0]).allocate(BOTH)
    expected = squares(allocation.share_JA) - np.sqrt(allocation.throughput_J).sum()
    assert allocation.certificate.objective == pytest.approx(expected, rel=1e-9)
    assert allocation.certificate.bound <= allocation.certificate.objective


@pytest.mark.parametrize(("wrapped", "plain"), [(Sum(RootOfEach()), Roots()), (2 * Worst(RootOfEach()), None)])
def test_sum_and_worst_work_on_rows(wrapped: Any, plain: Any) -> None:
    objective = Maximize(wrapped).allocate(BOTH).certificate.objective
    if plain is not None:
        assert objective == pytest.approx(Maximize(plain).allocate(BOTH).certificate.objective, rel=1e-6)
    else:
        best = Maximize(Worst(Throughput())).allocate(BOTH).certificate.objective
        assert objective == pytest.approx(2 * np.sqrt(best), rel=1e-6)


def test_a_job_that_can_run_nowhere_is_left_out_of_the_worst() -> None:
    table = Throughputs({Setting("a", "v100"): 4.0, Setting("b", "v100"): 2.0, Setting("c", "v100"): 0.0})
    snapshot = Snapshot.of([Job(j, kind, 100.0) for j, kind in enumerate("abc")], Cluster.of({"v100": 1}), table)
    answer = Maximize(Worst(RootOfEach())).allocate(snapshot)
    assert answer.certificate.objective == pytest.approx((4 / 3) ** 0.5, abs=1e-6)  # a third of the time, and two
    assert answer.share_JA == pytest.approx(np.array([[1 / 3], [2 / 3], [0.0]]), abs=1e-5)
    assert answer.notes == ("job 2 can run nowhere, and is left out",)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e9])
def test_no_objective_is_said_to_have_no_limit(size: float) -> None:
    """Shares are at most 1: where the numbers are too much for the solvers, that is said."""
    table = Throughputs({Setting("a", "v100"): 3.0 * size, Setting("a", "k80"): size})
    jobs, prices = [Job(j, "a", 100.0) for j in range(3)], Prices({"v100": 2e-6, "k80": 1e-6})
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 2, "k80": 2}), table, prices)
    with contextlib.suppress(SolverError):
        answer = Maximize(Returns(lambda view: cp.sum(view.throughput)) - 1.0 * Cost()).allocate(snapshot)
        assert answer.certificate.objective == pytest.approx(7.0 * size, rel=1e-6)


def test_a_linear_term_through_the_hatch_gives_the_linear_optimum() -> None:
    policy = Maximize(Returns(lambda view: cp.min(view.normalized_throughput)))
    best = Maximize(Worst(NormalizedThroughput())).allocate(BOTH).certificate.objective
    certificate = policy.allocate(BOTH).certificate
    assert certificate.objective == pytest.approx(best, rel=1e-6)
    assert certificate.violation <= 1e-9


def test_the_objective_is_what_the_expression_says_of_the_shares() -> None:
    """Recomputed at the repaired shares, never the solver's own word."""
    statement = Maximize(Roots() - 0.1 * Cost()).state(BOTH)
    assert isinstance(statement, ConvexStatement)
    share_C = np.array([0.25, 0.0, 0.0, 1 / 3])
    assert statement.objective(share_C) == pytest.approx(1.0 + 1.0 - 0.1 * (0.75 + 1 / 3))


def test_it_prints_as_the_expression_that_made_it() -> None:
    policy = Maximize(Roots() - 2 * Crowding(), [Crowding() <= 3])
    assert repr(policy) == "Maximize(Roots() - 2 * Crowding(), [Crowding() <= 3])"


def test_no_jobs_and_other_modifiers() -> None:
    policy = agnostic(Maximize(Roots(), [Crowding() <= 1.5]))
    assert policy.allocate(snapshot()).share_JA.shape == (0, 2)
    assert squares(policy.allocate(BOTH).share_JA) <= 1.5 + 1e-9


# -- mistakes -------------------------------------------------------------------------------------------------

NOT_CONVEX = [
    (Maximize(Crowding()), "Crowding() is convex; expected a concave term to be made large. Try: turn it round"),
    (Minimize(Roots()), "Roots() is concave; expected a convex term to be made small. Try: turn it round"),
    (Maximize(-1 * Roots()), "Roots() is concave; expected a convex term to be made small"),
    (Maximize(Product()), "Product() is neither convex nor concave by cvxpy's rules (quasiconcave)"),
    (Maximize(Product()), "Try: compose it of cvxpy's atoms"),
    (
        Maximize(SumThroughput(), [Crowding() >= 1]),
        "Crowding() is convex; expected a concave term as the larger side of Crowding() >= 1",
    ),
    (
        Maximize(SumThroughput(), [Roots() <= 1]),
        "Roots() is concave; expected a convex term as the smaller side of Roots() <= 1",
    ),
]
WRONG = [
    (lambda view: [1], "expression() returned a list; expected a cvxpy expression"),
    (lambda view: None, "returned a NoneType; expected a cvxpy expression of the view's words. Try: look at"),
    (lambda view: True, "returned a bool"),
    (lambda view: "x", "returned a str"),
    (lambda view: np.array([None]), "returned a ndarray"),
    (lambda view: cp.Variable(), "variables of its own"),
    (lambda view: cp.Parameter() * view.usd_per_hour, "a parameter that has no value"),
    (lambda view: 1j * view.usd_per_hour, "complex numbers"),
    (lambda view: np.nan * view.usd_per_hour, "not finite"),
    (lambda view: cp.outer(view.throughput, np.ones(2)), "rows of shape (2, 2)"),
    (lambda view: 1 / 0, "expression() failed with ZeroDivisionError: division by zero. Try: look at"),
    (lambda view: view.speed, "the view has no 'speed'"),
    (lambda view: view.throughput, "has shape (2,); an objective is one number. Try: Sum("),
    (lambda view: view.throughput @ np.ones(5), "expression() failed with ValueError"),
]


@pytest.mark.parametrize(("policy", "words"), NOT_CONVEX)
def test_what_is_not_convex_names_the_term_and_what_would_be_right(policy: Policy, words: str) -> None:
    with pytest.raises(ProgramError) as caught:
        policy.allocate(BOTH)
    assert words in str(caught.value)


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_what_cannot_be_used_names_the_term(make: Any, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Maximize(Returns(make)).allocate(BOTH)
    assert words in str(caught.value)
    assert "Returns()" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_term_sees_the_snapshot() -> None:
    first = Returns(lambda view: view.throughput[view.snapshot.jobs[0].id])
    assert Maximize(first).allocate(BOTH).throughput_J[0] == pytest.approx(BOTH.known.throughput_JA[0].max())


def test_a_number_or_a_row_of_the_plain_view_is_as_good_as_an_expression() -> None:
    constant = Maximize(SumThroughput() + Returns(lambda view: 3)).allocate(BOTH)
    assert constant.certificate.objective == pytest.approx(10.0, rel=1e-6)

    def dollars(view: ConvexView) -> Affine:
        return view.plain.usd_per_hour

    assert Minimize(Returns(dollars)).allocate(BOTH).certificate.objective == pytest.approx(0.0, abs=1e-6)


def test_rows_that_do_not_fit_are_refused() -> None:
    three = Returns(lambda view: cp.hstack([view.throughput, view.usd_per_hour]))
    for policy in (Maximize(Sum(three + Throughput())), Maximize(SumThroughput(), [three >= Throughput()])):
        with pytest.raises(PolicyError, match="its two sides do not fit"):
            policy.allocate(BOTH)


def test_a_constraint_that_cannot_be_met_is_named() -> None:
    policy = Maximize(Roots(), [TimeShare() >= 0.1, RootOfEach() >= 9])
    with pytest.raises(ProgramError) as caught:
        policy.allocate(BOTH)
    assert "the constraint RootOfEach() >= 9 cannot be met" in str(caught.value)
    both = Maximize(SumThroughput(), [RootOfEach() >= 1.2, Cost() <= 0.1])
    with pytest.raises(ProgramError) as caught:
        both.allocate(BOTH)
    assert "Cost() <= 0.1 and RootOfEach() >= 1.2 cannot all be met" in str(caught.value)


def test_an_objective_without_a_value_is_named() -> None:
    speeds = Throughputs({Setting("a", "fast"): 4.0, Setting("c", "fast"): 0.0})
    nowhere = Snapshot.of([Job(0, "a", 10.0), Job(1, "c", 10.0)], Cluster.parse("fast=1"), speeds)
    with pytest.raises(ProgramError, match=r"Logs\(\) has no value.*leave out jobs that can run nowhere"):
        Maximize(Logs()).allocate(nowhere)


class Slowness(Convex):
    """Seconds a step of the jobs that can run, in sum."""

    def expression(self, view: ConvexView) -> Any:
        return cp.sum(cp.inv_pos(view.throughput[view.runs_J]))


@pytest.mark.parametrize("seed", range(5))
def test_a_term_of_ones_own_leaves_out_jobs_that_can_run_nowhere(seed: int) -> None:
    """By the facts of the view; the notes say of whom, and do not say that it was done for the author."""
    speeds_JA, devices = np.random.default_rng(seed).uniform(1, 9, (4, 2)).tolist(), {"x": 2, "y": 1}
    policy, wide = Minimize(Slowness()), [1, 1, 1, 8]
    one = policy.allocate(instant(devices, speeds_JA, wide))
    other = policy.allocate(instant(devices, speeds_JA[:3]))
    assert one.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-6)
    assert one.notes == ("job 3 can run nowhere",)
    assert not policy.allocate(instant(devices, speeds_JA[3:], wide[3:])).share_C.any()


def test_a_ratio_takes_linear_constraints_only() -> None:
    with pytest.raises(PolicyError, match=r"Crowding\(\) <= 1 cannot stand beside Largest\(TimeLeft\(\)\)"):
        Minimize(Largest(TimeLeft()), [Crowding() <= 1]).allocate(BOTH)


def test_highs_is_told_apart() -> None:
    with using(solver="highs"), pytest.raises(PolicyError, match=r"highs solves no other\. Try: --solver auto"):
        Maximize(Roots()).allocate(BOTH)


def test_warnings_of_cvxpy_are_not_printed(recwarn: pytest.WarningsRecorder) -> None:
    multiplied = Returns(lambda view: np.ones(2) * view.throughput)  # cvxpy takes it for a product of matrices
    Maximize(multiplied).allocate(BOTH)
    assert not recwarn.list


def test_the_next_solver_is_asked_for_a_convex_program_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from gavelx.solvers import portfolio
    from gavelx.solvers.program.errors import UnsolvedError

    solve = portfolio.solve_reference

    def without_clarabel(statement: Any, solver: str) -> Any:
        if solver == "clarabel":
            raise UnsolvedError("numerical error")
        return solve(statement, solver)

    expected = Maximize(Roots()).allocate(BOTH).certificate.objective
    monkeypatch.setattr(portfolio, "solve_reference", without_clarabel)
    certificate = Maximize(Roots()).allocate(BOTH).certificate
    assert certificate.path == "clarabel failed (numerical error); scs by cvxpy"
    assert certificate.objective == pytest.approx(expected, rel=1e-4)


def test_a_solver_that_answers_wrongly_is_found_out_by_the_tangent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares that are half of the best ones are feasible, and far from the bound proven at the best ones."""
    from dataclasses import replace

    from gavelx.solvers import portfolio

    solve = portfolio.solve_reference

    def halved(statement: Any, solver: str) -> Any:
        answer = solve(statement, solver)
        return replace(answer, share_C=answer.share_C * (0.5 if solver == "clarabel" else 1.0))

    monkeypatch.setattr(portfolio, "solve_reference", halved)
    certificate = Maximize(Roots()).allocate(BOTH).certificate
    assert certificate.path.startswith("clarabel failed (objective 2.63895843, but the bound is 3.7320508")
    assert certificate.objective == pytest.approx(2.0 + np.sqrt(3.0), rel=1e-6)
