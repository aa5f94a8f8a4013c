"""Jobs whose speeds are not known begin where they are to be measured: in their turn, and for a round at most."""

from dataclasses import dataclass, field

import pytest

from gavelx import Cluster, load_policy, simulate
from gavelx.allocation import Allocation
from gavelx.estimator.active import first_leases
from gavelx.jobs import Job
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

CLUSTER = Cluster.parse("v100=1,k80=1")
TRUE = Throughputs(
    {Setting("old", "v100"): 2.0, Setting("old", "k80"): 1.0} | {Setting("new", a): 1.0 for a in ("v100", "k80")}
)
BELIEVED = Throughputs(TRUE.isolated | {Setting("new", "k80"): 0.01}, ranges={Setting("new", "k80"): (0.001, 2.0)})


@dataclass
class Trying:
    """A policy that says where jobs begin; and what it said."""

    policy: object = field(default_factory=lambda: load_policy("max_sum_throughput"))
    said: list[tuple[tuple[int, str], ...]] = field(default_factory=list)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        allocation = self.policy.allocate(snapshot)  # type: ignore[attr-defined]
        self.said.append(first_leases(self.policy, snapshot, 0))  # type: ignore[arg-type]
        return allocation.with_execution(first_on=self.said[-1])


@pytest.mark.parametrize("tries", [False, True])
def test_a_job_begins_where_it_is_least_sure(tries: bool) -> None:
    """By its believed speeds it would never run on the K80."""
    jobs = [Job(0, "new", 2000.0)]
    policy = Trying() if tries else load_policy("max_sum_throughput")
    result = simulate(policy, jobs, CLUSTER, TRUE, believed=BELIEVED)  # type: ignore[arg-type]
    leases = result.leases
    types = [CLUSTER.accelerators[a] for a in leases.accelerator_L.tolist()]
    assert types[0] == ("k80" if tries else "v100")
    assert types[-1] == "v100", "after a round it is where the policy wants it"
    if tries:
        assert float(leases.end_s_L[0] - leases.start_s_L[0]) <= 360.0


def test_it_is_not_before_its_turn() -> None:
    """Jobs that were there keep what they were promised."""
    jobs = [*(Job(n, "old", 1e5) for n in range(2)), Job(2, "new", 1e3, arrival_s=1000.0)]
    tried, plain = (
        simulate(policy, jobs, CLUSTER, TRUE, believed=BELIEVED)
        for policy in (Trying(load_policy("max_min_fairness")), load_policy("max_min_fairness"))
    )
    assert not tried.unfinished
    ratio = tried.jct_s_J[:2] / plain.jct_s_J[:2]
    assert (abs(ratio - 1.0) < 0.1).all(), ratio


def test_quotas_are_for_the_types_that_they_name() -> None:
    policy = Trying(load_policy("budgeted(max_sum_throughput, total=1)"))
    prices = Prices({"v100": 0.5, "k80": 40.0})
    result = simulate(policy, [Job(0, "new", 2000.0)], CLUSTER, TRUE, prices, believed=BELIEVED)  # type: ignore[arg-type]
    assert policy.said[0] == ((0, "k80"),)
    assert set(result.leases.accelerator_L.tolist()) == {CLUSTER.accelerators.index("v100")}


def test_a_first_lease_is_given_out_elsewhere_where_its_type_is_taken() -> None:
    """Two jobs are to begin on the one V100; the second one does not wait for it beside an idle K80."""
    policy = Trying(load_policy("max_min_fairness"))
    believed = Throughputs(
        {Setting("new", "v100"): 2.0, Setting("new", "k80"): 1.0}, ranges={Setting("new", "v100"): (0.1, 9.0)}
    )
    jobs = [Job(n, "new", 2000.0, arrival_s=40.0 * n) for n in range(2)]
    result = simulate(policy, jobs, CLUSTER, TRUE, believed=believed)
    assert any(said for said in policy.said)
    starts = [float(result.leases.start_s_L[result.leases.job_L == n].min()) for n in range(2)]
    assert starts == [0.0, 40.0]
