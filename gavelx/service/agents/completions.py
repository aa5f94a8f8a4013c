"""How leases end: agents report on their parts, and when the end of all parts is known, the lease has ended."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from gavelx.mechanism.events import LeaseEnded
from gavelx.mechanism.stopped import Stopped
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import safe_number
from gavelx.service.agents.memory import types_too_small
from gavelx.service.agents.part_states import OVER, PartEvent, PartState
from gavelx.service.agents.progress import ProgressReports
from gavelx.service.agents.resizes import Resizes
from gavelx.service.agents.session import AgentSession
from gavelx.service.agents.speed_samples import SpeedSamples
from gavelx.service.agents.tracking import TrackedLeases
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.records import Entry, Measured

Make = Callable[[float], list[Entry]]
Note = dict[str, Any]
_log = logging.getLogger(__name__)
GONE = "not there any more"
"""The reason of a part of which an agent speaks no more, and whose final report never came."""


class LeaseCompletions:
    """Final reports, which agents repeat until they are acknowledged; ``post`` hands on the end of a lease."""

    def __init__(
        self,
        state: State,
        here: Mapping[int, AgentSession],
        tracked: TrackedLeases,
        progress: ProgressReports,
        *,
        resizes: Resizes,
        measuring: SpeedSamples,
        post: Callable[[Make], Any],
    ) -> None:
        self._state, self._here, self._tracked, self._progress = state, here, tracked, progress
        self._resizes, self._measuring, self._post = resizes, measuring, post

    def hear(self, server_id: int, ended: wire.Ended) -> None:
        """An agent's final report on its part of a lease."""
        run = self._state.runs.on(server_id).get(ended.lease_id)
        if run is not None and run.lease.job_id == ended.job_id:
            self._final(server_id, run, ended)
        elif (late := self._taken_for_lost(server_id, ended)) is not None:
            self._late(server_id, *late, ended)
        else:
            self._acknowledge(server_id, ended)
            if run is not None:
                self._is_of_another_job(server_id, run, ended)

    def _is_of_another_job(self, server_id: int, run: LeaseRecord, ended: wire.Ended) -> None:
        """That is what the agent takes the number for, and it never launches it: the job gets another lease."""
        name, lease_id = self._state.machines[server_id].name, run.lease.id
        _log.warning(
            "server %s knows lease %d of job %d, and not of job %d: the log may be an older copy (--restored)",
            *(name, lease_id, ended.job_id, run.lease.job_id),
        )
        reason = f"the number of its lease was another job's on {name}"
        self.nothing(server_id, run, reason)

    def nothing(
        self,
        server_id: int,
        run: LeaseRecord,
        reason: str,
        *,
        failed: bool = False,
        event: PartEvent = PartEvent.FINAL_REPORT,
    ) -> None:
        """Stands for the final report on a part that does not run: it was held as long as the agent said."""
        steps, lease, report = self._progress.saved_steps(run), run.lease, self._progress.get(run.lease.id)
        final = wire.Ended(lease_id=lease.id, job_id=lease.job_id, steps_done=steps, failed=failed, reason=reason)
        final.held_s = 0.0 if report is None else report.held_s
        self._final(server_id, run, final, event)

    def stop(self, run: LeaseRecord, reason: str) -> None:
        """Ask all parts to stop, also of the lease that the job goes over from, or to, if it does."""
        others = self._resizes.over_from(run), self._resizes.over_to(run)
        for one in (run, *(other for other in others if other is not None)):
            self._stop(one, reason)

    def _stop(self, run: LeaseRecord, reason: str) -> None:
        """Those parts whose agents were never told are over."""
        for part in run.parts:
            tracked, session = self._tracked.part(run.lease.id, part.server_id), self._here.get(part.server_id)
            if tracked.state is PartState.QUEUED:
                self.nothing(part.server_id, run, "", event=PartEvent.STOP)
            elif tracked.state not in OVER:
                tracked.happened(PartEvent.STOP)
                if session is not None:
                    session.say(stop=wire.Stop(lease_id=run.lease.id, reason=reason))

    def hurry(self, before_s: float) -> None:
        """Whose rank 0 was complete before then, and has processes that do not end, is stopped there."""
        for lease_id, tracked in self._tracked:
            late = tracked.complete_s is not None and tracked.complete_s <= before_s
            if late and (run := self._state.runs.get(lease_id)) is not None:
                self.stop(run, "the job is complete")

    def lease_ended(self, lease_id: int, job_id: int) -> None:
        """The end is on disk: the agents may forget it. One that continues it may have waited for that."""
        if (tracked := self._tracked.end(lease_id)) is not None:
            for server_id, final in tracked.finals.items():
                self._acknowledge(server_id, final)
        for run in self._state.runs.of(job_id).values():
            if run.lease.continues == lease_id and self._tracked.get(run.lease.id) is not None:
                self._end_if_over(run)

    def servers_changed(self) -> None:
        """Leases of which only parts on lost servers had no final report have ended; some are gone altogether."""
        for lease_id, tracked in self._tracked:
            if (run := self._state.runs.get(lease_id)) is not None:
                self._lose_parts(run)
                self._end_if_over(run)
            elif not tracked.ending:
                self._tracked.end(lease_id)

    def _lose_parts(self, run: LeaseRecord) -> None:
        for part in run.parts:
            tracked = self._tracked.part(run.lease.id, part.server_id)
            if part.over and tracked.state is PartState.QUEUED:
                self.nothing(part.server_id, run, "", event=PartEvent.SERVER_LOST)
            elif part.over and tracked.state not in OVER:
                tracked.happened(PartEvent.SERVER_LOST)

    def _final(
        self, server_id: int, run: LeaseRecord, ended: wire.Ended, event: PartEvent = PartEvent.FINAL_REPORT
    ) -> None:
        lease = self._tracked[run.lease.id]
        lease.parts[server_id].happened(event)
        if (before := lease.finals.get(server_id)) is not None:
            before.report_id = ended.report_id or before.report_id
            return
        lease.finals[server_id] = ended
        if ended.complete and server_id == run.parts[0].server_id:
            lease.complete_s = time.monotonic()
        went_on = ended.complete or (ended.left and not self._leaves_for_nothing(run))
        if event is not PartEvent.STOP and not run.stopping and (ended.failed or not went_on):
            self.stop(run, "another part of the gang has ended")
        self._end_if_over(run)

    def _leaves_for_nothing(self, run: LeaseRecord) -> bool:
        """Whether rank 0's processes left the job as in a change of size, and it goes on in no other lease."""
        first = self._tracked[run.lease.id].finals.get(run.parts[0].server_id)
        return first is not None and first.left and not run.gives_up

    def _taken_for_lost(self, server_id: int, ended: wire.Ended) -> tuple[LeaseRecord, Stopped] | None:
        """The lease that this is rank 0's late report on, and what was charged for it; None if there is none."""
        run = self._state.leases_lost.get(ended.lease_id)
        if run is None or run.lease.job_id != ended.job_id:
            return None
        charged = self._state.mechanism.leasing.stopped.get(ended.lease_id) or run.stopped
        if charged is None:
            return None
        return (run, charged) if run.parts[0].server_id == server_id else None

    def _late(self, server_id: int, run: LeaseRecord, charged: Stopped, ended: wire.Ended) -> None:
        """It counts as what it is: for how long devices were held; and how far the job is, if none has gone on.

        A machine that was restarted cannot say for how long, and other parts have not reported: what was charged
        remains.
        """
        tracked = self._tracked.begin(run)
        tracked.parts[server_id].happened(PartEvent.FINAL_REPORT)
        tracked.finals[server_id] = ended
        steps = self._steps(ended.job_id, ended, complete=ended.complete)
        held_s = safe_number(ended.held_s) or charged.held_s
        if len(run.parts) > 1:
            held_s = max(held_s, charged.held_s)
        note = {"reason": ended.reason[:500], "exit_code": ended.exit_code}
        self._end(run, steps, held_s, failed=ended.failed, complete=ended.complete, note=note)

    def _end_if_over(self, run: LeaseRecord) -> None:
        tracked = self._tracked[run.lease.id]
        if not tracked.is_over or tracked.ending or self._resizes.over_from(run) is not None:
            return  # what a lease continues ends before it
        if (after := self._resizes.over_to(run)) is not None:  # to which nobody can go over any more
            self._stop(after, "what it was to continue has ended")
        finals = tracked.finals
        first = finals.get(run.parts[0].server_id)  # it counts though its server was lost since
        failed = any(final.failed for final in finals.values())
        complete = first is not None and first.complete and not failed
        job_id = run.lease.job_id
        steps = self._progress.saved_steps(run) if first is None else self._steps(job_id, first, complete=complete)
        said_s = {server: safe_number(final.held_s) for server, final in finals.items()}
        held_s = run.held_s(said_s, tracked.took_s)
        if run.stopped is not None and any(part.server_id not in finals for part in run.parts):
            held_s = max(held_s, run.stopped.lost_s)  # until the lease was taken back, or had ended there
        told = min(finals.values(), key=lambda final: (not final.failed, not final.reason))
        note: Note = {"reason": told.reason[:500], "exit_code": told.exit_code}
        if not failed and self._leaves_for_nothing(run):
            failed = steps <= run.from_steps
            note["reason"] = f"its processes left ({told.exit_code}), and no change of its size asked them to"
        if gone := sorted(server for server, final in finals.items() if final.reason == GONE):
            note["gone"] = gone  # these were held as long as the last heartbeat said
        taken_back = run.stopping or run.continued_by is not None
        preempted = taken_back and not (run.parts[0].over or failed or complete)
        lost_s = held_s if preempted and steps <= run.from_steps else 0.0
        self._end(run, steps, held_s, failed=failed, complete=complete, lost_s=lost_s, note=note)

    def _steps(self, job_id: int, final: wire.Ended, *, complete: bool) -> float:
        """How far the job is by this word: at its last step if that is known, and it is complete."""
        job = self._state.jobs[job_id].job
        return job.total_steps if complete and job.has_length else safe_number(final.steps_done, job.total_steps)

    def _end(
        self,
        run: LeaseRecord,
        steps: float,
        held_s: float,
        *,
        failed: bool,
        complete: bool,
        note: Note,
        lost_s: float = 0.0,
    ) -> None:
        lease_id, job_id = run.lease.id, run.lease.job_id
        if self._tracked[lease_id].ending:
            return
        self._tracked[lease_id].ending = True
        note |= self._progress.bits([run])
        measured = self._measuring.end(lease_id)
        if complete and not measured and steps == 0.0 and self._state.jobs[job_id].launches == 1:
            measured = self._measuring.whole_run(run, held_s)
        types = self._state.mechanism.hardware.accelerators
        too_small = types_too_small(run.lease.accelerator, note["reason"], types) if failed else ()
        self._post(
            lambda now_s: [
                *(Entry(Measured(now_s, measurement)) for measurement in measured),
                Entry(
                    LeaseEnded(
                        now_s,
                        lease_id,
                        job_id,
                        steps,
                        held_s,
                        failed,
                        lost_s,
                        complete,
                        exit_code=note["exit_code"] if failed else 0,
                        too_small=too_small,
                    ),
                    note,
                ),
            ]
        )

    def _acknowledge(self, server_id: int, ended: wire.Ended) -> None:
        session = self._here.get(server_id)
        if ended.report_id and session is not None:
            session.say(acknowledged=wire.Acknowledged(report_id=ended.report_id))
