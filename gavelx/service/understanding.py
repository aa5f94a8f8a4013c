"""Bytes that are no message, or one that would take seconds to read: refused on every method before anybody acts.

grpc itself would answer ``UNKNOWN`` with the name of our exception, and print a traceback. And it would make
objects of eight million empty jobs, which fit into 16 MB, while heartbeats wait.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from gavelx.errors import UserError
from gavelx.rpc.convert import UNREADABLE

SMALL = 65_536
"""Bytes that are read as they are."""
FIELDS_MAX = 20_000
"""In one message, on its outermost level; a repeated one counts as often as it is there."""
FROM_AGENT_MAX = 1 << 20
"""Bytes of an agent's message: a piece of a log, or reports on all of its leases."""
Handler = Any  # grpc.RpcMethodHandler, which is a named tuple
Refuse = Callable[[str, Any, Exception], Awaitable[None]]


class Understanding(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Stands before every method; what cannot be read is ``refuse(method, context, error)``.

    In a stream the error itself takes the place of the message, and the method has to look.
    """

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse
        self._handlers: dict[str, Handler] = {}

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], details: Any
    ) -> Handler:
        if (known := self._handlers.get(details.method)) is not None:
            return known
        handler = await continuation(details)
        if handler is not None:  # there is such a method
            handler = self._handlers[details.method] = self._understanding(handler, details.method)
        return handler

    def _understanding(self, handler: Handler, path: str) -> Handler:
        answers = {
            kind: self._asked(getattr(handler, kind), path.rpartition("/")[2])
            for kind in ("unary_unary", "unary_stream")
            if getattr(handler, kind) is not None
        }
        read = handler.request_deserializer
        understood = _stream_part(read) if handler.request_streaming else _request(read)
        return handler._replace(request_deserializer=understood, **answers)

    def _asked(self, answer: Callable[..., Any], method: str) -> Callable[..., Any]:
        """The same answer, for requests that could be read."""

        async def once(request: Any, context: Any) -> Any:
            if isinstance(request, UserError):
                await self._refuse(method, context, request)
            return await answer(request, context)

        async def many(request: Any, context: Any) -> AsyncIterator[Any]:
            if isinstance(request, UserError):
                await self._refuse(method, context, request)
            async for reply in answer(request, context):
                yield reply

        return many if inspect.isasyncgenfunction(answer) else once


def _request(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def understood(data: bytes) -> Any:
        if len(data) > SMALL and fields(data, FIELDS_MAX + 1) > FIELDS_MAX:
            return UserError(
                f"more than {FIELDS_MAX} fields in a message", expected="10000 jobs in a call at most"
            )
        return _decoded(read, data)

    return understood


def _stream_part(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def understood(data: bytes) -> Any:
        if len(data) > FROM_AGENT_MAX:
            return UserError(f"a message of {len(data)} bytes", expected=f"at most {FROM_AGENT_MAX}")
        return _decoded(read, data)

    return understood


def _decoded(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except DecodeError:
        return UserError(**UNREADABLE)


def fields(data: bytes, most: int) -> int:
    """How many fields there are on the outermost level, counted up to ``most``; what is no message ends early.

    >>> fields(bytes([8, 1, 18, 2, 0, 0, 18, 0]), 10)
    3
    """
    count = at = 0
    while at < len(data) and count < most:
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                _, at = _varint(data, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(data, at)
                at += size
            case 5:
                at += 4
            case _:
                break
        count += 1
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at
