"""Readers of logs may stall: agents send no more than they have room for, and nothing is lost to slow ones."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.service import reading
from gavelx.service.attendees import Attendee, Stream
from gavelx.service.reading import ROOM, Readers
from gavelx.service.refusals import RefusedError
from gavelx.worker.agent import Agent
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import SleepRunner
from gavelx.worker.logs import CHUNK_BYTES
from tests.service.desk import Desk
from tests.service.running import run

CHUNKS = 5 * ROOM
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
        self.readers = Readers(Desk().state, {0: Attendee(0, 0.0, 0.0, self.stream)})
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
                    self.readers.hear(said.log_part)
            await asyncio.sleep(0)

    def read(self) -> AsyncIterator[wire.LogChunk]:
        return self.readers.read(7, 0, 0, follow=False)


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


def test_a_reader_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(reading, "READERS", 0)
        with pytest.raises(RefusedError, match="readers of logs"):
            await anext(Between(tmp_path).read())

    run(main())
