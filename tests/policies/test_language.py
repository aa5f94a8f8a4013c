"""Terms, programs and modifiers: what they print, what they mean, and how they refuse."""

from dataclasses import dataclass

import numpy as np
import pytest

import gavelx.policies
from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError
from gavelx.jobs import Job
from gavelx.policies import (
    Cost,
    Devices,
    Largest,
    Linear,
    Log,
    Maximize,
    Minimize,
    Sum,
    SumThroughput,
    Throughput,
    TimeLeft,
    TimeShare,
    View,
    Worst,
    agnostic,
    load_policy,
)
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.solvers.program.statement import Affine
from gavelx.throughputs import Setting, Throughputs
from tests.policies.small import snapshot


@pytest.mark.parametrize(
    "text",
    [
        "Maximize(Worst(NormalizedThroughput()))",
        "Maximize(SumThroughput() - 2 * Cost(), [NormalizedThroughput() >= 0.9, Cost() <= 40])",
        "Minimize(Cost(), [Throughput() >= 1])",
        "Maximize(Worst(Throughput()) + 0.5 * Sum(TimeShare()) - Cost())",
        "Maximize(SumThroughput() - 2 * (Cost() + 3))",
        "agnostic(Maximize(Worst(TimeShare())))",
        "Minimize(Largest(FinishTimeRatio()))",
        "Minimize(Largest(TimeLeft()), [Cost() <= 3], then=Worst(NormalizedThroughput()))",
    ],
)
def test_every_object_prints_as_the_expression_that_made_it(text: str) -> None:
    assert repr(eval(text, vars(gavelx.policies))) == text


def test_jobs_go_where_they_gain_most() -> None:
    allocation = Maximize(SumThroughput()).allocate(snapshot("a", "b"))
    assert allocation.share_JA.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert allocation.certificate.objective == allocation.certificate.bound == 7.0


def test_a_constraint_binds() -> None:
    plain = Maximize(SumThroughput()).allocate(snapshot("a", "b"))
    frugal = Maximize(SumThroughput(), [Cost() <= 2.5]).allocate(snapshot("a", "b"))
    cost = [3.0, 1.0] @ frugal.share_JA.sum(axis=0)
    assert cost == pytest.approx(2.5)
    assert plain.certificate.objective > frugal.certificate.objective == pytest.approx(3.0 + 4.0 * 0.5)


def test_minimize_reports_what_was_asked() -> None:
    allocation = Minimize(Cost(), [Throughput() >= 1.5]).allocate(snapshot("a", "b"))
    dollars = [3.0, 1.0] @ allocation.share_JA.sum(axis=0)
    assert allocation.throughput_J == pytest.approx([1.5, 1.5])
    # a dollar buys b 3 steps/s on slow and a 4/3 on fast: half of slow for b, 3/8 of fast for a
    assert dollars == pytest.approx(0.5 * 1.0 + 0.375 * 3.0)
    assert allocation.certificate.objective == pytest.approx(dollars)


def test_makespan_shares_what_the_longest_job_leaves() -> None:
    """b needs 1000/3 s wherever it runs; a could take as long, but has fast for itself and is done after 250 s."""
    allocation = load_policy("makespan").allocate(snapshot("a", "b"))
    assert allocation.certificate.objective == pytest.approx(1000.0 / 3.0)
    assert allocation.throughput_J == pytest.approx([4.0, 3.0])


def test_a_budget_binds_in_a_ratio_program_too() -> None:
    plain = Minimize(Largest(TimeLeft())).allocate(snapshot("a", "b"))
    frugal = Minimize(Largest(TimeLeft()), [Cost() <= 1.0]).allocate(snapshot("a", "b"))
    assert [3.0, 1.0] @ frugal.share_JA.sum(axis=0) <= 1.0 + 1e-9
    assert frugal.certificate.objective > plain.certificate.objective * 1.5


def test_a_job_that_can_run_nowhere_does_not_stop_the_others() -> None:
    speeds = Throughputs({Setting("a", "fast"): 4.0, Setting("c", "fast"): 0.0})
    jobs = [Job(0, "a", 10.0), Job(1, "c", 10.0)]
    for name in ("makespan", "finish_time_fairness", "max_min_fairness"):
        allocation = load_policy(name).allocate(Snapshot.of(jobs, Cluster.parse("fast=1"), speeds))
        assert allocation.share_JA[0] == pytest.approx([1.0]), name


def test_a_total_is_added_to_every_row() -> None:
    term = Throughput() - Sum(Throughput())
    view = View(snapshot("a", "b"))
    share_C = np.array([1.0, 0.0, 0.0, 1.0])  # a on fast, b on slow
    assert term.linear(view)(share_C).tolist() == [4.0 - 7.0, 3.0 - 7.0]


def test_max_min_goes_on_after_its_first_level() -> None:
    """Job a cannot run on slow: its best is all of fast. A one-level optimum may leave b at the same level."""
    speeds = Throughputs({Setting("a", "fast"): 1.0, Setting("a", "slow"): 0.0, Setting("b", "slow"): 100.0})
    jobs = [Job(0, "a", 10.0), Job(1, "b", 10.0)]
    allocation = load_policy("max_min_fairness").allocate(
        Snapshot.of(jobs, Cluster.parse("fast=1,slow=3"), speeds)
    )
    assert allocation.share_JA.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_among_equal_throughputs_the_cheaper_devices_are_taken() -> None:
    allocation = load_policy("max_min_fairness").allocate(snapshot("b", cluster="fast=1,slow=1"))
    assert allocation.share_JA.tolist() == [[0.0, 1.0]]


def test_agnostic_spreads_over_the_types_in_proportion_to_their_devices() -> None:
    allocation = agnostic(load_policy("max_min_fairness")).allocate(
        snapshot("a", "a", "b", cluster="fast=1,slow=2")
    )
    assert allocation.share_JA == pytest.approx(np.array([[1 / 3, 2 / 3]] * 3))


def test_agnostic_never_lends_a_job_the_speed_of_a_type_it_cannot_run_on() -> None:
    speeds = Throughputs(
        {Setting("a", "fast"): 5.0, Setting("a", "slow"): 0.0, Setting("b", "fast"): 1.0}
        | {Setting("b", "slow"): 1.0}
    )
    jobs = [Job(0, "a", 10.0), Job(1, "b", 10.0)]
    policy = agnostic(load_policy("max_min_fairness"))
    allocation = policy.allocate(Snapshot.of(jobs, Cluster.parse("fast=1,slow=1"), speeds))
    assert allocation.share_JA == pytest.approx(np.array([[1.0, 0.0], [0.0, 1.0]]))


def test_agnostic_does_not_spread_a_program_out_of_its_budget() -> None:
    """Half a dollar an hour buys half of slow; spread over both types the same time would cost twice that."""
    policy = agnostic(Maximize(SumThroughput(), [Cost() <= 0.5]))
    allocation = policy.allocate(snapshot("a", "b"))
    assert [3.0, 1.0] @ allocation.share_JA.sum(axis=0) <= 0.5 + 1e-9


def test_agnostic_leaves_a_queue_its_whole_devices() -> None:
    allocation = agnostic(load_policy("fifo")).allocate(snapshot("a", "b", "a"))
    assert sorted(allocation.share_JA.sum(axis=1).tolist()) == [0.0, 1.0, 1.0]
    assert set(allocation.share_JA.ravel().tolist()) == {0.0, 1.0}


def test_no_jobs_get_nothing() -> None:
    for name in ("fifo", "isolated", "max_min_fairness", "max_sum_throughput", "agnostic(max_min_fairness)"):
        assert load_policy(name).allocate(snapshot()).share_JA.shape == (0, 2)


@pytest.mark.parametrize("constraints", ["x", [True], [Cost() == 25], [3.0]])
def test_what_is_no_constraint_is_refused_when_the_policy_is_made(constraints: object) -> None:
    with pytest.raises(PolicyError, match="is no constraint"):
        Maximize(SumThroughput(), constraints)  # type: ignore[arg-type]


def test_what_a_word_cannot_take_is_told_when_the_policy_is_made() -> None:
    with pytest.raises(PolicyError, match=r"in a list. Try: \[Cost\(\) <= 4\]"):
        Maximize(SumThroughput(), Cost() <= 4)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="expected then=Worst"):
        Minimize(Largest(TimeLeft()), then=3)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"Throughput\(\) is no ratio"):
        Largest(Throughput())  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="a product of terms is not linear"):
        SumThroughput() * Cost()  # type: ignore[operator]


class Tenfold(Linear):
    """A user's own term."""

    def linear(self, view: View) -> Affine:
        return view.throughput.scaled(10.0)


def test_a_user_writes_a_term_with_one_method() -> None:
    allocation = Maximize(Sum(Tenfold())).allocate(snapshot("a", "b"))
    assert allocation.certificate.objective == pytest.approx(70.0)
    assert repr(Sum(Tenfold())) == "Sum(Tenfold())"


@pytest.mark.parametrize(
    ("policy", "parts"),
    [
        (Maximize(Throughput()), ["Throughput()", "one row per job", "Sum(Throughput())"]),
        (Maximize(-1.0 * Worst(Throughput())), ["Worst(Throughput())", "is concave"]),
        (Maximize(Sum(Throughput() + Devices())), ["Throughput() + Devices()", "job", "accelerator"]),
        (
            Maximize(SumThroughput(), [Worst(Throughput()) >= 1.0]),
            ["Worst(Throughput())", "not linear", "as a constraint"],
        ),
        (Maximize(SumThroughput(), [Largest(TimeLeft()) <= 9.0]), ["as a constraint, TimeLeft() <= a number"]),
        (Maximize(Sum(TimeLeft())), ["Minimize(Largest(TimeLeft()))"]),
        (Maximize(Log(Throughput())), ["Maximize(Sum(Log(Throughput())))"]),
        (Maximize(Worst(3)), ["3 is no term"]),  # type: ignore[arg-type]
    ],
)
def test_a_program_that_means_nothing_names_the_term(policy: Maximize, parts: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        policy.allocate(snapshot("a", "b"))
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_an_infeasible_constraint_is_named_alone() -> None:
    policy = Maximize(SumThroughput(), [TimeShare() >= 0.1, Throughput() >= 99.0])
    with pytest.raises(ProgramError) as caught:
        policy.allocate(snapshot("a", "b"))
    assert "Throughput() >= 99" in str(caught.value)
    assert "constraint TimeShare" not in str(caught.value)


@dataclass(frozen=True)
class OnlyJob(Linear):
    """Throughput of one job; nothing of the others."""

    job: int

    def linear(self, view: View) -> Affine:
        return view.throughput.where(np.arange(view.J) == self.job)


def test_a_job_that_no_share_helps_is_named_with_the_constraint_that_it_breaks() -> None:
    policy = Maximize(SumThroughput(), [TimeShare() >= 0.0, OnlyJob(1) >= 0.1])
    with pytest.raises(ProgramError) as caught:
        policy.allocate(snapshot("a", "b"))
    assert "OnlyJob(job=1) >= 0.1 cannot be met" in str(caught.value)
    assert "nothing that job 0 may get helps" in str(caught.value)
    with pytest.raises(ProgramError, match="relax it"):
        Maximize(SumThroughput(), [Throughput() >= 99.0]).allocate(snapshot("a", "b"))


def test_constraints_that_only_fail_together_are_all_named() -> None:
    policy = Maximize(SumThroughput(), [Sum(TimeShare()) >= 1.5, Cost() <= 1.0])
    with pytest.raises(ProgramError) as caught:
        policy.allocate(snapshot("a", "b"))
    assert "Sum(TimeShare()) >= 1.5 and Cost() <= 1 cannot all be met" in str(caught.value)


def test_a_cost_without_a_price_is_an_error_that_names_the_type() -> None:
    with pytest.raises(PolicyError, match="no price is known for slow"):
        Minimize(Cost()).allocate(snapshot("a", prices=Prices({"fast": 1.0})))


def test_a_chained_comparison_is_refused() -> None:
    with pytest.raises(PolicyError, match="not true or false"):
        assert 0.1 <= TimeShare() <= 0.5
