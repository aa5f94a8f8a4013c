"""Who is here: agents, their heartbeats, and what was said to whom about which lease.

What stands is in `state`, which follows from the log. Here is only what need not survive a restart: streams, when
an agent was last heard, progress since the last report, which launches were sent.

**No job runs twice.** A lease on a server may run until ``sent_s + valid_for_s`` of the last heartbeat that we
renewed, on the agent's clock, which is before ``heard + valid_for_s`` on ours. Only when that has passed, and a
margin, is a silent server lost; then the mechanism may lease its jobs elsewhere. And a job's next lease is not
launched before its last one has ended everywhere.

Legend: L leases.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc
import numpy as np

from gavelx.cluster import Server
from gavelx.mechanism.commands import Command, Device, Launch, Stop
from gavelx.mechanism.events import (
    LeaseEnded,
    Progress,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import check_hello, safe_number
from gavelx.service.records import Entry
from gavelx.service.refusals import RefusedError
from gavelx.service.state import Machine, Part, Run, State
from gavelx.service.timing import Timing

Make = Callable[[float], list[Entry]]
QUEUE = 5000
"""Messages that may wait for one agent; one that takes none for so long is not there."""
MISSED = 3
"""A lease that an agent leaves out of so many heartbeats is not there: launched again, or over."""
PORT, PORTS = 20000, 10000
_log = logging.getLogger(__name__)


class Stream:
    """Messages on their way to one agent."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[wire.ToAgent | None] = asyncio.Queue(QUEUE)
        self.closed = False

    def send(self, **message: Any) -> None:
        """Say something; an agent that does not listen is cut off."""
        if self.closed:
            return
        try:
            self._queue.put_nowait(wire.ToAgent(**message))
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        """No more: what waits is dropped."""
        self.closed = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def messages(self) -> AsyncIterator[wire.ToAgent]:
        while (message := await self._queue.get()) is not None:
            yield message


@dataclass(eq=False)
class Attendee:
    """One server, as we hear it. ``missed`` counts heartbeats without a lease that should be there.

    ``launching``: until when, on the agent's clock, a launch that is on its way on this stream is still good.
    """

    server_id: int
    heard_s: float
    valid_until_s: float
    stream: Stream | None = None
    sent_s: float | None = None  # of the last heartbeat on this stream, on the agent's clock
    given_up: bool = False  # it is being declared lost
    leaving: bool = False  # it stops what it runs, and heeds no launch
    missed: dict[int, int] = field(default_factory=dict)
    launching: dict[int, float] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)  # leases that it was told of, on this stream or before


class Attendance:
    """Agents that are here. ``post`` hands an event to the scheduler; the future it returns: it is durable.

    ``log_id`` tells agents whether lease ids are those that they know.
    """

    def __init__(
        self, state: State, timing: Timing, log_id: str, post: Callable[[Make], "asyncio.Future[Any]"]
    ) -> None:
        self.state, self.timing, self._log_id, self._post = state, timing, log_id, post
        now_s = time.monotonic()
        until_s = now_s + max(timing.valid_for_s, state.leased_for_s)  # what services before this one renewed
        self.here = {i: Attendee(i, now_s, until_s) for i, machine in state.machines.items() if not machine.lost}
        for run in state.runs.values():
            for part in run.parts:
                if part.server_id in self.here:
                    self.here[part.server_id].sent.add(run.lease.id)  # for all we know
        self.progress: dict[int, wire.LeaseReport] = {}
        self._reported: dict[int, tuple[float, float]] = {}  # steps done and saved that the mechanism knows
        self._last_words: dict[int, dict[int, wire.Ended]] = {}  # by lease and server
        self._complete_s: dict[int, float] = {}  # leases of which rank 0 is complete, since when
        self._ending: set[int] = set()
        self._unsent: set[tuple[int, int]] = set()  # lease and server
        self._numbers = {machine.name: i for i, machine in state.machines.items()}
        self._joining: set[int] = set()
        self._readers: dict[str, asyncio.Queue[wire.LogPart]] = {}
        self._request_ids = count(1)

    # -- agents come and go -----------------------------------------------------------------------------------

    async def hello(self, hello: wire.Hello, stream: Stream) -> Attendee:
        """An agent is here. Returns when its server is in the log. Raises :class:`RefusedError`."""
        check_hello(hello)
        server_id = self._numbers.setdefault(hello.name, len(self._numbers))
        if server_id in self._joining:
            raise RefusedError(
                grpc.StatusCode.ALREADY_EXISTS, f"another agent is called {hello.name}, and comes in now"
            )
        machine = self.state.machines.get(server_id)
        server = Server(server_id, hello.accelerator, hello.devices)
        if machine is None or self._is_new(machine, server, hello):
            self._joining.add(server_id)
            try:
                await self._post(lambda now_s: self._join(now_s, server, hello))
            finally:
                self._joining.discard(server_id)
        attendee = self.here[server_id]
        if attendee.stream is not None:
            attendee.stream.close()
        attendee.stream, attendee.sent_s, attendee.leaving = stream, None, False
        attendee.missed, attendee.launching = {}, {}
        attendee.heard_s = time.monotonic()
        welcome = wire.Welcome(
            server_id=server_id,
            heartbeat_s=self.timing.heartbeat_s,
            grace_s=self.timing.grace_s,
            log_bytes=self.timing.log_bytes,
            log_id=self._log_id,
        )
        stream.send(welcome=welcome)
        return attendee

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
            if attendee.stream is not None and time.monotonic() - attendee.heard_s < self.timing.silent_s:
                raise RefusedError(
                    grpc.StatusCode.ALREADY_EXISTS, f"another agent is called {hello.name}, and is here"
                )
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
                self._ended(attendee, message.ended)
            case "refused":
                refused = message.refused
                run = self.state.runs.get(refused.lease_id)
                if run is not None and run.on(attendee.server_id) is not None:
                    word = self._nothing(run, refused.reason or "refused", failed=not run.stopping)
                    self._word(attendee.server_id, run, word)
            case "log_part":
                self._log_part(message.log_part)

    def tick(self) -> None:
        """Servers that left, or were silent for too long, are lost; asked now and then.

        And who is done, and has processes elsewhere that do not end, is stopped there: they hold devices in vain.
        """
        now_s = time.monotonic()
        for lease_id, since_s in self._complete_s.items():
            if now_s >= since_s + self.timing.grace_s and (run := self.state.runs.get(lease_id)) is not None:
                for part in run.parts:
                    self._stop_part(run, part, "the job is complete")
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
            *self.progress_entries(now_s),
            Entry(WorkerLost(now_s, machine.server.id, machine.epoch)),
        ]

    def _is_exposed(self, attendee: Attendee) -> bool:
        """Whether something may run there."""
        runs = (self.state.runs.get(lease_id) for lease_id in attendee.sent)
        return any(run is not None and run.on(attendee.server_id) is not None for run in runs)

    # -- leases -----------------------------------------------------------------------------------------------

    def _heartbeat(self, attendee: Attendee, beat: wire.Heartbeat) -> None:
        """Renew what stands, and send what is missing. One that was overtaken by a later one says nothing."""
        if attendee.sent_s is not None and beat.sent_s <= attendee.sent_s:
            return
        attendee.sent_s, attendee.leaving = beat.sent_s, beat.leaving
        attendee.valid_until_s = max(attendee.valid_until_s, attendee.heard_s + self.timing.valid_for_s)
        mentioned = set()
        for report in beat.leases:
            mentioned.add(report.lease_id)
            run = self.state.runs.get(report.lease_id)
            if run is not None and (part := run.on(attendee.server_id)) is not None:
                attendee.sent.add(report.lease_id)
                attendee.launching.pop(report.lease_id, None)
                if part.first_rank == 0:
                    self.progress[report.lease_id] = report
        standing = []
        for run in self.state.runs.values():
            part = run.on(attendee.server_id)
            if part is None or part.over:
                continue
            if not run.stopping:
                standing.append(run.lease.id)
            if run.lease.id not in mentioned:
                self._missing(attendee, run, beat.sent_s)
            else:
                attendee.missed.pop(run.lease.id, None)
        assert attendee.stream is not None
        renewed = wire.Renewed(sent_s=beat.sent_s, valid_for_s=self.timing.valid_for_s, lease_ids=standing)
        attendee.stream.send(renewed=renewed)
        self._launch()

    def _missing(self, attendee: Attendee, run: Run, sent_s: float) -> None:
        """A lease that the agent does not speak of: it never heard of it, or its last word is on the way.

        While the launch may be on its way, and be obeyed, the lease is not over: what it hears may be slow, and
        what it says quick.
        """
        lease_id, server_id = run.lease.id, attendee.server_id
        if server_id in self._last_words.get(lease_id, ()):
            return
        if lease_id not in attendee.sent:
            if run.stopping:
                self._word(server_id, run, self._nothing(run, "never launched"))
            return
        attendee.missed[lease_id] = attendee.missed.get(lease_id, 0) + 1
        if attendee.missed[lease_id] >= MISSED:
            attendee.missed[lease_id] = 0
            if run.stopping and sent_s < attendee.launching.get(lease_id, sent_s):
                return
            if run.stopping:
                self._word(server_id, run, self._nothing(run, "not there any more"))
            else:
                self._unsent.add((lease_id, server_id))

    def follow(self, entries: Iterable[Entry], commands: Iterable[Command]) -> None:
        """A batch is durable and the state has changed: tell the agents."""
        for entry in entries:
            match entry.event:
                case LeaseEnded():
                    self._over(entry.event)
                case WorkerLost(server_id=server_id):
                    if self.state.machines[server_id].lost:
                        self.here.pop(server_id, None)
                    elif server_id in self.here:  # it came back before that was written
                        self.here[server_id].given_up = False
                    self._parts_gone()
                case WorkerJoined():
                    self._joined(entry.event.server.id)
                    self._parts_gone()
        for command in commands:
            match command:
                case Launch():
                    run = self.state.runs.get(command.lease.id)
                    self._unsent |= {(run.lease.id, part.server_id) for part in run.parts} if run else set()
                case Stop():
                    if (run := self.state.runs.get(command.lease_id)) is not None:
                        self._stop(run)
        self._launch()

    def _joined(self, server_id: int) -> None:
        """It is here from now on, even if the stream that it came on has broken in the meantime."""
        now_s = time.monotonic()
        self.here.setdefault(server_id, Attendee(server_id, now_s, now_s))

    def _over(self, event: LeaseEnded) -> None:
        """A lease has ended for good."""
        self._ending.discard(event.lease_id)
        self._complete_s.pop(event.lease_id, None)
        self.progress.pop(event.lease_id, None)
        self._reported.pop(event.lease_id, None)
        for server_id, word in self._last_words.pop(event.lease_id, {}).items():
            self._acknowledge(server_id, word)
        for attendee in self.here.values():
            attendee.sent.discard(event.lease_id)
            attendee.missed.pop(event.lease_id, None)
            attendee.launching.pop(event.lease_id, None)

    def _parts_gone(self) -> None:
        """Leases of which only parts on lost servers had not ended."""
        for run in list(self.state.runs.values()):
            if run.lease.id in self._last_words:
                self._end_if_over(run)

    def _stop(self, run: Run) -> None:
        """Ask all parts to stop; where nobody was told of the lease, it is over."""
        if not self._was_sent(run):
            self._unsent -= {(run.lease.id, part.server_id) for part in run.parts}
            self._end(run, self._saved_steps(run), 0.0, failed=False, note={})
            return
        for part in run.parts:
            self._stop_part(run, part, "preempted")

    def _stop_part(self, run: Run, part: Part, reason: str) -> None:
        attendee = self.here.get(part.server_id)
        if attendee is None or part.over or part.server_id in self._last_words.get(run.lease.id, ()):
            return
        if run.lease.id not in attendee.sent:
            self._unsent.discard((run.lease.id, part.server_id))
            self._word(part.server_id, run, self._nothing(run, "never launched"))
        elif attendee.stream is not None:
            attendee.stream.send(stop=wire.Stop(lease_id=run.lease.id, reason=reason))

    def _was_sent(self, run: Run) -> bool:
        servers = (self.here.get(part.server_id) for part in run.parts)
        return any(attendee is not None and run.lease.id in attendee.sent for attendee in servers)

    def _launch(self) -> None:
        """Send what can be sent: the agent is here, the last leases of the job and the devices have ended."""
        if not self._unsent:
            return
        runs = self.state.runs
        first_of_job: dict[int, int] = {}
        closing: dict[Device, int] = {}
        for run in runs.values():
            job_id = run.lease.job_id
            first_of_job[job_id] = min(run.lease.id, first_of_job.get(job_id, run.lease.id))
            if run.stopping:
                closing.update(dict.fromkeys(run.lease.devices, run.lease.id))
        for lease_id, server_id in sorted(self._unsent):
            attendee = self.here.get(server_id)
            if lease_id not in runs or (run := runs[lease_id]).stopping or lease_id in self._ending:
                self._unsent.discard((lease_id, server_id))
                continue
            busy = first_of_job[run.lease.job_id] != lease_id or any(d in closing for d in run.lease.devices)
            if busy or attendee is None or attendee.stream is None or attendee.sent_s is None or attendee.leaving:
                continue
            part = run.on(server_id)
            assert part is not None
            attendee.stream.send(launch=self._launch_message(run, part, attendee))
            attendee.sent.add(lease_id)
            attendee.launching[lease_id] = attendee.sent_s + self.timing.valid_for_s
            self._unsent.discard((lease_id, server_id))

    def _launch_message(self, run: Run, part: Part, attendee: Attendee) -> wire.Launch:
        lease, known = run.lease, self.state.book[run.lease.job_id]
        master = self.state.machines[run.parts[0].server_id]
        return wire.Launch(
            lease_id=lease.id,
            job_id=lease.job_id,
            job_type=known.spec.get("type", known.job.job_type),
            command=known.spec.get("command", ()),
            environment=known.spec.get("environment", {}),
            slots=part.slots,
            world_size=run.world_size,
            first_rank=part.first_rank,
            processes=part.processes,
            master_address=master.address or "127.0.0.1",
            master_port=PORT + lease.id % PORTS,
            until_step=known.job.total_steps,
            saved_steps=self._saved_steps(run),
            steps_per_s=self._speed(run),
            owner=known.job.owner,
            name=known.spec.get("name", ""),
            sent_s=attendee.sent_s,
            valid_for_s=self.timing.valid_for_s,
        )

    def _speed(self, run: Run) -> float:
        """Steps/s by the table, where and as it runs."""
        job, lease = self.state.book[run.lease.job_id].job, run.lease
        mechanism = self.state.mechanism
        j = mechanism.live.index.get(job.id)
        spread = j is not None and bool(mechanism.live["spread"][j])
        table = mechanism.throughputs
        apart = (
            table.get(job.job_type, lease.accelerator, job.scale_factor, consolidated=False) if spread else None
        )
        together = table.get(job.job_type, lease.accelerator, job.scale_factor)
        return (together if apart is None else apart) or 0.0

    # -- last words -------------------------------------------------------------------------------------------

    def _ended(self, attendee: Attendee, ended: wire.Ended) -> None:
        """An agent's last word on its part of a lease; it repeats it until it is acknowledged."""
        run = self.state.runs.get(ended.lease_id)
        if run is None and self._is_late(attendee, ended):
            self._late(attendee, ended)
        elif (
            run is None
            or run.lease.job_id != ended.job_id
            or (part := run.on(attendee.server_id)) is None
            or part.over
        ):
            self._acknowledge(attendee.server_id, ended)
        else:
            self._word(attendee.server_id, run, ended)

    def _is_late(self, attendee: Attendee, ended: wire.Ended) -> bool:
        """Whether it is the word, of rank 0's server, on a lease that was taken for lost."""
        run = self.state.unheard.get(ended.lease_id)
        return (
            run is not None
            and run.lease.job_id == ended.job_id
            and run.parts[0].server_id == attendee.server_id
            and self.state.mechanism.leasing.stopped(ended.lease_id) is not None
        )

    def _late(self, attendee: Attendee, ended: wire.Ended) -> None:
        """It counts as what it is: for how long devices were held; and how far the job is, if none has gone on.

        A machine that was restarted cannot say for how long: what was charged remains.
        """
        lease_id = ended.lease_id
        self._last_words.setdefault(lease_id, {})[attendee.server_id] = ended
        charged = self.state.mechanism.leasing.stopped(lease_id)
        assert charged is not None
        held_s = safe_number(ended.held_s) or charged.held_s
        run = self.state.unheard[lease_id]
        total_steps = self.state.book[ended.job_id].job.total_steps
        steps = total_steps if ended.complete else safe_number(ended.steps_done, total_steps)
        note = {"reason": ended.reason[:500], "exit_code": ended.exit_code, "complete": ended.complete}
        self._end(run, steps, held_s, failed=ended.failed, note=note)

    def _word(self, server_id: int, run: Run, ended: wire.Ended) -> None:
        words = self._last_words.setdefault(run.lease.id, {})
        if server_id in words:
            if ended.report_id:
                words[server_id].report_id = ended.report_id
            return
        words[server_id] = ended
        if ended.complete and server_id == run.parts[0].server_id:
            self._complete_s[run.lease.id] = time.monotonic()
        if not run.stopping and (ended.failed or not ended.complete):
            for part in run.parts:
                self._stop_part(run, part, "another part of the gang has ended")
        self._end_if_over(run)

    def _end_if_over(self, run: Run) -> None:
        words = self._last_words[run.lease.id]
        if run.lease.id in self._ending or not all(part.over or part.server_id in words for part in run.parts):
            return
        first = None if run.parts[0].over else words[run.parts[0].server_id]
        failed = any(word.failed for word in words.values())
        complete = first is not None and first.complete and not failed
        total_steps = self.state.book[run.lease.job_id].job.total_steps
        steps = self._saved_steps(run) if first is None else safe_number(first.steps_done, total_steps)
        held_s = max((safe_number(word.held_s) for word in words.values()), default=0.0)
        reasons = [word.reason for word in words.values() if word.failed] or [
            word.reason for word in words.values()
        ]
        note = {"reason": reasons[0][:500] if reasons else "", "exit_code": first.exit_code if first else 0}
        self._end(
            run, total_steps if complete else steps, held_s, failed=failed, note=note | {"complete": complete}
        )

    def _end(self, run: Run, steps: float, held_s: float, *, failed: bool, note: dict[str, Any]) -> None:
        lease_id, job_id = run.lease.id, run.lease.job_id
        if lease_id in self._ending:
            return
        self._ending.add(lease_id)
        self._post(lambda now_s: [Entry(LeaseEnded(now_s, lease_id, job_id, steps, held_s, failed), note)])

    def _nothing(self, run: Run, reason: str, *, failed: bool = False) -> wire.Ended:
        """The last word on a lease that never was, or of which nobody knows: it was held as long as was said."""
        steps, lease, report = self._saved_steps(run), run.lease, self.progress.get(run.lease.id)
        word = wire.Ended(lease_id=lease.id, job_id=lease.job_id, steps_done=steps, failed=failed, reason=reason)
        word.held_s = 0.0 if report is None else report.held_s
        return word

    def _saved_steps(self, run: Run) -> float:
        """How far the job is, safely, as far as we know."""
        live = self.state.mechanism.live
        j = live.index.get(run.lease.job_id)
        known = float(live["saved_steps"][j]) if j is not None else 0.0
        report = self.progress.get(run.lease.id)
        return known if report is None else max(known, self._capped(run, report.saved_steps))

    def _acknowledge(self, server_id: int, ended: wire.Ended) -> None:
        attendee = self.here.get(server_id)
        if ended.report_id and attendee is not None and attendee.stream is not None:
            attendee.stream.send(acknowledged=wire.Acknowledged(report_id=ended.report_id))

    # -- progress ---------------------------------------------------------------------------------------------

    def _capped(self, run: Run, steps: float) -> float:
        """A job is complete when its lease has ended well, and not when it says so on the way."""
        total_steps = self.state.book[run.lease.job_id].job.total_steps
        return safe_number(steps, float(np.nextafter(total_steps, 0.0)))

    def progress_entries(self, now_s: float) -> list[Entry]:
        """What the mechanism does not know yet of how far leases are."""
        rows = []
        for lease_id, report in self.progress.items():
            run = self.state.runs.get(lease_id)
            if run is None or run.stopping:
                continue
            done, saved = self._capped(run, report.steps_done), self._capped(run, report.saved_steps)
            figures = max(done, saved), saved
            if self._reported.get(lease_id) != figures:
                self._reported[lease_id] = figures
                rows.append((lease_id, run.lease.job_id, *figures))
        if not rows:
            return []
        lease_L, job_id_L, steps_L, saved_L = zip(*rows, strict=True)
        ids = np.array(lease_L, dtype=np.int64), np.array(job_id_L, dtype=np.int64)
        return [Entry(Progress(now_s, *ids, np.array(steps_L, dtype=float), np.array(saved_L, dtype=float)))]

    def report_again(self) -> None:
        """What was to be reported may not have been."""
        self._reported.clear()

    # -- drain and logs ---------------------------------------------------------------------------------------

    def drain(self, name: str, now_s: float, *, undo: bool) -> list[Entry]:
        """No new leases on a server, or leases again. Raises :class:`RefusedError`."""
        machine = self.state.machine_named(name)
        if machine is None:
            raise RefusedError(
                grpc.StatusCode.NOT_FOUND, f"no server is called {name[:80]!r}; gavelx status lists them"
            )
        if machine.drained is not undo:
            return []
        if not undo:
            return [Entry(WorkerDrained(now_s, machine.server.id, machine.epoch))]
        if machine.lost:
            raise RefusedError(grpc.StatusCode.FAILED_PRECONDITION, f"the server {name} is not here")
        note = {"name": machine.name, "address": machine.address, "boot_id": machine.boot_id}
        return [Entry(WorkerJoined(now_s, machine.server, machine.epoch + 1), note)]

    async def logs(
        self, job_id: int, server_id: int, offset: int, *, follow: bool
    ) -> AsyncIterator[wire.LogChunk]:
        """What a job's processes wrote on one server, as its agent sends it. Raises :class:`RefusedError`."""
        attendee = self.here.get(server_id)
        if attendee is None or attendee.stream is None:
            name = self.state.machines[server_id].name
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE, f"the server {name}, which has the output, is not here"
            )
        request_id = f"log-{next(self._request_ids)}"
        parts = self._readers[request_id] = asyncio.Queue(256)
        stream = attendee.stream
        ask = wire.SendLog(request_id=request_id, job_id=job_id, offset=offset, follow=follow)
        stream.send(send_log=ask)
        try:
            while True:
                try:
                    part = await asyncio.wait_for(parts.get(), 30.0 if not follow else 1.0)
                except TimeoutError:
                    if stream.closed or not follow:
                        raise RefusedError(grpc.StatusCode.UNAVAILABLE, "the agent was cut off") from None
                    if self.state.book[job_id].servers[-1:] != [server_id] or self.state.book[job_id].ended:
                        return
                    continue
                if part.HasField("chunk"):
                    yield part.chunk
                if part.last:
                    return
        finally:
            del self._readers[request_id]
            stream.send(send_log=wire.SendLog(request_id=request_id, end=True))

    def _log_part(self, part: wire.LogPart) -> None:
        """Hand it to who asked; what he is too slow for is counted and dropped, as heartbeats must not wait."""
        if (parts := self._readers.get(part.request_id)) is None:
            return
        if parts.full():
            dropped = parts.get_nowait()
            part.chunk.dropped += len(dropped.chunk.text) + dropped.chunk.dropped
        parts.put_nowait(part)
