"""Who is here: agents come, say how they are, and go, or fall silent.

What stands is in `state`, which follows from the log. Here is only what need not survive a restart: streams, when
an agent was last heard, how far each part of a lease is in its life (`tracking`, by the table of `part_states`).
What is said to agents of leases is in `launch_queue` and `completions`, what they say of them in `progress` and
`completions`, and what their jobs wrote goes through `log_streams`.

**No job runs twice.** A lease on a server may run until ``sent_s + valid_for_s`` of the last heartbeat that we
renewed, on the agent's clock, which is before ``heard + valid_for_s`` on ours. Only when that has passed, and a
margin, is a silent server lost; then the mechanism may lease its jobs elsewhere. And a job's next lease is not
launched before its last one has ended everywhere.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from math import isnan
from typing import Any

import grpc

from gavelx.cluster import Server
from gavelx.estimator.untold import rate_of
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.price_tables import with_prices_of
from gavelx.mechanism.commands import Command, Launch, Resize, Stop
from gavelx.mechanism.events import LeaseEnded, Resized, ServerOffers, WorkerDrained, WorkerJoined, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import check_hello
from gavelx.rpc.refused import RefusedError
from gavelx.service.agents.completions import GONE, LeaseCompletions
from gavelx.service.agents.launch_queue import LaunchQueue
from gavelx.service.agents.log_streams import LogStreams
from gavelx.service.agents.part_states import EXPOSED, STANDING, PartEvent, PartState
from gavelx.service.agents.progress import ProgressReports
from gavelx.service.agents.resizes import Resizes
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.service.agents.speed_samples import SpeedSamples
from gavelx.service.agents.timing import Timing
from gavelx.service.agents.tracking import TrackedLeases
from gavelx.service.state.foretelling import foretold
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import Machine, State
from gavelx.service.state.untold import Foretold
from gavelx.service.store.marks import Marks
from gavelx.service.store.records import Entry

Make = Callable[[float], list[Entry]]
MISSED = 3
"""A lease that an agent leaves out of so many heartbeats is not there: launched again, or over."""
_log = logging.getLogger(__name__)


class AgentRegistry:
    """Agents that are here. ``post`` hands an event to the scheduler; the future it returns: it is durable.

    ``marks`` tell agents whether lease ids are those that they know. ``restored``: they were told of others since.
    """

    def __init__(
        self,
        state: State,
        timing: Timing,
        marks: Marks,
        post: Callable[[Make], "asyncio.Future[Any]"],
        *,
        restored: bool = False,
    ) -> None:
        self.state, self.timing, self._marks, self._post = state, timing, marks, post
        now_s = time.monotonic()
        until_s = now_s + max(timing.valid_for_s, state.leased_for_s)  # what services before this one renewed
        self.here = {
            i: AgentSession(i, now_s, until_s) for i, machine in state.machines.items() if not machine.lost
        }
        self.tracked = TrackedLeases()
        for run in state.runs.values():  # their agents were told, for all we know
            resizing = state.before(run) is not None  # how far, is not known any more: both leases end
            stopping = resizing or run.gives_up
            tracked = self.tracked.begin(run, PartState.STOPPING if stopping else PartState.LAUNCHING)
            tracked.resizing_s = now_s if resizing else None
        self.progress = ProgressReports(state)
        self.measuring = SpeedSamples(state, timing, post)
        self.resizes = Resizes(state, self.here, self.tracked, self.progress, measuring=self.measuring, post=post)
        self.launches = LaunchQueue(
            state, timing, self.here, self.tracked, self.progress, resizes=self.resizes, marks=marks
        )
        self.launches.held = bool(self.here)
        self._awaited, self._restored = set(self.here), restored
        self._await_until_s = now_s + (timing.valid_for_s + timing.surely_over_s if restored else timing.silent_s)
        self.completions = LeaseCompletions(
            *(state, self.here, self.tracked, self.progress),
            resizes=self.resizes,
            measuring=self.measuring,
            post=post,
        )
        self.log_streams = LogStreams(state, self.here)
        self._numbers = {machine.name: i for i, machine in state.machines.items()}
        self._joining: set[int] = set()
        self._unpriced: set[str] = set()
        self._taken_back = dict.fromkeys(self.here, now_s)  # when a notice is over: jobs of before have had theirs

    # -- agents come and go -----------------------------------------------------------------------------------

    async def hello(self, hello: wire.Hello, stream: Stream) -> AgentSession:
        """An agent is here. Returns when its server is in the log. Raises :class:`RefusedError`."""
        check_hello(hello)
        if not await self._marks.check(hello.log_mark, f"server {hello.name}"):
            _log.warning(
                "server %s was of another log, and stops the jobs of that: %d", hello.name, len(hello.leases)
            )
        number = max(self._numbers.values(), default=-1) + 1  # some may never have come in: there are gaps
        server_id = self._numbers.setdefault(hello.name, number)
        if server_id in self._joining:
            raise RefusedError(
                grpc.StatusCode.ALREADY_EXISTS, f"another agent is called {hello.name}, and comes in now"
            )
        machine = self.state.machines.get(server_id)
        self._check_name(machine, hello)
        server = Server(server_id, hello.accelerator, hello.devices)
        self._note_the_price(hello.accelerator)
        if machine is None or self._is_new(machine, server, hello):
            self._joining.add(server_id)
            try:
                told = await self._foretold(server.accelerator)
                await self._post(lambda now_s: self._join(now_s, server, hello, told))
            finally:
                self._joining.discard(server_id)
        session = self.here[server_id]
        if session.stream is not None:
            session.stream.close()
        session.stream, session.agent_id = stream, hello.agent_id
        session.sent_s, session.leaving = None, False
        for lease_id in self.state.runs.on(server_id):
            self.tracked.part(lease_id, server_id).on_new_stream()
        session.heard_s = time.monotonic()
        welcome = wire.Welcome(
            server_id=server_id,
            heartbeat_s=self.timing.heartbeat_s,
            grace_s=self.timing.grace_s,
            log_bytes=self.timing.log_bytes,
            log_id=self._marks.log_id,
        )
        stream.send(welcome=welcome)
        if not self._restored:
            self._is_clear(server_id)
        return session

    def _note_the_price(self, accelerator: str) -> None:
        """Say once that it is unknown what jobs spend on devices of this type."""
        prices = self.state.mechanism.accounts.prices
        if isnan(prices.of(accelerator)) and accelerator not in self._unpriced:
            self._unpriced.add(accelerator)
            hint = with_prices_of([accelerator], prices.name or "TABLE")
            _log.warning("no price of %s is known, so what jobs spend there is unknown: %s", accelerator, hint)

    def _is_clear(self, server_id: int) -> None:
        """It runs nothing that the log does not know. When that is so of all servers, launches may be sent.

        Another one may run what the log knows nothing of, if that is an older copy: a job would run twice.
        """
        self._awaited.discard(server_id)
        if self.launches.held and not self._awaited:
            self.launches.held = False
            self.launches.send()

    def _check_name(self, machine: Machine | None, hello: wire.Hello) -> None:
        """An agent that is here keeps its name. Raises :class:`RefusedError` for another one that comes with it.

        The same agent may come again while its old stream seems to hold.
        """
        session = None if machine is None else self.here.get(machine.server.id)
        if machine is None or session is None or session.stream is None or session.stream.closed:
            return
        is_the_same = (session.agent_id, machine.boot_id) == (hello.agent_id, hello.boot_id)
        if not is_the_same and time.monotonic() - session.heard_s < self.timing.silent_s:
            problem = f"another agent is called {hello.name}, and is here (at {machine.address}); --name NAME"
            raise RefusedError(grpc.StatusCode.ALREADY_EXISTS, problem)

    def _is_new(self, machine: Machine, server: Server, hello: wire.Hello) -> bool:
        """Whether it was lost, or all that ran there is, so it is to be logged. Raises while that may run."""
        session = self.here.get(machine.server.id)
        if machine.lost:
            return True
        if session is not None and session.given_up:
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, f"the server {hello.name} is just being declared lost")
        if machine.boot_id == hello.boot_id and machine.server == server:
            machine.address = hello.address or machine.address
            return False
        if session is not None and self._is_exposed(session):
            left_s = session.valid_until_s + self.timing.surely_over_s - time.monotonic()
            problem = (
                f"the server {hello.name} came back as another one; its old leases run for {left_s:.0f} s more"
            )
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, problem)
        return True

    async def _foretold(self, accelerator: str) -> list[Foretold]:
        """What data sheets say of the jobs that are here on an accelerator type that was not."""
        untold = self.state.untold
        if accelerator in untold.rates:
            return []
        return await foretold(untold.kinds, [accelerator], self.state.table)

    def _join(self, now_s: float, server: Server, hello: wire.Hello, told: list[Foretold]) -> list[Entry]:
        before = self.state.machines.get(server.id)
        epoch = 0 if before is None else before.epoch + 1
        note: dict[str, Any] = {"name": hello.name, "address": hello.address, "boot_id": hello.boot_id}
        note["rate"] = rate_of(server.accelerator, load_data_sheets())
        if told:
            note["foretold"] = told
        entries = [Entry(WorkerJoined(now_s, server, epoch), note)]
        if before is not None:
            entries += self._lends_as_before(now_s, before, server, epoch)
        if before is not None and before.drained:
            entries.append(Entry(WorkerDrained(now_s, server.id, epoch)))
        return entries

    @staticmethod
    def _lends_as_before(now_s: float, before: Machine, server: Server, epoch: int) -> list[Entry]:
        """A server that comes back lends no more devices than it did."""
        if before.lent >= before.server.device_count:
            return []
        return [
            Entry(ServerOffers(now_s, server.id, min(before.lent, server.device_count), epoch, before.offers + 1))
        ]

    def left(self, session: AgentSession, stream: Stream) -> None:
        """The stream is broken; what was leased runs on until its time is over."""
        stream.close()
        if session.stream is stream:
            session.stream = None

    def receive(self, session: AgentSession, stream: Stream, message: wire.FromAgent) -> None:
        """What an agent says after its hello."""
        if session.stream is not stream or session.given_up:
            stream.close()
            return
        session.heard_s = time.monotonic()
        match message.WhichOneof("message"):
            case "heartbeat":
                self._heartbeat(session, message.heartbeat)
            case "ended":
                self.completions.hear(session.server_id, message.ended)
            case "refused":
                refused = message.refused
                if (run := self.state.runs.on(session.server_id).get(refused.lease_id)) is not None:
                    expected = run.stopping or refused.of_another_job or bool(self.tracked[run.lease.id].finals)
                    reason = refused.reason or "refused"
                    self.completions.nothing(session.server_id, run, reason, failed=not expected)
            case "log_part":
                self.log_streams.hear(session.server_id, message.log_part)

    def tick(self) -> None:
        """Servers that left, or were silent for too long, are lost; asked now and then."""
        now_s = time.monotonic()
        self.completions.hurry(now_s - self.timing.grace_s)
        for run in self.resizes.late(now_s - self.timing.resize_s):
            self.completions.stop(run, "its new processes were not ready in time")
        for server_id in [i for i, over_s in self._taken_back.items() if over_s <= now_s]:
            for run in self.not_lent(self.state.machines[server_id]):
                if not run.stopping:
                    self.completions.stop(run, "its devices were taken back")
            del self._taken_back[server_id]
        if now_s > self._await_until_s:
            for server_id in tuple(self._awaited):
                self._is_clear(server_id)
        for session in self.here.values():
            machine = self.state.machines[session.server_id]
            over_s = session.heard_s + (0.0 if session.leaving else self.timing.silent_s)
            if self._is_exposed(session):
                over_s = max(over_s, session.valid_until_s + self.timing.surely_over_s)
            if now_s <= over_s or session.given_up or machine.lost or session.server_id in self._joining:
                continue
            why = "left" if session.leaving else f"was silent for {now_s - session.heard_s:.0f} s: lost"
            _log.warning("server %s %s", machine.name, why)
            session.given_up = True
            if session.stream is not None:
                session.stream.close()
            self._post(self._lost(machine, session))

    def _lost(self, machine: Machine, session: AgentSession) -> Make:
        return lambda now_s: [
            *self.progress.entries(now_s),
            Entry(WorkerLost(now_s, machine.server.id, machine.epoch, self._lapsed_s(session, now_s))),
        ]

    def _lapsed_s(self, session: AgentSession, now_s: float) -> float:
        """When all that was leased to a server had ended there, on the log's clock, which shows ``now_s``.

        What a service before this one renewed follows from when that was alive, as far as the log knows.
        """
        valid_until_s = now_s + session.valid_until_s - time.monotonic()
        if not session.renewed:
            valid_until_s = min(valid_until_s, self.state.renewed_until_s)
        return min(now_s, valid_until_s + self.timing.surely_over_s)

    def _is_exposed(self, session: AgentSession) -> bool:
        """Whether something may run there."""
        return self.tracked.is_exposed(self.state.runs.on(session.server_id), session.server_id)

    # -- leases -----------------------------------------------------------------------------------------------

    def _heartbeat(self, session: AgentSession, beat: wire.Heartbeat) -> None:
        """Renew what stands, and send what is missing. One that was overtaken by a later one says nothing."""
        if session.sent_s is not None and beat.sent_s <= session.sent_s:
            return
        session.sent_s, session.leaving = beat.sent_s, beat.leaving
        session.valid_until_s = max(session.valid_until_s, session.heard_s + self.timing.valid_for_s)
        session.renewed = True
        server_id = session.server_id
        runs, mentioned = self.state.runs.on(server_id), set[int]()
        for report in beat.leases:
            if (run := runs.get(report.lease_id)) is None or run.lease.job_id != report.job_id:
                continue  # it is over, or another log's
            mentioned.add(report.lease_id)
            self.tracked.part(report.lease_id, server_id).mentioned(report, session.heard_s)
            if run.parts[0].server_id == server_id:
                self.progress.hear(report)
                self.measuring.hear(run, report)
        for run in list(runs.values()):
            self._go_over(run)
        standing = self.tracked.in_state(STANDING, runs, server_id)
        renewed = wire.Renewed(sent_s=beat.sent_s, valid_for_s=self.timing.valid_for_s, lease_ids=standing)
        renewed.log_mark = self._marks.last
        session.say(renewed=renewed)
        if not beat.leases:
            self._is_clear(server_id)
        for lease_id in self.tracked.in_state(EXPOSED, runs, server_id):
            if lease_id not in mentioned:
                self._left_out(session, runs[lease_id], beat.sent_s)
        self.launches.send([server_id])

    def _go_over(self, run: LeaseRecord) -> None:
        """If the job has gone over to this lease, and nothing is left of the one before, so it is."""
        report = self.progress.get(run.lease.id)
        if report is not None and report.HasField("handover"):
            self.resizes.hear(run, report.handover)

    def _left_out(self, session: AgentSession, run: LeaseRecord, sent_s: float) -> None:
        """A lease that the agent does not speak of: it never heard of it, or its final report is on the way.

        While the launch may be on its way, and be obeyed, the lease is not over: what it hears may be slow, and
        what it says quick.
        """
        part = self.tracked.part(run.lease.id, session.server_id)
        part.missed += 1
        if part.missed < MISSED:
            return
        part.missed = 0
        if part.state is not PartState.STOPPING:
            part.happened(PartEvent.NOT_THERE)
        elif sent_s >= part.valid_until_s:
            self.completions.nothing(session.server_id, run, GONE, event=PartEvent.LAUNCH_VOID)

    def follow(self, entries: Iterable[Entry], commands: Iterable[Command]) -> None:
        """A batch is durable and the state has changed: tell the agents."""
        servers, changed = set[int](), False
        for entry in entries:
            match entry.event:
                case LeaseEnded(lease_id=lease_id, job_id=job_id) | Resized(before_id=lease_id, job_id=job_id):
                    self.completions.lease_ended(lease_id, job_id)
                    self.progress.forget(lease_id)
                    servers |= self.launches.waiting_for(lease_id)
                case WorkerLost(server_id=server_id):
                    if self.state.machines[server_id].lost:
                        self.here.pop(server_id, None)
                    elif server_id in self.here:  # it came back before that was written
                        self.here[server_id].given_up = False
                    changed = True
                case WorkerJoined(server=server):
                    self._joined(server.id)
                    changed = True
        for command in commands:
            if isinstance(command, Launch | Resize) and (run := self.state.runs.get(command.lease.id)) is not None:
                self.tracked.begin(run)
                servers |= {part.server_id for part in run.parts}
            if isinstance(command, Resize) and run is not None:
                servers |= self._resize(run)
        if changed:
            self.completions.servers_changed()
            self.progress.servers_changed()
            self.measuring.servers_changed()
            self.launches.servers_changed()
        for command in commands:
            if isinstance(command, Stop) and (run := self.state.left_of(command.lease_id)) is not None:
                self.completions.stop(run, "preempted")
        self.launches.send(None if changed else servers)

    def _resize(self, run: LeaseRecord) -> set[int]:
        """The job goes over to this lease if it can, or else is stopped and launched anew. Its servers before."""
        if (before := self.state.before(run)) is None:
            return set()
        if not self.resizes.begin(run):
            self.completions.stop(before, "its size changes")
        return {part.server_id for part in before.parts}

    def _joined(self, server_id: int) -> None:
        """It is here from now on, even if the stream that it came on has broken in the meantime."""
        now_s = time.monotonic()
        self.here.setdefault(server_id, AgentSession(server_id, now_s, now_s))

    # -- drain ------------------------------------------------------------------------------------------------

    def drain(self, name: str, now_s: float, *, undo: bool) -> list[Entry]:
        """No new leases on a server, or leases again. Raises :class:`RefusedError`."""
        machine = self._machine(name)
        aside = undo and machine.server.id in self.state.mechanism.failures.aside
        if machine.drained is not undo and not aside:
            return []
        if not undo:
            return [Entry(WorkerDrained(now_s, machine.server.id, machine.epoch))]
        if machine.lost:
            raise RefusedError(grpc.StatusCode.FAILED_PRECONDITION, f"the server {name} is not here")
        note = {"name": machine.name, "address": machine.address, "boot_id": machine.boot_id}
        epoch = machine.epoch + 1
        joined = Entry(WorkerJoined(now_s, machine.server, epoch), note)
        return [joined, *self._lends_as_before(now_s, machine, machine.server, epoch)]

    def offer(self, name: str, devices: int, notice_s: float, now_s: float) -> list[Entry]:
        """A server lends its first so many devices to jobs, and no others. Raises :class:`RefusedError`.

        What runs on others when the notice is over is stopped.
        """
        machine = self._machine(name)
        if devices > (most := machine.server.device_count):
            raise RefusedError(
                grpc.StatusCode.INVALID_ARGUMENT, f"{devices} devices: the server {name} has {most}"
            )
        server_id = machine.server.id
        if devices == machine.lent:
            return []
        self._taken_back[server_id] = time.monotonic() + notice_s
        offer = ServerOffers(now_s, server_id, devices, machine.epoch, machine.offers + 1, notice_s)
        return [Entry(offer)]

    def not_lent(self, machine: Machine) -> list[LeaseRecord]:
        """Leases that hold devices of a server which it lends no more."""
        server_id = machine.server.id
        return [
            run
            for run in self.state.runs.on(server_id).values()
            if any(
                slot >= machine.lent for part in run.parts if part.server_id == server_id for slot in part.slots
            )
        ]

    def _machine(self, name: str) -> Machine:
        """The server of this name. Raises :class:`RefusedError` if there is none, or it just comes in."""
        machine = self.state.machine_named(name)
        if machine is None:
            raise RefusedError(
                grpc.StatusCode.NOT_FOUND, f"no server is called {name[:80]!r}; gavelx status lists them"
            )
        if machine.server.id in self._joining:  # what is said now would be of its epoch before
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, f"the server {name} comes in just now; try again")
        return machine
