"""The daemon's doors: gRPC for users and agents, the standard health service, metrics; and its start and end."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gavelx.errors import GavelxError, OptionError, UserError
from gavelx.mechanism.events import JobCancelled, PolicyChanged, PriceChanged
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc import wire_pb2_grpc
from gavelx.rpc.channels import MESSAGE_BYTES_MAX
from gavelx.rpc.convert import check_from_agent, check_ids, check_message
from gavelx.rpc.refused import RefusedError
from gavelx.service.agents.session import Stream
from gavelx.service.agents.timing import Timing
from gavelx.service.api.admission import Admission
from gavelx.service.api.auth import Caller, Guard, check_exposure, is_loopback
from gavelx.service.api.explain import explain
from gavelx.service.api.grpc_status import Complaints, status_of
from gavelx.service.api.quotas import Limits, Quota
from gavelx.service.api.speeds import speeds
from gavelx.service.api.status import status
from gavelx.service.api.submit import Submission
from gavelx.service.loop.event_loop import EventLoop
from gavelx.service.loop.gauges import Gauges
from gavelx.service.loop.metrics import Metrics
from gavelx.service.loop.policy_calls import PolicyCalls
from gavelx.service.state.snapshots import configuration_of, restore
from gavelx.service.state.state import JobRecord, State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.records import Entry
from gavelx.solvers import Settings

HELLO_S = 10.0
STREAMS = 2000
SERVER_OPTIONS = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", 16_384),
    ("grpc.max_concurrent_streams", STREAMS),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.bdp_probe", 0),  # what is not read yet is not sent either, but for its first 64 KiB
    ("grpc.http2.lookahead_bytes", 65_536),
]
SERVICES = ("", "gavelx.v1.Scheduler", "gavelx.v1.Agents")
_log = logging.getLogger(__name__)
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Options:
    """How to serve: where, for whom, with what.

    ``configure`` says what the log is to be made with, given what it was made with (None: a new one).
    """

    state: str
    listen: str = "127.0.0.1:7070"
    policy: str | None = None  # None: as in the log, or max-min fairness in a new one; with tokens, among owners
    configure: Callable[[Configuration | None], Configuration] = lambda found: found or _nothing_said()
    timing: Timing = field(default_factory=Timing)
    settings: Settings = field(default_factory=lambda: Settings(budget_s=60.0))
    metrics: str | None = None
    tokens: str | None = None
    limits: Limits = field(default_factory=Limits)  # what users may submit
    certificate: str | None = None
    key: str | None = None
    agent_ca: str | None = None  # agents show a certificate of this CA,
    agent_listen: str | None = None  # and come in here
    restored: bool = False  # the log is a backup: numbers of leases will be given out again
    new: bool = False  # the log that was there is lost: another one begins


class Door:
    """What both services share: who calls, refusals, counts."""

    def __init__(self, scheduler: EventLoop, guard: Guard, metrics: Metrics, *, certified: bool) -> None:
        self.scheduler, self.guard, self.metrics, self.certified = scheduler, guard, metrics, certified
        self.state = scheduler.state
        self._complaints = Complaints(_log)

    async def _answered(self, method: str, context: Any, work: Callable[[], Awaitable[Reply]]) -> Reply:
        """Do it; whatever goes wrong becomes a status, and is counted."""
        try:
            reply = await work()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self.refuse(method, context, error)
            raise AssertionError("abort() returned") from error
        self.metrics.calls.labels(method, "OK").inc()
        return reply

    async def refuse(self, method: str, context: Any, error: Exception) -> None:
        code, problem = status_of(error)
        self.metrics.calls.labels(method, code.name).inc()
        say, peer = self._complaints.say, context.peer()
        if isinstance(error, GavelxError):
            say(code.name, logging.INFO, "%s from %s refused: %s: %s", method, peer, code.name, problem)
        else:
            say(code.name, logging.ERROR, "%s from %s failed", method, peer, error=error)
        await context.abort(code, problem)


class Users(Door, wire_pb2_grpc.SchedulerServicer):
    """What users ask for."""

    def __init__(self, scheduler: EventLoop, guard: Guard, metrics: Metrics, limits: Limits) -> None:
        super().__init__(scheduler, guard, metrics, certified=False)
        self.limits = limits

    def _known(self, job_id: int, caller: Caller) -> JobRecord:
        """A job that the caller may see; of others' jobs he is not even told that they exist."""
        known = self.state.jobs.get(job_id)
        if known is None or not caller.may_see(known.job.owner):
            raise RefusedError(grpc.StatusCode.NOT_FOUND, f"no job has the id {job_id}, or it is somebody else's")
        return known

    def _caller(self, request: Any, context: Any, *roles: Any) -> Caller:
        caller = self.guard.caller(context, *roles)
        check_message(request)
        return caller

    async def Submit(self, request: wire.SubmitRequest, context: Any) -> wire.SubmitReply:
        async def work() -> wire.SubmitReply:
            caller = self._caller(request, context, "user")
            quota = Quota(caller, self.guard.accounts(), self.limits)
            submission = Submission(self.state, request.jobs, quota)
            await submission.check()
            await self.scheduler.ask(submission.entries)
            return wire.SubmitReply(job_ids=submission.ids)

        return await self._answered("Submit", context, work)

    async def Status(self, request: wire.StatusRequest, context: Any) -> wire.StatusReply:
        async def work() -> wire.StatusReply:
            caller = self._caller(request, context, "user")
            check_ids(request.job_ids)
            if len(request.job_ids) == 1:
                self._known(request.job_ids[0], caller)
            scheduler = self.scheduler
            return status(self.state, scheduler.agents, request, caller, scheduler.clock.now_s())

        return await self._answered("Status", context, work)

    async def Explain(self, request: wire.ExplainRequest, context: Any) -> wire.ExplainReply:
        async def work() -> wire.ExplainReply:
            self._known(request.job_id, self._caller(request, context, "user"))
            scheduler = self.scheduler
            document = explain(self.state, scheduler.agents, request.job_id, scheduler.clock.now_s())
            return wire.ExplainReply(explanation_json=json.dumps(document))

        return await self._answered("Explain", context, work)

    async def Speeds(self, request: wire.SpeedsRequest, context: Any) -> wire.SpeedsReply:
        async def work() -> wire.SpeedsReply:
            caller = self._caller(request, context, "user")
            rejected = self.scheduler.agents.measuring.rejected
            return wire.SpeedsReply(speeds_json=json.dumps(speeds(self.state, rejected, request.job_type, caller)))

        return await self._answered("Speeds", context, work)

    async def Cancel(self, request: wire.CancelRequest, context: Any) -> wire.CancelReply:
        async def work() -> wire.CancelReply:
            caller = self._caller(request, context, "user")
            known = self._known(request.job_id, caller)
            note = {"reason": f"cancelled by {caller.owner}"}
            await self.scheduler.ask(
                lambda now_s: [] if known.ended else [Entry(JobCancelled(now_s, request.job_id), note)]
            )
            return wire.CancelReply(state=known.ended)

        return await self._answered("Cancel", context, work)

    async def Drain(self, request: wire.DrainRequest, context: Any) -> wire.DrainReply:
        async def work() -> wire.DrainReply:
            self._caller(request, context, "operator")
            here = self.scheduler.agents
            await self.scheduler.ask(lambda now_s: here.drain(request.server, now_s, undo=request.undo))
            machine = self.state.machine_named(request.server)
            assert machine is not None
            return wire.DrainReply(leases=len(self.state.runs.on(machine.server.id)))

        return await self._answered("Drain", context, work)

    async def SetPolicy(self, request: wire.SetPolicyRequest, context: Any) -> wire.SetPolicyReply:
        async def work() -> wire.SetPolicyReply:
            self._caller(request, context, "operator")
            before, text = self.state.policy, request.policy
            _, opens = await self.scheduler.solver.load(text)
            await self.scheduler.ask(lambda now_s: [Entry(PolicyChanged(now_s, opens), {"policy": text})])
            return wire.SetPolicyReply(policy=text, before=before)

        return await self._answered("SetPolicy", context, work)

    async def Logs(self, request: wire.LogsRequest, context: Any) -> AsyncIterator[wire.LogChunk]:
        """What the job wrote, server after server; with ``follow`` until it ends."""
        try:
            self._known(request.job_id, self._caller(request, context, "user"))
            readers = self.scheduler.agents.log_streams
            async for chunk in readers.read_job(request.job_id, request.offset, follow=request.follow):
                yield chunk
        except GavelxError as error:
            await self.refuse("Logs", context, error)


class Agents(Door, wire_pb2_grpc.AgentsServicer):
    """What agents say."""

    async def Attend(
        self, request_iterator: AsyncIterator[wire.FromAgent], context: Any
    ) -> AsyncIterator[wire.ToAgent]:
        stream = Stream()
        here = self.scheduler.agents
        try:
            hello = await _first(request_iterator)
            check_from_agent(hello, first=True)
            self.guard.agent(context, hello.hello.name, certified=self.certified)
            session = await here.hello(hello.hello, stream)
        except Exception as error:
            await self.refuse("Attend", context, error)
        said = hello.hello
        _log.info("server %s is here, from %s: %d x %s", said.name, context.peer(), said.devices, said.accelerator)
        wrong: list[Exception] = []

        async def listen() -> None:
            try:
                async for message in request_iterator:
                    check_from_agent(message, first=False)
                    with self.metrics.heartbeat.time():
                        here.receive(session, stream, message)
            except Exception as error:
                wrong.append(error)
            finally:
                stream.close()

        listening = asyncio.create_task(listen())
        try:
            async for message in stream.messages():
                yield message
            if wrong:
                await self.refuse("Attend", context, wrong[0])
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


class Service:
    """One daemon: ``async with Service(options) as service: await service.serve()``; ``address`` is where."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.address = self.agent_address = self.metrics_address = ""
        self.replayed = 0
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> "Service":
        options = self.options
        tls = options.certificate is not None and options.key is not None
        for address in filter(None, (options.listen, options.agent_listen)):
            check_exposure(address, tls=tls, tokens=options.tokens is not None)
        guard = Guard(options.tokens)
        self.log = await asyncio.to_thread(Log, options.state, restored=options.restored, new=options.new)
        try:
            self.solver = PolicyCalls(options.settings)
            state = await self._restored()
            self.metrics = Metrics()
            self.gauges = Gauges(self.metrics.registry)
            self.scheduler = EventLoop(
                self.log, state, self.solver, options.timing, self.metrics, restored=options.restored
            )
            self._running = asyncio.create_task(self.scheduler.run())
            self._running.add_done_callback(lambda _: self._stopping.set())
            await self._begin(state)
            await self._listen(guard)
        except BaseException:
            await self._end()
            raise
        beside = (self._look(), self.metrics.feel_the_pulse(), self.admission.streams.watch())
        self._watching = [asyncio.create_task(work) for work in beside]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._watching:
            task.cancel()
        await self.health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        for session in self.scheduler.agents.here.values():
            if session.stream is not None:
                session.stream.close()
        await self._server.stop(1.0)
        self.metrics.close()
        await self._end()

    async def _end(self) -> None:
        """Stop the actor and let go of the log. Raises what made the actor end, if something did."""
        try:
            if (running := getattr(self, "_running", None)) is not None:
                self.scheduler.close()
                await running
            elif (solver := getattr(self, "solver", None)) is not None:
                solver.stop()
        finally:
            self.log.close()

    async def serve(self) -> None:
        """Until :meth:`stop`."""
        await self._stopping.wait()

    def stop(self) -> None:
        """Serve no longer; may be said at any time."""
        self._stopping.set()

    # -- how --------------------------------------------------------------------------------------------------

    async def _restored(self) -> State:
        """The state of the log, or the first one of a new log."""
        before, found = configuration_of(self.log), self.log.configuration
        self.wanted = self.options.configure(before)
        self.same_prices = before is not None and self.wanted.prices is before.prices  # nobody said others
        wanted = json.loads(json.dumps(self.wanted.to_json()))
        if found is None:
            found = wanted
            self.log.configure(found)
        configuration = Configuration.from_json(found)
        _check_same(json.loads(json.dumps(configuration.to_json())), wanted)  # with what it did not know of yet
        state, _, self.replayed = restore(self.log, lambda: State(configuration))
        return state

    async def _begin(self, state: State) -> None:
        """The policy and the prices that this service was asked for."""
        first = "max_min_fairness" if self.options.tokens is None else "hierarchical(max_min_fairness)"
        text = self.options.policy or (None if state.policy else first)
        if text is not None and text != state.policy:
            _, opens = await self.solver.load(text)
            await self.scheduler.post(lambda now_s: [Entry(PolicyChanged(now_s, opens), {"policy": text})])
        prices = self.wanted.prices
        if not self.same_prices and dict(prices.usd_per_hour) != dict(
            state.mechanism.accounts.prices.usd_per_hour
        ):
            await self.scheduler.post(lambda now_s: [Entry(PriceChanged(now_s, prices))])

    async def _listen(self, guard: Guard) -> None:
        options = self.options
        users = Users(self.scheduler, guard, self.metrics, options.limits)
        agents = Agents(self.scheduler, guard, self.metrics, certified=options.agent_ca is not None)
        self.admission = Admission(guard, users.refuse, certified=options.agent_ca is not None)
        self._server = server = grpc.aio.server(interceptors=[self.admission], options=SERVER_OPTIONS)
        wire_pb2_grpc.add_SchedulerServicer_to_server(users, server)  # type: ignore[no-untyped-call]
        wire_pb2_grpc.add_AgentsServicer_to_server(agents, server)  # type: ignore[no-untyped-call]
        self.health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        health_pb2_grpc.add_HealthServicer_to_server(self.health, server)
        self.address = self._bind(options.listen, None)
        if options.agent_ca is not None:
            self.agent_address = self._bind(options.agent_listen or options.listen, options.agent_ca)
        if options.metrics is not None:
            host, _, port = options.metrics.rpartition(":")
            self.metrics_address = f"{host}:{self.metrics.serve(host, _port(port, '--metrics'))}"
            if not is_loopback(options.metrics):
                _log.warning("metrics can be read from other machines at %s", self.metrics_address)
        await server.start()
        for name in SERVICES:
            await self.health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def _bind(self, address: str, agent_ca: str | None) -> str:
        """Listen there; the address with its port. Raises :class:`OptionError`."""
        host, _, port = address.rpartition(":")
        _port(port, "--listen")
        options = self.options
        try:
            if options.certificate is None or options.key is None:
                if agent_ca is not None or options.certificate is not None or options.key is not None:
                    raise OptionError(
                        "TLS needs both", where="--cert, --key", expected="a certificate and its key"
                    )
                bound = self._server.add_insecure_port(address)
            else:
                pair = (_read(options.key), _read(options.certificate))
                ca = None if agent_ca is None else _read(agent_ca)
                credentials = grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)
                bound = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            bound, why = 0, f" ({error})"
        else:
            why = ""
        if not bound:
            raise OptionError(f"{address} cannot be had{why}", where="--listen", expected="a free HOST:PORT")
        return f"{host}:{bound}"

    async def _look(self) -> None:
        while True:
            self.gauges.look(self.scheduler)
            await asyncio.sleep(1.0)


def _nothing_said() -> Configuration:
    raise OptionError("a new log needs a throughput table", where="--table")


def _check_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A log goes on with what it was made with; only prices may differ."""
    for name in ("rules", "overheads", "isolated", "colocated", "refine"):
        if found.get(name, False) != wanted[name]:
            differing = name
            if name == "rules":
                pairs = [(rule, found[name][rule], wanted[name].get(rule)) for rule in found[name]]
                differing = ", ".join(f"{rule} is {old}, not {new}" for rule, old, new in pairs if old != new)
            problem = f"this log was made with other {'rules: ' if name == 'rules' else 'figures: '}{differing}"
            hint = "leave the option out, or begin a new log"
            raise OptionError(problem, where="--state", expected="the options it was made with", hint=hint)


def _port(text: str, option: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise OptionError(f"cannot read the port {text[:20]!r}", where=option, expected="HOST:PORT")
    return int(text)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"cannot read {path} ({error.strerror})", where="TLS", expected="a PEM file") from None
