"""How far leases are by what their agents said last, and what of it the mechanism does not know yet.

Legend: L leases.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gavelx.mechanism.events import Progress
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import STEPS_MAX, reproducibility, safe_number, training_report
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.records import Entry
from gavelx.training_report import NOTHING_SAID, TrainingReport

Figures = tuple[float, float, float, TrainingReport]
"""Steps done, saved, and said to be the last one; and how training goes."""


class ProgressReports:
    """The last report of each lease."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._reports: dict[int, wire.LeaseReport] = {}
        self._known: dict[int, Figures] = {}  # what the mechanism knows

    def __len__(self) -> int:
        return len(self._reports)

    def silent(self) -> int:
        """How many leases report that their job makes no step any more."""
        return sum(report.silent_s > 0.0 for report in self._reports.values())

    def get(self, lease_id: int) -> wire.LeaseReport | None:
        return self._reports.get(lease_id)

    def hear(self, report: wire.LeaseReport) -> None:
        self._reports[report.lease_id] = report

    def forget(self, lease_id: int) -> None:
        """It has ended."""
        self._reports.pop(lease_id, None)
        self._known.pop(lease_id, None)

    def servers_changed(self) -> None:
        """Leases may have ended without a word."""
        for lease_id in [i for i in self._reports if i not in self._state.runs]:
            self.forget(lease_id)

    def saved_steps(self, run: LeaseRecord) -> float:
        """How far the job is, safely, as far as we know."""
        known, report = self._state.safe_steps(run.lease.job_id), self._reports.get(run.lease.id)
        return known if report is None else max(known, self._capped(run, report.saved_steps))

    def _capped(self, run: LeaseRecord, steps: float) -> float:
        """A job is complete when its lease has ended well, and not when it says so on the way."""
        total_steps = self._state.jobs[run.lease.job_id].job.total_steps
        return safe_number(steps, min(STEPS_MAX, math.nextafter(total_steps, 0.0)))

    def entries(self, now_s: float) -> list[Entry]:
        """What the mechanism does not know yet; from now on it counts as known."""
        rows, runs = [], []
        for lease_id, report in self._reports.items():
            run = self._state.runs.get(lease_id)
            if run is None or run.gives_up or self._state.before(run) is not None:
                continue
            done, saved = self._capped(run, report.steps_done), self._capped(run, report.saved_steps)
            job = self._state.jobs[run.lease.job_id].job
            said = 0.0 if job.has_length else safe_number(report.total_steps)
            figures = max(done, saved), saved, said, training_report(report.training) or NOTHING_SAID
            if self._known.get(lease_id) != figures or self.bits([run]):
                self._known[lease_id] = figures
                rows.append((lease_id, run.lease.job_id, *figures))
                runs.append(run)
        if not rows:
            return []
        lease_L, job_id_L, *columns, training_L = zip(*rows, strict=True)
        ids = np.array(lease_L, dtype=np.int64), np.array(job_id_L, dtype=np.int64)
        steps_L, saved_L, said_L = (np.array(column, dtype=float) for column in columns)
        extra = said_L if said_L.any() else None, training_L if any(one.says for one in training_L) else None
        return [Entry(Progress(now_s, *ids, steps_L, saved_L, *extra), self.bits(runs))]

    def bits(self, runs: Iterable[LeaseRecord]) -> dict[str, Any]:
        """A note of which bits the jobs of these leases keep, where the log does not know it."""
        news = {}
        for run in runs:
            known = self._state.jobs[run.lease.job_id]
            if (report := self._reports.get(run.lease.id)) is not None:
                bits = reproducibility(report.training)
                if bits.level and bits != (known.determinism, known.order):
                    news[str(known.job.id)] = list(bits)
        return {"bits": news} if news else {}

    def report_again(self) -> None:
        """What was to be reported may not have been."""
        self._known.clear()
