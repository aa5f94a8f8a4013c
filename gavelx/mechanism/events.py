"""What can happen. Every event carries the time at which the mechanism hears of it, and times never go backwards.

Reports count in totals of a lease (steps since the job began, seconds since the lease did), so a doubled or late
one does no harm. Workers repeat what was lost: what they hold is in every `Progress`.

Legend: L leases.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.prices import Prices
from gavelx.snapshot import Kind
from gavelx.throughputs import Throughputs
from gavelx.training_report import TrainingReport


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
    """A server offers its devices; ``epoch`` rises each time that it comes back."""

    server: Server
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """A server is gone, and what ran on it, as of this epoch.

    ``lapsed_s``: by when its leases had ended by themselves, if that is known and was before it was noticed.
    """

    server_id: int
    epoch: int = 0
    lapsed_s: float | None = None

    @property
    def over_s(self) -> float:
        """Until then what ran there may have held its devices."""
        return self.time_s if self.lapsed_s is None else min(self.time_s, self.lapsed_s)


@dataclass(frozen=True, slots=True)
class WorkerDrained(Event):
    """A server takes no more leases, as of this epoch; what runs there is stopped, with a checkpoint."""

    server_id: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ServerOffers(Event):
    """A server, as of this epoch, lends its first ``devices`` devices to jobs from now on; others use the rest.

    ``number`` rises with each offer; a server that has just come lends all. ``notice_s``: the rest is taken after
    so many seconds, whatever runs there; jobs that can shrink in that time run on.
    """

    server_id: int
    devices: int
    epoch: int = 0
    number: int = 1
    notice_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobCancelled(Event):
    """A user does not want a job any more."""

    job_id: int


@dataclass(frozen=True, slots=True)
class PolicyChanged(Event):
    """Another policy decides from now on; it wants to be told of these kinds of configuration."""

    opens: frozenset[Kind]


@dataclass(frozen=True, slots=True, eq=False)
class Progress(Event):
    """How far the leases are: steps since the job began, and how many of them are in a checkpoint."""

    lease_L: NDArray[np.int64]
    job_id_L: NDArray[np.int64]
    steps_done_L: NDArray[np.float64]
    saved_steps_L: NDArray[np.float64]
    said_steps_L: NDArray[np.float64] | None = None  # the last step by the jobs' own word; 0 where they say none
    training_L: tuple[TrainingReport, ...] | None = None  # how their training goes, where any says so


@dataclass(frozen=True, slots=True)
class LeaseEnded(Event):
    """A job no longer holds its devices: it did the steps it was launched for, was stopped, or died (``failed``).

    ``steps_done`` are those that are safe: all of them, or after a failure those of the last checkpoint.
    ``held_s`` is for how long the devices were held; ``lost_s`` how much of that a preemption has lost: all of it
    where the job was stopped and has saved nothing since it was launched, else nothing. ``complete``: it says that
    it is done, at whatever step; without that, a job is done at its last step.
    """

    lease_id: int
    job_id: int
    steps_done: float
    held_s: float
    failed: bool = False
    lost_s: float = 0.0
    complete: bool = False
    exit_code: int = 0  # of a process of a failed job; 0 if it is not known
    too_small: Sequence[str] = ()  # accelerator types whose memory the job does not fit in


@dataclass(frozen=True, slots=True)
class Resized(Event):
    """A job has gone over from the lease ``before_id`` to the one that continues it: the last word on the old one.

    ``steps_done`` so far; ``held_s`` is for how long the old lease was held, and ``warm_s`` for how long those
    devices of the new one that the old one lacks were held before.
    """

    lease_id: int
    before_id: int
    job_id: int
    steps_done: float
    held_s: float
    warm_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Allocated(Event):
    """A policy answered a ``Solve``."""

    allocation: Allocation


@dataclass(frozen=True, slots=True)
class PriceChanged(Event):
    """Devices cost something else from now on."""

    prices: Prices


@dataclass(frozen=True, slots=True)
class ThroughputsChanged(Event):
    """Jobs are believed to run at other speeds from now on; what could run somewhere still can."""

    throughputs: Throughputs


@dataclass(frozen=True, slots=True)
class Wake(Event):
    """A time that the mechanism asked to be woken at has come."""
