"""A recorded log as a workload: the jobs that came, when; the servers that there were; what became of it."""

import math
from dataclasses import dataclass, replace

from gavelx.cluster import Cluster, Server
from gavelx.errors import InputFileError
from gavelx.jobs import Job
from gavelx.mechanism.events import JobCancelled, JobSubmitted, LeaseEnded, PriceChanged, WorkerJoined
from gavelx.mechanism.history import History
from gavelx.prices import Prices
from gavelx.service.state.snapshots import configuration_of, replay
from gavelx.service.state.state import COMPLETE, State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.records import entry_of
from gavelx.throughputs import Setting, Throughputs


@dataclass(frozen=True)
class RecordedWorkload:
    """``completion_s`` is of the jobs that were complete, on the clock of the arrivals; the first arrives at 0.

    ``prices`` are those of then, ``price_changes`` when they became others, on the same clock. ``untold``: users
    did not say how long some jobs are, which are as long here as they were, and no policy is to know.
    """

    jobs: tuple[Job, ...]
    cluster: Cluster
    configuration: Configuration
    throughputs: Throughputs
    completion_s: dict[int, float]
    cancelled: int
    prices: Prices
    price_changes: tuple[tuple[float, Prices], ...]
    untold: bool = False


def read_recorded(place: str) -> RecordedWorkload:  # noqa: PLR0912  # one branch an event
    """What a log says, without the jobs that were cancelled. Raises :class:`InputFileError` for an empty one."""
    log = Log(place, read_only=True)
    try:
        configuration = made_with(log)
        jobs, steps_of, gone = list[Job](), dict[int, float](), set[int]()
        servers, speeds = dict[int, Server](), dict[Setting, float]()
        completion_s: dict[int, float] = {}
        repriced = list[PriceChanged]()
        lost, saved = set[int](), set[int]()
        for record in log.read():
            entry = entry_of(record)
            match entry.event:
                case JobSubmitted(job=job):
                    jobs.append(job)
                    steps_of[job.id] = job.total_steps
                    for name, speed in entry.note.get("speeds", {}).items():
                        speeds[Setting(job.job_type, name, job.scale_factor)] = speed
                case JobCancelled(job_id=job_id):
                    gone.add(job_id)
                case PriceChanged() as change:
                    repriced.append(change)
                case WorkerJoined(server=server):
                    servers[server.id] = server
                case LeaseEnded(job_id=job_id) as ended:
                    if ended.complete or ended.steps_done >= steps_of.get(job_id, math.inf):
                        completion_s.setdefault(job_id, ended.time_s)
                    elif ended.steps_done > 0:
                        saved.add(job_id)
                    elif ended.lost_s > 0:
                        lost.add(job_id)
    finally:
        log.close()
    if not jobs:
        raise InputFileError("no job was ever submitted", where=log.name)
    table = configuration.throughputs
    first_s = jobs[0].arrival_s
    tariffs = [configuration.prices, *(change.prices for change in repriced if change.time_s <= first_s)]
    kept = [job for job in jobs if job.id not in gone - completion_s.keys()]
    untold = any(not job.has_length for job in kept)
    told = {way.job_type for way in (*table.isolated, *speeds)}
    if untold or any(job.job_type not in told for job in kept):
        kept, speeds = _as_they_turned_out(place, kept, speeds)
    return RecordedWorkload(
        jobs=tuple(_again(job, first_s, checkpoints=job.id not in lost - saved) for job in kept),
        cluster=_cluster(list(servers.values())),
        configuration=configuration,
        throughputs=replace(table, isolated={**table.isolated, **speeds}),
        completion_s={job_id: time_s - first_s for job_id, time_s in completion_s.items()},
        cancelled=len(jobs) - len(kept),
        prices=tariffs[-1],
        price_changes=tuple(
            (change.time_s - first_s, change.prices) for change in repriced if change.time_s > first_s
        ),
        untold=untold,
    )


def _as_they_turned_out(
    place: str, jobs: list[Job], speeds: dict[Setting, float]
) -> tuple[list[Job], dict[Setting, float]]:
    """Jobs of unknown length, as long as they turned out to be, and untold speeds, as known in the end.

    Jobs of unknown length that were never complete are left out.
    """
    state, _ = read_history(place)
    kinds, best = state.untold.kinds, dict[tuple[str, int], float]()
    found = {way: speed for way, speed in state.speeds.items() if (way.job_type, way.scale_factor) in kinds}
    for way, speed in found.items():
        best[way.job_type, way.scale_factor] = max(speed, best.get((way.job_type, way.scale_factor), 0.0))
    known = list[Job]()
    for job in jobs:
        if job.has_length:
            known.append(job)
        elif (record := state.jobs[job.id]).ended == COMPLETE and record.worked_s > 0.0:
            steps = record.worked_s * best.get((job.job_type, job.scale_factor), 1.0)
            known.append(replace(job, total_steps=steps))
    return known, speeds | found


def read_history(place: str) -> tuple[State, History]:
    """Who held which devices when, and the state in which the log ends. Raises :class:`InputFileError`."""
    log = Log(place, read_only=True)
    try:
        state, history = State(made_with(log)), History()
        for _, entry, commands in replay(log, state):
            history.note(entry.event, commands)
    finally:
        log.close()
    return state, history


def made_with(log: Log) -> Configuration:
    """What a log was made with. Raises :class:`InputFileError` for one in which nothing was recorded."""
    if (found := configuration_of(log)) is None:
        raise InputFileError("nothing was ever recorded", where=log.name)
    return found


def _again(job: Job, first_s: float, *, checkpoints: bool) -> Job:
    """The job as it is simulated: one that lost its work, and never saved any, will do so again."""
    return replace(job, arrival_s=max(0.0, job.arrival_s - first_s), checkpoints=checkpoints)


def _cluster(servers: list[Server]) -> Cluster:
    return Cluster(tuple(servers), tuple(dict.fromkeys(server.accelerator for server in servers)))
