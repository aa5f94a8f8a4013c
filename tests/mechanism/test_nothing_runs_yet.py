"""Where nobody runs, somebody may later: a price falls, a wait is over, or the policy wants to be asked again."""

import dataclasses

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.execution import Execution
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.commands import WakeAt
from gavelx.mechanism.events import Allocated, JobSubmitted, PriceChanged, Wake
from gavelx.policies import load_policy
from gavelx.policies.base import Policy
from gavelx.prices import Prices
from gavelx.simulator import simulate
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.throughputs import Setting, Throughputs
from tests.mechanism.test_mechanism import asked, capped, job, with_servers

SPEEDS = Throughputs({Setting("net", "v100"): 1.0})
DEAR, CHEAP = Prices({"v100": 100.0}), Prices({"v100": 0.05})


@pytest.mark.parametrize("policy", ["fifo", "max_min_fairness", "isolated"])
def test_who_could_pay_nothing_runs_as_soon_as_the_price_has_fallen(policy: str) -> None:
    within = load_policy(f"budgeted({policy}, total=0.1)")
    cluster, jobs = Cluster.parse("v100=1"), [Job(0, "net", 3600.0)]
    result = simulate(within, jobs, cluster, SPEEDS, DEAR, price_changes=[(1800.0, CHEAP)])
    assert result.summary()["jobs_completed"] == 1
    assert result.completion_s_J[0] <= 1800.0 + 360.0 + 3600.0  # it may have to be owed a round


def test_a_price_that_changes_while_nobody_runs_begins_a_round() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    solve = asked(mechanism, Wake(0.0))
    mechanism.handle(Allocated(0.0, capped(solve.snapshot, [0.0])))
    assert WakeAt(100.0, report=True) in mechanism.handle(PriceChanged(100.0, Prices({})))


class Later(Policy):
    """Nothing before ``from_s``; then everything to everybody."""

    name = "later"

    def __init__(self, from_s: float = np.inf, again_s: float | None = None, *, backfill: bool = True) -> None:
        self.from_s, self.again_s, self.backfill = from_s, again_s, backfill

    def allocate(self, snapshot: Snapshot) -> Allocation:
        share = float(snapshot.time_s >= self.from_s)
        share_C = np.full(len(snapshot.configurations), share / max(1, len(snapshot.jobs)))
        return certified(
            snapshot,
            share_C,
            path="test",
            seconds=0.0,
            execution=Execution(backfill=self.backfill, refresh_s=None if share else self.again_s),
        )


@pytest.mark.parametrize("arrival_s", [0.0, 0.1, 12345.6])
def test_the_only_job_that_was_promised_nothing_fills_in_when_it_has_waited_for_long_enough(
    arrival_s: float,
) -> None:
    rules = dataclasses.replace(DEFAULT, backfill_after_s=1000.2)
    jobs = [Job(0, "net", 500.0, arrival_s=arrival_s), Job(1, "net", 500.0, arrival_s=arrival_s + 200.0)]
    result = simulate(Later(), jobs, Cluster.parse("v100=2"), SPEEDS, rules=rules)
    start_s = result.leases.start_s_L - [arrival_s, arrival_s + 200.0]
    assert start_s.tolist() == pytest.approx([1000.2, 1000.2 + 160.0 * (start_s[1] > 1001.0)], abs=361.0)
    assert start_s[0] == pytest.approx(1000.2, abs=0.01)
    assert result.summary()["jobs_completed"] == 2


def test_a_policy_that_wants_to_be_asked_again_is_asked_though_nobody_runs() -> None:
    result = simulate(
        Later(5000.0, 1000.0, backfill=False), [Job(0, "net", 500.0)], Cluster.parse("v100=1"), SPEEDS
    )
    assert result.completion_s_J.tolist() == pytest.approx([5500.0], abs=361.0)
