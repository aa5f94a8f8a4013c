"""A recorded log as a workload: the jobs that came, when; the servers that there were; what became of it."""

from dataclasses import dataclass, replace
from typing import Any

from gavelx.cluster import Cluster, Server
from gavelx.errors import InputFileError
from gavelx.jobs import Job
from gavelx.mechanism.events import JobCancelled, JobSubmitted, LeaseEnded, WorkerJoined
from gavelx.mechanism.history import History
from gavelx.service.configuration import Configuration
from gavelx.service.log import Log
from gavelx.service.records import entry_of
from gavelx.service.state import State
from gavelx.throughputs import Setting, Throughputs


@dataclass(frozen=True)
class Recorded:
    """``completion_s`` is of the jobs that were complete, on the clock of the arrivals; the first arrives at 0."""

    jobs: tuple[Job, ...]
    cluster: Cluster
    configuration: Configuration
    throughputs: Throughputs
    completion_s: dict[int, float]
    cancelled: int


def read_recorded(place: str) -> Recorded:
    """What a log says, without the jobs that were cancelled. Raises :class:`InputFileError` for an empty one."""
    log = Log(place, read_only=True)
    try:
        body = _configuration(log)
        jobs, by_id, gone = list[Job](), dict[int, Job](), set[int]()
        servers, speeds = dict[int, Server](), dict[Setting, float]()
        completion_s: dict[int, float] = {}
        lost, saved = set[int](), set[int]()
        for record in log.read():
            entry = entry_of(record)
            match entry.event:
                case JobSubmitted(job=job):
                    jobs.append(job)
                    by_id[job.id] = job
                    for name, speed in entry.note.get("speeds", {}).items():
                        speeds[Setting(job.job_type, name, job.scale_factor)] = speed
                case JobCancelled(job_id=job_id):
                    gone.add(job_id)
                case WorkerJoined(server=server):
                    servers[server.id] = server
                case LeaseEnded(job_id=job_id) as ended:
                    if ended.steps_done >= by_id[job_id].total_steps:
                        completion_s.setdefault(job_id, ended.time_s)
                    elif ended.steps_done > 0:
                        saved.add(job_id)
                    elif ended.lost_s > 0:
                        lost.add(job_id)
    finally:
        log.close()
    if not jobs:
        raise InputFileError("no job was ever submitted", where=f"log {place}")
    configuration = Configuration.from_json(body)
    table = configuration.throughputs
    first_s = jobs[0].arrival_s
    kept = [job for job in jobs if job.id not in gone - completion_s.keys()]
    return Recorded(
        jobs=tuple(_again(job, first_s, checkpoints=job.id not in lost - saved) for job in kept),
        cluster=_cluster(list(servers.values())),
        configuration=configuration,
        throughputs=Throughputs({**table.isolated, **speeds}, table.colocated, table.name),
        completion_s={job_id: time_s - first_s for job_id, time_s in completion_s.items()},
        cancelled=len(jobs) - len(kept),
    )


def read_history(place: str) -> tuple[State, History]:
    """Who held which devices when, and the state in which the log ends. Raises :class:`InputFileError`."""
    log = Log(place, read_only=True)
    try:
        state, history = State(Configuration.from_json(_configuration(log))), History()
        for record in log.read():
            entry = entry_of(record)
            history.note(entry.event, state.apply(entry))
    finally:
        log.close()
    return state, history


def _configuration(log: Log) -> dict[str, Any]:
    if (body := log.configuration) is None:
        raise InputFileError("nothing was ever recorded", where=f"log {log.place}")
    return body


def _again(job: Job, first_s: float, *, checkpoints: bool) -> Job:
    """The job as it is simulated: one that lost its work, and never saved any, will do so again."""
    return replace(job, arrival_s=max(0.0, job.arrival_s - first_s), checkpoints=checkpoints)


def _cluster(servers: list[Server]) -> Cluster:
    return Cluster(tuple(servers), tuple(dict.fromkeys(server.accelerator for server in servers)))
