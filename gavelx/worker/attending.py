"""An agent on the scheduler's stream: connect, say what is due, do what is asked; for ever, whatever breaks."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable

import grpc
import grpc.aio

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.wire_pb2_grpc import AgentsStub
from gavelx.worker.agent import Agent

BACKOFF_S = (0.1, 5.0)
"""The first wait after a stream that broke, and the longest."""
WRITE_S = 10.0
"""A message that cannot be sent for so long means that the stream is dead."""
log = logging.getLogger("gavelx.worker")


async def attend(
    agent: Agent, channel: Callable[[], grpc.aio.Channel], leave: asyncio.Event | None = None
) -> None:
    """Serve the scheduler until ``leave`` is set and everything has ended and was reported."""
    leave = leave or asyncio.Event()
    backoff_s = BACKOFF_S[0]
    while not agent.left:
        try:
            async with channel() as connection:
                await Stream(agent, connection, leave).run()
        except (grpc.aio.AioRpcError, TimeoutError, EOFError) as error:
            log.warning("%s: no stream to the scheduler: %s", agent.name, _in_words(error))
        if agent.left:
            return
        backoff_s = BACKOFF_S[0] if agent.welcomed else min(2 * backoff_s, BACKOFF_S[1])
        await _idle(agent, leave, backoff_s * random.uniform(0.5, 1.0))


def _in_words(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__


async def _idle(agent: Agent, leave: asyncio.Event, wait_s: float) -> None:
    """Between two streams: leases go on, and lapse, without us; we take note of what ends."""
    if leave.is_set():
        agent.leave()
    agent.runner.poll()
    await asyncio.sleep(wait_s)


class Stream:
    """One stream, for as long as it holds."""

    def __init__(self, agent: Agent, connection: grpc.aio.Channel, leave: asyncio.Event) -> None:
        self.agent, self.leave = agent, leave
        self.call = AgentsStub(connection).Attend()  # type: ignore[no-untyped-call]
        self.woken = asyncio.Event()

    async def run(self) -> None:
        """Both directions at once; the first that ends, ends it."""
        tasks = [asyncio.create_task(work()) for work in (self._listen, self._speak, self._heed_leave)]
        try:
            done, _ = await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            self.call.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        async for message in self.call:
            self.agent.receive(message)
            self.woken.set()
        raise EOFError("the scheduler ended it")

    async def _speak(self) -> None:
        await self._send(self.agent.hello())
        while not self.agent.left:
            for message in self.agent.due():
                await self._send(message)
            if self.agent.silent:
                raise TimeoutError("the scheduler does not answer")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.woken.wait(), min(1.0, self.agent.wait_s()))
            self.woken.clear()
        await self.call.done_writing()

    async def _send(self, message: wire.FromAgent) -> None:
        await asyncio.wait_for(self.call.write(message), WRITE_S)

    async def _heed_leave(self) -> None:
        await self.leave.wait()
        self.agent.leave()
        self.woken.set()
