"""When every solver failed, the schedule goes on with what it had."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.errors import ProgramError, SolverError
from gavelx.fallback import FallbackPolicy, carried_over
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies import MaxMinFairness, Policy, load_policy
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.throughputs import Pairing, Setting, Throughputs
from tests.policies.strategies import snapshots

SPEEDS = Throughputs({Setting(kind, name): 2.0 for kind in "abc" for name in ("fast", "slow")})


def snapshot(ids: str, cluster: str = "fast=1,slow=1") -> Snapshot:
    return Snapshot.of([Job(ord(i), i, 100.0) for i in ids], Cluster.parse(cluster), SPEEDS)


def allocation(of: Snapshot, share_C: list[float]) -> Allocation:
    return certified(of, np.array(share_C), path="planted", seconds=0.0)


class FailsAt(Policy):
    """Max-min fairness whose solvers fail at some of its calls."""

    def __init__(self, *calls: int, error: Callable[[str], Exception] = SolverError) -> None:
        self.calls, self.error, self.asked, self.answers = calls, error, 0, []

    def allocate(self, snapshot: Snapshot) -> Allocation:
        self.asked += 1
        if self.asked in self.calls:
            raise self.error(f"call {self.asked}")
        return MaxMinFairness().allocate(snapshot)


def test_jobs_that_stay_keep_their_shares_and_those_that_left_lose_them() -> None:
    before = allocation(snapshot("ab"), [0.7, 0.1, 0.3, 0.4])
    after = carried_over(before, snapshot("b"), "no time")
    assert after.share_JA.tolist() == [[0.3, 0.4]]
    assert after.certificate.path == "carried over: no time"
    assert after.certificate.objective is after.certificate.bound is None


def test_shares_follow_job_ids_and_names_of_types_not_positions() -> None:
    before = allocation(snapshot("ab"), [0.7, 0.1, 0.3, 0.4])
    after = carried_over(before, snapshot("ba", cluster="slow=1,fast=1"), "")
    assert after.share_JA.tolist() == [[0.4, 0.3], [0.1, 0.7]]


def test_a_new_job_gets_an_equal_share_and_what_is_too_much_is_scaled_down() -> None:
    before = allocation(snapshot("ab"), [0.75, 0.0, 0.25, 0.2])
    after = carried_over(before, snapshot("abc"), "")
    third = 1 / 3
    expected = np.array([[0.75 * 0.75, 0.0], [0.25 * 0.75, 0.2], [third * 0.75, third]])
    assert after.share_JA == pytest.approx(expected)


def test_devices_that_are_gone_take_their_shares_with_them() -> None:
    before = allocation(snapshot("ab", cluster="fast=4,slow=1"), [1.0, 0.0, 1.0, 0.0])
    after = carried_over(before, snapshot("ab", cluster="fast=1,slow=1"), "")
    assert after.share_JA == pytest.approx(np.array([[0.5, 0.0], [0.5, 0.0]]))
    gone = carried_over(before, snapshot("ab", cluster="fast=0,slow=1"), "")
    assert gone.share_JA.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_without_a_previous_one_everybody_gets_an_equal_share() -> None:
    of = snapshot("abc", cluster="fast=1,slow=2")
    after = carried_over(None, of, "")
    assert after.share_JA == pytest.approx(load_policy("isolated").allocate(of).share_JA)


def test_a_queue_stays_a_queue() -> None:
    before = load_policy("fifo").allocate(snapshot("abc"))
    after = carried_over(before, snapshot("bc"), "")
    assert not before.execution.backfill
    assert not after.execution.backfill
    assert after.share_JA.sum() == 1.0


def test_owners_that_share_still_do() -> None:
    before = load_policy("hierarchical(max_min_fairness)").allocate(snapshot("abc"))
    assert carried_over(before, snapshot("bc"), "").execution.by_owner
    assert not carried_over(None, snapshot("bc"), "").execution.by_owner


def test_a_pair_leaves_its_share_to_the_member_that_stays() -> None:
    speeds = Throughputs(
        {Setting(kind, "fast"): 2.0 for kind in "ab"},
        {Pairing("a", "b", "fast"): 1.5, Pairing("b", "a", "fast"): 1.5},
    )
    jobs, cluster = [Job(1, "a", 10.0), Job(2, "b", 10.0)], Cluster.parse("fast=1")
    both = Snapshot.of(jobs, cluster, speeds, pairs=True).open("pairs")
    pair_C = (both.configurations.members_C == 2).astype(float)
    assert pair_C.sum() == 1
    before = certified(both, pair_C, path="planted", seconds=0.0)
    again = carried_over(before, Snapshot.of(jobs, cluster, speeds, pairs=True), "")
    assert again.share_C.tolist() == pair_C.tolist()
    alone = carried_over(before, Snapshot.of(jobs[:1], cluster, speeds, pairs=True), "")
    assert alone.share_JA.tolist() == [[1.0]]


@settings(max_examples=60, deadline=None)
@given(before=snapshots(max_jobs=8), after=snapshots(max_jobs=8))
def test_it_is_feasible_whatever_came_and_went(before: Snapshot, after: Snapshot) -> None:
    carried = carried_over(MaxMinFairness().allocate(before), after, "reason")
    assert carried.certificate.violation <= 1e-9
    assert not carried.share_C[~after.usable_C].any()


def test_the_same_jobs_on_the_same_devices_keep_their_allocation() -> None:
    of = snapshot("abc")
    before = MaxMinFairness().allocate(of)
    assert carried_over(before, of, "").share_C == pytest.approx(before.share_C, abs=1e-12)


# -- in a run -------------------------------------------------------------------------------------------------

THROUGHPUTS, CLUSTER = load_throughputs("simulation"), Cluster.parse("v100=2,k80=2")
JOBS = random_jobs(6, THROUGHPUTS, arrival_rate_per_hour=2.0, seed=1)


def test_a_run_goes_on_when_the_third_call_fails() -> None:
    policy = FailsAt(3)
    result = simulate(policy, JOBS, CLUSTER, THROUGHPUTS)
    assert policy.asked > 3
    assert result.solver_failures == ("call 3",)
    summary = result.summary()
    assert summary["jobs_completed"] == len(JOBS)
    assert summary["solver_failures"] == 1


def test_a_run_whose_every_call_fails_ends_too() -> None:
    result = simulate(FailsAt(*range(1, 1000)), JOBS, CLUSTER, THROUGHPUTS)
    assert result.summary()["jobs_completed"] == len(JOBS)
    assert len(result.solver_failures) > 3


def test_failures_in_a_row_carry_the_last_good_answer_on() -> None:
    steady = FallbackPolicy(FailsAt(2, 3))
    answers = [steady.allocate(snapshot("ab")) for _ in range(4)]
    paths = [answer.certificate.path for answer in answers]
    assert paths[1:3] == ["carried over: call 2", "carried over: call 3"]
    assert answers[2].share_C.tolist() == answers[0].share_C.tolist()
    assert paths[3] == paths[0]


def test_a_mistake_of_the_author_still_ends_the_run() -> None:
    with pytest.raises(ProgramError, match="call 3"):
        simulate(FailsAt(3, error=ProgramError), JOBS, CLUSTER, THROUGHPUTS)


def test_a_solver_that_fails_in_the_middle_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: HiGHS gives up at some calls, nothing else is there, the run goes on and says so."""
    from gavelx.solvers import portfolio
    from gavelx.solvers.program.errors import UnsolvedError

    solve, calls = portfolio.solve_linear, iter(range(1000))

    def never(*_: Any) -> Any:
        raise UnsolvedError("solve error")

    def sometimes(*arguments: Any, **options: Any) -> Any:
        if next(calls) in (2, 3):
            raise UnsolvedError("solve error")
        return solve(*arguments, **options)

    monkeypatch.setattr(portfolio, "solve_linear", sometimes)
    monkeypatch.setattr(portfolio, "solve_reference", never)
    result = simulate(load_policy("max_min_fairness"), JOBS, CLUSTER, THROUGHPUTS)
    (reason,) = result.solver_failures
    assert "highs failed (solve error); highs interior point failed (solve error)" in reason
    assert result.summary()["jobs_completed"] == len(JOBS)
