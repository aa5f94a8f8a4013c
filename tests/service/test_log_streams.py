"""Readers of logs may stall: agents send no more than they have room for, and nothing is lost to slow ones."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.refused import RefusedError
from gavelx.service.agents import log_streams as reading
from gavelx.service.agents.log_streams import ROOM, Cursor, LogStreams
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.worker.agent import Agent
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import SleepRunner
from gavelx.worker.logs import CHUNK_BYTES
from tests.clocks import Clock
from tests.service.agents import PATIENT, FakeAgent, User, serving, spec, user_of
from tests.service.desk import Desk
from tests.service.running import run
from tests.waiting import PATIENCE_S, until

CHUNKS = 5 * ROOM
LONG = 1e6
TEXT = b"".join(f"{n:07d}\n".encode() for n in range(CHUNKS * CHUNK_BYTES // 8))


class Printed(SleepRunner):
    """A job that has printed a lot."""

    folder = Path()

    def leases_of(self, job_id: int) -> list[Path]:
        return [self.folder]


class Between:
    """A service's readers and an agent, with messages carried by hand."""

    def __init__(self, folder: Path) -> None:
        (folder / "1").mkdir()
        (folder / "1" / "out.0.log").write_bytes(TEXT)
        runner = Printed()
        runner.folder = folder / "1"
        self.agent = Agent("one", "127.0.0.1", Devices("v100", ("0",)), runner)
        self.agent.hello()
        self.agent.receive(wire.ToAgent(welcome=wire.Welcome(server_id=0, heartbeat_s=1.0)))
        self.stream = Stream()
        self.log_streams = LogStreams(Desk().state, {0: AgentSession(0, 0.0, 0.0, self.stream)})
        self.carried = 0

    async def carry(self) -> None:
        """All that both have to say, as it comes."""
        while True:
            while self.stream._queue.qsize():
                message = self.stream._queue.get_nowait()
                assert message is not None
                self.agent.receive(message)
            for said in self.agent.due():
                if said.HasField("log_part"):
                    self.carried += 1
                    forged = wire.LogPart(request_id=said.log_part.request_id, last=True)
                    self.log_streams.hear(1, forged)  # another server was not asked
                    self.log_streams.hear(0, said.log_part)
            await asyncio.sleep(0)

    def read(self) -> AsyncIterator[wire.LogChunk]:
        return self.log_streams.read(7, 0, 0, follow=False)


def test_a_slow_reader_gets_everything_and_only_so_much_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        between = Between(tmp_path)
        carrying = asyncio.create_task(between.carry())
        text, n = b"", 0
        async for chunk in between.read():
            for _ in range(5 if n else 200):  # he begins with a long pause
                await asyncio.sleep(0)
            text, n = text + chunk.text, n + 1
            assert chunk.dropped == 0
            assert between.carried <= n + ROOM
        assert text == TEXT
        assert between.agent.wait_s() > 0  # nothing is left to be sent at once
        carrying.cancel()

    run(main())


def test_a_reader_hears_once_that_output_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(Printed, "removed", lambda _, job_id: f"of job {job_id} was removed after 30 days")
        between, taken = Between(tmp_path), Cursor()
        carrying = asyncio.create_task(between.carry())
        for first in (True, False):
            chunks = [chunk async for chunk in taken.news(0, between.read())]
            said = [(chunk.server, chunk.removed) for chunk in chunks if chunk.removed]
            assert said == ([("one", "of job 7 was removed after 30 days")] if first else [])
            assert b"".join(chunk.text for chunk in chunks) == (TEXT if first else b"")
        carrying.cancel()

    run(main())


def test_a_reader_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(reading, "READERS", 0)
        with pytest.raises(RefusedError, match="readers of logs"):
            await anext(Between(tmp_path).read())

    run(main())


# -- jobs that move, and gangs -------------------------------------------------------------------------------


class Printing(FakeAgent):
    """Says the lines of the leases that ran here, once each, as a real agent's tail does."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(address, name)
        self.lines: list[tuple[int, bytes]] = []
        self.tails: dict[str, asyncio.Task[None]] = {}

    def _launch(self, launch: wire.Launch) -> None:
        is_new = launch.lease_id not in self.going  # a launch may be sent again before the agent speaks of it
        super()._launch(launch)
        if is_new and launch.lease_id in self.going:
            self.lines.append((launch.lease_id, f"lease {launch.lease_id} on {self.name}\n".encode()))

    def _send_log(self, ask: wire.SendLog) -> None:
        if ask.end:
            if (tail := self.tails.pop(ask.request_id, None)) is not None:
                tail.cancel()
        elif not ask.more:
            self.tails[ask.request_id] = asyncio.create_task(self._tail(ask))

    async def _tail(self, ask: wire.SendLog) -> None:
        n, skip = 0, ask.offset
        while True:
            while n < len(self.lines):
                lease_id, text = self.lines[n]
                kept = text[min(skip, len(text)) :]
                skip -= len(text) - len(kept)
                n += 1
                if kept:
                    chunk = wire.LogChunk(text=kept, server=self.name, lease_id=lease_id)
                    self._send_part(ask, chunk=chunk)
            if not ask.follow:
                self._send_part(ask, last=True)
                return
            await asyncio.sleep(0.05)

    def _send_part(self, ask: wire.SendLog, **what: Any) -> None:
        part = wire.LogPart(request_id=ask.request_id, **what)
        self._outgoing.put_nowait(wire.FromAgent(log_part=part))


async def follow(user: User, job_id: int, texts: list[bytes]) -> None:
    async for chunk in user.stub.Logs(wire.LogsRequest(version=1, job_id=job_id, follow=True)):
        texts.append(chunk.text)


async def moved(user: User, off: FakeAgent, to: FakeAgent, back: FakeAgent | None = None) -> None:
    if back is not None:
        await user.call("Drain", wire.DrainRequest(version=1, server=back.name, undo=True))
    await user.call("Drain", wire.DrainRequest(version=1, server=off.name))
    await to.until_going()


@pytest.mark.slow
def test_a_job_that_comes_back_to_where_it_was_is_followed_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with Printing(service.address, "one") as one:
                (job_id,) = await user.submit(spec(LONG))
                await one.until_going()
                texts = list[bytes]()
                following = asyncio.create_task(follow(user, job_id, texts))
                async with Printing(service.address, "two") as two:
                    expected = [b"lease 1 on one\n"]
                    places, back = [one, two], None
                    for n in range(3):
                        off, to = places[n % 2], places[(n + 1) % 2]
                        await moved(user, off, to, back)
                        back = off
                        expected.append(f"lease {n + 2} on {to.name}\n".encode())
                        await until(lambda n=n: len(texts) == n + 2, "its output is shown", lambda: texts)
                    await user.call("Cancel", wire.CancelRequest(version=1, job_id=job_id))
                    await asyncio.wait_for(following, PATIENCE_S)
                    assert texts == expected

    run(main())


def test_what_a_job_wrote_on_a_server_that_is_here_is_shown_though_another_one_is_gone(
    tmp_path: Path, clock: Clock
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            one = Printing(service.address, "one")
            one.connect()
            (job_id,) = await user.submit(spec(LONG))
            await one.until_going()
            async with Printing(service.address, "two") as two:
                await one.cut(jobs_too=True)
                await clock.turn(PATIENT.valid_for_s + PATIENT.surely_over_s, two)
                await two.until_going()
                texts = list[bytes]()
                with pytest.raises(
                    grpc.aio.AioRpcError, match="the server one, which has the output, is not here"
                ):
                    async for chunk in user.stub.Logs(wire.LogsRequest(version=1, job_id=job_id)):
                        texts.append(chunk.text)
                assert texts == [b"lease 2 on two\n"]

    run(main())


@pytest.mark.slow
def test_a_gang_over_two_servers_is_followed_to_its_end_with_what_rank_0_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with Printing(service.address, "one") as one, Printing(service.address, "two") as two:
                (job_id,) = await user.submit(spec(LONG, workers=2))
                await one.until_going()
                await two.until_going()
                texts = list[bytes]()
                following = asyncio.create_task(follow(user, job_id, texts))
                await until(lambda: len(texts) == 2, "both parts are shown", lambda: texts)
                first, second = sorted((one, two), key=lambda a: next(iter(a.going.values())).launch.first_rank)
                first.lines.append((1, b"rank 0: loss 0.5\n"))
                second.lines.append((1, b"rank 1: here\n"))
                await until(lambda: b"rank 0: loss 0.5\n" in texts, "it is followed", lambda: texts)
                first.lines.append((1, b"rank 0: complete\n"))
                second.lines.append((1, b"rank 1: complete\n"))
                await user.call("Cancel", wire.CancelRequest(version=1, job_id=job_id))
                await asyncio.wait_for(following, PATIENCE_S)
                assert len(texts) == 6 and len(set(texts)) == 6

    run(main())
