"""The past that a policy is shown: seconds and dollars, its own and those of an equal share.

Legend: J jobs.
"""

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster, Server
from gavelx.jobs import Job
from gavelx.policies import MaxMinFairness
from gavelx.prices import Prices
from gavelx.simulator.simulate import simulate
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

TABLE = Throughputs(
    {Setting("net", "v100"): 10.0, Setting("net", "k80"): 2.0, Setting("net", "v100", 2): 18.0}
    | {Setting("slow", "k80"): 1.0}
)


class Watched(MaxMinFairness):
    """Keeps the snapshots that it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Snapshot] = []

    def allocate(self, snapshot: Snapshot) -> Allocation:
        self.seen.append(snapshot)
        return super().allocate(snapshot)


def watch(jobs: list[Job], cluster: str, prices: dict[str, float]) -> list[Snapshot]:
    policy = Watched()
    simulate(policy, jobs, Cluster.parse(cluster), TABLE, Prices(prices))
    return policy.seen


def test_on_one_type_an_equal_share_costs_what_the_steps_cost() -> None:
    """However often jobs come and go: a device makes so many steps per dollar, whoever they are for."""
    jobs = [Job(j, "net", 20_000.0 + 3000.0 * j, arrival_s=500.0 * j) for j in range(6)]
    seen = watch(jobs, "v100=2", {"v100": 3.6})
    assert len(seen) > 6
    for snapshot in seen:
        np.testing.assert_allclose(snapshot.equal_share_usd_J, snapshot.spent_usd_J, rtol=1e-9, atol=1e-9)
    done_J = np.array([job.total_steps for job in seen[-1].jobs]) - seen[-1].steps_left_J
    np.testing.assert_allclose(seen[-1].spent_usd_J, done_J / 10.0 * 0.001, rtol=1e-9)


def test_a_gang_pays_for_all_its_devices() -> None:
    jobs = [Job(0, "net", 36_000.0, scale_factor=2), Job(1, "net", 1.0, arrival_s=1000.0)]
    seen = watch(jobs, "v100=2", {"v100": 3.6})
    first = next(snapshot for snapshot in seen if snapshot.time_s >= 1000.0)
    assert first.spent_usd_J[0] == pytest.approx(first.time_s * 2 * 0.001)


def test_where_the_dear_type_does_all_the_work_an_equal_share_would_have_been_cheaper() -> None:
    # alone with both devices: all the time, half on each: 6 steps/s for 2 dollars an hour on average
    seen = watch(
        [Job(0, "net", 36_000.0), Job(1, "net", 1.0, arrival_s=720.0)], "v100=1,k80=1", {"v100": 3, "k80": 1}
    )
    snapshot = next(snapshot for snapshot in seen if snapshot.time_s >= 720.0)
    assert snapshot.spent_usd_J[0] == pytest.approx(snapshot.time_s / 3600.0 * 3.0)
    assert snapshot.equal_share_s_J[0] == pytest.approx(snapshot.time_s * 10.0 / 6.0)
    assert snapshot.equal_share_usd_J[0] == pytest.approx(snapshot.time_s * 10.0 / 6.0 / 3600.0 * 2.0)


def test_what_is_held_of_no_known_price_is_unknown_and_not_nothing() -> None:
    jobs = [Job(0, "net", 72_000.0), Job(1, "slow", 7200.0, arrival_s=100.0), Job(2, "net", 1.0, arrival_s=720.0)]
    snapshot = next(one for one in watch(jobs, "v100=1,k80=1", {"v100": 3.0}) if len(one.jobs) == 3)
    assert snapshot.spent_usd_J[0] > 0  # on the type that has a price
    assert np.isnan(snapshot.spent_usd_J[1])
    assert np.isnan(snapshot.equal_share_usd_J[:2]).all()  # an equal share would have been of both types


def test_a_type_without_a_price_of_which_nothing_is_there_changes_nothing() -> None:
    jobs = [Job(0, "net", 36_000.0), Job(1, "net", 1.0, arrival_s=720.0)]
    cluster = Cluster((Server(0, "v100", 1),), ("v100", "k80"))
    policy = Watched()
    simulate(policy, jobs, cluster, TABLE, Prices({"v100": 3.6}))
    snapshot = policy.seen[-1]
    assert snapshot.spent_usd_J[0] > 0
    assert snapshot.spent_usd_J[0] == pytest.approx(snapshot.equal_share_usd_J[0])


def test_a_price_that_comes_later_leaves_the_past_unknown() -> None:
    policy, later = Watched(), Prices({"v100": 3.6})
    jobs = [
        Job(0, "net", 36_000.0),
        Job(1, "net", 18_000.0, arrival_s=720.0),
        Job(2, "net", 1.0, arrival_s=2000.0),
    ]
    result = simulate(policy, jobs, Cluster.parse("v100=1"), TABLE, Prices({}), price_changes=[(720.0, later)])
    snapshot = next(one for one in policy.seen if len(one.jobs) == 3)
    assert np.isnan(snapshot.spent_usd_J[0]) and snapshot.spent_usd_J[1] > 0
    assert np.isnan(result.cost_usd_J[0]) and result.cost_usd_J[1] > 0
    assert result.summary()["cost_usd"] is None
