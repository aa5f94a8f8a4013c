"""The daemon, from its start to its end: the log, the loop, and where it listens for users, agents and metrics."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gavelx.errors import GavelxError, OptionError
from gavelx.mechanism.events import PolicyChanged, PriceChanged
from gavelx.rpc import wire_pb2_grpc
from gavelx.rpc.channels import MESSAGE_BYTES_MAX
from gavelx.service.agents.timing import Timing
from gavelx.service.api.admission import Admission
from gavelx.service.api.agents import Agents
from gavelx.service.api.auth import Guard, check_exposure, is_loopback
from gavelx.service.api.calls import Desk
from gavelx.service.api.limits import Limits
from gavelx.service.api.users import users
from gavelx.service.loop.event_loop import EventLoop
from gavelx.service.loop.gauges import Gauges
from gavelx.service.loop.metrics import Metrics
from gavelx.service.loop.policy_calls import PolicyCalls
from gavelx.service.state.snapshots import configuration_of, restore
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.records import Entry
from gavelx.solvers import Settings

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


class StoppedError(GavelxError):
    """A service was stopped before it served."""


class Service:
    """One daemon: ``async with Service(options) as service: await service.serve()``; ``address`` is where.

    Raises :class:`StoppedError` if it is stopped before it serves.
    """

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
            await self._unless_stopped(self._begin(state))
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
        self.same_prices = before is not None and self.wanted.prices is before.prices  # no others were given
        wanted = json.loads(json.dumps(self.wanted.to_json()))
        if found is None:
            found = wanted
            self.log.configure(found)
        configuration = Configuration.from_json(found)
        _check_same(json.loads(json.dumps(configuration.to_json())), wanted)  # with what it did not know of yet
        state, _, self.replayed = restore(self.log, lambda: State(configuration))
        return state

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that may wait long, for a policy or a log. Raises :class:`StoppedError`."""
        working, stopped = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise StoppedError("stopped before it served")
            working.result()
        finally:
            working.cancel()
            stopped.cancel()

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
        desk, certified = Desk(self.scheduler, guard, self.metrics, options.limits), options.agent_ca is not None
        self.admission = Admission(guard, desk.refuse, certified=certified)
        self._server = server = grpc.aio.server(interceptors=[self.admission], options=SERVER_OPTIONS)
        wire_pb2_grpc.add_SchedulerServicer_to_server(users(desk), server)  # type: ignore[no-untyped-call]
        wire_pb2_grpc.add_AgentsServicer_to_server(Agents(desk, certified=certified), server)  # type: ignore[no-untyped-call]
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
