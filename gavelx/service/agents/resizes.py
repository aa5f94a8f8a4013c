"""Jobs that go over to another lease while they run, and how far they are on the way.

The scheduler tells every server of both leases. New processes get ready while the job runs on; then it pauses,
those that are to leave exit, and rank 0 reports that it has gone over: it is `Resized` when the last one has left.
If anything fails on the way, both leases are stopped, and the job restarts from its last checkpoint. It does so
after a restart of the service as well.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gavelx.mechanism.events import Resized
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import safe_number
from gavelx.service.agents.part_states import OVER, PartState
from gavelx.service.agents.progress import ProgressReports
from gavelx.service.agents.session import AgentSession
from gavelx.service.agents.speed_samples import SpeedSamples
from gavelx.service.agents.tracking import TrackedLeases
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.records import Entry, Measured

Make = Callable[[float], list[Entry]]


class Resizes:
    """Which leases continue others live. ``post`` hands on that a job has gone over."""

    def __init__(
        self,
        state: State,
        here: Mapping[int, AgentSession],
        tracked: TrackedLeases,
        progress: ProgressReports,
        *,
        measuring: SpeedSamples,
        post: Callable[[Make], Any],
    ) -> None:
        self._state, self._here, self._tracked, self._progress = state, here, tracked, progress
        self._measuring, self._post = measuring, post

    def begin(self, run: LeaseRecord) -> bool:
        """Whether the job can go over to this lease while it runs; from now on it does."""
        if (before := self._state.before(run)) is None or not self._can_go_over(before, run):
            return False
        self._tracked[run.lease.id].resizing_s = time.monotonic()
        return True

    def _can_go_over(self, before: LeaseRecord, run: LeaseRecord) -> bool:
        """Whether the script can, by its own word, and every server is here."""
        report, servers = (
            self._progress.get(before.lease.id),
            {part.server_id for part in (*before.parts, *run.parts)},
        )
        return (
            report is not None
            and report.sizes == before.generation + 1
            and run.counts_processes
            and not before.stopping
            and all(i in self._here and self._here[i].takes_launches for i in servers)
            and all(part.state is PartState.RUNNING for part in self._tracked[before.lease.id].parts.values())
        )

    def over_from(self, run: LeaseRecord) -> LeaseRecord | None:
        """The lease from which the job of this one goes over to it just now."""
        tracked = self._tracked.get(run.lease.id)
        return None if tracked is None or tracked.resizing_s is None else self._state.before(run)

    def over_to(self, run: LeaseRecord) -> LeaseRecord | None:
        """The lease to which the job of this one goes over just now."""
        after = None if run.continued_by is None else self._state.runs.get(run.continued_by)
        return None if after is None or self.over_from(after) is None else after

    def leaving(self, server_id: int) -> Iterator[LeaseRecord]:
        """Leases that have nothing on a server which the job leaves for them, and does not know it yet."""
        for before in self._state.runs.on(server_id).values():
            after, part = self.over_to(before), self._tracked.part(before.lease.id, server_id)
            if after is None or part.state is not PartState.RUNNING or after.on(server_id) is not None:
                continue
            if part.next_id != after.lease.id:
                yield after

    def hear(self, run: LeaseRecord, handover: wire.Handover) -> None:
        """Rank 0 has gone over to this lease."""
        before = self.over_from(run)
        if before is None or handover.before_id != before.lease.id or self._tracked[before.lease.id].ending:
            return
        lease, parts = run.lease, self._tracked[before.lease.id].parts
        if not all(
            part.state in OVER or (part.next_id == lease.id and part.leaving == 0 and run.on(i) is not None)
            for i, part in parts.items()
        ):
            return
        tracked = self._tracked[lease.id]
        assert tracked.resizing_s is not None, "its job goes over to it"
        tracked.took_s = time.monotonic() - tracked.resizing_s
        self._tracked[before.lease.id].ending = True
        measured = self._measuring.end(before.lease.id)
        steps = safe_number(handover.steps_done, self._state.jobs[lease.job_id].job.total_steps)
        said_s = self._said_s(before, run.parts[0].server_id, safe_number(handover.held_s))
        held_s = before.held_s(said_s, self._tracked[before.lease.id].took_s)
        resized = lease.id, before.lease.id, lease.job_id, steps, held_s, safe_number(handover.warm_s)
        self._post(
            lambda now_s: [
                *(Entry(Measured(now_s, measurement)) for measurement in measured),
                Entry(Resized(now_s, *resized)),
            ]
        )

    def _said_s(self, before: LeaseRecord, first: int, first_s: float) -> dict[int, float]:
        """For how long each server has held a lease that its job has left; the ``first`` knows it exactly."""
        parts = self._tracked[before.lease.id].parts
        said_s = {i: safe_number(first_s + parts[first].begun_s - part.begun_s) for i, part in parts.items()}
        return said_s | {first: first_s}

    def late(self, before_s: float) -> list[LeaseRecord]:
        """Leases to which jobs were to go over since before then, and have not."""
        runs = (
            self._state.runs.get(i) for i, one in self._tracked if one.resizing_s and one.resizing_s < before_s
        )
        return [run for run in runs if run is not None and self.over_from(run) is not None]
