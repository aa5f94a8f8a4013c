"""The loop over rounds: what it keeps of the published simulator, what it refuses, and what goes wrong in it."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.errors import OptionError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.published import PUBLISHED, policies
from gavelx.published.types import OrderOfTypes
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.faults import Faults
from gavelx.simulator.random_jobs import draw_jobs
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs

SPEEDS = Throughputs(
    {Setting("net", "v100"): 10.0}, {Pairing("net", "net", "v100"): 7.0, Pairing("net", "net", "k80"): 0.0}
)


def run(*jobs: Job, policy: Any = "max_min_fairness", cluster: str = "v100=1", **options: Any) -> Result:
    chosen = load_policy(policy) if isinstance(policy, str) else policy
    prices = Prices({"v100": 3600.0})
    return simulate(chosen, jobs, Cluster.parse(cluster), SPEEDS, prices, **{"rules": PUBLISHED} | options)


class Noted:
    """A policy that notes when it is asked, and about how many jobs."""

    def __init__(self) -> None:
        self.policy, self.asked = load_policy("max_min_fairness"), list[tuple[float, int]]()

    def allocate(self, snapshot: Snapshot) -> Allocation:
        self.asked.append((snapshot.time_s, len(snapshot.jobs)))
        return self.policy.allocate(snapshot)


def test_packed_programs_are_answered_by_the_interior_point_to_their_last_digit() -> None:
    """Near the end their equations are nearly singular: an inverse of those for hubs left five of 72 to HiGHS."""
    policy, paths = policies.as_published(load_policy("packed(max_min_fairness)")), Counter[str]()

    class Noted:
        opens = policy.opens

        def allocate(self, snapshot: Snapshot) -> Allocation:
            answer = policy.allocate(snapshot)
            paths[answer.certificate.path] += 1
            return answer

    table = load_throughputs("simulation")
    jobs = list(islice(draw_jobs(table, arrival_rate_per_hour=2.8, seed=0), 70))
    cluster = Cluster.of(dict.fromkeys(("v100", "p100", "k80"), 36), 1)
    simulate(Noted(), jobs, cluster, table, rules=PUBLISHED)
    assert paths == {"embedding, interior": 72}


def test_a_round_ends_with_its_work_and_the_next_arrival_waits_for_it() -> None:
    """Job 0 is complete at 300 s, job 1 has 3,600 steps in 360 s; job 2 came in between."""
    jobs = (Job(0, "net", 3000.0), Job(1, "net", 5000.0), Job(2, "net", 10.0, arrival_s=20.0))
    result = run(*jobs, cluster="v100=2", rules=replace(PUBLISHED, solve_interval_s=0.0))
    assert result.completion_s_J.tolist() == [300.0, 500.0, 361.0]
    assert result.leases.start_s_L.tolist() == [0.0, 0.0, 360.0]


def test_the_policy_is_asked_every_1920_seconds_at_most() -> None:
    policy = Noted()
    jobs = [Job(i, "net", 20_000.0, arrival_s=500.0 * i + 1.0) for i in range(12)]
    run(*jobs, policy=policy)
    times = [time_s for time_s, _ in policy.asked]
    assert len(times) > 3
    assert min(np.diff(times)) >= 1920.0


def test_a_call_at_time_0_counts_as_none() -> None:
    policy = Noted()
    run(Job(0, "net", 20_000.0), Job(1, "net", 20_000.0, arrival_s=1.0), policy=policy)
    assert policy.asked[:2] == [(0.0, 1), (360.0, 2)]


def test_devices_stay_idle_for_a_job_that_the_policy_has_not_seen() -> None:
    """Job 2 would be first in line on the second device; that is not given to anybody."""
    jobs = (Job(0, "net", 8000.0, arrival_s=1.0), Job(1, "net", 10.0, arrival_s=2.0))
    result = run(*jobs, cluster="v100=2")
    assert result.completion_s_J[0] == 801.0
    assert result.leases.start_s_L.tolist() == [1.0, 801.0]


def test_a_pair_takes_the_steps_that_fit_beside_each_other_and_pays_in_full_or_by_half() -> None:
    jobs = (Job(0, "net", 3500.0), Job(1, "net", 3500.0))
    for split, usd in ((False, 1000.0), (True, 500.0)):
        result = run(*jobs, policy="packed(max_min_fairness)", rules=replace(PUBLISHED, split_price=split))
        assert result.completion_s_J.tolist() == [500.0, 500.0]
        assert result.summary()["cost_usd"] == pytest.approx(usd)


def test_a_job_that_is_slower_than_its_table_is_done_all_the_same() -> None:
    result = run(*(Job(i, "net", 5000.0) for i in range(4)), faults=Faults(seed=3, speed_noise=0.5))
    assert np.isfinite(result.completion_s_J).all()


def test_a_job_that_always_fails_is_given_up() -> None:
    result = run(Job(7, "net", 1e7), faults=Faults(job_failures_per_hour=500.0, checkpoint_every_s=1e6))
    assert result.given_up == (7,)
    assert len(result.leases) == PUBLISHED.max_failures


def test_work_since_the_last_checkpoint_is_lost_with_a_server() -> None:
    faults = Faults(seed=1, server_failures_per_day=24.0, outage_s=600.0, checkpoint_every_s=600.0)
    result = run(*(Job(i, "net", 50_000.0) for i in range(4)), cluster="v100=2", faults=faults)
    assert np.isfinite(result.completion_s_J).all()
    assert 0.0 < result.lost_device_s < result.leases.busy_s_L.sum()
    assert result.up_s_KA.sum() < 2 * result.end_s


class Taught:
    """Believes that jobs are half as fast as they are, until it is told better."""

    def __init__(self) -> None:
        self.speed, self.heard = 5.0, list[Measurement]()

    def observe(self, measurements: Iterable[Measurement]) -> None:
        self.heard += measurements
        self.speed = self.heard[-1].steps_per_second

    def throughputs(self) -> Throughputs:
        return Throughputs({Setting("net", "v100"): self.speed})


def test_rounds_go_by_the_speeds_that_are_believed_until_leases_teach_better() -> None:
    """Of a round planned for half of the speed, half is idle."""
    jobs = [Job(i, "net", 18_000.0) for i in range(3)]
    believed = Throughputs({Setting("net", "v100"): 5.0})
    assert run(*jobs, believed=believed).end_s > 3 * 3500.0
    taught = Taught()
    assert run(*jobs, believed=taught).end_s < 3 * 3000.0
    assert {measurement.steps_per_second for measurement in taught.heard} == {10.0}


def test_prices_that_change_cut_leases() -> None:
    result = run(Job(0, "net", 5000.0), price_changes=[(100.0, Prices({"v100": 7200.0}))])
    assert result.leases.end_s_L.tolist() == [100.0, 500.0]
    assert result.summary()["cost_usd"] == pytest.approx(100.0 + 2 * 400.0)


@pytest.mark.parametrize(
    "options",
    [
        {"faults": Faults(lost=0.1)},
        {"faults": Faults(late=0.1)},
        {"faults": Faults(doubled=0.1)},
        {"faults": Faults(slow_solves=0.1)},
        {"capacities": [Capacity("v100", ((0.0, 1.0),))]},
        {"watch": lambda mechanism, backend: backend},
    ],
    ids=["lost", "late", "doubled", "slow_solves", "capacities", "watch"],
)
def test_what_these_rules_know_nothing_of_is_refused(options: dict[str, Any], request: Any) -> None:
    with pytest.raises(OptionError, match=f"{request.node.callspec.id}: the rules 'published' do not support it"):
        run(Job(0, "net", 10.0), **options)


def test_types_are_served_in_the_published_order_or_shuffled_as_published() -> None:
    order = OrderOfTypes(["k80", "other", "v100", "p100"], seed=0)
    assert sorted(order.next(shuffled=True)) == [0, 1, 2, 3]
    assert order.next(shuffled=False) == [2, 3, 0, 1]  # shuffling one round leaves the next as it is
    assert math.isfinite(PUBLISHED.round_s)
