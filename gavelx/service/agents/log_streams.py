"""What jobs wrote, on its way from the agent that has it to the user who asked.

A reader may be slow, or stall: agents send no more parts than they have room for, and no other waits for them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from itertools import count

import grpc

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.refused import RefusedError
from gavelx.service.agents.session import AgentSession
from gavelx.service.state.state import State

ROOM = 32
"""Parts that may be under way to one reader, 64 KiB each."""
READERS = 512
"""Requests that may be open at once."""
ANSWER_S, LOOK_S, MOVES_S = 30.0, 1.0, 0.5
"""How long an agent may take to send what it has; how often to look whether a job that is followed has ended, and
where it runs now."""


class Cursor:
    """How much of what each rank wrote one reader has: what is read again is not said again."""

    def __init__(self) -> None:
        self._at: dict[tuple[int, int, int], int] = {}  # by server, lease and rank
        self._removed: set[int] = set()  # servers that said that they removed some

    async def news(self, server_id: int, chunks: AsyncIterator[wire.LogChunk]) -> AsyncIterator[wire.LogChunk]:
        """What is new of what a server sends, which begins at the beginning."""
        place: dict[tuple[int, int, int], int] = {}
        async for chunk in chunks:
            if chunk.removed:
                if server_id not in self._removed:
                    self._removed.add(server_id)
                    yield chunk
                continue
            key = server_id, chunk.lease_id, chunk.rank
            begin = place.get(key, 0) + chunk.dropped
            end = place[key] = begin + len(chunk.text)
            if end <= (at := self._at.get(key, 0)):
                continue
            self._at[key] = end
            chunk.text, chunk.dropped = chunk.text[max(0, at - begin) :], max(0, begin - at)
            yield chunk


class LogStreams:
    """Requests for output, by the number under which the agent that was asked answers them."""

    def __init__(self, state: State, here: Mapping[int, AgentSession]) -> None:
        self._state, self._here = state, here
        self._parts: dict[tuple[int, str], asyncio.Queue[wire.LogPart]] = {}  # by the server that was asked, too
        self._numbers = count(1)

    def hear(self, server_id: int, part: wire.LogPart) -> None:
        """Hand it to who asked. What an agent sends beyond the room there is, is counted and dropped."""
        if (parts := self._parts.get((server_id, part.request_id))) is None:
            return
        if parts.full():
            dropped = parts.get_nowait()
            part.chunk.dropped += len(dropped.chunk.text) + dropped.chunk.dropped
        parts.put_nowait(part)

    async def read_job(self, job_id: int, offset: int, *, follow: bool) -> AsyncIterator[wire.LogChunk]:
        """What a job wrote, server after server, and again where it came back; with ``follow`` until it ends.

        ``offset`` is of the first server. One that is away does not stop users from reading the others: only then
        :class:`RefusedError` says that it is missing.
        """
        known, taken, missing = self._state.jobs[job_id], Cursor(), None
        first, servers = known.servers[:1], list(known.servers)
        while True:
            over, run = bool(known.ended), self._state.runs.latest_of(job_id)
            for server_id in servers:
                is_last, skipped = server_id == known.servers[-1], offset if server_id in first else 0
                read = self.read(job_id, server_id, skipped, follow=follow and is_last and not known.ended)
                try:
                    async for chunk in taken.news(server_id, read):
                        yield chunk
                except RefusedError as error:
                    if error.code is not grpc.StatusCode.UNAVAILABLE or is_last:
                        raise
                    missing = error
            if not follow or over:
                break
            gang = {part.server_id for part in run.parts} if run is not None else set()
            since = known.servers.index(servers[-1]) if servers else 0
            servers = [i for n, i in enumerate(known.servers) if n >= since or i in gang]
            await asyncio.sleep(MOVES_S)
        if missing is not None:
            raise missing

    async def read(
        self, job_id: int, server_id: int, offset: int, *, follow: bool
    ) -> AsyncIterator[wire.LogChunk]:
        """What a job's processes wrote on one server. Raises :class:`RefusedError`."""
        session = self._here.get(server_id)
        if session is None or session.stream is None:
            name = self._state.machines[server_id].name
            problem = f"the server {name}, which has the output, is not here"
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, problem)
        if len(self._parts) >= READERS:
            raise RefusedError(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{READERS} readers of logs are here already; try again"
            )
        stream, request_id = session.stream, f"log-{next(self._numbers)}"
        parts = self._parts[server_id, request_id] = asyncio.Queue(2 * ROOM)
        ask = wire.SendLog(request_id=request_id, job_id=job_id, offset=offset, follow=follow, room=ROOM)
        stream.send(send_log=ask)
        taken = 0
        try:
            while True:
                try:
                    part = await asyncio.wait_for(parts.get(), LOOK_S if follow else ANSWER_S)
                except TimeoutError:
                    if stream.closed or not follow:
                        raise RefusedError(grpc.StatusCode.UNAVAILABLE, "the agent was cut off") from None
                    if self._is_elsewhere(job_id, server_id):
                        return
                    continue
                if part.HasField("chunk"):
                    yield part.chunk
                if part.last:
                    return
                taken += 1
                if taken == ROOM // 2:
                    stream.send(send_log=wire.SendLog(request_id=request_id, more=taken))
                    taken = 0
        finally:
            del self._parts[server_id, request_id]
            stream.send(send_log=wire.SendLog(request_id=request_id, end=True))

    def _is_elsewhere(self, job_id: int, server_id: int) -> bool:
        """Whether nothing more will be written there."""
        known = self._state.jobs[job_id]
        return bool(known.ended) or known.servers[-1:] != [server_id]
