"""Who is here: agents come, say how they are, and go, or fall silent.

What stands is in `state`, which follows from the log. Here is only what need not survive a restart: streams, when
an agent was last heard. What is said to agents of leases is in `launches` and `endings`, what they say of them in
`progress` and `endings`, and what their jobs wrote goes through `reading`.

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
from gavelx.files.price_tables import with_prices_of
from gavelx.mechanism.commands import Command, Launch, Stop
from gavelx.mechanism.events import LeaseEnded, WorkerDrained, WorkerJoined, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import check_hello
from gavelx.service.agents.completions import Endings
from gavelx.service.agents.launch_queue import Launches
from gavelx.service.agents.log_streams import Readers
from gavelx.service.agents.progress import ProgressReports
from gavelx.service.agents.session import Attendee, Stream
from gavelx.service.agents.speed_samples import Measuring
from gavelx.service.agents.timing import Timing
from gavelx.service.api.grpc_status import RefusedError
from gavelx.service.state.leases import Run
from gavelx.service.state.state import Machine, State
from gavelx.service.store.marks import Marks
from gavelx.service.store.records import Entry

Make = Callable[[float], list[Entry]]
MISSED = 3
"""A lease that an agent leaves out of so many heartbeats is not there: launched again, or over."""
_log = logging.getLogger(__name__)


class Attendance:
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
        self.here = {i: Attendee(i, now_s, until_s) for i, machine in state.machines.items() if not machine.lost}
        for server_id, attendee in self.here.items():
            attendee.sent.update(state.runs.on(server_id))  # for all we know
        self.progress = ProgressReports(state)
        self.launches = Launches(state, timing, self.here, self.progress, marks)
        self.launches.held = bool(self.here)
        self._awaited, self._restored = set(self.here), restored
        self._await_until_s = now_s + (timing.valid_for_s + timing.surely_over_s if restored else timing.silent_s)
        self.measuring = Measuring(state, timing, post)
        self.endings = Endings(state, self.here, self.launches, self.progress, measuring=self.measuring, post=post)
        self.readers = Readers(state, self.here)
        self._numbers = {machine.name: i for i, machine in state.machines.items()}
        self._joining: set[int] = set()
        self._unpriced: set[str] = set()

    # -- agents come and go -----------------------------------------------------------------------------------

    async def hello(self, hello: wire.Hello, stream: Stream) -> Attendee:
        """An agent is here. Returns when its server is in the log. Raises :class:`RefusedError`."""
        check_hello(hello)
        await self._marks.check(hello.log_mark, f"server {hello.name}")
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
                await self._post(lambda now_s: self._join(now_s, server, hello))
            finally:
                self._joining.discard(server_id)
        attendee = self.here[server_id]
        if attendee.stream is not None:
            attendee.stream.close()
        attendee.stream, attendee.agent_id = stream, hello.agent_id
        attendee.sent_s, attendee.leaving = None, False
        attendee.missed, attendee.launching = {}, {}
        attendee.heard_s = time.monotonic()
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
        return attendee

    def _note_the_price(self, accelerator: str) -> None:
        """Say once that nobody will know what jobs spend on devices of this type."""
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
        attendee = None if machine is None else self.here.get(machine.server.id)
        if machine is None or attendee is None or attendee.stream is None or attendee.stream.closed:
            return
        is_the_same = (attendee.agent_id, machine.boot_id) == (hello.agent_id, hello.boot_id)
        if not is_the_same and time.monotonic() - attendee.heard_s < self.timing.silent_s:
            problem = f"another agent is called {hello.name}, and is here (at {machine.address}); --name NAME"
            raise RefusedError(grpc.StatusCode.ALREADY_EXISTS, problem)

    def _is_new(self, machine: Machine, server: Server, hello: wire.Hello) -> bool:
        """Whether it was lost, or all that ran there is, so it is to be logged. Raises while that may run."""
        attendee = self.here.get(machine.server.id)
        if machine.lost:
            return True
        if attendee is not None and attendee.given_up:
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, f"the server {hello.name} is just being declared lost")
        if machine.boot_id == hello.boot_id and machine.server == server:
            machine.address = hello.address or machine.address
            return False
        if attendee is not None and self._is_exposed(attendee):
            left_s = attendee.valid_until_s + self.timing.surely_over_s - time.monotonic()
            problem = (
                f"the server {hello.name} came back as another one; its old leases run for {left_s:.0f} s more"
            )
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, problem)
        return True

    def _join(self, now_s: float, server: Server, hello: wire.Hello) -> list[Entry]:
        before = self.state.machines.get(server.id)
        epoch = 0 if before is None else before.epoch + 1
        note = {"name": hello.name, "address": hello.address, "boot_id": hello.boot_id}
        entries = [Entry(WorkerJoined(now_s, server, epoch), note)]
        if before is not None and before.drained:
            entries.append(Entry(WorkerDrained(now_s, server.id, epoch)))
        return entries

    def left(self, attendee: Attendee, stream: Stream) -> None:
        """The stream is broken; what was leased runs on until its time is over."""
        stream.close()
        if attendee.stream is stream:
            attendee.stream = None

    def receive(self, attendee: Attendee, stream: Stream, message: wire.FromAgent) -> None:
        """What an agent says after its hello."""
        if attendee.stream is not stream or attendee.given_up:
            stream.close()
            return
        attendee.heard_s = time.monotonic()
        match message.WhichOneof("message"):
            case "heartbeat":
                self._heartbeat(attendee, message.heartbeat)
            case "ended":
                self.endings.hear(attendee.server_id, message.ended)
            case "refused":
                refused = message.refused
                if (run := self.state.runs.on(attendee.server_id).get(refused.lease_id)) is not None:
                    expected = run.stopping or refused.of_another_job or self.endings.is_ending(run.lease.id)
                    self.endings.nothing(attendee.server_id, run, refused.reason or "refused", failed=not expected)
            case "log_part":
                self.readers.hear(message.log_part)

    def tick(self) -> None:
        """Servers that left, or were silent for too long, are lost; asked now and then."""
        now_s = time.monotonic()
        self.endings.hurry(now_s - self.timing.grace_s)
        if now_s > self._await_until_s:
            for server_id in tuple(self._awaited):
                self._is_clear(server_id)
        for attendee in self.here.values():
            machine = self.state.machines[attendee.server_id]
            over_s = attendee.heard_s + (0.0 if attendee.leaving else self.timing.silent_s)
            if self._is_exposed(attendee):
                over_s = max(over_s, attendee.valid_until_s + self.timing.surely_over_s)
            if now_s <= over_s or attendee.given_up or machine.lost or attendee.server_id in self._joining:
                continue
            why = "left" if attendee.leaving else f"was silent for {now_s - attendee.heard_s:.0f} s: lost"
            _log.warning("server %s %s", machine.name, why)
            attendee.given_up = True
            if attendee.stream is not None:
                attendee.stream.close()
            self._post(self._lost(machine))

    def _lost(self, machine: Machine) -> Make:
        return lambda now_s: [
            *self.progress.entries(now_s),
            Entry(WorkerLost(now_s, machine.server.id, machine.epoch)),
        ]

    def _is_exposed(self, attendee: Attendee) -> bool:
        """Whether something may run there."""
        return not attendee.sent.isdisjoint(self.state.runs.on(attendee.server_id))

    # -- leases -----------------------------------------------------------------------------------------------

    def _heartbeat(self, attendee: Attendee, beat: wire.Heartbeat) -> None:
        """Renew what stands, and send what is missing. One that was overtaken by a later one says nothing."""
        if attendee.sent_s is not None and beat.sent_s <= attendee.sent_s:
            return
        attendee.sent_s, attendee.leaving = beat.sent_s, beat.leaving
        attendee.valid_until_s = max(attendee.valid_until_s, attendee.heard_s + self.timing.valid_for_s)
        server_id = attendee.server_id
        runs, mentioned = self.state.runs.on(server_id), set[int]()
        for report in beat.leases:
            if (run := runs.get(report.lease_id)) is None or run.lease.job_id != report.job_id:
                continue  # it is over, or another log's
            mentioned.add(report.lease_id)
            if run.parts[0].server_id == server_id:
                self.progress.hear(report)
                self.measuring.hear(run, report)
        attendee.sent = (attendee.sent & runs.keys()) | mentioned
        silent = runs.keys() - mentioned
        attendee.missed = {i: times for i, times in attendee.missed.items() if i in silent}
        attendee.launching = {i: until_s for i, until_s in attendee.launching.items() if i in silent}
        standing = [i for i, run in runs.items() if not (run.stopping or self.endings.is_broken(i))]
        renewed = wire.Renewed(sent_s=beat.sent_s, valid_for_s=self.timing.valid_for_s, lease_ids=standing)
        renewed.log_mark = self._marks.last
        attendee.say(renewed=renewed)
        if not beat.leases:
            self._is_clear(server_id)
        for lease_id, run in runs.items():
            if lease_id in silent:
                self._missing(attendee, run, beat.sent_s)
        self.launches.send([server_id])

    def _missing(self, attendee: Attendee, run: Run, sent_s: float) -> None:
        """A lease that the agent does not speak of: it never heard of it, or its last word is on the way.

        While the launch may be on its way, and be obeyed, the lease is not over: what it hears may be slow, and
        what it says quick.
        """
        lease_id, server_id = run.lease.id, attendee.server_id
        if self.endings.has_spoken(server_id, lease_id):
            return
        over = run.stopping or self.endings.is_broken(lease_id)
        if lease_id not in attendee.sent:
            if over:
                self.endings.nothing(server_id, run, "never launched")
            return
        attendee.missed[lease_id] = attendee.missed.get(lease_id, 0) + 1
        if attendee.missed[lease_id] >= MISSED:
            attendee.missed[lease_id] = 0
            if over and sent_s < attendee.launching.get(lease_id, sent_s):
                return
            if over:
                self.endings.nothing(server_id, run, "not there any more")
            else:
                self.launches.add(lease_id, server_id)

    def follow(self, entries: Iterable[Entry], commands: Iterable[Command]) -> None:
        """A batch is durable and the state has changed: tell the agents."""
        servers, gone, changed = set[int](), set[int](), False
        for entry in entries:
            match entry.event:
                case LeaseEnded(lease_id=lease_id):
                    self.endings.lease_ended(lease_id)
                    self.progress.forget(lease_id)
                    servers |= self.launches.waiting_for(lease_id)
                case WorkerLost(server_id=server_id):
                    if self.state.machines[server_id].lost:
                        gone.add(server_id)
                    elif server_id in self.here:  # it came back before that was written
                        self.here[server_id].given_up = False
                    changed = True
                case WorkerJoined(server=server):
                    self._joined(server.id)
                    changed = True
        if changed:
            self.endings.servers_changed()
            self.progress.servers_changed()
            self.measuring.servers_changed()
            self.launches.servers_changed()
        for command in commands:
            match command:
                case Launch() if (run := self.state.runs.get(command.lease.id)) is not None:
                    for part in run.parts:
                        self.launches.add(run.lease.id, part.server_id)
                        servers.add(part.server_id)
                case Stop() if (run := self.state.runs.get(command.lease_id)) is not None:
                    self.endings.stop(run)
        for server_id in gone:  # not before: what it was told of may have been held there until now
            self.here.pop(server_id, None)
        self.launches.send(None if changed else servers)

    def _joined(self, server_id: int) -> None:
        """It is here from now on, even if the stream that it came on has broken in the meantime."""
        now_s = time.monotonic()
        self.here.setdefault(server_id, Attendee(server_id, now_s, now_s))

    # -- drain ------------------------------------------------------------------------------------------------

    def drain(self, name: str, now_s: float, *, undo: bool) -> list[Entry]:
        """No new leases on a server, or leases again. Raises :class:`RefusedError`."""
        machine = self.state.machine_named(name)
        if machine is None:
            raise RefusedError(
                grpc.StatusCode.NOT_FOUND, f"no server is called {name[:80]!r}; gavelx status lists them"
            )
        if machine.server.id in self._joining:  # what is said now would be of its epoch before
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, f"the server {name} comes in just now; try again")
        if machine.drained is not undo:
            return []
        if not undo:
            return [Entry(WorkerDrained(now_s, machine.server.id, machine.epoch))]
        if machine.lost:
            raise RefusedError(grpc.StatusCode.FAILED_PRECONDITION, f"the server {name} is not here")
        note = {"name": machine.name, "address": machine.address, "boot_id": machine.boot_id}
        return [Entry(WorkerJoined(now_s, machine.server, machine.epoch + 1), note)]
