"""Before every method: a caller is known before their message is read, and its size before objects are made of it.

grpc itself would read 16 MB from a stranger, and answer bytes that are no message with ``UNKNOWN`` and the name of
our exception. So each method is a stream here, of which we take the one message that it is about:

    who         by token or certificate; the health service is for strangers as well, and takes small messages
    room        so many messages of one caller are read at once, and one large message is worked on
    size        fields are counted first (`understanding`)
    streams     so many stay open for one caller, each as long as its token is good
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import grpc
import grpc.aio
from google.protobuf.descriptor import Descriptor

from gavelx.errors import UserError
from gavelx.rpc.convert import UNREADABLE
from gavelx.rpc.refused import RefusedError
from gavelx.service.api.auth import Caller, Guard
from gavelx.service.api.decoding import FIELDS_MAX, SMALL, decoded, fields, kind_of

HEALTH, ATTEND = "/grpc.health.v1.Health/", "/gavelx.v1.Agents/Attend"
STRANGERS_MAX, AGENTS_MAX = 4096, 1 << 20
"""Bytes of a message of a stranger; of an agent: a piece of a log, or reports on all of its leases."""
READ_AT_ONCE, STRANGERS_AT_ONCE, READ_S = 8, 2, 30.0
"""Messages of one caller that may be on their way in, and how long each may take; strangers count by address."""
STREAMS = 32
"""Outputs of jobs that one caller may read at once."""
LOOK_S, CLOSE_S = 2.0, 2.0
"""How often tokens of open streams are looked at, and how long a caller has to hear that theirs is over."""
Handler = Any  # grpc.RpcMethodHandler, which is a named tuple
Refuse = Callable[[str, Any, Exception], Awaitable[None]]


class Known(NamedTuple):
    """Who calls: the name by which calls are counted, and the caller where a token says one."""

    name: str
    caller: Caller | None = None


class Admission(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Stands before every method; ``refuse(method, context, error)`` tells a caller why not.

    ``certified``: agents show a certificate instead of a token.
    """

    def __init__(self, guard: Guard, refuse: Refuse, *, certified: bool) -> None:
        self._guard, self._refuse, self._certified = guard, refuse, certified
        self._handlers: dict[str, Handler] = {}
        self._reading = WeakValueDictionary[str, asyncio.Semaphore]()
        self._large = WeakValueDictionary[str, asyncio.Lock]()
        self.streams = Streams(guard, refuse)

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], details: Any
    ) -> Handler:
        if (known := self._handlers.get(details.method)) is not None:
            return known
        handler = await continuation(details)
        if handler is not None:  # there is such a method
            handler = self._handlers[details.method] = self._admitting(handler, details.method)
        return handler

    def _admitting(self, handler: Handler, path: str) -> Handler:
        if handler.request_streaming:
            part, stream = _part(handler.request_deserializer), _forgetting(self._stream(handler, path))
            return handler._replace(request_deserializer=part, stream_stream=stream)
        return handler._replace(
            request_streaming=True,
            response_streaming=True,
            request_deserializer=None,
            unary_unary=None,
            unary_stream=None,
            stream_stream=_forgetting(self._call(handler, path)),
        )

    # -- the two ways to call ---------------------------------------------------------------------------------

    def _stream(self, handler: Handler, path: str) -> Callable[..., Any]:
        """An agent, whose messages come one by one."""
        method = path.rpartition("/")[2]

        async def answered(messages: Any, context: Any) -> AsyncGenerator[Any, None]:
            try:
                known = self._known(path, context)
            except Exception as error:
                await self._refuse(method, context, error)
            with self.streams.open(method, context, known):
                async for reply in handler.stream_stream(messages, context):
                    yield reply

        return answered

    def _call(self, handler: Handler, path: str) -> Callable[..., Any]:
        """One message, and one answer or many."""
        method, kind, lasts = path.rpartition("/")[2], kind_of(path), handler.response_streaming
        answer = handler.unary_stream if lasts else handler.unary_unary
        yields = inspect.isasyncgenfunction(answer)

        async def answered(_: Any, context: Any) -> AsyncGenerator[Any, None]:
            async with AsyncExitStack() as held:
                try:
                    known = self._known(path, context)
                    if lasts:
                        held.enter_context(self.streams.open(method, context, known, most=STREAMS))
                    read = handler.request_deserializer
                    request = decoded(read, await self._bytes(known, kind, context, held))
                except Exception as error:
                    await self._refuse(method, context, error)
                if yields:
                    async for reply in answer(request, context):
                        yield reply
                elif (reply := await answer(request, context)) is not None:
                    yield reply

        return answered

    def _known(self, path: str, context: Any) -> Known:
        """Raises :class:`RefusedError` for a caller who is not known, or calls too often."""
        if path.startswith(HEALTH):
            return Known(context.peer().rpartition(":")[0])
        if path == ATTEND and self._certified:
            return Known(self._guard.certified(context))
        caller = self._guard.enter(context)
        return Known(caller.owner, caller)

    async def _bytes(self, known: Known, kind: Descriptor, context: Any, held: AsyncExitStack) -> bytes:
        """The one message of a call; a large one is ``held`` to be the only one of its caller.

        Raises :class:`UserError` for one that is none, or too much.
        """
        at_once = STRANGERS_AT_ONCE if known.caller is None else READ_AT_ONCE
        async with self._reading.setdefault(known.name, asyncio.Semaphore(at_once)):
            try:
                data = await asyncio.wait_for(context.read(), READ_S)
            except TimeoutError:
                raise UserError("no message came", expected=f"one within {READ_S:g} s") from None
            if data is grpc.aio.EOF:  # type: ignore[attr-defined]
                raise UserError(**UNREADABLE)
            if known.caller is None and len(data) > STRANGERS_MAX:
                raise UserError(f"a message of {len(data)} bytes", expected=f"at most {STRANGERS_MAX}")
            if len(data) > SMALL:
                await held.enter_async_context(self._large.setdefault(known.name, asyncio.Lock()))
                await _check_fields(data, kind)
        return bytes(data)


class Streams:
    """Calls that stay open: so many of one caller, and none whose token is not good any more."""

    def __init__(self, guard: Guard, refuse: Refuse) -> None:
        self._guard, self._refuse = guard, refuse
        self._count = Counter[str]()
        self._open: dict[asyncio.Task[Any], tuple[str, Any, Caller]] = {}

    @contextmanager
    def open(self, method: str, context: Any, known: Known, most: int | None = None) -> Iterator[None]:
        """As long as this lasts. Raises :class:`RefusedError` for one too many."""
        task, key = asyncio.current_task(), f"{method} {known.name}"
        assert task is not None
        if most is not None and self._count[key] >= most:
            problem = f"{most} calls of {method} are open for {known.name} already"
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, problem)
        self._count[key] += 1
        if known.caller is not None:
            self._open[task] = method, context, known.caller
        try:
            yield
        finally:
            self._open.pop(task, None)
            self._count[key] -= 1
            if not self._count[key]:
                del self._count[key]

    async def watch(self) -> None:
        """End those whose tokens were taken back or changed, or have expired."""
        while True:
            await asyncio.sleep(LOOK_S)
            over = dict[asyncio.Task[Any], asyncio.Task[None]]()
            for task, (method, context, caller) in list(self._open.items()):
                try:
                    if self._guard.caller(context) != caller:
                        raise RefusedError(grpc.StatusCode.UNAUTHENTICATED, "the token is another one's now")
                except RefusedError as error:
                    over[task] = asyncio.create_task(self._end(method, context, error))
            if over:
                await asyncio.wait(over.values(), timeout=CLOSE_S)
            for task, saying in over.items():
                saying.cancel()
                task.cancel()

    async def _end(self, method: str, context: Any, error: RefusedError) -> None:
        with suppress(Exception):  # that is how it is said, and it may have gone
            await self._refuse(method, context, error)


async def _check_fields(data: bytes, kind: Descriptor) -> None:
    """Others have their turns meanwhile. Raises :class:`UserError`."""
    for count in fields(data, kind):
        if count > FIELDS_MAX:
            raise UserError(f"more than {FIELDS_MAX} fields in a message", expected="fewer jobs in a call")
        await asyncio.sleep(0)


def _forgetting(answer: Callable[..., AsyncGenerator[Any, None]]) -> Callable[..., AsyncGenerator[Any, None]]:
    """The same, without what an error would keep alive: grpc holds on to it, and its frames to the message."""

    async def answered(messages: Any, context: Any) -> AsyncGenerator[Any, None]:
        try:
            async with aclosing(answer(messages, context)) as replies:
                async for reply in replies:
                    yield reply
        except grpc.aio.AbortError as error:
            error.__traceback__ = error.__context__ = None
            raise error

    return answered


def _part(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """One of an agent's messages; the error itself takes its place, and the method has to look."""

    def understood(data: bytes) -> Any:
        try:
            if len(data) > AGENTS_MAX:
                raise UserError(f"a message of {len(data)} bytes", expected=f"at most {AGENTS_MAX}")
            return decoded(read, data)
        except UserError as error:
            return error

    return understood
