"""A cluster on loopback as a backend of the scenarios: jobs that sleep, or that train."""

import asyncio
import sys
import time
from functools import partial
from pathlib import Path

from experiments.deployed.local import LocalCluster, Machine
from experiments.deployed.paced import DEVICE
from gavelx.jobs import Job
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.replay import read_history
from tests.conformance.observed import Observed, recorded
from tests.conformance.scenario import NOTICE_S, TABLE, Happening, Scenario
from tests.waiting import PATIENCE_S, until


class Patient(Timing):
    """Leases outlast what a process stands still on a busy machine, and so does a server without any."""

    @property
    def silent_s(self) -> float:
        return self.valid_for_s


SLEEPS = Patient(heartbeat_s=0.1, valid_for_s=20.0, grace_s=0.5)
TRAINS = Patient(heartbeat_s=0.5, valid_for_s=30.0, grace_s=4.0)
LONGER = (1, 4, 16)
"""What a busy machine has no time for is tried with longer jobs."""


class TooLateError(Exception):
    """A job was complete before what was to happen had happened."""


def run_emulated(scenario: Scenario, folder: Path) -> Observed:
    """On real agents whose jobs sleep."""
    return _run(scenario, folder, SLEEPS, emulate=True)


def run_trained(scenario: Scenario, folder: Path) -> Observed:
    """On real agents, with processes that train a model of torch."""
    return _run(scenario, folder, TRAINS, emulate=False)


def _run(scenario: Scenario, folder: Path, timing: Timing, *, emulate: bool) -> Observed:
    late = list[TooLateError]()
    for times in LONGER:
        cluster = LocalCluster(folder / f"{times}", scenario.configuration, scenario.policy, timing)
        try:
            asyncio.run(_through(scenario.timed(scenario.round_s, times), cluster, emulate))
        except TooLateError as error:
            late.append(error)
        else:
            return recorded(cluster.log, cluster.late_s)
    raise AssertionError(late)


async def _through(scenario: Scenario, cluster: LocalCluster, emulate: bool) -> None:
    async with cluster:
        machines = scenario.servers.items()
        await cluster.join(
            *(Machine(name, kind, count, emulate, {DEVICE: kind}) for name, (kind, count) in machines)
        )
        begun_s, work = time.monotonic(), scenario.work()
        for arrival_s in sorted({job.arrival_s for job in work}):
            await asyncio.sleep(max(0.0, begun_s + arrival_s - time.monotonic()))
            if arrival_s > 0.0:
                await until(partial(_begun, cluster), "the first job has begun")
            await cluster.submit(*(_spec(job) for job in work if job.arrival_s == arrival_s))
        for happening in scenario.happenings:
            await _happen(happening, cluster, work[happening.once])
        await cluster.until_ended(PATIENCE_S * len(work), at_least=len(work))  # they take turns


def _spec(job: Job) -> wire.JobSpec:
    speeds = ",".join(
        f"{setting.accelerator}={speed}"
        for setting, speed in TABLE.isolated.items()
        if (setting.job_type, setting.scale_factor) == (job.job_type, job.scale_factor)
    )
    elasticity = "" if job.elastic is None else str(job.elastic)
    command = [sys.executable, "-m", "tests.conformance.training_job", speeds]
    return wire.JobSpec(
        job_type=job.job_type,
        workers=job.scale_factor,
        total_steps=job.total_steps,
        command=command,
        elasticity=elasticity,
    )


async def _begun(cluster: LocalCluster) -> bool:
    """On every server: before that a job that is resized would be restarted."""
    return (await cluster.jobs([0]))[0].steps_done > 0.0 and cluster.runs(0)


async def _happen(happening: Happening, cluster: LocalCluster, job: Job) -> None:
    """Wait until it is time, then do it. Raises `TooLateError` if one of its jobs is complete by then."""
    steps_before = (await cluster.jobs([happening.once]))[0].steps_done
    seen = list[wire.JobStatus]()

    async def look() -> None:
        seen[:] = await cluster.jobs([happening.once]) + await cluster.jobs([happening.job_id])
        if any(one.state == "complete" for one in seen):
            raise TooLateError(happening, seen)

    async def where() -> str:
        """The server of the job, once it is time."""
        await look()
        watched, touched = seen
        if happening.has_held and watched.devices != happening.has_held[-1]:  # the log need not be read
            return ""
        is_time = happening.is_time(job, watched.steps_done, steps_before, lambda: read_history(cluster.log)[1])
        return touched.servers[0] if touched.servers and is_time else ""

    async def elsewhere() -> bool:
        await look()
        return server not in seen[1].servers

    server = await until(where, f"it is time for {happening}", lambda: seen)
    match happening.then:
        case "cancel":
            await cluster.cancel(happening.job_id)
        case "drain":
            await cluster.drain(server)
        case "offer":
            await cluster.offer(server, happening.devices, NOTICE_S)
        case "lose":
            cluster.kill(server)
            await until(elsewhere, f"the job is not on {server} any more", lambda: seen)
    await look()
