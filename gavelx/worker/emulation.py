"""Jobs that only sleep: the same agent and the same protocol, without processes.

A lease makes progress at the speed that its launch names and completes at its last step. A job whose environment
says ``CHECKPOINTS=no`` saves nothing and begins anew each time. So does a job of unknown length, which says
nothing of steps and completes after ``UNTOLD_S`` seconds. Many such agents share one event loop; a test of the
scheduler runs hundreds.
"""

import math
import random
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.agent import Agent
from gavelx.worker.devices import Devices
from gavelx.worker.running import CannotRunError, job_in

UNTOLD_S = 10.0


@dataclass(frozen=True)
class Failures:
    """Random failures: the mean seconds until a job fails and loses its work since the last checkpoint."""

    mean_s: float
    checkpoint_s: float = 60.0
    seed: int = 0


@dataclass
class Sleep:
    """A job that sleeps."""

    launch: wire.Launch
    started_s: float
    until_s: float
    fails_s: float = math.inf
    next_id: int | None = None
    """The lease to which it has gone over; this one's time stands still."""
    over_s: float = math.inf
    handover: wire.Handover | None = None
    joins: bool = False
    """Whether it is the part of a running job, which knows how far it is."""

    @property
    def untold(self) -> bool:
        return math.isinf(self.launch.until_step)

    def steps_at(self, time_s: float) -> float:
        if self.untold:
            return self.launch.saved_steps
        done = self.launch.saved_steps + self.launch.steps_per_s * max(0.0, time_s - self.started_s)
        return max(self.launch.saved_steps, min(done, self.launch.until_step))

    @property
    def saves(self) -> bool:
        return not self.untold and self.launch.environment.get("CHECKPOINTS", "yes") != "no"

    @property
    def complete_s(self) -> float:
        if self.joins:
            return math.inf
        if self.untold:
            return self.started_s + UNTOLD_S
        return (
            self.started_s + max(0.0, self.launch.until_step - self.launch.saved_steps) / self.launch.steps_per_s
        )


class SleepRunner:
    """The `Runner` of jobs that sleep. ``speed`` multiplies the speed of all jobs."""

    log_bytes = 0
    ready = True
    log_mark = ""

    def __init__(
        self,
        *,
        grace_s: float = 15.0,
        speed: float = 1.0,
        failures: Failures | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.boot_id = uuid.uuid4().hex
        self.grace_s, self.speed, self.failures = grace_s, speed, failures
        self.now_s = clock
        self._running: dict[int, Sleep] = {}
        self._ended: dict[str, wire.Ended] = {}
        self._told: dict[int, wire.Ended] = {}
        self._job_of: dict[int, tuple[int, str]] = {}
        self._log_id = ""

    def belong_to(self, log_id: str) -> None:
        if self._log_id and log_id not in ("", self._log_id):
            self.log_mark = ""
            for known in (self._running, self._ended, self._told, self._job_of):
                known.clear()
        self._log_id = log_id or self._log_id

    def start(self, launch: wire.Launch, until_s: float) -> None:
        if not launch.steps_per_s > 0.0:
            raise CannotRunError("a job that only sleeps needs a speed in its launch")
        launch.steps_per_s *= self.speed
        fails_s = math.inf
        if self.failures is not None:
            chance = random.Random(f"{self.failures.seed}/{launch.lease_id}")
            fails_s = self.now_s() + chance.expovariate(1.0 / self.failures.mean_s)
        joins = launch.size.generation > 0
        self._running[launch.lease_id] = Sleep(launch, self.now_s(), until_s, fails_s, joins=joins)
        self._job_of[launch.lease_id] = job_in(launch)
        self.log_mark = launch.log_mark or self.log_mark

    def resize(self, launch: wire.Launch) -> None:
        sleep, now_s = self._running.get(launch.continues), self.now_s()
        if sleep is None or sleep.next_id is not None or self._end_of(sleep) <= now_s:
            return
        sleep.next_id = launch.lease_id
        if not launch.slots:
            self._end(launch.continues, now_s, "its processes here left", left=True)
            return
        launch.saved_steps = max(launch.saved_steps, sleep.steps_at(now_s))
        launch.steps_per_s *= self.speed
        joins = sleep.joins and launch.first_rank > 0
        held_s = now_s - sleep.started_s
        handover = wire.Handover(before_id=launch.continues, steps_done=launch.saved_steps, held_s=held_s)
        after = Sleep(launch, now_s, sleep.until_s, sleep.fails_s, handover=handover, joins=joins)
        sleep.over_s = now_s
        self._running[launch.lease_id] = after
        self._job_of[launch.lease_id] = job_in(launch)

    def continued_by(self, lease_id: int) -> int | None:
        return self._running[lease_id].next_id

    def go_over(self, lease_id: int) -> None:
        del self._running[lease_id]

    def job_of(self, lease_id: int) -> tuple[int, str] | None:
        return self._job_of.get(lease_id)

    def standing(self) -> Collection[int]:
        return self._running.keys()

    def renew(self, lease_id: int, until_s: float) -> None:
        sleep = self._running[lease_id]
        sleep.until_s = max(sleep.until_s, until_s)

    def stop(self, lease_id: int, reason: str) -> None:
        """With the lease that the job has gone over from, or to."""
        lease_id = self._running[lease_id].next_id or lease_id
        self._end(lease_id, min(self.now_s(), self._end_of(self._running[lease_id])), f"stopped: {reason}")

    def poll(self) -> None:
        now_s = self.now_s()
        for lease_id, sleep in list(self._running.items()):
            end_s = self._end_of(sleep)
            if end_s <= now_s:
                self._end(lease_id, end_s, "stopped: no word from the scheduler: the lease lapsed")

    def poll_at_s(self) -> float:
        return min((self._end_of(sleep) for sleep in self._running.values()), default=math.inf)

    def _end_of(self, sleep: Sleep) -> float:
        """The time at which it completes, fails or expires, whichever is first; not, where the job went over."""
        if sleep.next_id is not None:
            return math.inf
        return min(sleep.complete_s, sleep.fails_s, sleep.until_s - self.grace_s)

    def _end(self, lease_id: int, end_s: float, reason: str, *, left: bool = False) -> None:
        sleep = self._running.pop(lease_id)
        if sleep.handover is not None and (before_id := sleep.handover.before_id) in self._running:
            self._end(before_id, self._running[before_id].over_s, "the job went over to another lease", left=True)
        complete = end_s >= sleep.complete_s and not left
        failed = end_s == sleep.fails_s < sleep.complete_s and not left
        steps = sleep.launch.until_step if complete and not sleep.untold else sleep.steps_at(end_s)
        if not (complete or sleep.saves):
            steps = sleep.launch.saved_steps
        if failed:
            steps, reason = self._saved(sleep, end_s), "it was its turn to fail"
        ended = wire.Ended(
            report_id=f"{self.boot_id}.{lease_id}",
            lease_id=lease_id,
            job_id=sleep.launch.job_id,
            steps_done=steps,
            held_s=max(0.0, end_s - sleep.started_s),
            failed=failed,
            complete=complete,
            exit_code=1 if failed else 0,
            reason="complete" if complete else reason,
            left=left,
        )
        self._ended[ended.report_id] = self._told[lease_id] = ended
        while len(self._told) > 10_000:
            oldest = next(iter(self._told))
            del self._told[oldest], self._job_of[oldest]

    def _saved(self, sleep: Sleep, time_s: float) -> float:
        """Steps in the last checkpoint."""
        if not sleep.saves:
            return sleep.launch.saved_steps
        every_s = self.failures.checkpoint_s if self.failures else 60.0
        return sleep.steps_at(sleep.started_s + (time_s - sleep.started_s) // every_s * every_s)

    def reports(self) -> list[wire.LeaseReport]:
        now_s = self.now_s()
        return [
            wire.LeaseReport(
                lease_id=lease_id,
                job_id=sleep.launch.job_id,
                steps_done=sleep.steps_at(now_s),
                saved_steps=self._saved(sleep, now_s),
                held_s=max(0.0, min(now_s, sleep.over_s) - sleep.started_s),
                steps_per_s=sleep.launch.steps_per_s,
                device_use=-1.0,
                sizes=sleep.launch.size.generation + 1 if sleep.launch.elasticity and sleep.saves else 0,
                next_id=sleep.next_id,
                handover=sleep.handover,
            )
            for lease_id, sleep in self._running.items()
        ]

    def ended(self) -> Collection[wire.Ended]:
        return list(self._ended.values())

    def acknowledge(self, report_id: str) -> None:
        self._ended.pop(report_id, None)

    def tell_again(self, lease_id: int) -> None:
        if lease_id in self._told:
            ended = self._told[lease_id]
            self._ended[ended.report_id] = ended

    def leases_of(self, job_id: int) -> Sequence[Path]:
        return ()  # a sleeping job prints nothing

    def removed(self, job_id: int) -> str:
        return ""


def sleeping_agent(
    name: str,
    devices: Devices,
    *,
    address: str = "127.0.0.1",
    grace_s: float = 15.0,
    speed: float = 1.0,
    failures: Failures | None = None,
) -> Agent:
    """An agent whose jobs only sleep; `attend` many of them in one event loop.

    >>> agents = [sleeping_agent(f"v100-{n}", Devices("v100", ("0", "1"))) for n in range(3)]
    """
    return Agent(name, address, devices, SleepRunner(grace_s=grace_s, speed=speed, failures=failures))
