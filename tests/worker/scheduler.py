"""A scheduler for tests: it speaks the wire on loopback, and does just what a test tells it to."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.ports import free_port
from gavelx.rpc.wire_pb2_grpc import AgentsServicer, add_AgentsServicer_to_server
from tests.waiting import until

NO_LEASE = 10**9


class Scheduler(AgentsServicer):
    """Welcomes agents, renews what it launched, and remembers all that it hears.

    The switches: ``renewing`` answers heartbeats, ``acknowledging`` answers reports, ``valid_for_s`` is how long
    a lease stands after a heartbeat, ``grace_s`` how long a job has to checkpoint; no test waits for either.
    """

    def __init__(
        self,
        *,
        heartbeat_s: float = 0.05,
        valid_for_s: float = 3600.0,
        grace_s: float = 600.0,
        log_id: str = "log",
    ) -> None:
        self.heartbeat_s, self.valid_for_s, self.grace_s = heartbeat_s, valid_for_s, grace_s
        self.log_bytes, self.log_id, self.log_mark = 1 << 20, log_id, ""
        self.renewing = self.acknowledging = True
        self.hellos: list[wire.Hello] = []
        self.beats: list[wire.Heartbeat] = []
        self.ended: list[wire.Ended] = []
        self.refused: list[wire.Refused] = []
        self.log_parts: list[wire.LogPart] = []
        self.metadata: list[Any] = []
        self.standing: set[int] = set()
        self.out: asyncio.Queue[wire.ToAgent] | None = None
        self.port = free_port()
        self._server: grpc.aio.Server | None = None
        self._report_ids: set[str] = set()

    # -- its life --

    async def start(self) -> "Scheduler":
        """Listen on loopback; a second start listens on the same port again."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_AgentsServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        assert self.port, "somebody took the port"
        await self._server.start()
        return self

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
        self._server = self.out = None

    async def __aenter__(self) -> "Scheduler":
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    # -- the stream --

    async def Attend(self, requests: AsyncIterator[wire.FromAgent], context: Any) -> AsyncIterator[wire.ToAgent]:
        out: asyncio.Queue[wire.ToAgent] = asyncio.Queue()
        self.metadata.append(dict(context.invocation_metadata()))
        listening = asyncio.create_task(self._listen(requests, out))
        try:
            while not (listening.done() and out.empty()):
                with contextlib.suppress(TimeoutError):
                    yield await asyncio.wait_for(out.get(), 0.02)
        finally:
            listening.cancel()

    async def _listen(self, requests: AsyncIterator[wire.FromAgent], out: "asyncio.Queue[wire.ToAgent]") -> None:
        async for message in requests:
            self._hear(message, out)

    def _hear(self, message: wire.FromAgent, out: "asyncio.Queue[wire.ToAgent]") -> None:
        match message.WhichOneof("message"):
            case "hello":
                self.hellos.append(message.hello)
                self.out = out
                welcome = wire.Welcome(
                    server_id=1,
                    heartbeat_s=self.heartbeat_s,
                    grace_s=self.grace_s,
                    log_bytes=self.log_bytes,
                    log_id=self.log_id,
                )
                out.put_nowait(wire.ToAgent(welcome=welcome))
            case "heartbeat":
                self.beats.append(message.heartbeat)
                if self.renewing:
                    out.put_nowait(wire.ToAgent(renewed=self.renewed(message.heartbeat.sent_s)))
            case "ended":
                self.ended.append(message.ended)
                self.standing.discard(message.ended.lease_id)
                if self.acknowledging:
                    self._report_ids.add(message.ended.report_id)
                    acknowledged = wire.Acknowledged(report_id=message.ended.report_id)
                    out.put_nowait(wire.ToAgent(acknowledged=acknowledged))
            case "refused":
                self.refused.append(message.refused)
            case "log_part":
                self.log_parts.append(message.log_part)

    def renewed(self, sent_s: float) -> wire.Renewed:
        standing = sorted(self.standing)
        return wire.Renewed(
            sent_s=sent_s, valid_for_s=self.valid_for_s, lease_ids=standing, log_mark=self.log_mark
        )

    # -- what a test says through it --

    async def connected(self, times: int = 1) -> None:
        """Wait until an agent has introduced itself and sent a heartbeat, for so many times in all."""
        await until(lambda: len(self.hellos) >= times and self.out is not None, "an agent connects")
        beats = len(self.beats)
        await until(lambda: len(self.beats) > beats, "a heartbeat comes")

    def send(self, **message: Any) -> None:
        assert self.out is not None, "no agent is there"
        self.out.put_nowait(wire.ToAgent(**message))

    def launch(self, lease_id: int, *command: str, **more: Any) -> wire.Launch:
        """Launch a command on the first device, with what ``more`` says otherwise."""
        launch = wire.Launch(**make_launch(lease_id, *command, **more))
        launch.sent_s = self.beats[-1].sent_s
        launch.valid_for_s = self.valid_for_s
        self.standing.add(lease_id)
        self.send(launch=launch)
        return launch

    def launch_python(self, lease_id: int, code: str, *arguments: str, **more: Any) -> wire.Launch:
        return self.launch(lease_id, sys.executable, "-I", "-S", "-c", code, *arguments, **more)

    def stop_lease(self, lease_id: int, reason: str = "make room") -> None:
        self.standing.discard(lease_id)
        self.send(stop=wire.Stop(lease_id=lease_id, reason=reason))

    async def end_of(self, lease_id: int) -> wire.Ended:
        """The report of a lease's end, once it has come."""
        await until(lambda: self.ends(lease_id), f"lease {lease_id} ends", lambda: (self.refused, self.ended))
        return self.ends(lease_id)[0]

    async def fall_silent(self) -> None:
        """No more renewals; whatever was said before has been heard."""
        self.renewing = False
        before = len(self.refused)
        self.stop_lease(NO_LEASE)
        await until(lambda: len(self.refused) > before, "the agent has heard all that was said")

    def progress(self) -> list[tuple[float, float]]:
        """Steps done and saved of each lease, by the last heartbeat."""
        return [(report.steps_done, report.saved_steps) for report in self.beats[-1].leases]

    def ends(self, lease_id: int) -> list[wire.Ended]:
        return [ended for ended in self.ended if ended.lease_id == lease_id]


def make_launch(lease_id: int, *command: str, **more: Any) -> dict[str, Any]:
    """The fields of an ordinary launch."""
    return {
        "lease_id": lease_id,
        "job_id": 100 + lease_id,
        "job_type": "test",
        "command": list(command),
        "slots": [0],
        "world_size": 1,
        "processes": 1,
        "master_address": "127.0.0.1",
        "master_port": 29400,
        "until_step": 1000.0,
        "steps_per_s": 10.0,
        "owner": "tests",
        "name": "job",
    } | more
