"""The story of a job: what was decided about it, in order."""

import pytest

from gavelx.cluster import Server
from gavelx.mechanism import Mechanism, story
from gavelx.mechanism.commands import Command, Launch, Solve
from gavelx.mechanism.events import (
    Allocated,
    Event,
    JobCancelled,
    JobSubmitted,
    ServerOffers,
    Wake,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.mechanism.story import Stories
from tests.mechanism.test_mechanism import ended, job, launched, shares, with_servers


class Told:
    """A mechanism and the stories that it tells; every question is answered with these shares at once."""

    def __init__(self, mechanism: Mechanism, *share_J: float) -> None:
        self.mechanism, self.share_J, self.stories = mechanism, list(share_J), Stories()

    def handle(self, event: Event) -> list[Command]:
        commands = self.mechanism.handle(event)
        self.stories.note(event, commands, self.mechanism.live)
        for command in commands:
            if isinstance(command, Solve):
                snapshot = command.snapshot
                share_J = self.share_J[: len(snapshot.jobs)]
                commands = [*commands, *self.handle(Allocated(event.time_s, shares(snapshot, share_J)))]
        return commands

    def what(self, job_id: int) -> list[str]:
        return [f"{decision.time_s:g}: {decision.what}" for decision in self.stories.of(job_id)]


def test_a_job_is_launched_preempted_launched_again_and_fails() -> None:
    told = Told(with_servers(1), 0.5, 0.5)
    told.handle(JobSubmitted(0.0, job(0)))
    (lease,) = launched(told.handle(Wake(0.0)))
    told.handle(JobSubmitted(10.0, job(1)))
    told.handle(Wake(10.0))
    told.handle(Wake(360.0))
    told.handle(Wake(720.0))
    told.handle(ended(725.0, lease, 500.0))
    first, second = told.what(0), told.what(1)
    assert first[:2] == [
        "0: submitted",
        "0: lease 1 on 1 x fast (1 on server 0): 0 s behind its share of 50%",
    ]
    assert "is taken back: its devices go to job 1, with" in first[2]
    assert first[3] == "725: lease 1 ended: after 725 s, 500 steps are safe"
    assert second[0] == "10: submitted"
    assert any(": lease 2 on 1 x fast" in line for line in second)
    times = [decision.time_s for decision in told.stories.of(0)]
    assert times == sorted(times)


def test_failures_lost_servers_and_cancelling_are_told() -> None:
    told = Told(with_servers(1, 1), 1.0, 1.0)
    for job_id in (0, 1):
        told.handle(JobSubmitted(0.0, job(job_id)))
    leases = {lease.job_id: lease for lease in launched(told.handle(Wake(0.0)))}
    told.handle(ended(50.0, leases[0], 100.0, failed=True))
    told.handle(WorkerLost(60.0, leases[1].devices[0].server_id))
    told.handle(JobCancelled(70.0, 1))
    assert "50: lease 1 ended: it failed after 50 s, 100 steps are safe" in told.what(0)
    assert f"60: lease 2 lost server {leases[1].devices[0].server_id}" in told.what(1)
    assert told.what(1)[-1] == "70: cancelled"
    assert told.what(9) == []


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (WorkerLost(60.0, 0), "a server of it is lost"),
        (WorkerDrained(60.0, 0), "a server of it is drained"),
        (ServerOffers(60.0, 0, 0, number=1), "a server of it lends fewer devices"),
        (WorkerJoined(60.0, Server(0, "fast", 1), epoch=1), "a server of it came back without it"),
    ],
)
def test_a_lease_that_a_server_takes_with_it_is_not_taken_back_for_others(event: Event, why: str) -> None:
    told = Told(with_servers(1), 1.0)
    told.handle(JobSubmitted(0.0, job(0)))
    told.handle(Wake(0.0))
    told.handle(event)
    assert f"60: lease 1 is taken back: {why}" in told.what(0)


def test_of_a_long_story_beginning_and_end_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "KEPT", 6)
    mechanism = with_servers(1)
    told = Told(mechanism, 1.0)
    told.handle(JobSubmitted(0.0, job(0)))
    for n in range(20):
        (lease,) = [c.lease for c in told.handle(Wake(10.0 * n)) if isinstance(c, Launch)]
        told.handle(ended(10.0 * n + 5.0, lease, n + 1.0))
    lines = told.what(0)
    assert len(lines) == 7
    assert lines[0] == "0: submitted"
    assert "decisions are left out here" in lines[3]
    assert lines[-1] == "195: lease 20 ended: after 195 s, 20 steps are safe"
