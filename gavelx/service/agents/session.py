"""An agent as we hear it: its stream, and what was said on it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from gavelx.rpc import wire_pb2 as wire

QUEUE = 5000
"""Messages that may wait for one agent; one that takes none for so long is not there."""


class Stream:
    """Messages on their way to one agent."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[wire.ToAgent | None] = asyncio.Queue(QUEUE)
        self.closed = False

    def send(self, **message: Any) -> None:
        """Say something; an agent that does not listen is cut off."""
        if self.closed:
            return
        try:
            self._queue.put_nowait(wire.ToAgent(**message))
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        """No more: what waits is dropped."""
        self.closed = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def messages(self) -> AsyncIterator[wire.ToAgent]:
        while (message := await self._queue.get()) is not None:
            yield message


@dataclass(eq=False)
class AgentSession:
    """One server, as we hear it."""

    server_id: int
    heard_s: float
    valid_until_s: float
    stream: Stream | None = None
    agent_id: str = ""  # the process at the other end of the stream
    sent_s: float | None = None  # of the last heartbeat on this stream, on the agent's clock
    renewed: bool = False  # by this service; else ``valid_until_s`` is what the one before may have promised
    given_up: bool = False  # it is being declared lost
    leaving: bool = False  # it stops what it runs, and heeds no launch

    @property
    def takes_launches(self) -> bool:
        """Whether it is here, has said when, and stays."""
        return self.stream is not None and self.sent_s is not None and not self.leaving

    def say(self, **message: Any) -> None:
        """Tell it, if it is here."""
        if self.stream is not None:
            self.stream.send(**message)
