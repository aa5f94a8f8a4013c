"""The story of each job: every decision about it, in order, with its time and its reason.

Told like `history` from events and the commands that they brought, so a simulated run and a service tell the same
stories. `history` is about leases and complete; a story is for reading, and a long one loses its middle.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gavelx.mechanism.commands import Command, GiveUp, Launch, Lease, Resize, Stop, by_server
from gavelx.mechanism.events import (
    Event,
    JobCancelled,
    JobSubmitted,
    LeaseEnded,
    Resized,
    ServerOffers,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.mechanism.live import LiveJobs

TAKEN_BACK: dict[type[Event], str] = {
    WorkerLost: "a server of it is lost",
    WorkerJoined: "a server of it came back without it",
    WorkerDrained: "a server of it is drained",
    ServerOffers: "a server of it lends fewer devices",
}
"""Why a lease ends at an event that is not about the turns of jobs."""
KEPT, KEPT_ENDED = 200, 20
"""Decisions about one job, and about one that has ended; of longer stories the beginning and the end are kept."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a job, or happened to it, and when (``time_s`` on the mechanism's clock)."""

    time_s: float
    what: str


class Stories:
    """Feed it each event with the commands that answer it: ``stories.of(job_id)`` tells the story of one job.

    ``name_of`` says what a server is called, by its id.
    """

    def __init__(self, name_of: Callable[[int], str] = "server {}".format) -> None:
        self._name_of = name_of
        self._told: dict[int, list[Decision]] = {}
        self._left_out: Counter[int] = Counter()
        self._leases: dict[int, Lease] = {}  # by lease id, those that have not ended

    def of(self, job_id: int) -> tuple[Decision, ...]:
        """All that is kept about one job, oldest first. A job that is unknown has no story."""
        told, left_out = self._told.get(job_id, []), self._left_out[job_id]
        if not left_out:
            return tuple(told)
        half = len(told) // 2
        gap = Decision(told[half].time_s, f"({left_out:,} decisions are left out here)")
        return (*told[:half], gap, *told[half:])

    def note(self, event: Event, commands: Iterable[Command], live: LiveJobs) -> None:
        """An event happened, and these commands are the answer to it; ``live`` as it is after both."""
        match event:
            case JobSubmitted():
                self._tell(event.job.id, event, "submitted")
            case LeaseEnded() if (lease := self._leases.pop(event.lease_id, None)) is not None:
                self._tell(event.job_id, event, f"lease {lease.id} ended: {_in_words(event)}")
            case Resized() if self._leases.pop(event.before_id, None) is not None:
                so_far = f"after {event.held_s:,.0f} s, {event.steps_done:g} steps are done"
                self._tell(event.job_id, event, f"gone over to lease {event.lease_id} {so_far}")
            case WorkerLost():
                self._lost(event)
            case JobCancelled():
                self._tell(event.job_id, event, "cancelled")
        commands = list(commands)
        begins = [command.lease for command in commands if isinstance(command, Launch | Resize)]
        for command in commands:
            match command:
                case Launch():
                    self._leases[command.lease.id] = command.lease
                    self._tell(command.lease.job_id, event, self._launched(command.lease, live))
                case Resize():
                    self._leases[command.lease.id] = command.lease
                    before = f"lease {command.lease.continues} is to be continued by "
                    self._tell(command.lease.job_id, event, before + self._launched(command.lease, live))
                case Stop() if (lease := self._leases.get(command.lease_id)) is not None:
                    self._tell(
                        lease.job_id, event, f"lease {lease.id} is taken back: {_why(event, lease, live, begins)}"
                    )
                case GiveUp():
                    self._tell(command.job_id, event, "given up: it failed too often without a step forward")

    def ended(self, job_id: int) -> None:
        """The job is over: of a long story less is kept."""
        self._shorten(job_id, KEPT_ENDED)

    def _shorten(self, job_id: int, kept: int) -> None:
        told = self._told.get(job_id, [])
        while len(told) > kept:
            del told[len(told) // 2]
            self._left_out[job_id] += 1

    def _lost(self, event: WorkerLost) -> None:
        for lease in list(self._leases.values()):
            if any(device.server_id == event.server_id for device in lease.devices):
                self._tell(lease.job_id, event, f"lease {lease.id} lost {self._name_of(event.server_id)}")

    def _tell(self, job_id: int, event: Event, what: str) -> None:
        told = self._told.setdefault(job_id, [])
        told.append(Decision(event.time_s, what))
        if len(told) > KEPT:
            self._shorten(job_id, KEPT)

    def _launched(self, lease: Lease, live: LiveJobs) -> str:
        servers = by_server(lease.devices)
        where = ", ".join(f"{count} on {self._name_of(server_id)}" for server_id, count in servers.items())
        partner = lease.shares_with
        beside = "" if partner is None else f", beside job {partner}"
        devices = " and ".join(f"{count} x {name}" for name, count in lease.configuration.uses) + f" ({where})"
        return f"lease {lease.id} on {devices}{beside}: {_owed(lease, live)}"


def _owed(lease: Lease, live: LiveJobs) -> str:
    j = live.index[lease.job_id]
    if not (share := float(live.share[j])):
        return "it fills idle devices, and was promised nothing"
    behind_s = float(live.promised_s[j] - live.held_s[j])
    return f"{abs(behind_s):,.0f} s {'behind' if behind_s >= 0 else 'ahead of'} its share of {share:.0%}"


def _why(event: Event, lease: Lease, live: LiveJobs, begins: Iterable[Lease]) -> str:
    """Why a lease is taken back, with the leases ``begins`` that begin at the same time."""
    j = live.index.get(lease.job_id)
    if j is None or live.done[j]:
        return "the job has ended"
    if (server := TAKEN_BACK.get(type(event))) is not None:
        return server
    held_s, promised_s = float(live.held_s[j]), float(live.promised_s[j])
    devices = set(lease.devices)
    jobs = sorted({one.job_id for one in begins if not devices.isdisjoint(one.devices)} - {lease.job_id})
    moves = any(one.job_id == lease.job_id for one in begins)
    for_whom = f"its devices go to job{'s' if len(jobs) > 1 else ''} {', '.join(map(str, jobs))}" if jobs else ""
    words = " and ".join(filter(None, (for_whom, "it moves to other devices" if moves else "")))
    return f"{words or 'its turn is over'}, with {held_s:,.0f} s held of {promised_s:,.0f} s promised"


def _in_words(event: LeaseEnded) -> str:
    how = f"after {event.held_s:,.0f} s, {event.steps_done:g} steps are safe"
    failed = "it failed " if event.failed else ""
    return f"{failed}{how}{f', {event.lost_s:,.0f} s of work lost' if event.lost_s > 0 else ''}"
