"""A log of a small busy cluster, as a service of this version would write it, and what follows from each record.

``python -m tests.service.written_log FILE`` writes it; a new version of records keeps the file of the one before.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism import events
from gavelx.mechanism.commands import Command, GiveUp, Launch, Solve, Stop
from gavelx.mechanism.events import Event
from gavelx.mechanism.rules import DEFAULT
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.service.state.state import State
from gavelx.service.store.allocation_record import answer_of
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import VERSION, Answered, Entry, Record, entry_of, record_of
from gavelx.throughputs import Pairing, Setting, Throughputs

ROUND_S = 60.0
SERVERS = {0: ("v100", 4), 1: ("v100", 4), 2: ("k80", 2), 3: ("k80", 2)}
POLICIES = (
    "packed(max_min_fairness)",
    "placed(max_min_fairness)",
    "fifo",
    "budgeted(max_min_fairness, ml=3)",
    "gandiva",
    "agnostic(hierarchical(max_min_fairness))",
    "las_2d",
    "gang_fifo",
)


def _table() -> Throughputs:
    speeds = {"wide": (4.0, 1.0), "net": (3.0, 2.0), "big": (5.0, 1.0)}
    isolated = {
        Setting(kind, accelerator, width, together): speed * width * (1.0 if together else 0.6)
        for kind, pair in speeds.items()
        for accelerator, speed in zip(("v100", "k80"), pair, strict=True)
        for width in (1, 2, 4)
        for together in (True, False)[: width if width < 3 else 2]
    }
    kinds = [(one, other) for one in speeds for other in speeds]
    colocated = {
        Pairing(*pair, accelerator): 0.7 * speeds[pair[0]][n]
        for pair in kinds
        for n, accelerator in enumerate(("v100", "k80"))
    }
    return Throughputs(isolated, colocated, "written by hand")


class Writer:
    """Jobs of three owners come and go; ``records`` and ``commands`` are what happened."""

    def __init__(self, seed: int) -> None:
        self.rng, self.now_s = np.random.default_rng(seed), 0.0
        self.made_with = Configuration(_table(), Prices({"v100": 2.0, "k80": 0.5}), DEFAULT.with_round(ROUND_S))
        self.state, self.records, self.commands = State(self.made_with), list[Record](), list[Any]()
        for n, (accelerator, devices) in SERVERS.items():
            note = {"name": f"server-{n}", "address": "10.0.0.1", "boot_id": f"boot-{n}"}
            self.write(events.WorkerJoined(0.0, Server(n, accelerator, devices)), note)
        self.ask(POLICIES[0])

    def ask(self, policy: str) -> None:
        self.policy = load_policy(policy)
        self.write(events.PolicyChanged(self.now_s, self.policy.opens), {"policy": policy})

    def write(self, event: Event, note: dict[str, Any] | None = None) -> None:
        record = record_of(len(self.records) + 1, Entry(event, note or {}))
        commands = self.state.apply(entry_of(record))
        self.records.append(record)
        self.commands.append(said(commands))
        for command in commands:
            if isinstance(command, Solve):
                answer = answer_of(self.policy.allocate(command.snapshot))
                self.now_s += 0.25
                self.write(Answered(self.now_s, answer))
            elif isinstance(command, Stop):
                self.end(command.lease_id, 0.5)

    def submit(self) -> None:
        i = self.state.next_job_id
        kind, width = str(self.rng.choice(["wide", "net", "big"])), int(self.rng.choice([1, 1, 1, 2, 4]))
        steps, owner = float(self.rng.integers(50, 3000)), str(self.rng.choice(["ml/ada", "ml/bob", "ops"]))
        job = Job(i, kind, steps, width, arrival_s=self.now_s, owner=owner)
        self.write(events.JobSubmitted(self.now_s, job), {"type": kind, "command": ["true"]})

    def end(self, lease_id: int, part: float) -> None:
        """A lease ends after this part of what it could do since its job last said something."""
        if (run := self.state.runs.get(lease_id)) is None:
            return  # it ended by itself
        lease = run.lease
        known, held_s = self.state.jobs[lease.job_id], self.now_s - lease.charged_from_s
        steps = min(known.job.total_steps, self.state.safe_steps(lease.job_id) + part * held_s)
        complete = steps >= known.job.total_steps
        self.write(events.LeaseEnded(self.now_s, lease_id, lease.job_id, steps, held_s, complete=complete))

    def round(self) -> None:
        """A round goes by: a report, some jobs come to their end, and what was to be woken for."""
        while self.state.wakes and min(self.state.wakes) <= self.now_s:
            self.write(events.Wake(self.now_s))
        self.now_s += ROUND_S / 2
        runs = [run for run in self.state.runs.values() if not run.stopping]
        for run in runs:
            if self.rng.random() < 0.2:
                self.end(run.lease.id, 100.0)
        leases = [run.lease for run in self.state.runs.values()]
        if leases:
            lease_L, job_id_L = (np.array([getattr(e, name) for e in leases]) for name in ("id", "job_id"))
            done_L = np.array([self.state.safe_steps(i) + 5.0 for i in job_id_L.tolist()])
            self.write(events.Progress(self.now_s, lease_L, job_id_L, done_L, done_L - 2.0))
        self.now_s += ROUND_S / 2


def said(commands: list[Command]) -> list[Any]:
    """What is to be done, in plain values, but for times to wake and to ask."""
    out: list[Any] = []
    for command in commands:
        match command:
            case Launch(lease=e):
                out.append(["launch", e.id, e.job_id, e.accelerator, [list(d) for d in e.devices], e.shares_with])
            case Stop(lease_id=lease_id):
                out.append(["stop", lease_id])
            case GiveUp(job_id=job_id):
                out.append(["give up", job_id])
    return out


def figures(state: State) -> list[Any]:
    """What came of each job."""
    return [
        [i, known.ended, known.launches, known.steps_done, known.received_s, known.promised_s, known.spent_usd]
        for i, known in state.jobs.items()
    ]


def written(seed: int = 3) -> dict[str, Any]:
    """The log, what each record brought, and what came of the jobs in the end."""
    writer = Writer(seed)
    for policy in POLICIES:
        writer.ask(policy)
        for _ in range(4):
            for _ in range(int(writer.rng.integers(0, 4))):
                writer.submit()
            writer.round()
    writer.write(events.WorkerDrained(writer.now_s, 0))
    for _ in range(3):
        writer.round()
    return {
        "version": VERSION,
        "configuration": writer.made_with.to_json(),
        "records": [[each.time_s, each.kind, each.body] for each in writer.records],
        "commands": writer.commands,
        "figures": figures(writer.state),
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(written(), indent=None, separators=(",", ":")) + "\n")
