"""Which output of ended leases an agent keeps: for some days, and up to so many bytes of each owner.

A job's output ages from the end of its last lease here; while the job runs here, it does not. If an owner has too
much, the job that stopped first loses its output first, from its oldest lease on; others lose nothing. A note
of each job whose output was removed says why:

    FOLDER/removed/JOB_ID       {"why": "was removed after 30 days"}
"""

import contextlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from gavelx.worker.shim import read_json, write_json
from gavelx.worker.state import ACKNOWLEDGED, Folder

DAY_S = 86_400.0
GIB = float(1 << 30)
LOOK_S = 60.0
"""Seconds between two looks for output that is too old."""
NOTES_MAX = 10_000
"""Jobs of which we remember that their output was removed."""


@dataclass(frozen=True)
class KeepOutput:
    """``days``: how long output is kept after its job last ran here; ``gib``: how much of each owner, in GiB."""

    days: float = 30.0
    gib: float = 4.0


KEEP = KeepOutput()


@dataclass
class _Job:
    """The ended leases of a job, oldest first, with the bytes of each; ``last_s``: when the last one ended."""

    owner: str
    leases: dict[int, int] = field(default_factory=dict)
    last_s: float = 0.0


class KeptOutput:
    """The ended leases in a folder. Times are seconds of the wall clock, for they outlive the machine's."""

    def __init__(self, folder: Folder, keep: KeepOutput) -> None:
        self._folder, self._keep = folder, keep
        self._notes = folder.path / "removed"
        self.clear()
        for lease in folder.all():
            self.add(lease.lease_id)

    def clear(self) -> None:
        """Nothing is kept any more."""
        self._jobs: dict[int, _Job] = {}
        self._bytes: Counter[str] = Counter()  # by owner
        self._looked_s = 0.0

    def forget_notes(self) -> None:
        """The jobs are those of another scheduler from now on."""
        shutil.rmtree(self._notes, ignore_errors=True)

    def add(self, lease_id: int) -> None:
        """A lease has ended, and the scheduler knows it; nothing happens if that is not so."""
        lease = self._folder.lease(lease_id)
        launch = lease.launch() or {}
        try:
            ended_s = (lease.path / ACKNOWLEDGED).stat().st_mtime
            job_id, owner = int(launch.get("job_id", -1)), str(launch.get("owner", ""))
        except (ArithmeticError, OSError, TypeError, ValueError):
            return
        job = self._jobs.setdefault(job_id, _Job(owner))
        size = _bytes_in(lease.path)
        self._bytes[job.owner] += size - job.leases.pop(lease_id, 0)
        job.leases[lease_id] = size
        job.last_s = max(job.last_s, ended_s)

    def prune(self, running: Container[int], now_s: float | None = None) -> list[int]:
        """Remove what is too old or too much, given the jobs that run here; the leases that were removed."""
        now_s = time.time() if now_s is None else now_s
        gone = list[int]()
        if not 0.0 <= now_s - self._looked_s < LOOK_S:
            self._looked_s = now_s
            oldest_s = now_s - self._keep.days * DAY_S
            words = f"was removed after {self._keep.days:g} day{'' if self._keep.days == 1 else 's'}"
            for job_id, job in list(self._jobs.items()):
                if job.last_s < oldest_s and job_id not in running:
                    gone += self._remove(job_id, len(job.leases), words)
        most = self._keep.gib * GIB
        for owner in [owner for owner, used in self._bytes.items() if used > most]:
            whose = f"{owner}'s output" if owner else "the output of all"
            words = f"was removed when {whose} on this server passed {self._keep.gib:g} GiB"
            mine = [job_id for job_id, job in self._jobs.items() if job.owner == owner]
            mine.sort(key=lambda job_id: (job_id in running, self._jobs[job_id].last_s, job_id))
            for job_id in mine:
                while self._bytes[owner] > most and job_id in self._jobs:
                    gone += self._remove(job_id, 1, words)
        return gone

    def why_removed(self, job_id: int) -> str:
        """Why some output of a job is not here any more; nothing if all of it is, as far as we remember."""
        return str((read_json(self._notes / str(int(job_id))) or {}).get("why", ""))

    def _remove(self, job_id: int, count: int, why: str) -> list[int]:
        """Remove the oldest leases of a job."""
        job = self._jobs[job_id]
        gone = sorted(job.leases)[:count]
        self._note(job_id, why)
        for lease_id in gone:
            shutil.rmtree(self._folder.lease(lease_id).path, ignore_errors=True)
            self._bytes[job.owner] -= job.leases.pop(lease_id)
        if not job.leases:
            del self._jobs[job_id]
        return gone

    def _note(self, job_id: int, why: str) -> None:
        with contextlib.suppress(OSError):  # a full disk: the output goes all the more
            self._notes.mkdir(mode=0o700, exist_ok=True)
            write_json(self._notes / str(job_id), {"why": why})
            notes = sorted(int(path.name) for path in self._notes.iterdir() if path.name.isdecimal())
            for old in notes[:-NOTES_MAX]:
                (self._notes / str(old)).unlink(missing_ok=True)


def _bytes_in(folder: Path) -> int:
    """Bytes on disk; 0 for a link that a job put in place of its folder."""
    total = 0
    if folder.is_symlink():
        return total
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(Path(path) / name).st_blocks * 512
    return total
