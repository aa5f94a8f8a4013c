"""A change of size that is carried out by a restart: what the mechanism makes of it."""

from dataclasses import replace

import pytest

from gavelx.cluster import Server
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.commands import Command, Lease, Resize, Solve, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    Event,
    JobCancelled,
    JobSubmitted,
    LeaseEnded,
    PriceChanged,
    Resized,
    Wake,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.throughputs import Setting, Throughputs

POLICY = load_policy("elastic(max_min_fairness)")
SPEEDS = Throughputs({Setting("net", "fast", 1): 10.0, Setting("net", "fast", 2): 15.0})
"""Two jobs do most on a device each."""


class Driven:
    """A mechanism whose policy answers at once."""

    def __init__(self, resize_s: float = 0.0) -> None:
        rules = replace(DEFAULT.with_round(10.0), overheads=Overheads(Overhead(resize_s=resize_s)))
        self.mechanism = Mechanism(SPEEDS, Prices({"fast": 3600.0}), rules, POLICY.opens)
        self.said: list[Command] = []
        self.tell(WorkerJoined(0.0, Server(0, "fast", 2)))

    def tell(self, event: Event) -> list[Command]:
        """What follows from it, the next round and answers included."""
        commands, begun = [*self.mechanism.handle(event)], len(self.said)
        while commands:
            command = commands.pop(0)
            self.said.append(command)
            if isinstance(command, Solve):
                answer = POLICY.allocate(command.snapshot)
                commands += self.mechanism.handle(Allocated(event.time_s, answer))
            elif isinstance(command, WakeAt) and command.time_s <= event.time_s:
                commands += self.mechanism.handle(Wake(event.time_s))
        return self.said[begun:]

    def wakes(self, time_s: float) -> list[Command]:
        """Three rounds."""
        return [command for n in range(3) for command in self.tell(Wake(time_s + 10.0 * n))]


def elastic(job_id: int, arrival_s: float) -> JobSubmitted:
    return JobSubmitted(arrival_s, Job(job_id, "net", 1e6, arrival_s=arrival_s, elastic=Elastic.of("workers:1-2")))


def resized(commands: list[Command]) -> list[int]:
    """The jobs that are asked to go over."""
    return [command.lease.job_id for command in commands if isinstance(command, Resize)]


@pytest.mark.parametrize("lost_s", [0.0, 20.0])
def test_a_job_that_lost_its_work_by_a_change_of_size_is_protected_as_after_a_preemption(lost_s: float) -> None:
    driven = Driven()
    driven.tell(elastic(0, 0.0))
    driven.wakes(0.0)
    assert driven.mechanism.leasing.leases[0].configuration.devices == 2
    driven.tell(elastic(1, 20.0))
    assert resized(driven.wakes(20.0)) == [0]
    before = driven.mechanism.leasing.leases[0].continues
    assert before is not None
    driven.tell(LeaseEnded(50.0, before, 0, 0.0, 50.0, lost_s=lost_s))
    assert driven.mechanism.live.protected[0] == (lost_s > 0.0)
    later = [*driven.tell(JobCancelled(60.0, 1)), *driven.wakes(60.0)]
    assert resized(later) == ([] if lost_s else [0])


@pytest.mark.parametrize("resize_s", [0.0, 2.0, 20.0, 50.0])
def test_a_job_grows_when_that_pays_within_as_long_as_it_has_its_size(resize_s: float) -> None:
    """On one device of two it misses a third, so three times as long as a resize takes is enough; a round is, too.

    Else idle devices would never be used where a resize takes longer than a round.
    """
    driven = Driven(resize_s)
    driven.tell(elastic(0, 0.0))
    driven.wakes(0.0)
    driven.tell(elastic(1, 20.0))
    (shrunk,) = [command.lease for command in driven.wakes(20.0) if isinstance(command, Resize)]
    driven.tell(Resized(40.0, shrunk.id, shrunk.continues or 0, 0, 400.0, 40.0))
    driven.tell(JobCancelled(45.0, 1))
    driven.tell(LeaseEnded(45.0, 3, 1, 0.0, 5.0))
    at_s = next(t for t in range(50, 400, 10) if resized(driven.tell(Wake(float(t)))))
    grows_s = 3.0 * resize_s if 3.0 * resize_s > 10.0 else 0.0
    assert 40.0 + grows_s <= at_s <= 50.0 + grows_s


@pytest.mark.parametrize("taken_back", [False, True])
def test_devices_that_got_ready_are_paid_for_even_if_the_lease_was_taken_back_meanwhile(taken_back: bool) -> None:
    """A dollar a second: 20 s on both devices, 15 s on one, and then 5 s in which the other got ready again."""
    driven = Driven()
    driven.tell(elastic(0, 0.0))
    driven.wakes(0.0)
    driven.tell(elastic(1, 20.0))
    (shrunk,) = [command.lease for command in driven.wakes(20.0) if isinstance(command, Resize)]
    driven.tell(Resized(41.0, shrunk.id, 1, 0, 200.0, 20.0))
    driven.tell(JobCancelled(45.0, 1))
    driven.tell(LeaseEnded(45.0, 3, 1, 0.0, 5.0))
    (grown,) = [command.lease for command in driven.wakes(50.0) if isinstance(command, Resize)]
    if taken_back:
        driven.tell(WorkerDrained(75.0, 0, 0))
    driven.tell(Resized(76.0, grown.id, shrunk.id, 0, 300.0, 15.0, warm_s=5.0))
    driven.tell(LeaseEnded(80.0, grown.id, 0, 400.0, 4.0))
    live = driven.mechanism.live
    assert live.spent_usd[live.index[0]] == pytest.approx(2 * 20.0 + 15.0 + 5.0 + 2 * 4.0)


def going_over(*, grows: bool) -> tuple[Driven, Lease]:
    """A job is to go over from two devices to one, from 30 s on; or, after that, from 40 s on from one to two."""
    driven = Driven()
    driven.tell(elastic(0, 0.0))
    driven.wakes(0.0)
    driven.tell(elastic(1, 20.0))
    commands = [*driven.tell(Wake(20.0)), *driven.tell(Wake(30.0))]
    (lease,) = [command.lease for command in commands if isinstance(command, Resize)]
    if grows:
        driven.tell(Resized(35.0, lease.id, lease.continues or 0, 0, 350.0, 35.0))
        driven.tell(JobCancelled(37.0, 1))
        driven.tell(LeaseEnded(38.0, 3, 1, 0.0, 7.0))
        commands = driven.tell(Wake(40.0))
        (lease,) = [command.lease for command in commands if isinstance(command, Resize)]
    return driven, lease


@pytest.mark.parametrize("stop", [WorkerLost, WorkerDrained, JobCancelled])
@pytest.mark.parametrize(("grows", "paid_usd"), [(False, 2 * 34.0), (True, 2 * 35.0 + 9.0)])
def test_until_it_has_gone_over_a_job_pays_for_the_devices_that_it_has(
    stop: type[WorkerLost | WorkerDrained | JobCancelled], grows: bool, paid_usd: float
) -> None:
    """A dollar a second. Four seconds after the command its server is lost, say: nothing more is heard of it."""
    driven, _ = going_over(grows=grows)
    live, time_s = driven.mechanism.live, 44.0 if grows else 34.0
    driven.mechanism.handle(stop(time_s, 0) if stop is JobCancelled else stop(time_s, 0, 0))  # type: ignore[arg-type]
    assert live.spent_usd[live.index[0]] == pytest.approx(paid_usd)
    assert live.held_s[live.index[0]] == pytest.approx(time_s)


@pytest.mark.parametrize("late_s", [-1.0, 0.0, 3.0])
@pytest.mark.parametrize(("grows", "paid_usd"), [(False, 2 * 34.0), (True, 2 * 35.0 + 9.0)])
def test_a_late_word_on_a_resize_that_was_cut_short_counts_the_time_that_was_paid_for(
    grows: bool, paid_usd: float, late_s: float
) -> None:
    """The agent was only silent: the job held its old devices for that much longer, and no new ones."""
    driven, lease = going_over(grows=grows)
    live, time_s, begun_s = driven.mechanism.live, 44.0 if grows else 34.0, 35.0 if grows else 0.0
    before = lease.continues
    assert before is not None
    driven.tell(WorkerLost(time_s, 0, 0))
    driven.tell(LeaseEnded(70.0, before, 0, 0.0, time_s - begun_s + late_s))
    driven.tell(LeaseEnded(70.0, lease.id, 0, 0.0, 0.0))
    assert live.spent_usd[live.index[0]] == pytest.approx(paid_usd + late_s * (1 if grows else 2))
    assert live.held_s[live.index[0]] == pytest.approx(time_s + late_s)


@pytest.mark.parametrize(("grows", "paid_usd"), [(False, 2 * 34.0 + 6.0), (True, 2 * 35.0 + 9.0 + 2 * 6.0)])
def test_a_job_that_is_launched_instead_of_resized_pays_for_its_new_size_from_then_on(
    grows: bool, paid_usd: float
) -> None:
    driven, lease = going_over(grows=grows)
    live, time_s, begun_s = driven.mechanism.live, 44.0 if grows else 34.0, 35.0 if grows else 0.0
    driven.tell(LeaseEnded(time_s, lease.continues or 0, 0, 100.0, time_s - begun_s))
    assert not live.resizing[0]
    driven.mechanism.handle(WorkerLost(time_s + 6.0, 0, 0))
    assert live.spent_usd[live.index[0]] == pytest.approx(paid_usd)


def test_the_price_of_a_resize_is_that_of_its_time() -> None:
    """A dollar a second until 34 s, then two: for two devices, until the job went over at 37 s."""
    driven, lease = going_over(grows=False)
    driven.tell(PriceChanged(34.0, Prices({"fast": 7200.0})))
    driven.tell(Resized(37.0, lease.id, lease.continues or 0, 0, 370.0, 37.0))
    assert driven.mechanism.live.spent_usd[0] == pytest.approx(2 * 34.0 + 2 * 2.0 * 3.0)
