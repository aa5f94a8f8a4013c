"""What every call has in common: who calls, what is checked first, how it is answered or refused, and counted.

A method of the users' service is a plain function of a call and its request; `answers` gives one reply, `streams`
one message after the other.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from gavelx.errors import GavelxError
from gavelx.rpc.convert import check_message
from gavelx.rpc.refused import RefusedError
from gavelx.rpc.tokens import Role
from gavelx.service.agents.registry import AgentRegistry
from gavelx.service.api.auth import Caller, Guard
from gavelx.service.api.grpc_status import Complaints, status_of
from gavelx.service.api.limits import Limits
from gavelx.service.loop.event_loop import EventLoop
from gavelx.service.loop.metrics import Metrics
from gavelx.service.state.state import JobRecord, State

_log = logging.getLogger(__name__)
Method = Callable[[Any, Any], Any]
"""As grpc calls it: a request and grpc's own context."""


@dataclass(frozen=True)
class Desk:
    """What calls are answered with: the loop that acts on them, who may call, how much, and the counts."""

    scheduler: EventLoop
    guard: Guard
    metrics: Metrics
    limits: Limits
    complaints: Complaints = field(default_factory=lambda: Complaints(_log))

    async def refuse(self, method: str, context: Any, error: Exception) -> None:
        """End the call with the status of the error, and count it."""
        code, problem = status_of(error)
        self.metrics.calls.labels(method, code.name).inc()
        say, peer = self.complaints.say, context.peer()
        if isinstance(error, GavelxError):
            say(code.name, logging.INFO, "%s from %s refused: %s: %s", method, peer, code.name, problem)
        else:
            say(code.name, logging.ERROR, "%s from %s failed", method, peer, error=error)
        try:
            await context.abort(code, problem)
        except grpc.aio.InternalError:  # the caller has gone; grpc would log a traceback for each
            raise asyncio.CancelledError from None


@dataclass(frozen=True)
class Call:
    """One call of a user: the caller, and what it is answered with."""

    caller: Caller
    desk: Desk

    @property
    def scheduler(self) -> EventLoop:
        return self.desk.scheduler

    @property
    def state(self) -> State:
        return self.desk.scheduler.state

    @property
    def agents(self) -> AgentRegistry:
        return self.desk.scheduler.agents

    def job(self, job_id: int) -> JobRecord:
        """A job that the caller may see; of others' jobs they are not even told that they exist."""
        known = self.state.jobs.get(job_id)
        if known is None or not self.caller.may_see(known.job.owner):
            raise RefusedError(grpc.StatusCode.NOT_FOUND, f"no job has the id {job_id}, or it is another owner's")
        return known


def answers(name: str, role: Role, answer: Callable[[Call, Any], Awaitable[Any]], desk: Desk) -> Method:
    """The method that answers once; whatever goes wrong becomes a status, and is counted."""

    async def method(request: Any, context: Any) -> Any:
        try:
            reply = await answer(_call(desk, role, request, context), request)
        except Exception as error:
            await desk.refuse(name, context, error)
            raise AssertionError("abort() returned") from error
        desk.metrics.calls.labels(name, "OK").inc()
        return reply

    return method


def streams(name: str, role: Role, answer: Callable[[Call, Any], AsyncIterator[Any]], desk: Desk) -> Method:
    """The method that answers with one message after the other."""

    async def method(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for message in answer(_call(desk, role, request, context), request):
                yield message
        except Exception as error:
            await desk.refuse(name, context, error)

    return method


def _call(desk: Desk, role: Role, request: Any, context: Any) -> Call:
    """Raises :class:`RefusedError` for a caller without that role, and :class:`UserError` for another version."""
    caller = desk.guard.caller(context, role)
    check_message(request)
    return Call(caller, desk)
