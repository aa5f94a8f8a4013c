"""The mechanism by itself: events in, commands out, no backend."""

import dataclasses

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, PUBLISHED, Mechanism, Rules
from gavelx.mechanism.commands import Command, Extend, Launch, Lease, Solve, Stop, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    ArrivalsEnded,
    Event,
    JobSubmitted,
    LeaseEnded,
    Progress,
    Wake,
    WorkerJoined,
    WorkerLost,
)
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("net", "fast", s): 10.0 * s for s in (1, 2, 4)} | {Setting("net", "slow", 1): 2.0})


def job(job_id: int, steps: float = 1e6, scale: int = 1, arrival_s: float = 0.0) -> Job:
    return Job(job_id, "net", steps, scale, arrival_s=arrival_s)


def with_servers(*sizes: int, rules: Rules = DEFAULT) -> Mechanism:
    mechanism = Mechanism(SPEEDS, rules=rules)
    for server_id, size in enumerate(sizes):
        mechanism.handle(WorkerJoined(0.0, Server(server_id, "fast", size)))
    return mechanism


def shares(snapshot: Snapshot, share_J: list[float]) -> Allocation:
    """Every job its share on its first configuration."""
    table = snapshot.configurations
    share_C = np.array(
        [share_J[j] if a == 0 else 0.0 for j, a in zip(table.job_M, table.accelerator_C, strict=True)]
    )
    return certified(snapshot, share_C, path="test", seconds=0.0)


def settle(mechanism: Mechanism, event: Event, share_J: list[float]) -> list[Command]:
    """Handle an event, answering every Solve at once; returns all other commands."""
    commands: list[Command] = []
    for command in mechanism.handle(event):
        if isinstance(command, Solve):
            answer = Allocated(event.time_s, shares(command.snapshot, share_J))
            commands += mechanism.handle(answer)
        else:
            commands.append(command)
    validate(mechanism)
    return commands


def validate(mechanism: Mechanism) -> None:
    """What is always true."""
    held = [device for lease in mechanism.leases.values() for device in lease.devices]
    assert len(held) == len(set(held))
    for job_id, lease in mechanism.leases.items():
        row = mechanism.live.rows[mechanism.live.index[job_id]]
        assert len(lease.devices) == row["scale_factor"]
        assert row["type"] >= 0
        assert {device.server_id for device in lease.devices} <= mechanism._servers.keys()
    free = sum(map(len, mechanism._free))
    assert free + len(held) == sum(server.device_count for server in mechanism._servers.values())


def launched(commands: list[Command]) -> list[Lease]:
    return [command.lease for command in commands if isinstance(command, Launch)]


def test_a_submitted_job_is_solved_for_and_launched_at_once() -> None:
    mechanism = with_servers(2)
    assert mechanism.handle(JobSubmitted(5.0, job(0))) == [WakeAt(5.0)]
    commands = settle(mechanism, Wake(5.0), [1.0])
    (lease,) = launched(commands)
    assert (lease.job_id, lease.accelerator, len(lease.devices), lease.until_step) == (0, "fast", 1, 1e6)
    assert WakeAt(365.0) in commands


def test_a_lease_is_extended_when_nothing_changes_and_outlives_its_round_by_one() -> None:
    mechanism = with_servers(2)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert lease.until_s == 720.0
    assert settle(mechanism, Wake(360.0), [1.0]) == [Extend((lease.id,), 1080.0), WakeAt(720.0)]


def test_two_jobs_with_half_a_device_each_take_turns() -> None:
    mechanism = with_servers(1)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    held = {0: 0, 1: 0}
    for round_ in range(40):
        settle(mechanism, Wake(round_ * 360.0), [0.5, 0.5])
        (holder,) = mechanism.leases
        held[holder] += 1
    assert held == {0: 20, 1: 20}


def test_a_small_share_is_served_although_the_policy_is_asked_all_the_time() -> None:
    mechanism = with_servers(1)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    rounds = 0
    for round_ in range(100):
        mechanism._stale = True  # as if jobs came and went
        settle(mechanism, Wake(round_ * 360.0), [0.95, 0.05])
        rounds += 1 in mechanism.leases
    assert 3 <= rounds <= 7


def test_a_gang_is_launched_whole_on_one_server_when_it_can() -> None:
    mechanism = with_servers(3, 4)
    mechanism.handle(JobSubmitted(0.0, job(0, scale=1)))
    mechanism.handle(JobSubmitted(0.0, job(1, scale=4)))
    leases = {lease.job_id: lease for lease in launched(settle(mechanism, Wake(0.0), [1.0, 1.0]))}
    assert {device.server_id for device in leases[1].devices} == {1}
    assert {device.server_id for device in leases[0].devices} == {0}


def test_a_gang_that_does_not_fit_waits_whole() -> None:
    mechanism = with_servers(2, 1)
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2)))
    mechanism.handle(JobSubmitted(0.0, job(1, scale=2)))
    assert len(launched(settle(mechanism, Wake(0.0), [0.75, 0.75]))) == 1


def test_nothing_runs_where_nothing_was_promised_unless_the_rules_say_so() -> None:
    for rules, expected in ((DEFAULT, [0]), (dataclasses.replace(DEFAULT, backfill=True), [0, 1])):
        mechanism = with_servers(2, rules=rules)
        for job_id in (0, 1):
            mechanism.handle(JobSubmitted(0.0, job(job_id)))
        leases = launched(settle(mechanism, Wake(0.0), [1.0, 0.0]))
        assert [lease.job_id for lease in leases] == expected


def test_backfill_never_breaks_a_strict_allocation() -> None:
    mechanism = with_servers(2, rules=dataclasses.replace(DEFAULT, backfill=True))
    for job_id, scale in ((0, 1), (1, 2), (2, 1)):
        mechanism.handle(JobSubmitted(0.0, job(job_id, scale=scale)))
    (solve,) = mechanism.handle(Wake(0.0))
    assert isinstance(solve, Solve)
    commands = mechanism.handle(Allocated(0.0, load_policy("fifo").allocate(solve.snapshot)))
    assert [lease.job_id for lease in launched(commands)] == [0]  # job 1 waits for two, job 2 behind it


def test_a_device_that_falls_free_is_given_to_a_waiting_job_at_once() -> None:
    mechanism = with_servers(1)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [0.6, 0.4]))
    assert lease.job_id == 0
    assert mechanism.handle(LeaseEnded(100.0, lease.id, 0, 1e6)) == [WakeAt(100.0)]
    (next_lease,) = launched(settle(mechanism, Wake(100.0), [1.0]))
    assert next_lease.job_id == 1


def test_a_late_answer_blocks_no_lease() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(JobSubmitted(10.0, job(1)))
    commands = mechanism.handle(Wake(360.0))  # asks the policy, which does not answer
    assert any(isinstance(command, Solve) for command in commands)
    (solve,) = (command for command in commands if isinstance(command, Solve))
    assert WakeAt(720.0) in commands
    assert mechanism.handle(Wake(720.0)) == [Extend((lease.id,), 1440.0), WakeAt(1080.0)]
    assert mechanism.handle(Allocated(800.0, shares(solve.snapshot, [0.5, 0.5]))) == []  # used from 1080 on
    validate(mechanism)


def test_doubled_and_late_reports_do_no_harm() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0, steps=100.0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(Progress(1.0, {0: 60.0}))
    mechanism.handle(Progress(2.0, {0: 40.0}))
    mechanism.handle(Progress(2.0, {99: 40.0}))
    assert mechanism.live.rows["steps_done"][0] == 60.0
    for _ in range(2):
        mechanism.handle(LeaseEnded(10.0, lease.id, 0, 100.0))
        validate(mechanism)
    settle(mechanism, Wake(10.0), [])
    mechanism.handle(LeaseEnded(11.0, lease.id, 0, 100.0))
    assert len(mechanism.live) == 0
    assert not mechanism.leases


def test_a_lost_server_ends_its_leases_and_gets_no_new_ones() -> None:
    mechanism = with_servers(2, 1)
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(Progress(50.0, {0: 7.0}))
    assert mechanism.handle(WorkerLost(60.0, 0)) == [Stop(lease.id), WakeAt(60.0)]
    assert mechanism.handle(WorkerLost(60.0, 0)) == []
    assert launched(settle(mechanism, Wake(60.0), [0.0])) == []
    mechanism.handle(WorkerJoined(70.0, Server(7, "fast", 2)))
    (again,) = launched(settle(mechanism, Wake(70.0), [1.0]))
    assert {device.server_id for device in again.devices} == {7}
    assert mechanism.live.rows["steps_done"][0] == 7.0


def test_a_type_may_join_while_jobs_run() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    settle(mechanism, Wake(0.0), [1.0])
    mechanism.handle(WorkerJoined(5.0, Server(9, "slow", 1)))
    mechanism.handle(JobSubmitted(5.0, job(1)))
    (solve,) = (command for command in mechanism.handle(Wake(5.0)) if isinstance(command, Solve))
    assert solve.snapshot.accelerators == ("fast", "slow")
    assert solve.snapshot.configurations.throughput_JA.tolist() == [[10.0, 2.0]] * 2
    commands = mechanism.handle(Allocated(5.0, load_policy("max_min_fairness").allocate(solve.snapshot)))
    assert [lease.accelerator for lease in launched(commands)] == ["slow"]


def test_published_rounds_are_whole_steps_and_end_with_their_work() -> None:
    mechanism = with_servers(1, rules=PUBLISHED)
    mechanism.handle(JobSubmitted(0.0, job(0, steps=5000.5)))
    mechanism.handle(ArrivalsEnded(0.0))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert lease.until_step == 3600.0
    assert mechanism.handle(JobSubmitted(20.0, job(1))) == []  # waits for the end of the round
    assert mechanism.handle(Wake(30.0)) == []
    assert mechanism.handle(LeaseEnded(360.0, lease.id, 0, 3600.0)) == [WakeAt(360.0)]
    (lease,) = launched(settle(mechanism, Wake(360.0), [1.0, 0.0]))
    assert lease.until_step == 5000.5


def test_published_rules_ask_the_policy_every_1920_seconds_at_most() -> None:
    mechanism = with_servers(1, rules=PUBLISHED)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    solves, now_s, steps = [], 0.0, 0.0
    for round_ in range(14):
        commands = mechanism.handle(Wake(now_s))
        solves += [now_s for command in commands if isinstance(command, Solve)]
        for command in list(commands):
            if isinstance(command, Solve):
                share_J = [1.0] + [0.0] * (len(command.snapshot.jobs) - 1)
                commands += mechanism.handle(Allocated(now_s, shares(command.snapshot, share_J)))
        (lease,) = launched(commands)
        mechanism.handle(JobSubmitted(now_s + 1, job(round_ + 1)))
        now_s, steps = now_s + 360.0, steps + 3600.0
        mechanism.handle(LeaseEnded(now_s, lease.id, 0, steps))
    assert solves == [0.0, 360.0, 2520.0, 4680.0]  # a call at time 0 counts for none


def test_time_may_not_go_backwards() -> None:
    mechanism = with_servers(1)
    mechanism.handle(Wake(10.0))
    with pytest.raises(AssertionError):
        mechanism.handle(Wake(9.0))


def test_a_job_that_is_submitted_twice_is_one_job() -> None:
    mechanism = with_servers(2)
    mechanism.handle(JobSubmitted(0.0, job(0, steps=10.0)))
    mechanism.handle(JobSubmitted(0.0, job(0, steps=10.0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(LeaseEnded(1.0, lease.id, 0, 10.0))
    assert mechanism.handle(JobSubmitted(2.0, job(0, steps=10.0))) == []  # it is done
    assert launched(settle(mechanism, Wake(2.0), [])) == []


def asked(mechanism: Mechanism, event: Event) -> Solve:
    (solve,) = (command for command in mechanism.handle(event) if isinstance(command, Solve))
    return solve


def test_an_answer_that_took_longer_than_the_round_begins_a_new_one() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    solve = asked(mechanism, Wake(0.0))
    commands = mechanism.handle(Allocated(1000.0, shares(solve.snapshot, [1.0])))
    assert [lease.until_s for lease in launched(commands)] == [1720.0]
    assert WakeAt(1360.0) in commands


def test_leases_are_extended_before_a_policy_is_asked_that_may_answer_late() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(JobSubmitted(10.0, job(1)))
    commands = mechanism.handle(Wake(360.0))
    assert isinstance(commands[-1], Solve)
    assert commands[:-1] == [Extend((lease.id,), 1080.0), WakeAt(720.0)]


def test_a_doubled_answer_is_not_taken_for_the_next_one() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    first = Allocated(0.0, shares(asked(mechanism, Wake(0.0)).snapshot, [0.5]))
    mechanism.handle(first)
    mechanism.handle(JobSubmitted(1.0, job(1)))
    second = Allocated(380.0, shares(asked(mechanism, Wake(360.0)).snapshot, [0.0, 1.0]))
    assert mechanism.handle(Allocated(370.0, first.allocation)) == []
    mechanism.handle(second)
    assert mechanism.live.rows["share"][:, 0].tolist() == [0.0, 1.0]
    assert mechanism.handle(Allocated(390.0, first.allocation)) == []
    assert mechanism.live.rows["share"][:, 0].tolist() == [0.0, 1.0]


def test_what_came_while_the_policy_thought_is_looked_at_when_it_answers() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    solve = asked(mechanism, Wake(0.0))
    mechanism.handle(JobSubmitted(5.0, job(1)))
    assert mechanism.handle(Wake(5.0)) == []
    assert mechanism.handle(Allocated(20.0, shares(solve.snapshot, [0.0]))) == [WakeAt(20.0)]
    assert len(asked(mechanism, Wake(20.0)).snapshot.jobs) == 2


def test_published_rounds_wait_for_a_policy_that_thinks() -> None:
    mechanism = with_servers(1, rules=PUBLISHED)
    mechanism.handle(JobSubmitted(1.0, job(0)))
    asked(mechanism, Wake(1.0))
    mechanism.handle(JobSubmitted(2.0, job(1)))
    mechanism.handle(ArrivalsEnded(2.0))
    assert mechanism.handle(Wake(2.0)) == []


def test_the_end_of_all_arrivals_ends_the_wait_for_the_next_published_solve() -> None:
    mechanism = with_servers(1, rules=PUBLISHED)
    mechanism.handle(JobSubmitted(1.0, job(0, steps=10.0)))
    (lease,) = launched(settle(mechanism, Wake(1.0), [1.0]))
    mechanism.handle(JobSubmitted(1.5, job(1)))
    mechanism.handle(LeaseEnded(2.0, lease.id, 0, 10.0))
    assert mechanism.handle(Wake(2.0)) == []  # 1920 s are not over
    assert mechanism.handle(ArrivalsEnded(3.0)) == [WakeAt(3.0)]
