"""The mechanism by itself: events in, commands out, no backend."""

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.configuration import ALONE
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.mechanism.commands import Command, Extend, GiveUp, Launch, Lease, Solve, Stop, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    Event,
    JobCancelled,
    JobSubmitted,
    LeaseEnded,
    PolicyChanged,
    PriceChanged,
    Progress,
    ThroughputsChanged,
    Wake,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.mechanism.selection import ends_within, loss_s
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import certified
from gavelx.throughputs import Pairing, Setting, Throughputs

SPEEDS = Throughputs(
    isolated={Setting("net", "fast", s): 10.0 * s for s in (1, 2, 4)}
    | {Setting("net", "slow", 1): 2.0}
    | {Setting("talker", "fast", s): 10.0 * s for s in (1, 2)}
    | {Setting("talker", "fast", 2, consolidated=False): 5.0}
    | {Setting("local", "fast", 2): 20.0, Setting("local", "fast", 2, consolidated=False): 0.0},
    colocated={Pairing("net", "net", "fast"): 7.0},
)
"""A talker is four times as slow when its gang is spread over servers, and a local one cannot run so."""
PAIRS = frozenset[Kind](["pairs"])


def job(job_id: int, steps: float = 1e6, scale: int = 1, arrival_s: float = 0.0, kind: str = "net") -> Job:
    return Job(job_id, kind, steps, scale, arrival_s=arrival_s)


def with_servers(
    *sizes: int, rules: Rules = DEFAULT, prices: Prices | None = None, pairs: bool = False
) -> Mechanism:
    mechanism = Mechanism(SPEEDS, prices, rules, PAIRS if pairs else frozenset())
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
    mechanism.validate()
    return commands


def launched(commands: list[Command]) -> list[Lease]:
    return [command.lease for command in commands if isinstance(command, Launch)]


def stopped(commands: list[Command]) -> list[int]:
    return [command.lease_id for command in commands if isinstance(command, Stop)]


def progress(time_s: float, lease: Lease, steps: float, saved: float = 0.0) -> Progress:
    """One lease reports."""
    columns = ([lease.id], [lease.job_id], [steps], [saved])
    return Progress(time_s, *(np.array(column) for column in columns))


def promised_J(mechanism: Mechanism) -> list[float]:
    """The share of its time that each job was promised in the ways to run."""
    ways = mechanism.accounts.ways
    return ways.share_J(len(mechanism.live)).tolist()


def ended(time_s: float, lease: Lease, steps: float, failed: bool = False) -> LeaseEnded:
    return LeaseEnded(time_s, lease.id, lease.job_id, steps, held_s=time_s, failed=failed)


def test_a_submitted_job_is_solved_for_and_launched_at_once() -> None:
    mechanism = with_servers(2)
    assert mechanism.handle(JobSubmitted(5.0, job(0))) == [WakeAt(5.0, report=True)]
    commands = settle(mechanism, Wake(5.0), [1.0])
    (lease,) = launched(commands)
    assert (lease.job_id, lease.accelerator, len(lease.devices), lease.until_step) == (0, "fast", 1, 1e6)
    assert WakeAt(365.0) in commands  # nobody needs to know how far jobs are by then


def test_a_lease_is_extended_when_nothing_changes_and_outlives_its_round_by_one() -> None:
    mechanism = with_servers(2)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert lease.until_s == 720.0
    assert settle(mechanism, Wake(360.0), [1.0]) == [Extend(1080.0), WakeAt(720.0)]


@pytest.mark.parametrize("turn", [0.0, 0.1, 0.5])
def test_two_jobs_with_half_a_device_each_take_turns_that_grow_with_what_they_have_had(turn: float) -> None:
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, turn=turn))
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    holders: list[int] = []
    for round_ in range(400):
        settle(mechanism, Wake(round_ * 360.0), [0.5, 0.5])
        holders += mechanism.leasing.leases
    had = [holders.count(job_id) for job_id in (0, 1)]
    assert abs(had[0] - had[1]) <= max(1, 2 * turn * max(had))
    changes = sum(before != after for before, after in itertools.pairwise(holders))
    assert changes >= 100 if not turn else 5 <= changes <= 3 + np.log(400) / np.log1p(turn)


def test_a_small_share_is_served_although_the_policy_is_asked_all_the_time() -> None:
    mechanism = with_servers(1)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    rounds = 0
    for round_ in range(100):
        mechanism._trigger.dirty = True  # as if jobs came and went
        settle(mechanism, Wake(round_ * 360.0), [0.95, 0.05])
        rounds += 1 in mechanism.leasing.leases
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
    for part, expected in ((None, [0]), (0.0, [0, 1]), (DEFAULT.backfill, [0, 1])):
        mechanism = with_servers(2, rules=dataclasses.replace(DEFAULT, backfill=part))
        for job_id in (0, 1):
            mechanism.handle(JobSubmitted(0.0, job(job_id)))
        leases = launched(settle(mechanism, Wake(0.0), [1.0, 0.0]))
        assert [lease.job_id for lease in leases] == expected


def test_backfill_never_breaks_a_strict_allocation() -> None:
    mechanism = with_servers(2, rules=dataclasses.replace(DEFAULT, backfill=0.0))
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
    assert mechanism.handle(ended(100.0, lease, 1e6)) == [Stop(lease.id), WakeAt(100.0, report=True)]
    (next_lease,) = launched(settle(mechanism, Wake(100.0), [1.0]))
    assert next_lease.job_id == 1


def test_a_late_answer_blocks_no_lease() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    settle(mechanism, Wake(0.0), [1.0])
    mechanism.handle(JobSubmitted(10.0, job(1)))
    commands = mechanism.handle(Wake(360.0))  # asks the policy, which does not answer
    assert any(isinstance(command, Solve) for command in commands)
    (solve,) = (command for command in commands if isinstance(command, Solve))
    assert WakeAt(720.0, report=True) in commands
    assert mechanism.handle(Wake(720.0)) == [Extend(1440.0), WakeAt(1080.0)]
    assert mechanism.handle(Allocated(800.0, shares(solve.snapshot, [0.5, 0.5]))) == []  # used from 1080 on
    mechanism.validate()


def test_doubled_and_late_reports_do_no_harm() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0, steps=100.0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(progress(1.0, lease, 60.0))
    mechanism.handle(progress(2.0, lease, 40.0))
    mechanism.handle(progress(2.0, lease._replace(job_id=99), 40.0))
    assert mechanism.live.steps_done[0] == 60.0
    for _ in range(2):
        mechanism.handle(ended(10.0, lease, 100.0))
        mechanism.validate()
    settle(mechanism, Wake(10.0), [])
    mechanism.handle(ended(11.0, lease, 100.0))
    assert mechanism.live.done.all()
    assert not mechanism.leasing.leases


def test_a_lost_server_ends_its_leases_and_gets_no_new_ones() -> None:
    mechanism = with_servers(2, 1)
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(progress(50.0, lease, 9.0, saved=7.0))
    assert mechanism.handle(WorkerLost(60.0, 0)) == [Stop(lease.id), WakeAt(60.0, report=True)]
    assert mechanism.handle(WorkerLost(60.0, 0)) == []
    assert launched(settle(mechanism, Wake(60.0), [0.0])) == []
    mechanism.handle(WorkerJoined(70.0, Server(7, "fast", 2)))
    (again,) = launched(settle(mechanism, Wake(70.0), [1.0]))
    assert {device.server_id for device in again.devices} == {7}
    assert mechanism.live.steps_done[0] == 7.0


def test_a_drained_server_stops_its_leases_and_loses_no_step() -> None:
    mechanism = with_servers(2, 1)
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(progress(50.0, lease, 9.0, saved=7.0))
    assert mechanism.handle(WorkerDrained(60.0, 0)) == [Stop(lease.id), WakeAt(60.0, report=True)]
    assert mechanism.handle(WorkerDrained(60.0, 0)) == []
    assert mechanism.live.steps_done[0] == 9.0
    mechanism.handle(ended(61.0, lease, 11.0))
    assert launched(settle(mechanism, Wake(61.0), [0.0])) == []
    mechanism.handle(WorkerJoined(70.0, Server(0, "fast", 2), epoch=1))
    assert len(launched(settle(mechanism, Wake(70.0), [1.0]))) == 1
    assert mechanism.live.steps_done[0] == 11.0


def test_a_cancelled_job_gives_its_devices_up_and_never_comes_back() -> None:
    mechanism = with_servers(1)
    for job_id in range(3):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    mechanism.handle(JobCancelled(0.0, 2))  # before it was ever looked at
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0, 0.0]))
    assert mechanism.handle(JobCancelled(5.0, lease.job_id)) == [Stop(lease.id), WakeAt(5.0, report=True)]
    assert mechanism.handle(JobCancelled(5.0, lease.job_id)) == mechanism.handle(JobCancelled(5.0, 99)) == []
    mechanism.handle(ended(6.0, lease, 20.0))
    mechanism.handle(JobSubmitted(6.0, job(0)))
    (other,) = launched(settle(mechanism, Wake(6.0), [1.0]))
    assert other.job_id == 1
    assert [job.id for job in mechanism.live.jobs if not mechanism.live.done[mechanism.live.index[job.id]]] == [1]


def test_another_policy_is_asked_at_once_and_told_of_what_it_wants() -> None:
    mechanism = with_servers(1)
    for job_id in range(2):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    settle(mechanism, Wake(0.0), [0.5, 0.5])
    assert not [command for command in mechanism.handle(Wake(360.0)) if isinstance(command, Solve)]
    mechanism.handle(PolicyChanged(720.0, PAIRS))
    (solve,) = (command for command in mechanism.handle(Wake(720.0)) if isinstance(command, Solve))
    assert (np.bincount(solve.snapshot.known.configuration_M) == 2).any()


def test_another_speed_is_told_to_the_policy_and_held_by_jobs_that_run() -> None:
    isolated, colocated = dict(SPEEDS.isolated), dict(SPEEDS.colocated)
    mechanism = Mechanism(Throughputs(isolated, colocated), opens=PAIRS)
    mechanism.handle(WorkerJoined(0.0, Server(0, "fast", 4)))
    for event in (JobSubmitted(0.0, job(0)), JobSubmitted(0.0, job(1, kind="talker")), Wake(0.0)):
        settle(mechanism, event, [1.0, 1.0])
    assert mechanism.throughputs.beside(["net"], ["fast"]) == 7.0
    isolated[Setting("net", "fast")], colocated[Pairing("net", "net", "fast")] = 6.0, 5.0
    assert mechanism.handle(ThroughputsChanged(10.0, Throughputs(isolated, colocated))) == [
        WakeAt(10.0, report=True)
    ]
    question = asked(mechanism, Wake(mechanism._round_end_s)).snapshot
    assert question.configurations.throughput_M.tolist() == [6.0, 10.0]
    assert mechanism.throughputs.beside(["net"], ["fast"]) == 5.0
    assert mechanism.live.throughput[:, 0].tolist() == [6.0, 10.0]


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


@pytest.mark.parametrize("by_owner", [True, False])
def test_what_is_no_small_change_to_an_owner_is_none_where_owners_share(by_owner: bool) -> None:
    """With hundreds of jobs the policy is not asked about each; but of an owner it may be the only one."""
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, small_change_s=1e9))
    live = dict.fromkeys(range(200), "bob")
    rounds = itertools.count(1)

    def asks(*happened: Event) -> bool:
        """Whether the policy is asked when the next round begins; it answers at once."""
        for event in happened:
            mechanism.handle(event)
        now_s = DEFAULT.round_s * next(rounds)
        solves = [command for command in mechanism.handle(Wake(now_s)) if isinstance(command, Solve)]
        for solve in solves:
            answer = shares(solve.snapshot, [1.0 / len(live)] * len(live))
            mechanism.handle(Allocated(now_s, answer.with_execution(by_owner=by_owner)))
        return bool(solves)

    def comes(job_id: int, owner: str) -> JobSubmitted:
        live[job_id] = owner
        now_s = mechanism.leasing.now_s
        return JobSubmitted(now_s, Job(job_id, "net", 1e6, arrival_s=now_s, owner=owner))

    def goes(job_id: int) -> JobCancelled:
        del live[job_id]
        return JobCancelled(mechanism.leasing.now_s, job_id)

    assert asks(*[comes(job_id, "bob") for job_id in live])
    assert not asks(comes(200, "bob"))
    assert asks(comes(201, "ada")) is by_owner
    assert asks(comes(202, "ada")) is by_owner
    assert not asks(goes(0))
    assert asks(goes(202)) is by_owner
    assert not asks(comes(203, "eve"), goes(203)), "it was not even let in"
    assert asks(goes(201)) is by_owner
    assert not asks(comes(204, "bob"))


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
    mechanism.handle(ended(1.0, lease, 10.0))
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
    settle(mechanism, Wake(0.0), [1.0])
    mechanism.handle(JobSubmitted(10.0, job(1)))
    commands = mechanism.handle(Wake(360.0))
    assert isinstance(commands[-1], Solve)
    assert commands[:-1] == [Extend(1080.0), WakeAt(720.0, report=True)]


def test_a_doubled_answer_is_not_taken_for_the_next_one() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    first = Allocated(0.0, shares(asked(mechanism, Wake(0.0)).snapshot, [0.5]))
    mechanism.handle(first)
    mechanism.handle(JobSubmitted(1.0, job(1)))
    second = Allocated(380.0, shares(asked(mechanism, Wake(360.0)).snapshot, [0.0, 1.0]))
    assert mechanism.handle(Allocated(370.0, first.allocation)) == []
    mechanism.handle(second)
    assert promised_J(mechanism) == [0.0, 1.0]
    assert mechanism.handle(Allocated(390.0, first.allocation)) == []
    assert promised_J(mechanism) == [0.0, 1.0]


def test_what_came_while_the_policy_thought_is_looked_at_when_it_answers() -> None:
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, backfill=None))
    mechanism.handle(JobSubmitted(0.0, job(0)))
    solve = asked(mechanism, Wake(0.0))
    mechanism.handle(JobSubmitted(5.0, job(1)))
    assert mechanism.handle(Wake(5.0)) == []
    assert mechanism.handle(Allocated(20.0, shares(solve.snapshot, [0.0]))) == [WakeAt(20.0, report=True)]
    assert len(asked(mechanism, Wake(20.0)).snapshot.jobs) == 2


def test_a_job_that_is_gone_is_gone_although_its_row_stays_until_the_policy_is_asked() -> None:
    mechanism = with_servers(40)
    for i in range(41):
        mechanism.handle(JobSubmitted(0.0, job(i)))
    first, *_ = launched(settle(mechanism, Wake(0.0), [1.0] * 40 + [0.0]))
    mechanism.handle(ended(100.0, first, 1e6))
    assert len(launched(mechanism.handle(Wake(100.0)))) == 1, "the job that waits gets the device"
    mechanism.handle(Wake(360.0))
    assert len(mechanism.live) == 41
    assert mechanism.job(first.job_id) is None
    assert first.job_id not in mechanism.service().job_ids
    assert mechanism.handle(ended(361.0, first, 1e6)) == []
    mechanism.validate()
    asked(mechanism, Wake(1800.0))
    assert len(mechanism.live) == 40
    mechanism.validate()


# -- pairs ----------------------------------------------------------------------------------------------------


def as_a_pair(snapshot: Snapshot, share: float = 1.0) -> Allocation:
    """The first pair gets this share, nobody else anything."""
    snapshot = snapshot.open("pairs")
    share_C = np.zeros(len(snapshot.configurations))
    share_C[int(np.argmax(snapshot.configurations.members_C == 2))] = share
    return certified(snapshot, share_C, path="test", seconds=0.0)


def a_running_pair(rules: Rules = DEFAULT, prices: Prices | None = None) -> tuple[Mechanism, list[Lease]]:
    mechanism = with_servers(1, rules=rules, prices=prices, pairs=True)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    solve = asked(mechanism, Wake(0.0))
    leases = launched(mechanism.handle(Allocated(0.0, as_a_pair(solve.snapshot))))
    mechanism.validate()
    return mechanism, leases


def test_a_pair_shares_one_device_in_two_leases() -> None:
    _, (first, second) = a_running_pair()
    assert first.devices == second.devices
    assert (first.shares_with, second.shares_with) == (1, 0)


def test_members_of_a_pair_share_its_price() -> None:
    mechanism, leases = a_running_pair(DEFAULT, Prices({"fast": 36.0}))
    for lease in leases:
        mechanism.handle(ended(100.0, lease, 700.0))
    assert mechanism.live.spent_usd.tolist() == [0.5] * 2


def test_whose_partner_left_pays_half_until_then_and_in_full_from_then_on() -> None:
    mechanism, (first, second) = a_running_pair(prices=Prices({"fast": 36.0}))
    mechanism.handle(ended(100.0, first, 700.0))
    mechanism.handle(ended(200.0, second, 1700.0))
    assert mechanism.live.spent_usd.tolist() == [0.5, 1.5]


def test_a_pair_is_split_again_and_one_member_keeps_the_device() -> None:
    mechanism, (first, second) = a_running_pair()
    mechanism.handle(WorkerJoined(10.0, Server(9, "fast", 1)))
    commands = settle(mechanism, Wake(360.0), [1.0, 1.0])
    (moved,) = launched(commands)
    assert stopped(commands) == [{0: first, 1: second}[moved.job_id].id]
    assert moved.devices[0].server_id == 9
    assert moved.shares_with is None
    assert mechanism.live.partner.tolist() == [ALONE, ALONE]


def test_whose_partner_is_done_goes_on_alone() -> None:
    mechanism, (first, second) = a_running_pair()
    mechanism.handle(ended(100.0, first, 1e6))
    assert stopped(settle(mechanism, Wake(100.0), [1.0])) == []
    assert mechanism.leasing.leases == {1: second}
    assert mechanism.live.partner.tolist() == [ALONE, ALONE]


def test_a_job_comes_to_the_device_of_its_new_partner() -> None:
    mechanism = with_servers(1, 1, pairs=True)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    first, second = launched(settle(mechanism, Wake(0.0), [1.0, 1.0]))
    mechanism.handle(WorkerJoined(10.0, Server(9, "fast", 1)))
    solve = asked(mechanism, Wake(360.0))
    commands = mechanism.handle(Allocated(360.0, as_a_pair(solve.snapshot)))
    mechanism.validate()
    (moved,) = launched(commands)
    assert stopped(commands) == [second.id]
    assert (moved.job_id, moved.devices, moved.shares_with) == (1, first.devices, 0)


# -- gangs and places -----------------------------------------------------------------------------------------


def with_two_small_servers() -> Mechanism:
    """There is a larger one, which another gang holds, so a gang of two is not together on these."""
    mechanism = with_servers(1, 1, 2)
    mechanism.handle(JobSubmitted(0.0, job(90, scale=2)))
    (held,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert {device.server_id for device in held.devices} == {2}
    return mechanism


def test_a_gang_whose_speed_over_servers_is_not_known_is_spread_without_more_ado() -> None:
    mechanism = with_two_small_servers()
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0, 1.0]))
    assert {device.server_id for device in lease.devices} == {0, 1}
    assert mechanism.live.spread.tolist() == [False, True]


def test_a_gang_that_cannot_be_spread_leaves_its_devices_to_others() -> None:
    mechanism = with_two_small_servers()
    mechanism.handle(JobSubmitted(350.0, job(0, scale=2, kind="local")))
    mechanism.handle(JobSubmitted(350.0, job(1)))
    (lease,) = launched(settle(mechanism, Wake(360.0), [1.0, 0.8, 0.4]))
    assert lease.job_id == 1


def test_where_a_larger_server_went_a_gang_is_together_on_small_ones() -> None:
    """As few servers can hold it as there are: a gang that only runs together does."""
    mechanism = with_servers(1, 1, 2)
    mechanism.handle(WorkerDrained(0.0, 2))
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2, kind="local")))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert {device.server_id for device in lease.devices} == {0, 1}
    assert mechanism.live.spread.tolist() == [False]


def fragmented(rules: Rules, restart_s: float = 0.0) -> list[Command]:
    """A narrow job on each of two servers with two devices; then a gang of two is promised the rest."""
    rules = dataclasses.replace(rules, overheads=Overheads(Overhead(restart_s=restart_s)))
    mechanism = with_servers(2, 2, rules=rules)
    for job_id in range(3):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    leases = launched(settle(mechanism, Wake(0.0), [1.0, 1.0, 1.0]))
    mechanism.handle(ended(350.0, leases[1], 1e6))
    mechanism.handle(JobSubmitted(350.0, job(3, scale=2, kind="talker")))
    assert sorted(lease.devices[0].server_id for lease in (leases[0], leases[2])) == [0, 1]
    return settle(mechanism, Wake(360.0), [1.0, 1.0, 1.0])


def test_a_narrow_job_makes_room_for_a_gang_where_it_loses_less_than_the_gang_gains() -> None:
    commands = fragmented(DEFAULT)
    gang, moved = launched(commands)
    assert len(stopped(commands)) == 1
    assert len({device.server_id for device in gang.devices}) == 1
    assert moved.devices[0].server_id != gang.devices[0].server_id


def test_a_narrow_job_that_makes_room_just_when_a_partner_comes_moves_with_it() -> None:
    mechanism = with_servers(2, 2, pairs=True)
    for job_id in range(3):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    leases = launched(settle(mechanism, Wake(0.0), [1.0, 1.0, 1.0]))
    mechanism.handle(ended(350.0, leases[1], 1e6))
    mechanism.handle(JobSubmitted(350.0, job(3, scale=2, kind="talker")))
    mechanism.handle(JobSubmitted(350.0, job(4)))
    snapshot = asked(mechanism, Wake(360.0)).snapshot.open("pairs")
    table, ids = snapshot.configurations, [one.id for one in snapshot.jobs]
    members = [{ids[j] for j in table.job_M[table.configuration_M == c]} for c in range(len(table))]
    share_C = np.array([float(who in ({0, 4}, {2}, {3})) for who in members])
    answer = certified(snapshot, share_C, path="test", seconds=0.0)
    commands = mechanism.handle(Allocated(360.0, answer))
    mechanism.validate()
    assert stopped(commands) == [leases[0].id]
    where = {lease.job_id: {device.server_id for device in lease.devices} for lease in launched(commands)}
    assert len(where[3]) == 1
    assert where[0] == where[4] != where[3]
    assert (mechanism.live.way >= 0).all()  # the time of each counts for what it was promised


def test_a_narrow_job_stays_where_moving_costs_more_than_the_gang_gains() -> None:
    commands = fragmented(DEFAULT, restart_s=1000.0)
    (gang,) = launched(commands)
    assert stopped(commands) == []
    assert len({device.server_id for device in gang.devices}) == 2


def test_a_narrow_job_stays_that_may_not_be_preempted_yet() -> None:
    commands = fragmented(dataclasses.replace(DEFAULT, min_run_s=3600.0))
    assert stopped(commands) == []


def test_nobody_is_moved_under_an_allocation_that_forbids_it() -> None:
    mechanism = with_two_small_servers()
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2, kind="talker")))
    settle(mechanism, Wake(0.0), [1.0, 1.0])
    mechanism.handle(WorkerJoined(10.0, Server(9, "fast", 2)))
    solve = asked(mechanism, Wake(360.0))
    unmoved = shares(solve.snapshot, [1.0, 1.0]).with_execution(may_move=False)
    assert stopped(mechanism.handle(Allocated(360.0, unmoved))) == []


def test_a_spread_gang_is_put_into_one_server_as_soon_as_one_is_free() -> None:
    mechanism = with_two_small_servers()
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2, kind="talker")))
    (spread,) = launched(settle(mechanism, Wake(0.0), [1.0, 1.0]))
    mechanism.handle(WorkerJoined(10.0, Server(9, "fast", 2)))
    commands = settle(mechanism, Wake(360.0), [1.0, 1.0])
    (whole,) = launched(commands)
    assert stopped(commands) == [spread.id]
    assert {device.server_id for device in whole.devices} == {9}


# -- who makes way --------------------------------------------------------------------------------------------


def test_a_job_is_not_preempted_before_it_has_run_for_the_least_time() -> None:
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, min_run_s=1000.0))
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(JobSubmitted(1.0, job(1)))
    for time_s in (360.0, 720.0):
        assert stopped(settle(mechanism, Wake(time_s), [0.0, 1.0])) == []
    assert stopped(settle(mechanism, Wake(1080.0), [0.0, 1.0])) == [lease.id]


@pytest.mark.parametrize(
    ("steps", "stays"), [(10_700.0, True), (10_900.0, False), (7_100.0, False)], ids=["within", "later", "overdue"]
)
def test_a_job_that_will_be_complete_within_a_round_stays(steps: float, stays: bool) -> None:
    """At 10 steps/s; one that should be complete by now is not as fast as believed."""
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0, steps)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(JobSubmitted(1.0, job(1)))
    assert stopped(settle(mechanism, Wake(360.0), [0.1, 0.9])) == []
    assert stopped(settle(mechanism, Wake(720.0), [0.1, 0.9])) == ([] if stays else [lease.id])


def test_a_job_that_loads_its_checkpoint_will_be_complete_later() -> None:
    slow_to_start = Overheads(Overhead(restart_s=100.0))
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, overheads=slow_to_start))
    mechanism.handle(JobSubmitted(0.0, job(0, 7_100.0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert not ends_within(449.0, mechanism.live, np.array([0]), 360.0)
    assert ends_within(451.0, mechanism.live, np.array([0]), 360.0)
    mechanism.handle(progress(360.0, lease, 3_600.0))
    assert ends_within(351.0, mechanism.live, np.array([0]), 360.0)


@pytest.mark.parametrize("spared", [0, 1])
def test_of_two_that_are_equally_far_ahead_the_one_makes_way_that_loses_less(spared: int) -> None:
    costly = Overheads(by_type={"net" if spared == 0 else "talker": Overhead(restart_s=300.0)})
    mechanism = with_servers(2, rules=dataclasses.replace(DEFAULT, overheads=costly))
    for job_id, kind in enumerate(("net", "talker")):
        mechanism.handle(JobSubmitted(0.0, job(job_id, kind=kind)))
    leases = launched(settle(mechanism, Wake(0.0), [1.0, 1.0]))
    mechanism.handle(JobSubmitted(1.0, job(2)))
    commands: list[Command] = []
    for round_ in range(1, 5):
        commands += settle(mechanism, Wake(round_ * 360.0), [0.5, 0.5, 1.0])
        if stopped(commands):
            break
    assert stopped(commands) == [leases[1 - spared].id]


def test_a_job_that_wrote_a_checkpoint_just_now_loses_only_the_work_since_and_the_restart() -> None:
    overheads = Overheads(Overhead(checkpoint_s=50.0, restart_s=20.0))
    mechanism = with_servers(2, rules=dataclasses.replace(DEFAULT, overheads=overheads))
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    first, second = launched(settle(mechanism, Wake(0.0), [1.0, 1.0]))
    mechanism.handle(progress(100.0, first, 1000.0, saved=900.0))
    mechanism.handle(progress(100.0, second, 1000.0, saved=100.0))
    np.testing.assert_allclose(loss_s(mechanism.live, np.array([0, 1])), [20.0 + 10.0, 20.0 + 50.0])


# -- failures, epochs, renewal --------------------------------------------------------------------------------


def fail_once(mechanism: Mechanism, time_s: float, steps: float = 0.0) -> tuple[Lease, list[Command]]:
    """The one lease that stands fails; the job is launched again if it may be."""
    (lease,) = mechanism.leasing.leases.values()
    commands = mechanism.handle(ended(time_s, lease, steps, failed=True))
    settle(mechanism, Wake(time_s), [1.0])
    return lease, commands


def test_a_job_that_fails_too_often_is_given_up() -> None:
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, max_failures=3, retry_s=0.0))
    mechanism.handle(JobSubmitted(0.0, job(0)))
    settle(mechanism, Wake(0.0), [1.0])
    for time_s in (1.0, 2.0):
        assert GiveUp(0) not in fail_once(mechanism, time_s)[1]
    assert GiveUp(0) in fail_once(mechanism, 3.0)[1]
    assert mechanism.given_up == [0]
    assert mechanism.live.done.all()
    mechanism.validate()


def test_failures_are_forgotten_when_the_job_comes_forward() -> None:
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, max_failures=2, retry_s=0.0))
    mechanism.handle(JobSubmitted(0.0, job(0)))
    settle(mechanism, Wake(0.0), [1.0])
    for time_s in range(1, 6):
        fail_once(mechanism, float(time_s), steps=10.0 * time_s)  # each try comes further than the last
    assert mechanism.given_up == []


def test_a_failure_that_is_reported_twice_is_one_failure() -> None:
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, max_failures=2, retry_s=0.0))
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    for time_s in (1.0, 2.0, 3.0):
        mechanism.handle(ended(time_s, lease, 0.0, failed=True))
    assert mechanism.given_up == []
    assert mechanism.live.failures.tolist() == [1]


def test_a_failure_throws_a_job_back_to_its_checkpoint() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(progress(100.0, lease, 1000.0, saved=600.0))
    mechanism.handle(ended(110.0, lease, 600.0, failed=True))
    assert mechanism.live.steps_done.tolist() == [600.0]


def test_news_of_an_old_epoch_is_no_news() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    assert stopped(mechanism.handle(WorkerJoined(50.0, Server(0, "fast", 1), epoch=1))) == [lease.id]
    (again,) = launched(settle(mechanism, Wake(50.0), [1.0]))
    assert mechanism.handle(WorkerLost(60.0, 0, epoch=0)) == []
    assert mechanism.handle(WorkerJoined(60.0, Server(0, "fast", 1), epoch=0)) == []
    assert mechanism.leasing.leases == {0: again}
    assert stopped(mechanism.handle(WorkerLost(70.0, 0, epoch=1))) == [again.id]
    assert mechanism.handle(WorkerJoined(80.0, Server(0, "fast", 1), epoch=1)) == []
    assert not mechanism.hardware.servers
    mechanism.validate()


def test_the_first_report_of_a_lease_says_where_it_really_began() -> None:
    """The server died unheard of, with work that was never saved, before the job was sent elsewhere."""
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(progress(50.0, lease, 500.0))
    mechanism.handle(JobSubmitted(51.0, job(1)))
    settle(mechanism, Wake(720.0), [0.0, 1.0])
    mechanism.handle(WorkerJoined(730.0, Server(9, "fast", 1)))
    (again,) = launched(settle(mechanism, Wake(1080.0), [1.0, 1.0]))
    mechanism.handle(progress(1100.0, again, 200.0))
    mechanism.handle(progress(1101.0, again, 190.0))  # overtaken on its way
    assert mechanism.live.steps_done[0] == 200.0


def test_a_policy_that_wants_to_be_asked_again_is() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    solve = asked(mechanism, Wake(0.0))
    answer = shares(solve.snapshot, [1.0]).with_execution(refresh_s=700.0)
    mechanism.handle(Allocated(0.0, answer))
    assert not any(isinstance(command, Solve) for command in mechanism.handle(Wake(360.0)))
    asked(mechanism, Wake(720.0))  # of two rounds the nearer one


def test_a_policy_hears_of_new_prices_at_the_next_round() -> None:
    mechanism = with_servers(1, prices=Prices({"fast": 1.0}))
    mechanism.handle(JobSubmitted(0.0, job(0)))
    settle(mechanism, Wake(0.0), [1.0])
    assert mechanism.handle(PriceChanged(10.0, Prices({"fast": 3.0}))) == []
    assert asked(mechanism, Wake(360.0)).snapshot.usd_per_hour_A.tolist() == [3.0]


def test_a_policy_hears_of_other_speeds_when_a_round_begins_and_of_their_ranges() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    settle(mechanism, Wake(0.0), [1.0])
    way = Setting("net", "fast")
    believed = dataclasses.replace(SPEEDS, isolated={**SPEEDS.isolated, way: 12.0}, ranges={way: (9.0, 16.0)})
    assert not any(
        isinstance(command, Solve | Stop) for command in mechanism.handle(ThroughputsChanged(10.0, believed))
    )
    mechanism.handle(JobSubmitted(20.0, job(1)))
    known = asked(mechanism, Wake(360.0)).snapshot.known
    assert [known.at(end).throughput_M.tolist() for end in ("lower", "upper")] == [[9.0] * 2, [16.0] * 2]
    assert known.throughput_M.tolist() == [12.0, 12.0]
    assert known.kind_J is not None
    assert known.kind_J.tolist() == [0, 0]


# -- what the swarm found -------------------------------------------------------------------------------------


def test_a_policy_that_may_not_be_asked_yet_is_asked_as_soon_as_it_may() -> None:
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, solve_interval_s=600.0))
    mechanism.handle(JobSubmitted(5.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(5.0), [1.0]))
    mechanism.handle(ended(100.0, lease, 1e6))
    settle(mechanism, Wake(100.0), [])
    mechanism.handle(JobSubmitted(150.0, job(1)))
    assert mechanism.handle(Wake(365.0)) == [WakeAt(605.0, report=True)]
    asked(mechanism, Wake(605.0))


def test_what_was_promised_and_received_is_told_job_by_job() -> None:
    mechanism = with_servers(1)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    for round_ in range(21):
        settle(mechanism, Wake(round_ * 360.0), [0.5, 0.5])
    service = mechanism.service()
    assert service.job_ids == (0, 1)
    np.testing.assert_allclose(service.promised_s_J, 20 * 180.0)
    np.testing.assert_allclose(service.received_s_J.sum(), 20 * 360.0)
    assert (service.behind_s_J <= service.most_behind_s).all()
    assert service.most_behind_s <= 2 * 360.0


def capped(snapshot: Snapshot, share_J: list[float]) -> Allocation:
    return shares(snapshot, share_J).with_execution(quota=True, backfill=False)


def run_capped(mechanism: Mechanism, share_J: list[float], until_s: float) -> Counter[int]:
    """Seconds for which each job held devices until then, with shares that are ceilings; nobody is ever done."""
    held_s: Counter[int] = Counter()
    wakes, now_s = [0.0], 0.0
    while wakes and min(wakes) < until_s:
        before_s, now_s = now_s, min(wakes)
        wakes = [wake for wake in wakes if wake > now_s]
        for job_id in mechanism.leasing.leases:
            held_s[job_id] += now_s - before_s
        commands = mechanism.handle(Wake(now_s))
        for command in commands:
            if isinstance(command, Solve):
                commands = [*commands, *mechanism.handle(Allocated(now_s, capped(command.snapshot, share_J)))]
        wakes += [max(now_s + 1e-3, command.time_s) for command in commands if isinstance(command, WakeAt)]
        mechanism.validate()
    return held_s


@pytest.mark.parametrize("share_J", [[0.25], [0.5, 0.1], [1.0, 0.3], [0.01]])
def test_shares_that_are_ceilings_leave_devices_idle(share_J: list[float]) -> None:
    mechanism = with_servers(2)
    for j in range(len(share_J)):
        mechanism.handle(JobSubmitted(0.0, job(j, 1e9)))
    until_s = 100 * 360.0
    held_s = run_capped(mechanism, share_J, until_s)
    for j, share in enumerate(share_J):
        assert held_s[j] <= share * until_s + 1e-6
        assert held_s[j] >= share * until_s - 2 * 360.0


def test_shares_that_are_no_ceilings_do_not() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0, 1e9)))
    settle(mechanism, Wake(0.0), [0.25])
    settle(mechanism, Wake(360.0), [0.25])
    assert len(mechanism.leasing.leases) == 1
