"""The agent's connection: connect to the scheduler, send and handle messages, and reconnect after failures."""

import asyncio
import contextlib
import logging
import random
import signal
from collections.abc import Callable, Sequence

import grpc
import grpc.aio

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.wire_pb2_grpc import AgentsStub
from gavelx.worker.agent import Agent

BACKOFF_S = (0.1, 5.0)
"""The first and the longest wait after a broken stream, in seconds."""
WRITE_S = 10.0
"""Seconds after which a message that cannot be sent means that the stream is dead."""
BROKEN = (grpc.RpcError, asyncio.InvalidStateError, TimeoutError, EOFError, OSError)
Metadata = Sequence[tuple[str, str]]
log = logging.getLogger("gavelx.worker")


async def attend(
    agent: Agent,
    channel: Callable[[], grpc.aio.Channel],
    leave: asyncio.Event | None = None,
    metadata: Metadata = (),
) -> None:
    """Serve the scheduler until ``leave`` is set and every lease has ended and was reported.

    ``metadata`` goes with every stream: ``(("authorization", "Bearer TOKEN"),)``.
    """
    leave = leave or asyncio.Event()
    backoff_s = BACKOFF_S[0]
    while not agent.left:
        try:
            async with channel() as connection:
                await Stream(agent, connection, leave, metadata).run()
        except BROKEN as error:
            log.warning("%s: no stream to the scheduler: %s", agent.name, _in_words(error))
        if leave.is_set():
            agent.leave()
        agent.runner.poll()
        backoff_s = BACKOFF_S[0] if agent.welcomed else min(2 * backoff_s, BACKOFF_S[1])
        if not agent.left:
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))


def _in_words(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__


async def serve(agent: Agent, channel: Callable[[], grpc.aio.Channel], metadata: Metadata = ()) -> None:
    """`attend` as a program: at SIGTERM or SIGINT it stops its jobs and leaves; at a second one it leaves at once.

    An agent that leaves at once leaves its jobs running until their leases expire; an agent that is started again
    finds them.
    """
    leave, loop = asyncio.Event(), asyncio.get_running_loop()
    attending = asyncio.create_task(attend(agent, channel, leave, metadata))

    def asked() -> None:
        if leave.is_set():
            attending.cancel()
        leave.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    with contextlib.suppress(asyncio.CancelledError):
        await attending


class Stream:
    """One stream, until it breaks."""

    def __init__(
        self, agent: Agent, connection: grpc.aio.Channel, leave: asyncio.Event, metadata: Metadata
    ) -> None:
        self.agent, self.leave = agent, leave
        self.call = AgentsStub(connection).Attend(metadata=metadata)  # type: ignore[no-untyped-call]
        self.woken = asyncio.Event()

    async def run(self) -> None:
        """Read and write until either direction ends."""
        tasks = [asyncio.create_task(work()) for work in (self._listen, self._speak, self._heed_leave)]
        try:
            done, _ = await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.cancelled():  # by the other side
                    raise EOFError("the scheduler cancelled it")
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
