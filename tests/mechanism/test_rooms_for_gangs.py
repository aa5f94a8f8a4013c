"""Whole servers for gangs: who makes room for one, and which of them has found it."""

import dataclasses

import pytest

from gavelx.cluster import Server
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.mechanism.commands import Lease
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
    mechanism.validate()
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


WIDE = Throughputs(
    {Setting("net", "fast", width): 10.0 * width for width in (1, 2, 3, 4, 6, 8)}
    | {Setting("net", "fast", width, consolidated=False): 2.0 * width for width in (2, 3, 4, 6, 8)}
    | {Setting("local", "fast", 2): 20.0, Setting("local", "fast", 2, consolidated=False): 0.0}
)
"""A net is five times as slow over more servers than it needs, and a local one cannot run so."""
GANG = 99


def full(*servers: dict[int, int], rules: Rules = DEFAULT, kind: str = "net") -> Mechanism:
    """Each server full of jobs, their widths by id; those from 50 on are over by 350 s, when a gang comes.

    ``kind`` is the type of the gangs among them.
    """
    mechanism, leases = Mechanism(WIDE, rules=rules), dict[int, Lease]()
    for server_id, jobs in enumerate(servers):
        mechanism.handle(WorkerJoined(0.0, Server(server_id, "fast", sum(jobs.values()))))
        for job_id, width in jobs.items():
            mechanism.handle(JobSubmitted(0.0, job(job_id, scale=width, kind="net" if width == 1 else kind)))
            everybody = [1.0] * (len(leases) + 1)
            leases |= {lease.job_id: lease for lease in launched(settle(mechanism, Wake(0.0), everybody))}
    for job_id, lease in leases.items():
        if job_id >= 50:
            mechanism.handle(ended(350.0, lease, 1e6))
    return mechanism


def where_all_run(mechanism: Mechanism, width: int, time_s: float = 360.0) -> dict[int, set[int]]:
    """By job id, the servers on which each job runs after a gang of this width came, and was promised its time."""
    if GANG not in mechanism.live.index:
        mechanism.handle(JobSubmitted(time_s - 10.0, job(GANG, scale=width)))
    settle(mechanism, Wake(time_s), [1.0] * len({*mechanism.leasing.leases, GANG}))
    leases = mechanism.leasing.leases.values()
    return {lease.job_id: {device.server_id for device in lease.devices} for lease in leases}


def test_narrow_jobs_clear_two_servers_for_a_gang_that_is_wider_than_one() -> None:
    mechanism = full({0: 1, 50: 3}, {1: 1, 51: 3}, {2: 2, 52: 2})
    where = where_all_run(mechanism, 8)
    assert where == {0: {2}, 1: {2}, 2: {2}, GANG: {0, 1}}
    assert not mechanism.live.spread.any()


def test_a_narrower_gang_makes_room_and_stays_together() -> None:
    mechanism = full({0: 2, 50: 2}, {1: 2, 51: 2})
    where = where_all_run(mechanism, 4)
    assert len(where[GANG]) == 1
    assert where[0] == where[1] != where[GANG]


def test_a_gang_that_only_runs_together_makes_no_room() -> None:
    mechanism = full({0: 2, 50: 2}, {1: 2, 51: 2}, kind="local")
    assert where_all_run(mechanism, 4) == {0: {0}, 1: {1}, GANG: {0, 1}}


def test_of_the_servers_that_could_be_cleared_the_one_with_fewest_moves_is() -> None:
    mechanism = full({0: 1, 1: 1, 50: 2}, {2: 1, 51: 3}, {3: 2, 52: 2})
    where = where_all_run(mechanism, 4)
    assert where[GANG] == {1}
    assert (where[0], where[1], where[3]) == ({0}, {0}, {2})


def test_room_is_made_for_a_gang_that_was_spread_as_soon_as_it_may_be() -> None:
    mechanism = full({0: 1, 50: 3}, {1: 1, 51: 3}, rules=dataclasses.replace(DEFAULT, min_run_s=1000.0))
    assert where_all_run(mechanism, 4)[GANG] == {0, 1}, "nobody may be preempted yet"
    assert where_all_run(mechanism, 4, time_s=720.0)[GANG] == {0, 1}
    where = where_all_run(mechanism, 4, time_s=1440.0)
    assert len(where[GANG]) == 1
    assert where[0] == where[1] != where[GANG]


def test_the_rest_of_a_gang_goes_where_it_leaves_the_smallest_hole() -> None:
    mechanism = full({0: 2, 50: 2}, {51: 4}, {52: 4})
    assert where_all_run(mechanism, 6)[GANG] in ({0, 1}, {0, 2})
    assert not mechanism.live.spread.any()


@pytest.mark.parametrize(("width", "servers"), [(4, {0}), (6, {0, 1}), (8, {0, 1, 2})])
def test_as_few_servers_of_unlike_sizes_as_can_hold_a_gang_are_together(width: int, servers: set[int]) -> None:
    mechanism = full({50: 4}, {51: 2}, {52: 2})
    assert where_all_run(mechanism, width)[GANG] == servers
    assert not mechanism.live.spread.any()


def test_jobs_that_made_room_for_one_gang_make_none_for_the_next() -> None:
    mechanism = with_servers(4, 1, 1, 1, 1)
    for job_id in range(8):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    leases = {lease.job_id: lease for lease in launched(settle(mechanism, Wake(0.0), [1.0] * 8))}
    together = [job_id for job_id, lease in leases.items() if lease.devices[0].server_id == 0]
    left = together[1:]
    for job_id in leases.keys() - set(left):
        mechanism.handle(ended(350.0, leases[job_id], 1e6))
    for job_id in (8, 9):
        mechanism.handle(JobSubmitted(350.0, job(job_id, scale=2, kind="talker")))
    commands = settle(mechanism, Wake(360.0), [1.0] * 5)
    mechanism.validate()
    assert sorted(stopped(commands)) == sorted(leases[job_id].id for job_id in left)
    where = {lease.job_id: {device.server_id for device in lease.devices} for lease in launched(commands)}
    assert (where[8], where[9]) == ({0}, {0})
    assert sorted(where.keys() - {8, 9}) == sorted(left)
