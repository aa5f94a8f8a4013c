"""Launches that have yet to be sent: each waits for its agent, and for the leases that have to end before it.

A job's next lease is not launched before its last one has ended everywhere, nor one on devices that a lease which
was taken back still holds; but for one to which the job goes over while it runs.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

from gavelx.mixes import speed_on
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.part_states import TO_SEND, PartEvent
from gavelx.service.agents.progress import ProgressReports
from gavelx.service.agents.resizes import Resizes
from gavelx.service.agents.session import AgentSession
from gavelx.service.agents.timing import Timing
from gavelx.service.agents.tracking import TrackedLeases
from gavelx.service.state.leases import LeasePart, LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.marks import Marks

PORT, PORTS = 20000, 10000


class LaunchQueue:
    """Sends what is to be sent, as soon as it may be."""

    def __init__(
        self,
        state: State,
        timing: Timing,
        here: Mapping[int, AgentSession],
        tracked: TrackedLeases,
        progress: ProgressReports,
        *,
        resizes: Resizes,
        marks: Marks,
    ) -> None:
        self._state, self._timing, self._here = state, timing, here
        self._tracked, self._progress, self._resizes, self._marks = tracked, progress, resizes, marks
        self._first_port = crc32(marks.log_id.encode())
        """Two schedulers that share a server let gangs meet elsewhere."""
        self.held = False
        """Nothing is sent yet."""
        self._waiting: dict[int, set[int]] = {}  # servers by the lease that has to end first

    def servers_changed(self) -> None:
        """Leases may have ended without a word: those that wait look again."""
        self._waiting.clear()

    def waiting_for(self, lease_id: int) -> set[int]:
        """Servers to which something could not be sent before this lease had ended, which it now has."""
        return self._waiting.pop(lease_id, set())

    def send(self, server_ids: Iterable[int] | None = None) -> None:
        """Send what can be sent to these servers, or to all."""
        if self.held:
            return
        for server_id in sorted(self._here if server_ids is None else server_ids):
            session = self._here.get(server_id)
            if session is not None and session.takes_launches:
                self._send(session)

    def _send(self, session: AgentSession) -> None:
        server_id, runs = session.server_id, self._state.runs.on(session.server_id)
        for lease_id in sorted(self._tracked.in_state(TO_SEND, runs, server_id)):
            run, part = runs[lease_id], self._tracked.part(lease_id, server_id)
            if (before := self._before(run)) is not None:
                self._waiting.setdefault(before, set()).add(server_id)
                continue
            session.say(launch=self._message(run, session))
            part.happened(PartEvent.LAUNCH_SENT)
            assert session.sent_s is not None, "it takes launches"
            part.valid_until_s = session.sent_s + self._timing.valid_for_s
        for run in self._resizes.leaving(server_id):
            session.say(launch=self._message(run, session))

    def _before(self, run: LeaseRecord) -> int | None:
        """A lease that has to end before this one begins."""
        runs, lease, over_from = self._state.runs, run.lease, self._resizes.over_from(run)
        if over_from is None and (first := next(iter(runs.of(lease.job_id)))) != lease.id:
            return first
        for part in run.parts:
            for other in runs.on(part.server_id).values():
                if other.gives_up and other is not over_from and _share_a_device(part, other):
                    return other.lease.id
        return None

    def _message(self, run: LeaseRecord, session: AgentSession) -> wire.Launch:
        """What an agent is told of a lease; also where the job's processes there are only to leave."""
        lease, known, server_id = run.lease, self._state.jobs[run.lease.job_id], session.server_id
        master = self._state.machines[run.parts[0].server_id]
        part = run.on(server_id) or LeasePart(server_id, (), run.world_size, 0)
        over_from = self._resizes.over_from(run)
        elastic = known.job.elastic is not None and run.counts_processes
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
            master_port=PORT + (self._first_port + lease.id) % PORTS,
            until_step=known.job.total_steps,
            saved_steps=self._progress.saved_steps(run),
            steps_per_s=self._speed(run),
            owner=known.job.owner,
            name=known.spec.get("name", ""),
            sent_s=session.sent_s,
            valid_for_s=self._timing.valid_for_s,
            folder=known.spec.get("folder", ""),
            log_mark=self._marks.last,
            elasticity=str(known.job.elastic) if elastic else "",
            workers=known.job.scale_factor,
            size=self._size(run) if elastic else None,
            numbers=run.numbers_on(part) if elastic else (),
            restart_if_silent_s=known.spec.get("restart_if_silent_s", 0.0),
            continues=over_from.lease.id if over_from is not None and over_from.on(server_id) else None,
        )

    @staticmethod
    def _size(run: LeaseRecord) -> wire.Size:
        ranks = {number: rank for rank, number in enumerate(run.numbers)}
        return wire.Size(
            generation=run.generation,
            rank_of_number=ranks,
            batch=run.lease.configuration.batch,
            parts_of_rank=run.parts_of_rank,
        )

    def _speed(self, run: LeaseRecord) -> float:
        """Steps/s by the table, where and as it runs."""
        job, lease = self._state.jobs[run.lease.job_id].job, run.lease
        mechanism = self._state.mechanism
        j = mechanism.live.index.get(job.id)
        spread = j is not None and bool(mechanism.live.spread[j])
        how = lease.configuration.uses, lease.configuration.batch, mechanism.throughputs
        apart = speed_on(job, *how, consolidated=False) if spread else None
        together = speed_on(job, *how)
        return (together if apart is None else apart) or 0.0


def _share_a_device(part: LeasePart, other: LeaseRecord) -> bool:
    theirs = other.on(part.server_id)
    return theirs is not None and not set(part.slots).isdisjoint(theirs.slots)
