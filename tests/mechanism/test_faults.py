"""The mechanism in a faulty world: one seed fixes jobs, servers and everything that goes wrong.

Servers leave and return, reports are late, doubled or lost, policies answer after rounds. The world keeps its own
books of who really holds which device; a failing seed replays with ``World(seed, ...).run()``.
"""

import heapq
from collections.abc import Iterator

import numpy as np
import pytest

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Command, Device, Extend, Launch, Lease, Solve, Stop, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    ArrivalsEnded,
    Event,
    JobSubmitted,
    LeaseEnded,
    Progress,
    Wake,
    WorkerJoined,
    WorkerLost,
)
from gavelx.mechanism.rules import RULES
from gavelx.policies import load_policy
from gavelx.throughputs import Setting, Throughputs

SPEED = {"v100": 10.0, "p100": 4.0, "k80": 1.0}
SPEEDS = Throughputs(
    {Setting("any", name, scale): speed * scale for name, speed in SPEED.items() for scale in (1, 2)}
    | {Setting("v100 only", "v100", scale): 8.0 * scale for scale in (1, 2)}
)
FAULTS_END_S = 8_000.0
EVENTS_MAX = 6_000


class World:
    """Servers and workers as they really are, and a network that cannot be trusted until the faults end."""

    def __init__(self, seed: int, policy: str, rules: str) -> None:
        self.random = np.random.default_rng(seed)
        self.policy = load_policy(policy)
        self.mechanism = Mechanism(SPEEDS, rules=RULES[rules])
        self.now_s = 0.0
        self.queue: list[tuple[float, int, Event | tuple[str, int]]] = []
        self.pushed = 0
        self.servers: dict[int, Server] = {}
        self.running: dict[int, tuple[Lease, float, float]] = {}  # lease, from when, until when
        self.holder: dict[Device, int] = {}
        self.jobs = {int(job_id): self.job(int(job_id)) for job_id in self.random.permutation(8)}
        self.steps_done = dict.fromkeys(self.jobs, 0.0)

    def job(self, job_id: int) -> Job:
        random = self.random
        return Job(
            job_id,
            job_type=str(random.choice(["any", "v100 only"])),
            total_steps=float(random.uniform(1, 15_000)),
            scale_factor=int(random.choice([1, 2])),
            arrival_s=float(random.choice([0.0, random.uniform(0, FAULTS_END_S)])),
        )

    # -- the world's clock ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until nothing more happens; then every job must be done."""
        for server_id, name in enumerate(("v100", "p100", "k80", "v100")):
            self.join(Server(server_id, name, 2))
        for job in self.jobs.values():
            self.report(JobSubmitted(job.arrival_s, job), delay_s=job.arrival_s)
        self.push(FAULTS_END_S, ArrivalsEnded(0.0))
        for _ in range(8):
            self.push(float(self.random.uniform(0, FAULTS_END_S)), ("fails", int(self.random.integers(4))))
        for _ in range(EVENTS_MAX):
            if not self.queue:
                break
            self.now_s, _, what = heapq.heappop(self.queue)
            self.step(what)
            self.check()
        assert not self.queue, "still busy"
        undone = {i for i, job in self.jobs.items() if self.steps_done[i] < job.total_steps}
        assert not undone, undone

    def step(self, what: Event | tuple[str, int]) -> None:
        if isinstance(what, tuple):
            getattr(self, what[0])(what[1])
            return
        event = type(what)(self.now_s, *(getattr(what, name) for name in what.__slots__))
        if isinstance(event, Wake) and self.random.random() < 0.7:  # otherwise the report is lost
            self.tell(Progress(self.now_s, {run[0].job_id: self.steps_of(run) for run in self.running.values()}))
        self.tell(event)

    def tell(self, event: Event) -> None:
        for command in self.mechanism.handle(event):
            self.execute(command)

    def push(self, time_s: float, what: Event | tuple[str, int]) -> None:
        self.pushed += 1
        heapq.heappush(self.queue, (time_s, self.pushed, what))

    def report(self, event: Event, delay_s: float = 0.0, late_s: float = 200.0) -> None:
        """Deliver an event now, or late, or twice."""
        faulty = self.now_s < FAULTS_END_S
        for _ in range(int(self.random.choice([1, 1, 2])) if faulty else 1):
            late = float(self.random.choice([0.0, self.random.uniform(0, late_s)])) if faulty else 0.0
            self.push(self.now_s + delay_s + late, event)

    # -- servers ----------------------------------------------------------------------------------------------

    def join(self, server: Server) -> None:
        self.servers[server.id] = server
        self.tell(WorkerJoined(self.now_s, server))
        self.tell(WorkerJoined(self.now_s, server))

    def fails(self, server_id: int) -> None:
        """A server dies with all that ran on it, and returns under its old name or a new one."""
        if self.servers.pop(server_id, None) is None:
            return
        for lease_id, (lease, _, _) in list(self.running.items()):
            if any(device.server_id == server_id for device in lease.devices):
                self.end(lease_id)
        self.tell(WorkerLost(self.now_s, server_id))
        new_id = int(self.random.choice([server_id, 100 + self.pushed]))
        self.push(self.now_s + float(self.random.uniform(0, 1500)), ("returns", new_id * 10 + server_id))

    def returns(self, ids: int) -> None:
        new_id, old_id = divmod(ids, 10)
        self.join(Server(new_id, ("v100", "p100", "k80", "v100")[old_id], 2))

    # -- workers ----------------------------------------------------------------------------------------------

    def execute(self, command: Command) -> None:
        match command:
            case Solve():
                answer = self.policy.allocate(command.snapshot)
                self.report(Allocated(self.now_s, answer), late_s=float(self.random.choice([1.0, 2000.0])))
            case Launch():
                self.launch(command.lease)
            case Stop():
                self.end(command.lease_id)
            case Extend():
                for lease_id in command.lease_ids:
                    assert command.until_s > self.now_s
                    if lease_id in self.running:
                        lease, start_s, _ = self.running[lease_id]
                        self.running[lease_id] = lease, start_s, command.until_s
                        self.push_lapse(lease_id)
            case WakeAt():
                assert command.time_s >= self.now_s, "a wake in the past"
                self.push(command.time_s, Wake(0.0))

    def launch(self, lease: Lease) -> None:
        assert lease.until_s > self.now_s, "a lease that has lapsed already"
        assert len(lease.devices) == self.jobs[lease.job_id].scale_factor
        assert all(device.server_id in self.servers for device in lease.devices), (
            "launched on a server that is gone"
        )
        assert not any(device in self.holder for device in lease.devices), "a device in two leases"
        assert not any(run[0].job_id == lease.job_id for run in self.running.values()), "a job in two leases"
        self.holder.update(dict.fromkeys(lease.devices, lease.id))
        self.running[lease.id] = lease, self.now_s, lease.until_s
        left = max(0.0, lease.until_step - self.steps_done[lease.job_id])
        self.push(self.now_s + left / self.speed(lease), ("end", lease.id))
        self.push_lapse(lease.id)

    def push_lapse(self, lease_id: int) -> None:
        if np.isfinite(until_s := self.running[lease_id][2]):
            self.push(until_s, ("lapse", lease_id))

    def lapse(self, lease_id: int) -> None:
        assert lease_id not in self.running or self.running[lease_id][2] > self.now_s, "nobody extended a lease"

    def end(self, lease_id: int) -> None:
        if (run := self.running.pop(lease_id, None)) is None:
            return
        job_id = run[0].job_id
        for device in run[0].devices:
            del self.holder[device]
        self.steps_done[job_id] = self.steps_of(run)
        self.report(LeaseEnded(self.now_s, lease_id, job_id, self.steps_done[job_id]))

    def speed(self, lease: Lease) -> float:
        job = self.jobs[lease.job_id]
        return SPEEDS.get(job.job_type, lease.accelerator, job.scale_factor) or 0.0

    def steps_of(self, run: tuple[Lease, float, float]) -> float:
        lease, start_s, _ = run
        before = self.steps_done[lease.job_id]
        done = before + (self.now_s - start_s) * self.speed(lease)
        return max(before, lease.until_step) if done > lease.until_step - 1e-6 else done

    # -- always true ------------------------------------------------------------------------------------------

    def check(self) -> None:
        mechanism = self.mechanism
        held = [device for lease in mechanism.leases.values() for device in lease.devices]
        assert len(held) == len(set(held))
        assert set(held) <= set(self.devices())
        assert sum(map(len, mechanism._free)) + len(held) == len(list(self.devices()))
        assert len({job.id for job in mechanism.live.jobs}) == len(mechanism.live)
        in_lease = {job_id for job_id in self.jobs if job_id in mechanism.leases}
        for job, row in zip(mechanism.live.jobs, mechanism.live.rows, strict=True):
            assert (row["type"] >= 0) == (job.id in in_lease)
            done = max(
                [
                    self.steps_done[job.id],
                    *(self.steps_of(r) for r in self.running.values() if r[0].job_id == job.id),
                ]
            )
            assert row["steps_done"] <= done + 1e-6, "credited for steps that nobody did"

    def devices(self) -> Iterator[Device]:
        for server in self.servers.values():
            yield from (Device(server.id, slot) for slot in range(server.device_count))


@pytest.mark.parametrize("rules", sorted(RULES))
@pytest.mark.parametrize("policy", ["fifo", "isolated", "max_min_fairness"])
@pytest.mark.parametrize("seed", range(25))
def test_when_the_faults_stop_every_job_is_done(seed: int, policy: str, rules: str) -> None:
    World(seed, policy, rules).run()
