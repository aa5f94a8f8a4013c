"""A link between an agent and the service that a test may cut, stall, delay or half-close."""

import asyncio
import contextlib
from collections.abc import Sequence

UP, DOWN = "what the agent says", "what the agent hears"
CHUNK = 1 << 16


class Proxy:
    """Listens at ``host`` and passes bytes on to ``target``, while it may; ``prefix`` begins who is to use it."""

    prefix: Sequence[str] = ()

    def __init__(self, target: str, host: str = "127.0.0.1") -> None:
        self.target, self.host = target, host
        self.address = ""
        self.delay_s = 0.0
        self._cut = False
        self._open = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self._links: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.heal()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.address = f"{self.host}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- what a test does --

    def cut(self) -> None:
        """Every connection is gone, and no new one can be made."""
        self._cut = True
        self._abort()

    def stall(self, *directions: str) -> None:
        """Bytes wait, and nobody is told."""
        for direction in directions:
            self._open[direction].clear()

    def half_close(self) -> None:
        """One direction of each connection ends."""
        for writer in self._links:
            with contextlib.suppress(OSError, RuntimeError):
                writer.write_eof()

    def heal(self) -> None:
        self._cut, self.delay_s = False, 0.0
        for gate in self._open.values():
            gate.set()

    # -- how --

    def _abort(self) -> None:
        for writer in self._links:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._links.add(writer)
        try:
            if self._cut:
                return
            host, _, port = self.target.rpartition(":")
            there, here = await asyncio.open_connection(host, int(port))
            self._links.add(here)
            try:
                await asyncio.gather(self._pass_on(reader, here, UP), self._pass_on(there, writer, DOWN))
            finally:
                self._links.discard(here)
                here.transport.abort()
        except (OSError, RuntimeError):  # cut, or closed on our side
            pass
        finally:
            self._links.discard(writer)
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        while data := await reader.read(CHUNK):
            await asyncio.sleep(self.delay_s)
            await self._open[direction].wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionError("one side has ended it")
