"""Whole servers for gangs: who makes room for one, and which of them has found it."""

import dataclasses

import pytest

from gavelx.cluster import Server
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.events import Allocated, JobSubmitted, ThroughputsChanged, Wake, WorkerJoined
from gavelx.overheads import Overhead, Overheads
from gavelx.throughputs import Setting, Throughputs
from tests.mechanism.test_mechanism import (
    SPEEDS,
    asked,
    ended,
    fragmented,
    job,
    launched,
    settle,
    stopped,
    validate,
    with_servers,
    with_two_small_servers,
)
from tests.mechanism.test_shares_and_prices import PAIR, promised, settle_pairs


@pytest.mark.parametrize("cheap", [1, 2])
def test_of_the_jobs_in_a_server_the_one_makes_room_that_loses_least(cheap: int) -> None:
    """Jobs 1 and 2 are left in the larger server; one device of it is free, and one elsewhere."""
    costly = Overheads(by_type={"net": Overhead(restart_s=200.0)})
    mechanism = with_servers(3, 1, rules=dataclasses.replace(DEFAULT, overheads=costly))
    for job_id in range(4):
        mechanism.handle(JobSubmitted(0.0, job(job_id, kind="talker" if job_id == cheap else "net")))
    leases = {lease.job_id: lease for lease in launched(settle(mechanism, Wake(0.0), [1.0] * 4))}
    assert [leases[job_id].devices[0].server_id for job_id in range(4)] == [1, 0, 0, 0]
    for job_id in (0, 3):
        mechanism.handle(ended(350.0, leases[job_id], 1e6))
    mechanism.handle(JobSubmitted(350.0, job(4, scale=2, kind="talker")))
    commands = settle(mechanism, Wake(360.0), [1.0] * 3)
    assert stopped(commands) == [leases[cheap].id]
    where = {lease.job_id: {device.server_id for device in lease.devices} for lease in launched(commands)}
    assert where == {4: {0}, cheap: {1}}


def test_a_pair_makes_no_room_for_a_gang_as_one_of_them_alone_would_free_nothing() -> None:
    mechanism = with_servers(2, pairs=True)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    settle_pairs(mechanism, Wake(0.0), {PAIR: 1.0})
    mechanism.handle(WorkerJoined(350.0, Server(1, "fast", 1)))
    mechanism.handle(JobSubmitted(350.0, job(2, scale=2, kind="talker")))
    solve = asked(mechanism, Wake(360.0))
    commands = mechanism.handle(Allocated(360.0, promised(solve.snapshot, {PAIR: 1.0, frozenset({2}): 1.0})))
    validate(mechanism)
    assert stopped(commands) == []
    (gang,) = launched(commands)
    assert {device.server_id for device in gang.devices} == {0, 1}


def test_a_gang_gains_on_each_of_its_devices() -> None:
    """It does three quarters more of 360 s on each of two, and the narrow job loses 400 s on one."""
    commands = fragmented(DEFAULT, restart_s=400.0)
    gang, _ = launched(commands)
    assert len(stopped(commands)) == 1
    assert len({device.server_id for device in gang.devices}) == 1


def test_a_spread_gang_is_as_slow_as_ever_when_new_speeds_are_told_that_say_so() -> None:
    mechanism = with_two_small_servers()
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2, kind="talker")))
    (spread,) = launched(settle(mechanism, Wake(0.0), [1.0, 1.0]))
    mechanism.handle(ThroughputsChanged(5.0, SPEEDS))
    mechanism.handle(WorkerJoined(10.0, Server(9, "fast", 2)))
    assert stopped(settle(mechanism, Wake(360.0), [1.0, 1.0])) == [spread.id]


def test_a_gang_that_fills_as_few_servers_as_can_hold_it_is_not_moved_to_others() -> None:
    """Wider than any server, it runs at its speed in one; slow is only who has more servers than he must."""
    wide = {Setting("net", "fast", 8): 80.0, Setting("net", "fast", 8, consolidated=False): 20.0}
    mechanism = Mechanism(Throughputs(wide))
    for server_id in range(2):
        mechanism.handle(WorkerJoined(0.0, Server(server_id, "fast", 4)))
    mechanism.handle(JobSubmitted(0.0, job(0, scale=8)))
    (gang,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert {device.server_id for device in gang.devices} == {0, 1}
    for server_id in range(2, 4):
        mechanism.handle(WorkerJoined(10.0, Server(server_id, "fast", 4)))
    assert stopped(settle(mechanism, Wake(360.0), [1.0])) == []
