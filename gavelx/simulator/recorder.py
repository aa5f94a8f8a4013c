"""The log of a run: every lease as it was really held, and every completion."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gavelx.jobs import Job
from gavelx.mechanism.commands import Device, Lease
from gavelx.result import Leases


@dataclass
class Recorder:
    """Collects leases as they end; consecutive ones of a job on the same devices are joined."""

    completion_s: dict[int, float] = field(default_factory=dict)
    _rows: list[list[float]] = field(default_factory=list)
    _last: dict[int, tuple[int, tuple[Device, ...]]] = field(default_factory=dict)
    _accelerators: dict[str, int] = field(default_factory=dict)

    def lease(self, lease: Lease, start_s: float, end_s: float) -> None:
        """A lease ended; its job held its devices from ``start_s`` to ``end_s``."""
        billed_s = end_s - lease.charged_from_s
        row, devices = self._last.get(lease.job_id, (-1, ()))
        if row >= 0 and devices == lease.devices and self._rows[row][4] == start_s:
            self._rows[row][4] = end_s
            self._rows[row][5] += billed_s
            return
        a = self._accelerators.setdefault(lease.accelerator, len(self._accelerators))
        self._last[lease.job_id] = (len(self._rows), lease.devices)
        self._rows.append([lease.job_id, a, len(lease.devices), start_s, end_s, billed_s, row >= 0])

    @property
    def end_s(self) -> float:
        """When the last lease ended."""
        return max((row[4] for row in self._rows), default=0.0)

    def leases(self, jobs: Sequence[Job], accelerators: Sequence[str]) -> Leases:
        """All leases in order of their start, as columns; jobs and types become indices."""
        row_of = {job.id: j for j, job in enumerate(jobs)}
        types = np.array([accelerators.index(name) for name in self._accelerators], dtype=np.int64)
        columns = np.array(self._rows, dtype=float).reshape(-1, 7)
        columns = columns[np.lexsort([columns[:, 0], columns[:, 3]])]
        return Leases(
            job_L=np.array([row_of[int(job_id)] for job_id in columns[:, 0]], dtype=np.int64),
            accelerator_L=types[columns[:, 1].astype(np.int64)] if len(columns) else np.zeros(0, dtype=np.int64),
            devices_L=columns[:, 2].astype(np.int64),
            start_s_L=columns[:, 3],
            end_s_L=columns[:, 4],
            billed_s_L=columns[:, 5],
            moved_L=columns[:, 6].astype(bool),
        )
