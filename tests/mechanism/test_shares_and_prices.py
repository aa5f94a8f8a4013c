"""What jobs and pairs are promised, credited and charged, and who runs next because of it."""

import dataclasses
import itertools

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.commands import Command, Solve, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    Event,
    JobSubmitted,
    PriceChanged,
    Wake,
    WorkerDrained,
    WorkerLost,
)
from gavelx.mechanism.selection import ends_within
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from tests.mechanism.test_mechanism import (
    a_running_pair,
    as_a_pair,
    asked,
    capped,
    ended,
    job,
    launched,
    settle,
    stopped,
    with_servers,
)

A_DOLLAR_A_SECOND = Prices({"fast": 3600.0})
PAIR = frozenset({0, 1})
Promised = dict[frozenset[int], float]
"""The share of its time that each job alone, or pair of them, is promised; by job ids."""


def promised(snapshot: Snapshot, share: Promised) -> Allocation:
    """Just these shares."""
    snapshot = snapshot.open("pairs")
    table, ids = snapshot.configurations, [one.id for one in snapshot.jobs]
    who = [frozenset(ids[j] for j in table.job_M[table.configuration_M == c]) for c in range(len(table))]
    return certified(snapshot, np.array([share.get(one, 0.0) for one in who]), path="test", seconds=0.0)


def settle_pairs(mechanism: Mechanism, event: Event, share: Promised) -> list[Command]:
    """Handle an event, answering every Solve at once; returns all other commands."""
    commands: list[Command] = []
    for command in mechanism.handle(event):
        if isinstance(command, Solve):
            commands += mechanism.handle(Allocated(event.time_s, promised(command.snapshot, share)))
        else:
            commands.append(command)
    mechanism.validate()
    return commands


# -- what is charged ------------------------------------------------------------------------------------------


def test_what_was_held_before_a_price_changed_is_paid_at_the_price_of_then() -> None:
    mechanism = with_servers(1, prices=A_DOLLAR_A_SECOND)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    settle(mechanism, Wake(0.0), [1.0])
    mechanism.handle(PriceChanged(100.0, Prices({"fast": 7200.0})))
    snapshot = asked(mechanism, Wake(360.0)).snapshot
    assert snapshot.spent_usd_J.tolist() == pytest.approx([100.0 + 260.0 * 2.0])


def test_the_last_words_of_a_drained_pair_cost_both_the_same() -> None:
    mechanism, leases = a_running_pair(DEFAULT, A_DOLLAR_A_SECOND)
    mechanism.handle(WorkerDrained(100.0, 0))
    for lease in leases:
        mechanism.handle(ended(120.0, lease, 840.0))  # 20 s for a checkpoint
    assert mechanism.live.spent_usd.tolist() == pytest.approx([60.0] * 2)


# -- what is credited -----------------------------------------------------------------------------------------


def test_a_pair_that_takes_turns_with_another_job_gets_the_half_that_it_was_promised() -> None:
    """One second of a pair on its device is one second, not one for each of the two."""
    mechanism = with_servers(1, rules=dataclasses.replace(DEFAULT, turn=0.0), pairs=True)
    for job_id in range(3):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    rounds = 0
    for round_ in range(40):
        settle_pairs(mechanism, Wake(round_ * 360.0), {PAIR: 0.5, frozenset({2}): 0.5})
        mechanism.handle(PriceChanged(round_ * 360.0 + 1.0, Prices({})))  # as if somebody had to know
        rounds += mechanism.leasing.leases.keys() == PAIR
    assert rounds == pytest.approx(20, abs=1)


def test_a_pair_that_has_all_that_it_was_promised_is_owed_nothing() -> None:
    mechanism, leases = a_running_pair()
    for lease in leases:
        mechanism.handle(ended(100.0, lease, 700.0))
    settle(mechanism, Wake(100.0), [])
    assert mechanism.accounts.ways.credit_s.tolist() == pytest.approx([0.0])


def test_a_job_that_fills_in_for_rounds_on_end_is_behind_by_no_more_than_one() -> None:
    mechanism = with_servers(1)
    mechanism.handle(JobSubmitted(0.0, job(0)))
    for round_ in range(8):
        settle(mechanism, Wake(round_ * 360.0), [0.1])
    service = mechanism.service()
    assert service.behind_s_J.tolist() == pytest.approx([-0.9 * 7 * 360.0])
    assert service.most_behind_s <= 360.0


# -- who runs next --------------------------------------------------------------------------------------------


def test_a_job_that_was_promised_nothing_fills_an_idle_device_when_it_has_waited_for_long_enough() -> None:
    mechanism = with_servers(2, rules=dataclasses.replace(DEFAULT, backfill_after_s=1000.0))
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    when_s = {
        lease.job_id: time_s
        for time_s in (0.0, 360.0, 720.0, 1080.0)
        for lease in launched(settle(mechanism, Wake(time_s), [1.0, 0.0]))
    }
    assert when_s == {0: 0.0, 1: 1080.0}


def test_where_shares_are_ceilings_nobody_sleeps_longer_than_until_the_first_is_owed_a_round() -> None:
    """Half of the time is a round after two, a tenth after ten."""
    mechanism = with_servers(2)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    solve = asked(mechanism, Wake(0.0))
    assert mechanism.handle(Allocated(0.0, capped(solve.snapshot, [0.5, 0.1]))) == [WakeAt(360.0)]
    (lease,) = launched(mechanism.handle(Wake(360.0)))
    assert lease.job_id == 0


def test_a_pair_whose_ceiling_is_all_of_its_time_runs_on() -> None:
    mechanism = with_servers(1, pairs=True)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    solve = asked(mechanism, Wake(0.0))
    answer = as_a_pair(solve.snapshot).with_execution(quota=True, backfill=False)
    assert len(launched(mechanism.handle(Allocated(0.0, answer)))) == 2
    for round_ in range(1, 4):
        assert stopped(mechanism.handle(Wake(round_ * 360.0))) == []


def test_a_pair_of_a_long_and_a_short_job_takes_the_turns_of_the_short_one() -> None:
    """Jobs 0 and 2 have had ten hours, and turns of an hour; job 1 just came, and is served more often."""
    mechanism = with_servers(1, 1, pairs=True)
    for job_id in (0, 2):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    alone = {frozenset({0}): 1.0, frozenset({2}): 1.0}
    first, second = launched(settle_pairs(mechanism, Wake(0.0), alone))
    assert {first.job_id, second.job_id} == {0, 2}
    settle_pairs(mechanism, Wake(36_000.0), alone)
    mechanism.handle(WorkerLost(36_000.0, second.devices[0].server_id))
    mechanism.handle(JobSubmitted(36_000.0, job(1)))
    holders: list[bool] = []
    for round_ in range(41):
        settle_pairs(mechanism, Wake(36_000.0 + 360.0 * round_), {PAIR: 0.5, frozenset({2}): 0.5})
        holders.append(1 in mechanism.leasing.leases)
    changes = sum(before != after for before, after in itertools.pairwise(holders))
    assert changes >= 6  # and 2 in turns of an hour


def test_a_job_that_shares_its_device_is_not_taken_to_be_complete_as_soon_as_it_would_be_alone() -> None:
    mechanism, (first, _) = a_running_pair()
    both = np.array([0, 1])
    assert not ends_within(100_001.0, mechanism.live, both, 0.0).any()  # 1e6 steps at 10 steps/s
    mechanism.handle(ended(0.0, first, 0.0))
    assert ends_within(100_001.0, mechanism.live, both[1:], 0.0).all()
