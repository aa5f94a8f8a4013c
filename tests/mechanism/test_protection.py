"""Jobs that would lose their work are not preempted, and nobody starves for them."""

import dataclasses

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster, Server
from gavelx.jobs import Job, Preemptible
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.mechanism.commands import Command, Launch, Lease, Solve, Stop, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    Event,
    JobSubmitted,
    LeaseEnded,
    Wake,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.throughputs import Setting, Throughputs
from tests.mechanism.test_mechanism import (
    SPEEDS,
    asked,
    ended,
    job,
    launched,
    progress,
    settle,
    shares,
    stopped,
    with_servers,
)

ROUND_S = DEFAULT.round_s


def of(job_id: int, option: Preemptible = "auto", owner: str = "", scale: int = 1, steps: float = 1e6) -> Job:
    return dataclasses.replace(job(job_id, steps, scale), preemptible=option, owner=owner)


def lost(time_s: float, lease: Lease, held_s: float, steps: float = 0.0) -> LeaseEnded:
    """A lease was taken back, and its job has saved nothing."""
    return LeaseEnded(time_s, lease.id, lease.job_id, steps, held_s, lost_s=held_s)


class Rounds:
    """A mechanism, round by round; jobs that are stopped have lost what they did.

    ``shares`` of jobs by their ids; those that are not there share by max-min fairness what there is, if none is.
    """

    def __init__(self, mechanism: Mechanism, shares: dict[int, float] | None = None) -> None:
        self.mechanism, self.shares, self.now_s = mechanism, shares or {}, 0.0
        self.began_s: dict[int, float] = {}  # by lease
        self.stops: list[int] = []  # ids of jobs
        self.holders: list[set[int]] = []
        self._leases: dict[int, Lease] = {}

    def come(self, *jobs: Job) -> None:
        for each in jobs:
            self.mechanism.handle(JobSubmitted(self.now_s, each))

    def go(self, rounds: int = 1) -> "Rounds":
        for _ in range(rounds):
            self.see(Wake(self.now_s))
            self.holders.append(set(self.mechanism.leasing.leases))
            self.now_s += ROUND_S
        return self

    def see(self, event: Event) -> None:
        for command in self.mechanism.handle(event):
            match command:
                case Solve():
                    self.see(Allocated(event.time_s, self._answer(command.snapshot)))
                case Launch():
                    self._leases[command.lease.id], self.began_s[command.lease.id] = command.lease, event.time_s
                case Stop():
                    lease = self._leases[command.lease_id]
                    if not self.mechanism.live.done[self.mechanism.live.index[lease.job_id]]:
                        self.stops.append(lease.job_id)
                        self.see(lost(event.time_s, lease, event.time_s - self.began_s[lease.id]))
        self.mechanism.validate()

    def _answer(self, snapshot: Snapshot) -> Allocation:
        if not self.shares:
            return load_policy("max_min_fairness").allocate(snapshot)
        return shares(snapshot, [self.shares[job.id] for job in snapshot.jobs])

    def end(self, job_id: int) -> None:
        """A job does its last step."""
        self.see(ended(self.now_s, self.mechanism.leasing.leases[job_id], 1e9))


def taking_turns(*jobs: Job, rules: Rules = DEFAULT) -> Rounds:
    """They share one device."""
    rounds = Rounds(with_servers(1, rules=rules), {each.id: 1.0 / len(jobs) for each in jobs})
    rounds.come(*jobs)
    return rounds


# -- what a preemption lost ------------------------------------------------------------------------------------


def test_a_job_that_lost_its_work_is_not_preempted_again() -> None:
    rounds = taking_turns(of(0), of(1)).go(40)
    assert rounds.stops == [0, 1], "each of them once"
    assert rounds.holders[-30:] == [{0}] * 30
    live = rounds.mechanism.live
    assert live.protected.tolist() == [True, True]
    assert rounds.mechanism.lost_s == live.lost_s.sum() > 0
    rounds.end(0)
    assert rounds.go(30).holders[-29:] == [{1}] * 29
    assert rounds.stops == [0, 1]


def test_jobs_that_may_be_preempted_take_turns_and_one_that_may_not_never_stops() -> None:
    assert len(taking_turns(of(0, "yes"), of(1, "yes")).go(40).stops) > 5
    rounds = taking_turns(of(0, "no"), of(1)).go(40)
    assert rounds.stops == [] and rounds.holders == [{0}] * 40


def test_a_job_that_saves_again_may_be_preempted_again() -> None:
    rounds = taking_turns(of(0), of(1)).go(10)
    (lease,) = rounds.mechanism.leasing.leases.values()
    rounds.see(progress(rounds.now_s, lease, 50.0))
    assert rounds.mechanism.live.protected[lease.job_id], "what is not saved may be lost"
    rounds.see(progress(rounds.now_s, lease, 50.0, saved=40.0))
    assert not rounds.mechanism.live.protected[lease.job_id]
    before = len(rounds.stops)
    rounds.go(10)
    assert rounds.stops[before] == lease.job_id


def test_a_job_that_is_not_to_be_preempted_stays_so_when_it_saves() -> None:
    rounds = taking_turns(of(0, "no"), of(1)).go(2)
    (lease,) = rounds.mechanism.leasing.leases.values()
    rounds.see(progress(rounds.now_s, lease, 50.0, saved=50.0))
    assert rounds.go(20).stops == []


def test_the_mechanism_asks_how_far_protected_jobs_are() -> None:
    """They may have saved something."""
    rounds = taking_turns(of(0), of(1)).go(10)
    commands = settle(rounds.mechanism, Wake(rounds.now_s), [0.5, 0.5])
    assert WakeAt(rounds.now_s + ROUND_S, report=True) in commands


def test_a_loss_that_is_reported_twice_is_one_loss() -> None:
    mechanism = with_servers(1)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, of(job_id)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [0.5, 0.5]))
    for time_s in (ROUND_S, 2 * ROUND_S):
        settle(mechanism, Wake(time_s), [0.5, 0.5])
    for _ in range(2):
        mechanism.handle(lost(3 * ROUND_S, lease, 700.0))
    assert mechanism.lost_s == mechanism.live.lost_s[0] == 700.0


def test_a_lease_that_nobody_took_back_teaches_nothing() -> None:
    """It lapsed, or its server left: that a job saves nothing then does not mean that it cannot."""
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, of(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(lost(50.0, lease, 50.0))
    assert not mechanism.live.protected[0] and mechanism.lost_s == 0.0


# -- what ends protection --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [WorkerLost, WorkerDrained])
def test_a_protected_job_goes_with_its_server(gone: type[WorkerLost] | type[WorkerDrained]) -> None:
    rounds = taking_turns(of(0, "no"), of(1)).go(3)
    (lease,) = rounds.mechanism.leasing.leases.values()
    assert rounds.mechanism.handle(gone(rounds.now_s, 0))[0] == Stop(lease.id)


def test_a_job_that_never_ends_makes_way_again_and_again_and_others_get_what_they_are_owed() -> None:
    rules = dataclasses.replace(DEFAULT, protect_s=20 * ROUND_S)
    rounds = taking_turns(of(0, "no", steps=1e12), of(1, "yes"), rules=rules).go(2000)
    had = [sum(i in holders for holders in rounds.holders) for i in (0, 1)]
    assert had[1] > 0.25 * 2000, "half of the time was promised"
    spans = rounds.stops.count(0)
    assert 2 < spans < 10, "each time it holds its device for twice as long"


@pytest.mark.parametrize("takes_rounds", [5, 50, 500])
@pytest.mark.parametrize("protect_s", [0.0, 10 * ROUND_S, DEFAULT.protect_s])
def test_a_job_of_any_length_comes_to_its_end(takes_rounds: int, protect_s: float) -> None:
    """Also where it is protected for less than it takes: it loses a few times what it needs in all."""
    rounds = taking_turns(of(0), of(1, "yes"), rules=dataclasses.replace(DEFAULT, protect_s=protect_s))
    for _ in range(40 * takes_rounds + 100):
        rounds.go()
        began_s = max(s for i, s in rounds.began_s.items() if rounds._leases[i].job_id == 0)
        if 0 in rounds.holders[-1] and rounds.now_s - began_s >= takes_rounds * ROUND_S:
            return
    pytest.fail(f"never ran for {takes_rounds} rounds on end: {rounds.stops}")


def test_a_protected_job_that_ends_soon_may_end() -> None:
    rules = dataclasses.replace(DEFAULT, protect_s=10 * ROUND_S)
    soon, later = (10.0 * ROUND_S * rounds_ for rounds_ in (14.5, 16.5))
    for steps, stops in ((soon, 0), (later, 1)):
        assert len(taking_turns(of(0, "no", steps=steps), of(1, "no"), rules=rules).go(14).stops) == stops


# -- owners ----------------------------------------------------------------------------------------------------


def test_protected_jobs_of_an_owner_keep_what_others_were_not_promised() -> None:
    """Four devices, and one owner with jobs that never stop; then another comes, to whom two are promised."""
    rounds = Rounds(with_servers(4), dict.fromkeys(range(4), 1.0))
    rounds.come(*(of(i, "no", "bob") for i in range(2)))
    rounds.go(2)
    rounds.come(*(of(i, "no", "bob") for i in (2, 3)))
    rounds.go(2)
    rounds.shares = dict.fromkeys(range(4), 0.5) | {4: 1.0, 5: 1.0}
    rounds.come(*(of(i, "auto", "ada") for i in (4, 5)))
    rounds.go(4)
    assert sorted(rounds.stops) == [2, 3], "those that began last"
    assert rounds.holders[-1] == {0, 1, 4, 5}


def test_an_owner_keeps_one_protected_job_in_any_case() -> None:
    rounds = Rounds(with_servers(1), {0: 1.0})
    rounds.come(of(0, "no", "bob"))
    rounds.go(2)
    rounds.shares = {0: 0.0, 1: 0.5, 2: 0.5}
    rounds.come(of(1, "auto", "ada"), of(2, "auto", "eve"))
    assert rounds.go(10).stops == []


def test_no_more_protected_jobs_of_an_owner_begin_than_may_stay() -> None:
    """They would lose their work for nothing."""
    rounds = Rounds(with_servers(4), dict.fromkeys(range(10), 0.2) | {10: 1.0, 11: 1.0})
    rounds.come(*(of(i, "no", "bob") for i in range(10)), of(10, "yes", "ada"), of(11, "yes", "ada"))
    rounds.go(60)
    assert rounds.stops == []
    assert all({10, 11} <= holders and len(holders) == 4 for holders in rounds.holders)


# -- gangs and places ------------------------------------------------------------------------------------------


def test_a_gang_is_not_starved_by_a_stream_of_protected_jobs() -> None:
    """Two devices, and jobs of one device that come and go, so that there is always one that is not to stop."""
    rounds = Rounds(with_servers(2))
    rounds.come(of(0, "no"))
    rounds.go()
    rounds.come(of(1, "no"), of(2, "yes", scale=2))
    for next_id in range(3, 15):
        rounds.come(of(next_id, "no"))
        rounds.go(3)
        assert set(rounds.stops) <= {2}
        if any(2 in holders for holders in rounds.holders):
            return
        rounds.end(min(rounds.holders[-1]))
    pytest.fail(f"the gang never ran: {rounds.holders}")


def test_a_protected_job_begins_before_a_gang_if_it_ends_before_the_gang_could_begin() -> None:
    for takes_rounds, begins in ((5, True), (50, False)):
        rounds = Rounds(with_servers(2), {0: 1.0, 1: 0.5, 2: 0.0})
        rounds.come(of(0, "no", steps=10.0 * 20 * ROUND_S))
        rounds.go()
        rounds.come(of(1, "yes", scale=2))
        rounds.go(2)
        rounds.come(of(2, "no", steps=10.0 * takes_rounds * ROUND_S))
        assert rounds.go(3).holders[-1] == ({0, 2} if begins else {0})


def test_a_protected_job_makes_no_room_for_a_gang_and_is_not_put_together() -> None:
    mechanism = with_servers(2, 2)
    for job_id in range(4):
        mechanism.handle(JobSubmitted(0.0, of(job_id, "no")))
    leases = launched(settle(mechanism, Wake(0.0), [1.0] * 4))
    on_first = [lease for lease in leases if lease.devices[0].server_id == 0]
    on_second = [lease for lease in leases if lease.devices[0].server_id == 1]
    for lease in (on_first[0], on_second[0]):
        mechanism.handle(ended(350.0, lease, 1e6))
    mechanism.handle(JobSubmitted(350.0, job(9, scale=2, kind="talker")))
    commands = settle(mechanism, Wake(ROUND_S), [1.0, 1.0, 1.0])
    assert stopped(commands) == []
    (gang,) = launched(commands)
    assert len({device.server_id for device in gang.devices}) == 2


def test_a_spread_gang_that_would_lose_its_work_stays_spread() -> None:
    mechanism = with_servers(1, 1)
    mechanism.hardware.free[0]._with += [{}]  # a server of two was here once
    mechanism.handle(JobSubmitted(0.0, dataclasses.replace(job(0, scale=2, kind="talker"), preemptible="no")))
    settle(mechanism, Wake(0.0), [1.0])
    mechanism.handle(WorkerJoined(10.0, Server(9, "fast", 2)))
    assert stopped(settle(mechanism, Wake(ROUND_S), [1.0])) == []


def test_a_protected_job_in_a_pair_keeps_its_partner_and_one_alone_is_left_alone() -> None:
    mechanism = with_servers(1, 1, pairs=True)
    for job_id in range(2):
        mechanism.handle(JobSubmitted(0.0, of(job_id, "no")))

    def answered(event: Event, shares_of: dict[frozenset[int], float]) -> list[Command]:
        snapshot = asked(mechanism, event).snapshot.open("pairs")
        table, ids = snapshot.configurations, [one.id for one in snapshot.jobs]
        members = [
            frozenset(ids[j] for j in table.job_M[table.configuration_M == c].tolist()) for c in range(len(table))
        ]
        fast = table.accelerator_C == 0
        share_C = np.array([shares_of.get(who, 0.0) * on for who, on in zip(members, fast.tolist(), strict=True)])
        answer = certified(snapshot, share_C, path="test", seconds=0.0)
        commands = mechanism.handle(Allocated(event.time_s, answer))
        mechanism.validate()
        return commands

    answered(Wake(0.0), {frozenset({0}): 1.0, frozenset({1}): 1.0})
    mechanism._trigger.all_changed()
    assert stopped(answered(Wake(ROUND_S), {frozenset({0, 1}): 1.0})) == [], "each keeps its own device"
    mechanism.handle(JobSubmitted(ROUND_S, of(2, "yes")))
    mechanism._trigger.all_changed()
    both = answered(Wake(2 * ROUND_S), {frozenset({0, 2}): 1.0, frozenset({1}): 1.0})
    assert stopped(both) == []


# -- ceilings, strict allocations, devices that nobody else could have -----------------------------------------


def test_a_protected_job_stays_where_another_type_was_promised() -> None:
    mechanism = Mechanism(SPEEDS)
    mechanism.handle(WorkerJoined(0.0, Server(0, "fast", 1)))
    mechanism.handle(WorkerJoined(0.0, Server(1, "slow", 1)))
    mechanism.handle(JobSubmitted(0.0, of(0, "no")))
    settle(mechanism, Wake(0.0), [1.0])
    mechanism.handle(JobSubmitted(1.0, of(1)))
    solve = asked(mechanism, Wake(ROUND_S))
    table = solve.snapshot.configurations
    share_C = np.array(
        [float((j, a) in {(0, 1), (1, 0)}) for j, a in zip(table.job_M, table.accelerator_C, strict=True)]
    )
    commands = mechanism.handle(Allocated(ROUND_S, certified(solve.snapshot, share_C, path="test", seconds=0.0)))
    assert stopped(commands) == []
    assert [lease.accelerator for lease in launched(commands)] == ["slow"], "what it waits for is held for long"


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_strict_allocation_without_a_share_ends_protection(share: float) -> None:
    """As a budget does that has nothing left for the job."""
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, of(0, "no")))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(JobSubmitted(1.0, of(1)))
    solve = asked(mechanism, Wake(ROUND_S))
    answer = shares(solve.snapshot, [share, 1.0 - share]).with_execution(backfill=False)
    assert stopped(mechanism.handle(Allocated(ROUND_S, answer))) == ([] if share else [lease.id])


def run_with_budget(*jobs: Job, usd: float, protect_s: float = DEFAULT.protect_s) -> Result:
    table = Throughputs({Setting("net", "v100"): 1.0})
    policy = load_policy(f"budgeted(max_min_fairness, total={usd:g})")
    rules = dataclasses.replace(DEFAULT, protect_s=protect_s)
    return simulate(policy, jobs, Cluster.of({"v100": 2}, 1), table, Prices({"v100": 1.0}), rules=rules)


@pytest.mark.parametrize("option", ["auto", "no"])
def test_a_budget_is_kept_and_a_job_that_saves_nothing_still_ends(option: Preemptible) -> None:
    """Half a device's worth an hour: the job waits until what it is owed lasts to its end."""
    hours = 10
    plain = dataclasses.replace(of(0, option, steps=3600.0 * hours), checkpoints=False)
    result = run_with_budget(plain, usd=0.5)
    assert result.summary()["jobs_completed"] == 1
    leases = result.leases
    assert len(leases) == (1 if option == "no" else 2)
    spent_usd = np.cumsum((leases.end_s_L - leases.start_s_L) / 3600.0)
    assert (spent_usd <= 0.5 * leases.end_s_L / 3600.0 + 0.2).all(), "never much ahead of the budget"
    assert result.end_s <= 3600.0 * (2 * hours + 3)


def test_a_budget_stops_a_job_that_is_slower_than_its_table_and_it_ends_nevertheless() -> None:
    """It is owed what it should take, and takes four times as long; next time it is owed more."""
    plain = dataclasses.replace(of(0, steps=3600.0), checkpoints=False)
    true = Throughputs({Setting("net", "v100"): 0.25})
    believed = Throughputs({Setting("net", "v100"): 1.0})
    policy = load_policy("budgeted(max_min_fairness, total=0.5)")
    prices = Prices({"v100": 1.0})
    result = simulate(policy, [plain], Cluster.of({"v100": 1}, 1), true, prices, believed=believed)
    assert result.summary()["jobs_completed"] == 1
    assert 2 < len(result.leases) < 8
