"""The simulated cluster: a backend in virtual time.

It knows what each job really does (its steps, its speed) and reports it, as workers would; it takes no
decisions. What it records of leases and completions is the run's log.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism.commands import Command, Device, Extend, Launch, Lease, Stop, WakeAt
from gavelx.mechanism.events import ArrivalsEnded, Event, JobSubmitted, LeaseEnded, Progress, Wake, WorkerJoined
from gavelx.simulator.recorder import Recorder
from gavelx.throughputs import Throughputs

ENDS, ARRIVES, WAKES = range(3)
"""What comes first among things at the same time: devices fall free, jobs arrive, then decisions are taken."""


@dataclass(slots=True)
class Running:
    """A lease in progress: the job does ``steps_per_s`` from ``start_s`` on."""

    lease: Lease
    start_s: float
    start_steps: float
    steps_per_s: float
    until_s: float

    def steps_at(self, time_s: float) -> float:
        """Steps that the job has done, counted from its beginning."""
        done = self.start_steps + (time_s - self.start_s) * self.steps_per_s
        return min(done, self.lease.until_step)

    @property
    def end_s(self) -> float:
        """When the lease's steps are done."""
        return self.start_s + (self.lease.until_step - self.start_steps) / self.steps_per_s


@dataclass
class SimulatedCluster:
    """Runs ``jobs`` on ``cluster`` in virtual time, at the speeds of ``throughputs``.

    It ends when nothing can happen any more or, with ``measured`` job ids, as soon as all of those are complete
    (with ``whole_rounds`` at the end of that round).
    """

    jobs: Sequence[Job]
    cluster: Cluster
    throughputs: Throughputs
    measured: frozenset[int] | None = None
    whole_rounds: bool = False
    now_s: float = 0.0
    recorder: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self._job = {job.id: job for job in self.jobs}
        self._steps_done = dict.fromkeys(self._job, 0.0)
        self._running: dict[int, Running] = {}
        self._in_use: dict[Device, int] = {}
        self._queue: list[tuple[float, int, int, Event]] = []
        self._posted: deque[Event] = deque()
        self._sequence = 0
        self._wakes: set[float] = set()
        for server in self.cluster.servers:
            self._posted.append(WorkerJoined(0.0, server))
        for job in self.jobs:
            self._push(ARRIVES, JobSubmitted(job.arrival_s, job))
        self._push(ARRIVES, ArrivalsEnded(max((job.arrival_s for job in self.jobs), default=0.0)))

    # -- what happens -----------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Events in order of time, until nothing more can happen or all that is measured is done."""
        while self._posted or self._queue:
            if self._posted:
                yield self._posted.popleft()
                continue
            if self._lapse(before_s=self._queue[0][0]):
                continue
            time_s, _, _, event = heapq.heappop(self._queue)
            assert time_s >= self.now_s
            self.now_s = time_s
            match event:
                case LeaseEnded():
                    if event.lease_id not in self._running:
                        continue  # it was stopped before
                    self._end(event.lease_id, event.steps_done)
                case Wake():
                    self._wakes.discard(time_s)
                    if self._running:
                        yield self._progress()
            yield event
            if self._measured_are_complete():
                break
        for lease_id in list(self._running):
            self._end(lease_id, self._running[lease_id].steps_at(self.now_s))

    def _progress(self) -> Progress:
        done = {run.lease.job_id: run.steps_at(self.now_s) for run in self._running.values()}
        return Progress(self.now_s, done)

    def _measured_are_complete(self) -> bool:
        if self.measured is None or not self.measured <= self.recorder.completion_s.keys():
            return False
        return not (self.whole_rounds and self._running)

    def _lapse(self, before_s: float) -> bool:
        """The lease that is the first to end because nobody extended it, if that is before anything else."""
        run = min(self._running.values(), key=lambda run: run.until_s, default=None)
        if run is None or run.until_s >= before_s:
            return False
        self.now_s = run.until_s
        self.post(self._end(run.lease.id, run.steps_at(run.until_s)))
        return True

    # -- what the mechanism wants -----------------------------------------------------------------------------

    def execute(self, command: Command) -> None:
        match command:
            case Launch():
                self._launch(command.lease)
            case Stop():
                if run := self._running.get(command.lease_id):
                    self.post(self._end(command.lease_id, run.steps_at(self.now_s)))
            case Extend():
                for lease_id in command.lease_ids:
                    if run := self._running.get(lease_id):
                        run.until_s = max(run.until_s, command.until_s)
            case WakeAt():
                if command.time_s not in self._wakes:
                    self._wakes.add(command.time_s)
                    self._push(WAKES, Wake(command.time_s))
            case _:
                raise AssertionError(command)

    def post(self, event: Event) -> None:
        """Report an event at the present time."""
        self._posted.append(event)

    def _launch(self, lease: Lease) -> None:
        job = self._job[lease.job_id]
        for device in lease.devices:
            assert device not in self._in_use, f"{device} is held by lease {self._in_use[device]}"
            self._in_use[device] = lease.id
        speed = self.throughputs.get(job.job_type, lease.accelerator, job.scale_factor)
        assert speed, f"job {job.id} cannot run on {lease.accelerator}"
        assert len(lease.devices) == job.scale_factor
        run = Running(lease, self.now_s, self._steps_done[job.id], speed, lease.until_s)
        self._running[lease.id] = run
        self._push(ENDS, LeaseEnded(run.end_s, lease.id, job.id, lease.until_step))

    def _end(self, lease_id: int, steps_done: float) -> LeaseEnded:
        run = self._running.pop(lease_id)
        job = self._job[run.lease.job_id]
        for device in run.lease.devices:
            del self._in_use[device]
        self._steps_done[job.id] = steps_done
        self.recorder.lease(run.lease, run.start_s, self.now_s)
        if steps_done >= job.total_steps:
            self.recorder.completion_s[job.id] = self.now_s
        return LeaseEnded(self.now_s, lease_id, job.id, steps_done)

    def _push(self, order: int, event: Event) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (event.time_s, order, self._sequence, event))
