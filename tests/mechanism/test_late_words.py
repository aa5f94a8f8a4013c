"""Reports that come late, twice, or overtake each other: each counts once, and for what it still says."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Server
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.commands import Command, GiveUp, Lease
from gavelx.mechanism.events import (
    JobSubmitted,
    LeaseEnded,
    PriceChanged,
    Wake,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.prices import Prices
from gavelx.simulator.ledger import usd_between
from tests.mechanism.test_mechanism import ended, job, launched, progress, settle, stopped, with_servers


def a_running_job(*, max_failures: int = DEFAULT.max_failures) -> tuple[Mechanism, Lease]:
    """Alone on the one device, which costs a dollar a second."""
    rules = dataclasses.replace(DEFAULT, max_failures=max_failures, retry_s=0.0)
    mechanism = with_servers(1, rules=rules, prices=Prices({"fast": 3600.0}))
    mechanism.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(settle(mechanism, Wake(0.0), [1.0]))
    return mechanism, lease


def test_a_report_of_steps_that_no_checkpoint_holds_forgives_no_failure() -> None:
    mechanism, lease = a_running_job(max_failures=2)
    outcome: list[Command] = []
    for time_s in (10.0, 20.0):
        mechanism.handle(progress(time_s - 1.0, lease, 50.0, saved=0.0))
        outcome = mechanism.handle(ended(time_s, lease, 0.0, failed=True))
        for again in launched(settle(mechanism, Wake(time_s), [1.0])):
            lease = again
    assert GiveUp(0) in outcome


def test_a_report_of_a_new_checkpoint_forgives_the_failures_before_it() -> None:
    mechanism, lease = a_running_job(max_failures=2)
    for time_s in (10.0, 20.0, 30.0):
        mechanism.handle(progress(time_s - 1.0, lease, 10.0 * time_s, saved=time_s))
        mechanism.handle(ended(time_s, lease, time_s, failed=True))
        (lease,) = launched(settle(mechanism, Wake(time_s), [1.0]))
    assert mechanism.given_up == []


def test_the_last_word_on_a_drained_lease_is_charged_once_however_often_it_comes() -> None:
    mechanism, lease = a_running_job()
    mechanism.handle(WorkerDrained(100.0, 0))
    for _ in range(2):
        mechanism.handle(ended(150.0, lease, 1500.0))
    assert mechanism.live.spent_usd.tolist() == pytest.approx([150.0])
    assert mechanism.service().received_s_J.tolist() == pytest.approx([150.0])


def test_a_report_that_comes_after_its_server_was_lost_brings_no_lost_step_back() -> None:
    mechanism, lease = a_running_job()
    mechanism.handle(WorkerLost(100.0, 0))
    mechanism.handle(progress(110.0, lease, 900.0, saved=0.0))
    assert mechanism.live.steps_done.tolist() == [0.0]


def test_a_checkpoint_is_not_unwritten_by_an_older_report() -> None:
    mechanism, lease = a_running_job()
    mechanism.handle(progress(70.0, lease, 700.0, saved=600.0))
    mechanism.handle(progress(71.0, lease, 400.0, saved=300.0))  # overtaken on its way
    mechanism.handle(WorkerLost(100.0, 0))
    assert mechanism.live.steps_done.tolist() == [600.0]


def test_a_server_whose_end_is_heard_of_before_its_beginning_never_joins() -> None:
    mechanism, lease = a_running_job()
    assert stopped(mechanism.handle(WorkerLost(50.0, 0, epoch=1))) == [lease.id]
    assert mechanism.handle(WorkerJoined(51.0, Server(0, "fast", 1), epoch=1)) == []
    assert not mechanism.hardware.servers
    assert launched(settle(mechanism, Wake(51.0), [1.0])) == []


@pytest.mark.parametrize("settled_s", [None, 40.0, 80.0])
@pytest.mark.parametrize("taken_back", [False, True])
def test_a_lost_server_is_paid_for_until_its_leases_ended(settled_s: float | None, *, taken_back: bool) -> None:
    """However late that is noticed, and whether or not the lease was taken back between."""
    mechanism, lease = a_running_job()
    if settled_s is not None:
        mechanism.handle(PriceChanged(settled_s, Prices({"fast": 3600.0})))
    if taken_back:
        mechanism.handle(WorkerDrained(90.0, 0))
    for _ in range(2):
        mechanism.handle(WorkerLost(100.0, 0, lapsed_s=60.0))
    assert mechanism.live.spent_usd.tolist() == pytest.approx([60.0])
    assert mechanism.service().received_s_J.tolist() == pytest.approx([60.0])
    mechanism.handle(LeaseEnded(150.0, lease.id, lease.job_id, 500.0, held_s=55.0))  # it comes back, and says so
    assert mechanism.live.spent_usd.tolist() == pytest.approx([55.0])


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 9.0)), max_size=4).map(sorted),
    st.floats(0.0, 100.0),
    st.sampled_from(["ends", "taken back", "lost", "lost and back"]),
)
def test_what_is_heard_late_costs_what_it_cost_then(
    changes: list[tuple[float, float]], held_s: float, how: str
) -> None:
    """However prices changed until it was heard of, and before it was taken back or the server was missed."""
    mechanism, lease = a_running_job()
    repriced = [(time_s, Prices({"fast": 3600.0 * usd})) for time_s, usd in changes]
    for time_s, prices in repriced:
        mechanism.handle(PriceChanged(time_s, prices))
    if how == "taken back":
        mechanism.handle(WorkerDrained(100.0, 0))
    if how.startswith("lost"):
        known_s = held_s if how == "lost" else 50.0
        mechanism.handle(WorkerLost(100.0, 0, lapsed_s=known_s))
    mechanism.handle(PriceChanged(110.0, Prices({"fast": 7.0})))
    if how != "lost":
        mechanism.handle(LeaseEnded(120.0, lease.id, lease.job_id, 500.0, held_s=held_s))
    usd = usd_between(Prices({"fast": 3600.0}), repriced)("fast", 0.0, held_s)
    assert mechanism.live.spent_usd.tolist() == pytest.approx([usd], abs=1e-9)


def test_a_lease_that_was_given_out_on_a_server_that_was_gone_costs_nothing() -> None:
    mechanism = with_servers(1, prices=Prices({"fast": 3600.0}))
    mechanism.handle(JobSubmitted(50.0, job(0)))
    assert launched(settle(mechanism, Wake(50.0), [1.0]))
    mechanism.handle(WorkerLost(100.0, 0, lapsed_s=30.0))
    assert mechanism.live.spent_usd.tolist() == [0.0]


@pytest.mark.parametrize("lapsed_s", [(60.0, 70.0), (70.0, 60.0)])
def test_a_gang_is_paid_for_until_it_had_ended_on_the_last_of_its_servers(lapsed_s: tuple[float, float]) -> None:
    mechanism = with_servers(1, 1, prices=Prices({"fast": 3600.0}))
    mechanism.handle(JobSubmitted(0.0, job(0, scale=2)))
    assert launched(settle(mechanism, Wake(0.0), [1.0]))
    mechanism.handle(WorkerLost(100.0, 0, lapsed_s=lapsed_s[0]))
    assert mechanism.live.spent_usd.tolist() == pytest.approx([200.0])  # the other half may have run till now
    mechanism.handle(WorkerLost(110.0, 1, lapsed_s=lapsed_s[1]))
    assert mechanism.live.spent_usd.tolist() == pytest.approx([140.0])


def test_a_server_that_came_back_is_not_paid_for_less_by_an_old_word() -> None:
    mechanism, _ = a_running_job()
    mechanism.handle(WorkerJoined(100.0, Server(0, "fast", 1), epoch=1))
    mechanism.handle(WorkerLost(120.0, 0, epoch=0, lapsed_s=60.0))
    assert mechanism.live.spent_usd.tolist() == pytest.approx([100.0])
