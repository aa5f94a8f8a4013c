"""What the log is made of: events, each with a note of what the mechanism does not know, as versioned JSON.

The notes hold what a job runs (command, environment, owner), what a server is called, which policy decides. Tokens
are never written. A record of an older version is brought up to date when it is read; one of a newer version is
refused, for its meaning is unknown.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gavelx.cluster import Server
from gavelx.elastic import Elastic
from gavelx.errors import InputFileError
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.mechanism.events import (
    Event,
    JobCancelled,
    JobSubmitted,
    LeaseEnded,
    PolicyChanged,
    PriceChanged,
    Progress,
    Resized,
    ServerOffers,
    Wake,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.prices import Prices
from gavelx.service.store.allocation_record import AllocationRecord, as_of_version_3
from gavelx.throughputs import Pairing, Setting
from gavelx.training_report import NOTHING_SAID, TrainingReport

VERSION = 6
"""Since 2 each carries a checksum, jobs may refuse to be preempted, and leases say what was lost with them; since
3 an answer names the devices of each configuration, and says in positive words how it is carried out; since 4 a
job may be of unknown length, and say itself how long it is, or be elastic, and leases be resized; since 5 a server
may lend some of its devices only; since 6 a lost server says by when its leases had ended, and a service that it
is alive."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The service began to serve; ``monotonic_s`` on the clock of this boot is ``time_s`` of the log.

    ``valid_for_s``: each heartbeat renews leases for so long, until another service begins.
    """

    boot_id: str
    monotonic_s: float
    valid_for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Alive(Event):
    """The service is there, and renews leases: written where nothing else was for half of their validity.

    Where no lease stands, after an hour: servers were there and idle.
    """


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """The solver answered; with the snapshot that it was asked about this is an ``Allocated``."""

    answer: AllocationRecord


@dataclass(frozen=True, slots=True)
class Measured(Event):
    """A lease has run for long enough that its speed is known."""

    measurement: Measurement


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, and what only the service knows of it."""

    event: Event
    note: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """An entry as it lies on disk; ``sequence`` counts from 1."""

    sequence: int
    time_s: float
    kind: str
    body: str
    version: int = VERSION


def record_of(sequence: int, entry: Entry) -> Record:
    """An entry, ready to be written."""
    kind = type(entry.event).__name__
    body = _WRITE.get(kind, _plain)(entry.event)
    if entry.note:
        body["note"] = entry.note
    text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return Record(sequence, entry.event.time_s, kind, text)


def entry_of(record: Record) -> Entry:
    """The entry that was written. Raises :class:`InputFileError` for what this version cannot read."""
    where = f"record {record.sequence} of the log"
    if record.version > VERSION:
        problem = f"it was written by a newer gavelx (format {record.version})"
        raise InputFileError(problem, where=where, expected=f"format {VERSION} or older", hint="upgrade gavelx")
    try:
        body = json.loads(record.body)
        note = body.pop("note", {})
        if record.version < 3 and record.kind == "Answered" and "flags" in body:
            body = as_of_version_3(body)
        if record.version < 3 and record.kind == "LeaseEnded" and "complete" in note:
            body["complete"] = bool(note.pop("complete"))
        return Entry(_READ[record.kind](record.time_s, body), note)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        problem = f"a {record.kind} that cannot be read ({type(error).__name__}: {error})"
        raise InputFileError(
            problem, where=where, expected="what gavelx wrote", hint="restore a backup"
        ) from error


def _plain(event: Event) -> Json:
    """The fields of a flat event."""
    return {each.name: getattr(event, each.name) for each in fields(event) if each.name != "time_s"}


def _flat(kind: type[Event]) -> Callable[[float, Json], Event]:
    return lambda time_s, body: kind(time_s, **body)


def fields_of(thing: Any) -> Json:
    """The fields of a job or a server, but for those that have their default."""
    return {
        each.name: getattr(thing, each.name) for each in fields(thing) if getattr(thing, each.name) != each.default
    }


def _job(job: Job) -> Json:
    return fields_of(job) | ({} if job.elastic is None else {"elastic": str(job.elastic)})


def _read_job(body: Json) -> Job:
    elastic = {"elastic": Elastic.of(body["elastic"])} if "elastic" in body else {}
    return Job(**body | elastic)


def _progress(event: Progress) -> Json:
    return {
        "lease": event.lease_L.tolist(),
        "job_id": event.job_id_L.tolist(),
        "steps_done": event.steps_done_L.tolist(),
        "saved_steps": event.saved_steps_L.tolist(),
        **({} if event.said_steps_L is None else {"said_steps": event.said_steps_L.tolist()}),
        **({} if event.training_L is None else {"training": [_numbers(one) for one in event.training_L]}),
    }


def _read_progress(time_s: float, body: Json) -> Event:
    lease_L, job_id_L = (np.array(body[name], dtype=np.int64) for name in ("lease", "job_id"))
    steps_L, saved_L = (np.array(body[name], dtype=float) for name in ("steps_done", "saved_steps"))
    said_L = np.array(body["said_steps"], dtype=float) if "said_steps" in body else None
    training_L = tuple(_training_report(row) for row in body["training"]) if "training" in body else None
    return Progress(time_s, lease_L, job_id_L, steps_L, saved_L, said_L, training_L)


def _numbers(report: TrainingReport) -> list[float | None]:
    """JSON has no NaN; of a job that says nothing there is an empty list."""
    return [] if not report.says else [None if math.isnan(value) else value for value in report]


def _training_report(row: list[float | None]) -> TrainingReport:
    return TrainingReport(*(math.nan if value is None else value for value in row)) if row else NOTHING_SAID


def _measured(event: Measured) -> Json:
    return {**fields_of(event.measurement), "way": list(event.measurement.way)}


def _read_measured(time_s: float, body: Json) -> Event:
    way = body.pop("way")
    kind = Pairing if len(way) == len(Pairing._fields) else Setting
    return Measured(time_s, Measurement(kind(*way), **body))


_WRITE: dict[str, Callable[[Any], Json]] = {
    "JobSubmitted": lambda event: {"job": _job(event.job)},
    "WorkerJoined": lambda event: {"server": fields_of(event.server), "epoch": event.epoch},
    "PolicyChanged": lambda event: {"opens": sorted(event.opens)},
    "PriceChanged": lambda event: {"usd_per_hour": dict(event.prices.usd_per_hour), "name": event.prices.name},
    "Progress": _progress,
    "Measured": _measured,
    "Answered": lambda event: event.answer.to_json(),
}
_READ: dict[str, Callable[[float, Json], Event]] = {
    **{
        kind.__name__: _flat(kind)
        for kind in (
            *(WorkerLost, WorkerDrained, ServerOffers, JobCancelled, Resized),
            *(Wake, Started, Alive),
        )
    },
    "LeaseEnded": lambda time_s, body: LeaseEnded(
        time_s, **body | {"too_small": tuple(body.get("too_small", ()))}
    ),
    "JobSubmitted": lambda time_s, body: JobSubmitted(time_s, _read_job(body["job"])),
    "WorkerJoined": lambda time_s, body: WorkerJoined(time_s, Server(**body["server"]), body["epoch"]),
    "PolicyChanged": lambda time_s, body: PolicyChanged(time_s, frozenset(body["opens"])),
    "PriceChanged": lambda time_s, body: PriceChanged(time_s, Prices(body["usd_per_hour"], body["name"])),
    "Progress": _read_progress,
    "Measured": _read_measured,
    "Answered": lambda time_s, body: Answered(time_s, AllocationRecord.from_json(body)),
}
KINDS = tuple(_READ)
"""Every kind of record that there is."""
