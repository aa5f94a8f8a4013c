"""The story of each job: every decision about it, in order, with its time and its reason.

Told like `history` from events and the commands that they brought, so a simulated run and a service tell the same
stories. `history` is about leases and complete; a story is for reading, and forgets its oldest middle.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gavelx.mechanism.commands import Command, GiveUp, Launch, Lease, Stop
from gavelx.mechanism.events import Event, JobCancelled, JobSubmitted, LeaseEnded, WorkerLost
from gavelx.mechanism.live import LiveJobs

KEPT = 200
"""Decisions about one job; of longer stories the first half and the last half are kept."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a job, or happened to it, and when (``time_s`` on the mechanism's clock)."""

    time_s: float
    what: str


class Stories:
    """Feed it each event with the commands that answer it: ``stories.of(job_id)`` tells the story of one job."""

    def __init__(self) -> None:
        self._told: dict[int, list[Decision]] = {}
        self._left_out: Counter[int] = Counter()
        self._leases: dict[int, Lease] = {}  # by lease id, those that have not ended

    def of(self, job_id: int) -> tuple[Decision, ...]:
        """All that is kept about one job, oldest first. A job that is unknown has no story."""
        told, left_out = self._told.get(job_id, []), self._left_out[job_id]
        if not left_out:
            return tuple(told)
        half = KEPT // 2
        gap = Decision(told[half].time_s, f"({left_out:,} decisions are left out here)")
        return (*told[:half], gap, *told[half:])

    def note(self, event: Event, commands: Iterable[Command], live: LiveJobs) -> None:
        """An event happened, and these commands are the answer to it; ``live`` as it is after both."""
        match event:
            case JobSubmitted():
                self._tell(event.job.id, event, "submitted")
            case LeaseEnded() if (lease := self._leases.pop(event.lease_id, None)) is not None:
                self._tell(event.job_id, event, f"lease {lease.id} ended: {_in_words(event)}")
            case WorkerLost():
                self._lost(event)
            case JobCancelled():
                self._tell(event.job_id, event, "cancelled")
        for command in commands:
            match command:
                case Launch():
                    self._leases[command.lease.id] = command.lease
                    self._tell(command.lease.job_id, event, _launched(command.lease, live, event.time_s))
                case Stop() if (lease := self._leases.get(command.lease_id)) is not None:
                    self._tell(lease.job_id, event, f"lease {lease.id} is taken back: {_why(lease, live)}")
                case GiveUp():
                    self._tell(command.job_id, event, "given up: it failed too often without a step forward")

    def _lost(self, event: WorkerLost) -> None:
        for lease in list(self._leases.values()):
            if any(device.server_id == event.server_id for device in lease.devices):
                self._tell(lease.job_id, event, f"lease {lease.id} lost server {event.server_id}")

    def _tell(self, job_id: int, event: Event, what: str) -> None:
        told = self._told.setdefault(job_id, [])
        told.append(Decision(event.time_s, what))
        if len(told) > KEPT:
            del told[KEPT // 2]
            self._left_out[job_id] += 1


def _launched(lease: Lease, live: LiveJobs, now_s: float) -> str:
    servers = Counter(device.server_id for device in lease.devices)
    where = ", ".join(f"{count} on server {server}" for server, count in servers.items())
    beside = "" if lease.shares_with is None else f", beside job {lease.shares_with}"
    j = live.index[lease.job_id]
    behind_s = float(live.promised_s[j] - live.held_s[j])
    owed = f"{abs(behind_s):,.0f} s {'behind' if behind_s >= 0 else 'ahead of'} its share of {live.share[j]:.0%}"
    filling = "" if live.share[j] > 0 else " (fills idle devices)"
    return f"lease {lease.id} on {len(lease.devices)} x {lease.accelerator} ({where}){beside}: {owed}{filling}"


def _why(lease: Lease, live: LiveJobs) -> str:
    j = live.index.get(lease.job_id)
    if j is None or live.done[j]:
        return "the job has ended"
    return f"others are further behind, with {live.held_s[j]:,.0f} s held of {live.promised_s[j]:,.0f} s promised"


def _in_words(event: LeaseEnded) -> str:
    how = f"after {event.held_s:,.0f} s, {event.steps_done:g} steps are safe"
    failed = "it failed " if event.failed else ""
    return f"{failed}{how}{f', {event.lost_s:,.0f} s of work lost' if event.lost_s > 0 else ''}"
