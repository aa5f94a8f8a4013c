"""An agent that speaks the wire and whose jobs only pass the time; and a service to go with it."""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gavelx.mechanism import DEFAULT, Rules
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc import wire_pb2_grpc
from gavelx.rpc.channels import Access, aio_channel
from gavelx.rpc.tokens import add_token, new_token
from gavelx.service.agents.timing import Timing
from gavelx.service.api.server import Options, Service
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.places import LogError
from gavelx.service.store.records import Record
from gavelx.throughputs import Setting, Throughputs
from tests.waiting import PATIENCE_S, until

TABLE = Throughputs({Setting("net", "v100", n): 100.0 * n for n in (1, 2, 4)} | {Setting("net", "k80"): 50.0})
QUICK = Timing(heartbeat_s=0.1, valid_for_s=1.0, grace_s=0.3)
"""Where time passes by hand."""
PATIENT = Timing(heartbeat_s=20.0, valid_for_s=60.0, grace_s=30.0)
"""Where it passes by itself: a busy machine is no silent server. Who wants one turns a `tests.clocks.Clock`."""


AT_ONCE = replace(DEFAULT, retry_s=0.0)
"""Failed jobs are launched again without a wait."""


def configuration(rules: Rules = AT_ONCE, round_s: float = 1.0) -> Configuration:
    return Configuration(TABLE, Prices({"v100": 3600.0}), rules.with_round(round_s))


def spec(steps: float = 50.0, workers: int = 1, **more: Any) -> wire.JobSpec:
    return wire.JobSpec(job_type="net", workers=workers, total_steps=steps, command=["true"], **more)


def tokens_for(folder: Path, **roles: str) -> dict[str, str]:
    """A file of tokens; the texts by owner."""
    texts = {}
    for owner, role in roles.items():
        texts[owner], token = new_token(owner, role, None)
        add_token(folder / "tokens.json", token)
    return texts


def _service(folder: Path | str, **options: Any) -> Service:
    made_with = options.pop("configuration", None) or configuration()
    chosen = {"listen": "127.0.0.1:0", "configure": lambda _: made_with, "timing": PATIENT} | options
    return Service(Options(str(folder), **chosen))


@asynccontextmanager
async def serving(folder: Path | str, **options: Any) -> AsyncIterator[Service]:
    """A service on loopback, with a table of two types."""
    async with _service(folder, **options) as service:
        yield service


@asynccontextmanager
async def stopped(says: str, folder: Path | str, **options: Any) -> AsyncIterator[Service]:
    """One that stops by itself in the end, as its log is wrong. That hides nothing which fails before."""
    service = await _service(folder, **options).__aenter__()
    try:
        yield service
    finally:
        with pytest.raises(LogError, match=says):
            await service.__aexit__()


def records_of(service: Service) -> list[Record]:
    """What is in its log, by a connection of its own: the service may be writing."""
    reader = Log(service.options.state, read_only=True)
    try:
        return list(reader.read())
    finally:
        reader.close()


class User:
    """Calls of a user."""

    def __init__(self, address: str, token: str | None = None, ca: str | None = None) -> None:
        self.access = Access(address, token, ca)
        self.channel = aio_channel(self.access)
        self.stub = wire_pb2_grpc.SchedulerStub(self.channel)

    async def call(self, method: str, request: Any) -> Any:
        return await getattr(self.stub, method)(request, metadata=self.access.metadata, timeout=PATIENCE_S)

    async def submit(self, *specs: wire.JobSpec) -> list[int]:
        return list((await self.call("Submit", wire.SubmitRequest(version=1, jobs=specs))).job_ids)

    async def jobs(self, *ids: int) -> list[wire.JobStatus]:
        return list((await self.call("Status", wire.StatusRequest(version=1, job_ids=ids, ended=True))).jobs)

    async def servers(self) -> dict[str, wire.ServerStatus]:
        reply = await self.call("Status", wire.StatusRequest(version=1))
        return {server.name: server for server in reply.servers}

    async def until(self, state: str, *ids: int) -> list[wire.JobStatus]:
        """Wait until all these jobs are in this state."""
        jobs = list[wire.JobStatus]()

        async def there() -> bool:
            jobs[:] = await self.jobs(*ids)
            return all(job.state == state for job in jobs)

        seen = lambda: [(job.job_id, job.state, job.reason) for job in jobs]  # noqa: E731
        await until(there, f"jobs {ids} are {state}", seen)
        return jobs

    async def until_server(self, state: str, name: str) -> None:
        """Wait until this server is in this state."""
        servers = dict[str, wire.ServerStatus]()

        async def there() -> bool:
            servers.update(await self.servers())
            return name in servers and servers[name].state == state

        await until(there, f"the server {name} is {state}", lambda: servers)

    async def close(self) -> None:
        await self.channel.close()


@asynccontextmanager
async def user_of(service: Service | str, **access: Any) -> AsyncIterator[User]:
    user = User(service if isinstance(service, str) else service.address, **access)
    try:
        yield user
    finally:
        await user.close()


@dataclass
class Going:
    """A part of a lease that runs here."""

    launch: wire.Launch
    since_s: float
    until_s: float
    fails: bool = False

    def steps_at(self, time_s: float) -> float:
        passed_s = time_s - self.since_s
        return min(self.launch.until_step, self.launch.saved_steps + passed_s * self.launch.steps_per_s)


@dataclass
class Seen:
    """Of all agents together: who ran when, and whether a job ever ran twice at once."""

    running: dict[int, set[tuple[int, str]]] = field(default_factory=dict)  # by job: lease and server
    launches: int = 0
    twice: list[int] = field(default_factory=list)
    agents: list["FakeAgent"] = field(default_factory=list)

    def begins(self, job_id: int, lease_id: int, server: str) -> None:
        for agent in self.agents:
            agent.look()  # what is over by the clock runs no more, though this loop stood still
        self.launches += 1
        here = self.running.setdefault(job_id, set())
        if any(lease != lease_id for lease, _ in here):
            self.twice.append(job_id)
        here.add((lease_id, server))

    def ends(self, job_id: int, lease_id: int, server: str) -> None:
        self.running.get(job_id, set()).discard((lease_id, server))


class FakeAgent:
    """Runs leases by the clock, renews, reports, and stops what is over; ``cut()`` takes it off the net."""

    def __init__(
        self,
        address: str,
        name: str = "one",
        devices: int = 1,
        accelerator: str = "v100",
        *,
        boot_id: str = "boot",
        agent_id: str = "",
        seen: Seen | None = None,
        access: Access | None = None,
    ) -> None:
        self.access = access or Access(address)
        self.name, self.devices, self.accelerator, self.boot_id = name, devices, accelerator, boot_id
        self.agent_id = agent_id or uuid.uuid4().hex
        self.seen = seen or Seen()
        self.seen.agents.append(self)
        self.going: dict[int, Going] = {}
        self.unacknowledged: dict[str, wire.Ended] = {}
        self.ended: set[int] = set()
        self.fail_jobs: set[int] = set()
        self.finish_jobs: set[int] = set()  # they are complete as soon as they run
        self.exit_code = 0
        self.forgetful = False  # loses launches
        self.forgotten = 0
        self.log_mark = ""
        self.server_id = -1
        self.refusals: list[str] = []
        self.held_s: dict[int, float] = {}  # by job, what it had in all
        self.renewed_s = -math.inf  # when that was said which was answered last
        self._outgoing: asyncio.Queue[wire.FromAgent | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "FakeAgent":
        self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()
        self.kill_all()

    def connect(self) -> None:
        self._task = asyncio.create_task(self._attend())
        self._ticking = asyncio.create_task(self._tick())

    async def until_going(self) -> None:
        await until(lambda: self.going, f"the agent {self.name} runs something", lambda: self.refusals)

    async def until_refused(self, why: str = "") -> None:
        """Wait until it was told so; a stream may also break before the reason comes through."""
        told = lambda: any(why in refusal for refusal in self.refusals)  # noqa: E731
        await until(told, f"the agent {self.name} is refused: {why}", lambda: self.refusals)

    async def until_renewed(self) -> None:
        """Wait until a heartbeat of now was answered."""
        now_s = time.monotonic()
        await until(lambda: self.renewed_s >= now_s, f"the agent {self.name} is heard", lambda: self.refusals)

    async def until_acknowledged(self) -> None:
        """Wait until the scheduler has all that it said of leases that ended."""
        await until(lambda: not self.unacknowledged, "all is acknowledged", lambda: self.unacknowledged)

    async def cut(self, *, jobs_too: bool = False) -> None:
        """No more words; jobs run on until their leases are over, or end with the machine."""
        if self._task is not None:
            for task in (self._task, *([self._ticking] if jobs_too else [])):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if jobs_too:
            self.kill_all()

    def kill_all(self) -> None:
        for lease_id in list(self.going):
            self._drop(lease_id)

    def _drop(self, lease_id: int) -> Going:
        going = self.going.pop(lease_id)
        self.seen.ends(going.launch.job_id, lease_id, self.name)
        return going

    async def _attend(self) -> None:
        while True:
            self._outgoing = asyncio.Queue()
            channel = aio_channel(self.access)
            try:
                stub = wire_pb2_grpc.AgentsStub(channel)
                async for message in stub.Attend(self._say(), metadata=self.access.metadata):
                    self._hear(message)
            except grpc.aio.AioRpcError as error:
                self.refusals.append(f"{error.code().name}: {error.details()}")
            finally:
                await channel.close()
            await asyncio.sleep(0.1)

    async def _say(self) -> AsyncIterator[wire.FromAgent]:
        hello = wire.Hello(
            version=1,
            name=self.name,
            address="127.0.0.1",
            accelerator=self.accelerator,
            devices=self.devices,
            boot_id=self.boot_id,
            agent_id=self.agent_id,
            leases=self._reports(),
            log_mark=self.log_mark,
        )
        yield wire.FromAgent(hello=hello)
        for ended in list(self.unacknowledged.values()):
            yield wire.FromAgent(ended=ended)
        outgoing = self._outgoing
        while True:
            yield wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=time.monotonic(), leases=self._reports()))
            with suppress(TimeoutError):
                while True:
                    message = await asyncio.wait_for(outgoing.get(), 0.1)
                    assert message is not None
                    yield message

    def _reports(self) -> list[wire.LeaseReport]:
        now_s = time.monotonic()
        return [
            wire.LeaseReport(
                lease_id=lease_id,
                job_id=going.launch.job_id,
                steps_done=going.steps_at(now_s),
                saved_steps=going.steps_at(now_s),
                held_s=now_s - going.since_s,
            )
            for lease_id, going in self.going.items()
        ]

    def _hear(self, message: wire.ToAgent) -> None:
        match message.WhichOneof("message"):
            case "welcome":
                self.server_id = message.welcome.server_id
            case "renewed":
                renewed = message.renewed
                self.renewed_s = renewed.sent_s
                self.log_mark = renewed.log_mark
                for lease_id in list(self.going):
                    if lease_id in renewed.lease_ids:
                        self.going[lease_id].until_s = renewed.sent_s + renewed.valid_for_s
                    else:
                        self._end(lease_id)
            case "launch":
                self._launch(message.launch)
            case "stop":
                if message.stop.lease_id in self.going:
                    self._end(message.stop.lease_id)
            case "acknowledged":
                self.unacknowledged.pop(message.acknowledged.report_id, None)
            case "send_log":
                self._send_log(message.send_log)

    def _launch(self, launch: wire.Launch) -> None:
        if self.forgetful or launch.lease_id in self.going:
            self.forgotten += self.forgetful
            return
        if launch.lease_id in self.ended:
            for ended in self.unacknowledged.values():
                self._outgoing.put_nowait(wire.FromAgent(ended=ended))
            return
        now_s = time.monotonic()
        until_s = launch.sent_s + launch.valid_for_s
        if now_s >= until_s:  # it is sent again
            return
        self.seen.begins(launch.job_id, launch.lease_id, self.name)
        self.going[launch.lease_id] = Going(launch, now_s, until_s, launch.job_id in self.fail_jobs)

    def _end(self, lease_id: int, *, complete: bool = False, failed: bool = False) -> None:
        going = self._drop(lease_id)
        now_s = min(time.monotonic(), going.until_s)
        self.ended.add(lease_id)
        ended = wire.Ended(
            report_id=f"{self.name}-{lease_id}",
            lease_id=lease_id,
            job_id=going.launch.job_id,
            steps_done=going.launch.saved_steps if failed else going.steps_at(now_s),
            held_s=now_s - going.since_s,
            failed=failed,
            complete=complete,
            exit_code=1 if failed else 0,
            reason="exit code 1" if failed else "",
        )
        self.unacknowledged[ended.report_id] = ended
        self.held_s[ended.job_id] = self.held_s.get(ended.job_id, 0.0) + ended.held_s
        self._outgoing.put_nowait(wire.FromAgent(ended=ended))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            self.look()

    def look(self) -> None:
        """End what fails, is complete or has no lease any more."""
        now_s = time.monotonic()
        for lease_id, going in list(self.going.items()):
            done = going.steps_at(min(now_s, going.until_s)) >= going.launch.until_step
            if going.fails:
                self._end(lease_id, failed=True)
            elif done or going.launch.job_id in self.finish_jobs:
                self._end(lease_id, complete=True)
            elif now_s >= going.until_s:
                self._end(lease_id)

    def _send_log(self, ask: wire.SendLog) -> None:
        if ask.end:
            return
        chunk = wire.LogChunk(text=f"job {ask.job_id} on {self.name}\n".encode(), server=self.name)
        part = wire.LogPart(request_id=ask.request_id, chunk=chunk, last=not ask.follow)
        self._outgoing.put_nowait(wire.FromAgent(log_part=part))
