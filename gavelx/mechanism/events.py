"""What can happen. Every event carries its time on the backend's clock, and times never go backwards.

Reports count in totals (steps done since the job began, not since the last report), so a doubled or late one does
no harm.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.jobs import Job


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``time_s``."""

    time_s: float


@dataclass(frozen=True, slots=True)
class JobSubmitted(Event):
    """A user submitted a job."""

    job: Job


@dataclass(frozen=True, slots=True)
class ArrivalsEnded(Event):
    """No job will be submitted any more: the trace is at its end."""


@dataclass(frozen=True, slots=True)
class WorkerJoined(Event):
    """A server offers its devices."""

    server: Server


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """A server is gone, and what ran on it."""

    server_id: int


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """Steps that running jobs have done since they began, by job id."""

    steps_done: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class LeaseEnded(Event):
    """A job no longer holds its devices: it did the steps it was launched for, was stopped, or died."""

    lease_id: int
    job_id: int
    steps_done: float


@dataclass(frozen=True, slots=True)
class Allocated(Event):
    """A policy answered a ``Solve``."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Wake(Event):
    """A time that the mechanism asked to be woken at has come."""
