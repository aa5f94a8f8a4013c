"""A log of 2,000 jobs: the service is killed, and serves again, with its snapshots and without.

How long that takes is in ``benchmarks/service``.
"""

from pathlib import Path

import numpy as np
import pytest

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism.commands import Solve
from gavelx.mechanism.events import Event, JobSubmitted, LeaseEnded, PolicyChanged, Progress, Wake, WorkerJoined
from gavelx.policies import load_policy
from gavelx.service.state.state import State
from gavelx.service.store.allocation_record import answer_of
from gavelx.service.store.log import Log
from gavelx.service.store.records import Answered, Entry, record_of
from tests.service.agents import configuration
from tests.service.test_restart import Daemon

pytestmark = pytest.mark.slow

JOBS, ROUNDS, SERVERS, DEVICES, ROUND_S = 2_000, 14, 20, 4, 60.0
COMMAND = ["python", "train.py", "--epochs", "9"]


class Scribe:
    """Writes the log that a service would have written while the jobs of a busy cluster came and went."""

    def __init__(self, log: Log) -> None:
        self.log, self.now_s = log, 0.0
        made_with = configuration(round_s=ROUND_S)
        log.configure(made_with.to_json())
        self.state = State(made_with)
        self.policy = load_policy("max_min_fairness")
        self._write(PolicyChanged(0.0, frozenset()), {"policy": "max_min_fairness"})

    def _write(self, event: Event, note: dict[str, object] | None = None) -> None:
        self._write_all([Entry(event, note or {})])

    def _write_all(self, entries: list[Entry]) -> None:
        first = self.log.last_sequence + 1
        self.log.append([record_of(first + n, entry) for n, entry in enumerate(entries)])
        commands = [command for entry in entries for command in self.state.apply(entry)]
        for command in commands:
            if isinstance(command, Solve):
                self._write(Answered(self.now_s, answer_of(self.policy.allocate(command.snapshot))))

    def join(self) -> None:
        for n in range(SERVERS):
            note = {"name": f"server-{n}", "address": "10.0.0.1", "boot_id": f"boot-{n}"}
            self._write(WorkerJoined(self.now_s, Server(n, "v100", DEVICES)), note)

    def submit(self, count: int) -> None:
        first = self.state.next_job_id
        jobs = [Job(first + n, "net", 1e4 + n, arrival_s=self.now_s) for n in range(count)]
        note = {"type": "net", "command": COMMAND}
        self._write_all([Entry(JobSubmitted(self.now_s, job), note) for job in jobs])

    def round(self) -> None:
        """All wake-ups that are due; then everybody who runs comes to the end of his work."""
        while self.state.wakes and min(self.state.wakes) <= self.now_s:
            self._write(Wake(self.now_s))
        self.now_s += ROUND_S
        leases = [run.lease for run in self.state.runs.values()]
        lease_L, job_id_L = (np.array([getattr(e, name) for e in leases]) for name in ("id", "job_id"))
        steps_L = np.array([self.state.jobs[i].job.total_steps for i in job_id_L.tolist()])
        ends = [
            Entry(LeaseEnded(self.now_s, e.id, e.job_id, steps, ROUND_S, complete=True))
            for e, steps in zip(leases, steps_L.tolist(), strict=True)
        ]
        self._write_all([Entry(Progress(self.now_s, lease_L, job_id_L, steps_L / 2, steps_L / 3)), *ends])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """2,000 jobs came, and half of them are complete; no snapshot was ever taken, as after an upgrade."""
    log = Log(str(tmp_path / "state"))
    scribe = Scribe(log)
    scribe.join()
    for _ in range(10):
        scribe.submit(JOBS // 10)
        scribe.round()
    for _ in range(ROUNDS - 10):
        scribe.round()
    log.close()
    return tmp_path


def test_a_service_that_was_killed_serves_again(folder: Path) -> None:
    """First all of the log is replayed; then what followed the snapshot that it left, told to stop as it began."""
    replayed = list[int]()
    for leave in (Daemon.kill, Daemon.close, Daemon.kill):
        daemon = Daemon(folder, as_made=True)
        replayed.append(daemon.said["records_replayed"])
        assert daemon.said["jobs_live"] == JOBS - ROUNDS * SERVERS * DEVICES
        leave(daemon)
    assert replayed[0] > JOBS * 1.5
    assert replayed[2] == 0
