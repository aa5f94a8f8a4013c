"""A server that takes some of its devices back, and lends them again: who shrinks, who stops, what is news."""

from dataclasses import replace

import pytest

from gavelx.cluster import Cluster, Server
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.commands import Command, Device, Launch, Resize, Solve, Stop, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    Event,
    JobSubmitted,
    LeaseEnded,
    Resized,
    ServerOffers,
    Wake,
    WorkerJoined,
    WorkerLost,
)
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("net", "fast", n): float(n) for n in range(1, 9)})
EIGHT = Server(0, "fast", 8)


class Driven:
    """A mechanism whose policy answers at once."""

    def __init__(self, policy: str = "elastic(easyscale)", resize_s: float | None = 1.0) -> None:
        self.policy = load_policy(policy)
        rules = replace(DEFAULT.with_round(60.0), overheads=Overheads(Overhead(resize_s=resize_s)))
        self.mechanism = Mechanism(SPEEDS, None, rules, self.policy.opens)

    def tell(self, *events: Event) -> list[Command]:
        """What follows from them, but for questions and times to wake."""
        said = list[Command]()
        for event in events:
            commands = [*self.mechanism.handle(event)]
            while commands:
                command = commands.pop(0)
                said.append(command)
                if isinstance(command, Solve):
                    answer = self.policy.allocate(command.snapshot)
                    commands += self.mechanism.handle(Allocated(event.time_s, answer))
                elif isinstance(command, WakeAt) and command.time_s <= event.time_s:
                    commands += self.mechanism.handle(Wake(event.time_s))
            self.mechanism.validate()
        return [command for command in said if isinstance(command, Launch | Resize | Stop)]


def submitted(
    job_id: int = 1, elasticity: str = "workers:1-8/8", scale: int = 8, time_s: float = 0.0
) -> JobSubmitted:
    elastic = Elastic.of(elasticity) if elasticity else None
    return JobSubmitted(time_s, Job(job_id, "net", 1e6, scale, elastic=elastic))


def slots(command: Command) -> list[int]:
    assert isinstance(command, Launch | Resize)
    return sorted(device.slot for device in command.lease.devices)


def test_a_job_shrinks_to_the_devices_that_are_left_and_grows_again() -> None:
    driven = Driven()
    (launch,) = driven.tell(WorkerJoined(0.0, EIGHT), submitted())
    assert slots(launch) == list(range(8))
    (shrinks,) = driven.tell(ServerOffers(10.0, 0, 5, number=1, notice_s=30.0))
    assert isinstance(shrinks, Resize)
    assert slots(shrinks) == [0, 1, 2, 3]  # 8 parts on 5 devices are no faster than on 4
    assert driven.mechanism.devices() == {"fast": 5}
    assert driven.tell(Resized(11.0, shrinks.lease.id, 1, 1, 50.0, 11.0), Wake(60.0)) == []
    (grows,) = driven.tell(ServerOffers(70.0, 0, 8, number=2), Wake(120.0))
    assert isinstance(grows, Resize)
    assert slots(grows) == list(range(8))
    assert grows.lease.continues == shrinks.lease.id


@pytest.mark.parametrize(
    ("policy", "elasticity", "resize_s"),
    [
        ("elastic(easyscale)", "workers:1-8/8", None),  # nothing can go over while it runs
        ("easyscale", "workers:1-8/8", 1.0),  # the policy knows no sizes
        ("elastic(easyscale)", "workers:6-8", 1.0),  # too few are left
        ("elastic(easyscale)", "", 1.0),
    ],
)
def test_who_cannot_shrink_is_stopped(policy: str, elasticity: str, resize_s: float | None) -> None:
    driven = Driven(policy, resize_s)
    (launch,) = driven.tell(WorkerJoined(0.0, EIGHT), submitted(elasticity=elasticity))
    stop, *later = driven.tell(ServerOffers(10.0, 0, 4))
    assert stop == Stop(launch.lease.id)  # type: ignore[union-attr]
    for command in later:  # a restart in another size, on what is left
        assert max(slots(command)) < 4


def test_who_holds_none_of_what_is_taken_is_left_alone() -> None:
    driven = Driven("fifo")
    one, two = driven.tell(WorkerJoined(0.0, EIGHT), submitted(1, "", 2), submitted(2, "", 2))
    assert slots(one) + slots(two) == [0, 1, 2, 3]
    assert driven.tell(ServerOffers(10.0, 0, 4)) == []
    assert driven.tell(ServerOffers(20.0, 0, 3, number=2)) == [Stop(two.lease.id)]  # type: ignore[union-attr]
    assert driven.mechanism.free() == {"fast": 1}


def test_a_job_that_is_just_resized_is_stopped() -> None:
    driven = Driven()
    driven.tell(WorkerJoined(0.0, EIGHT), submitted())
    (shrinks,) = driven.tell(ServerOffers(10.0, 0, 4))
    assert driven.tell(ServerOffers(11.0, 0, 2, number=2))[0] == Stop(shrinks.lease.id)  # type: ignore[union-attr]


def test_none_at_all_is_not_a_server_that_is_gone() -> None:
    driven = Driven()
    (launch,) = driven.tell(WorkerJoined(0.0, EIGHT), submitted())
    assert driven.tell(ServerOffers(10.0, 0, 0)) == [Stop(launch.lease.id)]  # type: ignore[union-attr]
    assert driven.mechanism.devices() == {"fast": 0}
    assert driven.mechanism.hardware.cluster == Cluster((), ("fast",))
    driven.tell(LeaseEnded(12.0, 1, 1, 5.0, 12.0))
    (again,) = driven.tell(ServerOffers(20.0, 0, 8, number=2))
    assert isinstance(again, Launch)


def test_old_and_doubled_offers_are_no_news() -> None:
    driven = Driven("fifo")
    driven.tell(WorkerJoined(0.0, EIGHT), ServerOffers(1.0, 0, 2, number=2))
    driven.tell(ServerOffers(2.0, 0, 6, number=1), ServerOffers(3.0, 0, 2, number=2))
    assert driven.mechanism.devices() == {"fast": 2}
    driven.tell(WorkerJoined(4.0, EIGHT, epoch=1), ServerOffers(5.0, 0, 3, number=9))
    assert driven.mechanism.devices() == {"fast": 8}  # that was said before it came back


def test_an_offer_may_be_heard_before_its_server() -> None:
    """And before the server is heard to have come back, without those who ran there."""
    driven = Driven("fifo")
    driven.tell(ServerOffers(0.0, 0, 2), WorkerJoined(1.0, EIGHT))
    assert driven.mechanism.devices() == {"fast": 2}
    (launch,) = driven.tell(submitted(1, "", 2, 1.0))
    assert driven.tell(ServerOffers(5.0, 0, 1, epoch=1, number=2)) == []
    assert driven.tell(WorkerLost(6.0, 0, epoch=0)) == [Stop(launch.lease.id)]  # type: ignore[union-attr]
    driven.tell(WorkerJoined(7.0, EIGHT, epoch=1))
    assert driven.mechanism.devices() == {"fast": 1}


def test_devices_that_are_not_lent_do_not_come_back_with_a_lease_that_ends() -> None:
    driven = Driven("fifo")
    driven.tell(WorkerJoined(0.0, EIGHT), submitted(1, "", 8))
    driven.tell(ServerOffers(10.0, 0, 3), LeaseEnded(11.0, 1, 1, 5.0, 11.0))
    assert driven.mechanism.free() == driven.mechanism.devices() == {"fast": 3}
    assert driven.mechanism.hardware.free[0].take(3) == tuple(Device(0, slot) for slot in range(3))
