"""The simulated cluster by itself: commands in, events out, no mechanism."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.configuration import Configuration
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.mechanism.commands import Device, Launch, Lease, Stop
from gavelx.mechanism.events import ArrivalsEnded, Event, LeaseEnded, PriceChanged, WorkerJoined, WorkerLost
from gavelx.overheads import Overhead, Overheads
from gavelx.prices import Prices
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.faults import NO_FAULTS, Faults
from gavelx.simulator.ledger import Ledger, usd_between
from gavelx.throughputs import Pairing, Setting, Throughputs

SPEEDS = Throughputs(
    {Setting("net", "v100"): 2.0, Setting("net", "v100", 2): 4.0, Setting("net", "v100", 2, False): 1.0},
    {Pairing("net", "net", "v100"): 1.0},
)
COSTLY = replace(DEFAULT, overheads=Overheads(Overhead(checkpoint_s=10.0, restart_s=20.0)))


def lease(lease_id: int, job_id: int, *devices: Device, steps: float = 1e6, until_s: float = math.inf) -> Lease:
    devices = devices or (Device(0, job_id),)
    how = Configuration((job_id,), "v100", len(devices))
    return Lease(lease_id, job_id, how, devices, until_s, steps, 0.0)


def cluster_with(
    *jobs: Job, rules: Rules = DEFAULT, servers: int = 1, faults: Faults = NO_FAULTS
) -> SimulatedCluster:
    """Two devices on each server, and all jobs submitted."""
    backend = SimulatedCluster(jobs, Cluster.of({"v100": 2 * servers}, 2), SPEEDS, rules, faults=faults)
    for event in backend.events():
        assert event.time_s == 0.0
        if isinstance(event, ArrivalsEnded):
            return backend
    raise AssertionError


def ends(backend: SimulatedCluster) -> list[Event]:
    """What comes of it: the ends of leases."""
    return [event for event in backend.events() if isinstance(event, LeaseEnded)]


def test_a_lease_that_nobody_extends_lapses_before_anything_later_happens() -> None:
    """All leases of a round end together."""
    jobs = [Job(0, "net", 1e6), Job(1, "net", 1e6), Job(2, "net", 1.0, arrival_s=500.0)]
    backend = SimulatedCluster(jobs, Cluster.of({"v100": 2}), SPEEDS)
    events = []
    for event in backend.events():
        events.append(event)
        if backend.now_s == 0.0 and len(backend.submitted) == 2:
            for job_id in (0, 1):
                if job_id not in backend.launched():
                    backend.execute(Launch(lease(job_id, job_id, until_s=200.0)))
    assert [event.time_s for event in events] == sorted(event.time_s for event in events)
    ended = [event for event in events if isinstance(event, LeaseEnded)]
    assert ended == [LeaseEnded(200.0, job_id, job_id, 400.0, 200.0) for job_id in (0, 1)]


def test_a_stopped_job_writes_a_checkpoint_and_the_next_on_its_device_waits_for_that() -> None:
    backend = cluster_with(Job(0, "net", 1e6), Job(1, "net", 100.0), rules=COSTLY)
    backend.execute(Launch(lease(7, 0)))
    backend.now_s = 50.0
    backend.execute(Stop(7))
    backend.execute(Launch(lease(8, 1, Device(0, 0), steps=100.0)))
    assert 8 in backend.launched()
    assert not backend.ledger.holds(8)
    assert ends(backend) == [LeaseEnded(60.0, 7, 0, 100.0, 60.0), LeaseEnded(110.0, 8, 1, 100.0, 50.0)]


def test_a_job_that_starts_again_loads_its_checkpoint_first() -> None:
    backend = cluster_with(Job(0, "net", 200.0), rules=COSTLY)
    backend.execute(Launch(lease(7, 0)))
    backend.now_s = 50.0
    backend.execute(Stop(7))
    backend.execute(Launch(lease(8, 0, steps=200.0)))
    assert ends(backend)[-1] == LeaseEnded(60.0 + 20.0 + 50.0, 8, 0, 200.0, 70.0)


def test_a_gang_over_two_servers_is_as_slow_as_the_table_says() -> None:
    for devices, end_s in (((Device(0, 0), Device(0, 1)), 25.0), ((Device(0, 0), Device(1, 0)), 100.0)):
        backend = cluster_with(Job(0, "net", 100.0, scale_factor=2), servers=2)
        backend.execute(Launch(lease(1, 0, *devices, steps=100.0)))
        assert [event.time_s for event in ends(backend)] == [end_s]


def a_pair(rules: Rules = DEFAULT) -> SimulatedCluster:
    backend = cluster_with(Job(0, "net", 100.0), Job(1, "net", 150.0), rules=rules)
    backend.ledger = Ledger(usd_between(Prices({"v100": 3600.0}), ()))
    backend.ledger.joined(backend.cluster.servers[0])
    for job_id in (0, 1):
        alone = lease(job_id, job_id, Device(0, 0))
        pair = alone._replace(configuration=Configuration((0, 1), "v100", 1), until_step=100.0 + 50.0 * job_id)
        backend.execute(Launch(pair))
    return backend


def test_a_pair_runs_at_its_own_speed_until_one_is_gone() -> None:
    backend = a_pair()
    assert [event.time_s for event in ends(backend)] == [100.0, 125.0]


def billed_usd(backend: SimulatedCluster) -> float:
    return float(backend.recorder.leases({0: 0, 1: 1}, ("v100",)).billed_s_L.sum())


def test_a_pair_pays_for_its_device_once() -> None:
    backend = a_pair()
    ends(backend)
    backend.ledger.check_bill(125.0)
    assert billed_usd(backend) == pytest.approx(125.0)


def test_a_pair_that_is_stopped_pays_for_its_device_once_while_it_writes_checkpoints() -> None:
    """One of the two has nothing to write; the other holds the device alone, and pays alone."""
    backend = a_pair(COSTLY)
    backend.now_s = 30.0
    backend.execute(Stop(0))
    backend.now_s = 33.0
    backend.execute(Stop(1))
    ends(backend)
    backend.ledger.check_bill(43.0)
    assert billed_usd(backend) == pytest.approx(43.0)


def test_a_row_of_the_log_has_one_price() -> None:
    jobs = [Job(0, "net", 200.0)]
    changes = [(40.0, Prices({"v100": 2.0}))]
    backend = SimulatedCluster(jobs, Cluster.of({"v100": 1}), SPEEDS, price_changes=changes)
    for event in backend.events():
        if isinstance(event, PriceChanged):
            assert event.time_s == 40.0
        if len(backend.submitted) == 1 and not backend.launched() and backend.now_s == 0.0:
            backend.execute(Launch(lease(1, 0, steps=200.0)))
    rows = backend.recorder.leases({0: 0}, ("v100",))
    np.testing.assert_array_equal(rows.end_s_L, [40.0, 100.0])
    np.testing.assert_array_equal(rows.billed_s_L, [40.0, 60.0])
    assert not rows.moved_L.any()


def test_what_was_not_in_a_checkpoint_is_lost_with_its_server() -> None:
    faults = Faults(seed=1, until_s=1e5, server_failures_per_day=50.0, checkpoint_every_s=100.0)
    backend = cluster_with(Job(0, "net", 1e6), faults=faults)
    backend.execute(Launch(lease(1, 0)))
    for event in backend.events():
        if isinstance(event, WorkerLost):
            break
    assert event.time_s > 100.0
    assert backend.ledger.stands(0) == event.time_s // 100.0 * 200.0 < backend.ledger.done(0)
    joined = next(event for event in backend.events() if isinstance(event, WorkerJoined))
    assert (joined.server.id, joined.epoch) == (0, 1)


def test_a_job_that_dies_says_so() -> None:
    faults = Faults(seed=1, until_s=1e5, job_failures_per_hour=10.0, checkpoint_every_s=1e9)
    backend = cluster_with(Job(0, "net", 1e6), faults=faults)
    backend.execute(Launch(lease(1, 0)))
    event = next(event for event in backend.events() if isinstance(event, LeaseEnded))
    assert (event.failed, event.steps_done) == (True, 0.0)
    assert backend.ledger.failures[0] == 1


def test_reports_come_late_and_twice_and_a_lost_one_is_sent_again() -> None:
    faults = Faults(seed=3, until_s=50.0, lost=0.3, late=0.3, doubled=0.3)
    jobs = [Job(job_id, "net", 1.0, arrival_s=float(job_id)) for job_id in range(40)]
    backend = SimulatedCluster(jobs, Cluster.of({"v100": 1}), SPEEDS, faults=faults)
    heard = [event.job.id for event in backend.events() if hasattr(event, "job")]
    assert set(heard) == set(range(40))
    assert len(heard) > 40
    assert heard != sorted(heard)
