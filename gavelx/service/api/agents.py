"""What agents say, for as long as they are here: one stream each."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc

from gavelx.errors import UserError
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc import wire_pb2_grpc
from gavelx.rpc.convert import check_from_agent
from gavelx.service.agents.session import Stream
from gavelx.service.api.calls import Desk

HELLO_S = 10.0
_log = logging.getLogger(__name__)


class Agents(wire_pb2_grpc.AgentsServicer):
    """The ``Agents`` service of wire.proto. ``certified``: agents show a certificate instead of a token."""

    def __init__(self, desk: Desk, *, certified: bool) -> None:
        self.desk, self.certified = desk, certified

    async def Attend(
        self, request_iterator: AsyncIterator[wire.FromAgent], context: Any
    ) -> AsyncIterator[wire.ToAgent]:
        stream = Stream()
        here = self.desk.scheduler.agents
        try:
            hello = await _first(request_iterator)
            check_from_agent(hello, first=True)
            self.desk.guard.agent(context, hello.hello.name, certified=self.certified)
            session = await here.hello(hello.hello, stream)
        except Exception as error:
            await self.desk.refuse("Attend", context, error)
        said = hello.hello
        _log.info("server %s is here, from %s: %d x %s", said.name, context.peer(), said.devices, said.accelerator)
        wrong: list[Exception] = []

        async def listen() -> None:
            try:
                async for message in request_iterator:
                    check_from_agent(message, first=False)
                    with self.desk.metrics.heartbeat.time():
                        here.receive(session, stream, message)
            except grpc.aio.AbortError:
                pass  # the call was ended elsewhere, and its agent told why
            except Exception as error:
                wrong.append(error)
            finally:
                stream.close()

        listening = asyncio.create_task(listen())
        try:
            async for message in stream.messages():
                yield message
            if wrong:
                await self.desk.refuse("Attend", context, wrong[0])
        finally:
            listening.cancel()
            here.left(session, stream)
            _log.info("server %s is cut off", said.name)


async def _first(messages: AsyncIterator[wire.FromAgent]) -> wire.FromAgent:
    """The first message of a stream. Raises :class:`UserError` where none comes."""
    try:
        return await asyncio.wait_for(anext(messages), HELLO_S)
    except (StopAsyncIteration, TimeoutError):
        raise UserError("no message came", expected=f"a hello within {HELLO_S:g} s") from None
