"""How leases end: each agent says its last word on its part, and when all parts have one, the lease has ended."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from gavelx.mechanism.events import LeaseEnded
from gavelx.mechanism.leasing import Stopped
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import safe_number
from gavelx.service.agents.launch_queue import LaunchQueue
from gavelx.service.agents.progress import ProgressReports
from gavelx.service.agents.session import AgentSession
from gavelx.service.agents.speed_samples import SpeedSamples
from gavelx.service.state.leases import LeasePart, LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.records import Entry, Measured

Make = Callable[[float], list[Entry]]
Note = dict[str, Any]
_log = logging.getLogger(__name__)


class LeaseCompletions:
    """Last words; ``post`` hands the end of a lease to the scheduler. Agents repeat what was not acknowledged."""

    def __init__(
        self,
        state: State,
        here: Mapping[int, AgentSession],
        launches: LaunchQueue,
        progress: ProgressReports,
        *,
        measuring: SpeedSamples,
        post: Callable[[Make], Any],
    ) -> None:
        self._state, self._here, self._launches, self._progress = state, here, launches, progress
        self._measuring, self._post = measuring, post
        self._words: dict[int, dict[int, wire.Ended]] = {}  # by lease and server
        self._complete_s: dict[int, float] = {}  # leases of which rank 0 is complete, since when
        self._ending: set[int] = set()

    def hear(self, server_id: int, ended: wire.Ended) -> None:
        """An agent's last word on its part of a lease."""
        run = self._state.runs.on(server_id).get(ended.lease_id)
        if run is not None and run.lease.job_id == ended.job_id:
            self._word(server_id, run, ended)
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
        self.nothing(server_id, run, f"the number of its lease was another job's on {name}")

    def has_spoken(self, server_id: int, lease_id: int) -> bool:
        return server_id in self._words.get(lease_id, ())

    def is_ending(self, lease_id: int) -> bool:
        """Whether a part of it has said its last word, so that others may have been asked to stop."""
        return bool(self._words.get(lease_id))

    def is_broken(self, lease_id: int) -> bool:
        """Whether a part of it has ended before its job was complete: no other part is to begin, or to go on."""
        return any(word.failed or not word.complete for word in self._words.get(lease_id, {}).values())

    def nothing(self, server_id: int, run: LeaseRecord, reason: str, *, failed: bool = False) -> None:
        """The last word on a part that never was, or that is unknown: it was held as long as the agent said."""
        steps, lease, report = self._progress.saved_steps(run), run.lease, self._progress.get(run.lease.id)
        word = wire.Ended(lease_id=lease.id, job_id=lease.job_id, steps_done=steps, failed=failed, reason=reason)
        word.held_s = 0.0 if report is None else report.held_s
        self._word(server_id, run, word)

    def stop(self, run: LeaseRecord) -> None:
        """Ask all parts to stop; where no agent was told of the lease, it is over."""
        if any(run.lease.id in session.sent for session in self._attending(run)):
            for part in run.parts:
                self._stop_part(run, part, "preempted")
            return
        for part in run.parts:
            self._launches.forget(run.lease.id, part.server_id)
        self._end(run, self._progress.saved_steps(run), 0.0, failed=False, complete=False, note={})

    def hurry(self, before_s: float) -> None:
        """Whose rank 0 was complete before then, and has processes that do not end, is stopped there."""
        for lease_id, since_s in self._complete_s.items():
            if since_s <= before_s and (run := self._state.runs.get(lease_id)) is not None:
                for part in run.parts:
                    self._stop_part(run, part, "the job is complete")

    def lease_ended(self, lease_id: int) -> None:
        """The end is on disk: the agents may forget it."""
        self._ending.discard(lease_id)
        self._complete_s.pop(lease_id, None)
        for server_id, word in self._words.pop(lease_id, {}).items():
            self._acknowledge(server_id, word)

    def servers_changed(self) -> None:
        """Leases of which only parts on lost servers had no last word have ended; some are gone altogether."""
        for lease_id in list(self._words):
            if (run := self._state.runs.get(lease_id)) is not None:
                self._end_if_over(run)
            elif lease_id not in self._ending:
                del self._words[lease_id]
                self._complete_s.pop(lease_id, None)

    def _attending(self, run: LeaseRecord) -> list[AgentSession]:
        return [self._here[part.server_id] for part in run.parts if part.server_id in self._here]

    def _stop_part(self, run: LeaseRecord, part: LeasePart, reason: str) -> None:
        session = self._here.get(part.server_id)
        if session is None or part.over or self.has_spoken(part.server_id, run.lease.id):
            return
        if run.lease.id in session.sent:
            session.say(stop=wire.Stop(lease_id=run.lease.id, reason=reason))
        else:
            self.nothing(part.server_id, run, "never launched")

    def _word(self, server_id: int, run: LeaseRecord, ended: wire.Ended) -> None:
        words = self._words.setdefault(run.lease.id, {})
        if server_id in words:
            if ended.report_id:
                words[server_id].report_id = ended.report_id
            return
        words[server_id] = ended
        if ended.complete and server_id == run.parts[0].server_id:
            self._complete_s[run.lease.id] = time.monotonic()
        self._launches.forget(run.lease.id, server_id)
        if not run.stopping and (ended.failed or not ended.complete):
            for part in run.parts:
                self._stop_part(run, part, "another part of the gang has ended")
        self._end_if_over(run)

    def _taken_for_lost(self, server_id: int, ended: wire.Ended) -> tuple[LeaseRecord, Stopped] | None:
        """The lease that this is rank 0's late word on, and what was charged for it; None if none waits for it."""
        run = self._state.leases_lost.get(ended.lease_id)
        if run is None or run.lease.job_id != ended.job_id:
            return None
        charged = run.stopped or self._state.mechanism.leasing.stopped(ended.lease_id)
        if charged is None:
            return None
        return (run, charged) if run.parts[0].server_id == server_id else None

    def _late(self, server_id: int, run: LeaseRecord, charged: Stopped, ended: wire.Ended) -> None:
        """It counts as what it is: for how long devices were held; and how far the job is, if none has gone on.

        A machine that was restarted cannot say for how long, and of other parts there is no word: what was charged
        remains.
        """
        self._words.setdefault(run.lease.id, {})[server_id] = ended
        total_steps = self._state.jobs[ended.job_id].job.total_steps
        steps = total_steps if ended.complete else safe_number(ended.steps_done, total_steps)
        held_s = safe_number(ended.held_s) or charged.held_s
        if len(run.parts) > 1:
            held_s = max(held_s, charged.held_s)
        note = {"reason": ended.reason[:500], "exit_code": ended.exit_code}
        self._end(run, steps, held_s, failed=ended.failed, complete=ended.complete, note=note)

    def _end_if_over(self, run: LeaseRecord) -> None:
        words = self._words[run.lease.id]
        if not all(part.over or part.server_id in words for part in run.parts):
            return
        first = None if run.parts[0].over else words[run.parts[0].server_id]
        failed = any(word.failed for word in words.values())
        complete = first is not None and first.complete and not failed
        total_steps = self._state.jobs[run.lease.job_id].job.total_steps
        steps = self._progress.saved_steps(run) if first is None else safe_number(first.steps_done, total_steps)
        held_s = max(safe_number(word.held_s) for word in words.values())
        if run.stopped is not None and any(part.server_id not in words for part in run.parts):
            held_s = max(held_s, run.stopped.held_s)  # a lost part is charged until the lease was taken back
        told = min(words.values(), key=lambda word: not word.failed)  # the one that failed first, or spoke first
        note = {"reason": told.reason[:500], "exit_code": told.exit_code}
        preempted = run.stopping and first is not None and not (failed or complete)
        lost_s = held_s if preempted and steps <= run.from_steps else 0.0
        steps = total_steps if complete else steps
        self._end(run, steps, held_s, failed=failed, complete=complete, lost_s=lost_s, note=note)

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
        if lease_id in self._ending:
            return
        self._ending.add(lease_id)
        measured = self._measuring.end(lease_id)
        self._post(
            lambda now_s: [
                *(Entry(Measured(now_s, measurement)) for measurement in measured),
                Entry(LeaseEnded(now_s, lease_id, job_id, steps, held_s, failed, lost_s, complete), note),
            ]
        )

    def _acknowledge(self, server_id: int, ended: wire.Ended) -> None:
        session = self._here.get(server_id)
        if ended.report_id and session is not None:
            session.say(acknowledged=wire.Acknowledged(report_id=ended.report_id))
