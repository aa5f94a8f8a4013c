"""A cluster on loopback: the scheduler in this process, and each agent a ``gavelx worker`` of its own.

    async with LocalCluster(folder, configuration) as cluster:
        await cluster.join(Machine("one", "v100", 2, emulate=True))
        (job_id,) = await cluster.submit(spec)
        await cluster.until_ended()

Its log stays in ``folder``, for `gavelx.service.state.replay.read_history` to read when all is over.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gavelx
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc import wire_pb2_grpc
from gavelx.rpc.channels import Access, aio_channel
from gavelx.service.agents.part_states import PartState
from gavelx.service.agents.timing import Timing
from gavelx.service.api.server import Options, Service
from gavelx.service.store.configuration import Configuration

ROOT = Path(gavelx.__file__).parents[1]
PATIENCE_S = 300.0
LOOK_S = 0.05
ENDED = ("complete", "failed", "cancelled")


class DeployedError(Exception):
    """A run that did not come to its end; the message says where it stood."""


@dataclass(frozen=True)
class Machine:
    """A server: its name, what it has, and what its jobs find in their environment. ``emulate``: jobs sleep."""

    name: str
    accelerator: str
    devices: int = 1
    emulate: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


class LocalCluster:
    """One scheduler and its agents; what is left of them when it is closed is stopped."""

    def __init__(
        self,
        folder: Path,
        configuration: Configuration,
        policy: str = "max_min_fairness",
        timing: Timing = Timing(heartbeat_s=0.5, valid_for_s=10.0, grace_s=5.0),  # noqa: B008  (frozen)
    ) -> None:
        self.folder = folder.absolute()
        self.log = str(self.folder / "log")
        self._options = Options(
            self.log, listen="127.0.0.1:0", policy=policy, configure=lambda _: configuration, timing=timing
        )
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self.late_s = 0.0
        """By how much looks at the clock were late, in all: what a machine with other things to do costs a run."""

    async def __aenter__(self) -> "LocalCluster":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._service = await Service(self._options).__aenter__()
        self._access = Access(self._service.address)
        self._channel = aio_channel(self._access)
        self._stub = wire_pb2_grpc.SchedulerStub(self._channel)
        self._looking = asyncio.create_task(self._look_at_the_clock())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Agents leave softly, with their jobs, while the scheduler is still there to hear of it."""
        try:
            for agent in self._agents.values():
                agent.terminate()
            await asyncio.to_thread(self._wait_for_agents)
        finally:
            self._looking.cancel()
            await self._channel.close()
            await self._service.__aexit__()

    async def _look_at_the_clock(self) -> None:
        while True:
            due_s = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.late_s += time.monotonic() - due_s

    def _wait_for_agents(self) -> None:
        for agent in self._agents.values():
            try:
                agent.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        return self._service.address

    # -- machines ---------------------------------------------------------------------------------------------

    async def join(self, *machines: Machine) -> None:
        """Start agents, one after the other, so that they are numbered in this order."""
        for machine in machines:
            self._agents[machine.name] = self._start(machine)
            await self.until(partial(self._serves, machine.name), f"agent {machine.name} is there", PATIENCE_S)

    def _start(self, machine: Machine) -> subprocess.Popen[bytes]:
        own = self.folder / machine.name
        command = [
            *(sys.executable, "-m", "gavelx", "worker", "--scheduler", self._service.address),
            *("--devices", f"{machine.accelerator}={machine.devices}", "--name", machine.name),
            *("--folder", str(own), "--shared", str(self.folder / "shared")),
            *(["--emulate"] if machine.emulate else []),
        ]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with (self.folder / f"{machine.name}.txt").open("ab") as said:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=os.environ | {"PYTHONPATH": path} | dict(machine.environment),
            )

    def _serves(self, name: str) -> bool:
        if (code := self._agents[name].poll()) is not None:
            said = (self.folder / f"{name}.txt").read_text(errors="replace")[-2000:]
            raise DeployedError(f"agent {name} ended with {code}: {said}")
        scheduler = self._service.scheduler
        machine = scheduler.state.machine_named(name)
        session = None if machine is None else scheduler.agents.here.get(machine.server.id)
        return session is not None and session.sent_s is not None

    def runs(self, job_id: int) -> bool:
        """Whether the scheduler has heard of every server of the job that it runs there."""
        scheduler = self._service.scheduler
        leases = [run.lease.id for run in scheduler.state.runs.values() if run.lease.job_id == job_id]
        parts = [part for lease_id in leases for part in scheduler.agents.tracked[lease_id].parts.values()]
        return bool(parts) and all(part.state is PartState.RUNNING for part in parts)

    def kill(self, name: str) -> None:
        """Kill an agent with -9. What it emulates is gone with it; real jobs run on until their leases lapse."""
        agent = self._agents.pop(name)
        agent.send_signal(signal.SIGKILL)
        agent.wait()

    # -- what users say ---------------------------------------------------------------------------------------

    async def call(self, method: str, request: Any) -> Any:
        return await getattr(self._stub, method)(request, timeout=PATIENCE_S)

    async def submit(self, *specs: wire.JobSpec) -> list[int]:
        return list((await self.call("Submit", wire.SubmitRequest(version=1, jobs=specs))).job_ids)

    async def cancel(self, job_id: int) -> None:
        await self.call("Cancel", wire.CancelRequest(version=1, job_id=job_id))

    async def drain(self, server: str) -> None:
        await self.call("Drain", wire.DrainRequest(version=1, server=server))

    async def offer(self, server: str, devices: int, notice_s: float) -> int:
        """The server lends its first so many devices; how many leases hold others still."""
        request = wire.OfferRequest(version=1, server=server, devices=devices, notice_s=notice_s)
        return int((await self.call("Offer", request)).leases)

    async def jobs(self, job_ids: Sequence[int] = ()) -> list[wire.JobStatus]:
        """How these jobs are, or all."""
        return list((await self.call("Status", wire.StatusRequest(version=1, job_ids=job_ids, ended=True))).jobs)

    async def output(self, job_id: int) -> str:
        """What the job printed, all of it."""
        text = b""
        async for chunk in self._stub.Logs(wire.LogsRequest(version=1, job_id=job_id)):
            if chunk.dropped:
                raise DeployedError(f"{chunk.dropped} bytes of what job {job_id} printed are not kept")
            text += chunk.text
        return text.decode(errors="replace")

    # -- waiting ----------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait until something is so. Raises :class:`DeployedError` that says what never was."""
        end_s = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end_s:
                raise DeployedError(f"waited {within_s:.0f} s, and never: {what}")
            await asyncio.sleep(LOOK_S)

    async def until_ended(
        self,
        within_s: float,
        on_progress: Callable[[Sequence[wire.JobStatus]], None] = lambda _: None,
        at_least: int = 0,
    ) -> list[wire.JobStatus]:
        """Wait until every job that was submitted is over, ``at_least`` so many; how each ended."""
        end_s = time.monotonic() + within_s
        while True:
            jobs = await self.jobs()
            on_progress(jobs)
            waiting = [job for job in jobs if job.state not in ENDED]
            if not waiting and len(jobs) >= at_least:
                return jobs
            if time.monotonic() > end_s:
                where = "; ".join(f"job {job.job_id} {job.state}: {job.reason}" for job in waiting)
                raise DeployedError(f"not over after {within_s:.0f} s: {where}")
            await asyncio.sleep(0.2)


def positive(text: str) -> float:
    """An option that is a number above 0."""
    if not 0 < (number := float(text)) < float("inf"):
        raise ValueError(text)
    return number


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Progress:
    """Says how far a run is, whenever another job is complete."""

    def __init__(self, what: str, jobs: int) -> None:
        self.what, self.jobs, self.began_s = what, jobs, time.monotonic()
        self._said = -1

    def __call__(self, jobs: Sequence[wire.JobStatus]) -> None:
        over = sum(job.state in ENDED for job in jobs)
        if over != self._said:
            running = sum(job.state == "running" for job in jobs)
            passed_s = time.monotonic() - self.began_s
            say(f"{self.what}: {over} of {self.jobs} jobs complete, {running} running, after {passed_s:.0f} s")
            self._said = over


def run(main: Any) -> Any:
    """A coroutine to its end; Ctrl-C ends it in order, so that no agent is left behind."""
    with contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(main)
    raise SystemExit(130)
