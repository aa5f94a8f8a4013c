"""One run of jobs on this machine's devices, with the runner, the shim and the reports of an agent.

Jobs of one run share the same devices: one alone, or a pair. Counting begins when all of them do steps, and ends
for all at once, so a job of a pair is never measured while it is alone.
"""

import re
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from gavelx.errors import OptionError, UserError
from gavelx.estimator.steady_speed import Sample
from gavelx.profiler.steps import Steps, steps_of
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.ports import free_port
from gavelx.worker.devices import Devices, nvml
from gavelx.worker.runner import ProcessRunner
from gavelx.worker.state import Folder
from gavelx.worker.usage import Gpus, Meter, Use

POLL_S = 0.1
METER_EVERY_S = 1.0
GRACE_S = 5.0
LEASE_S = 30.0
"""Seconds after which jobs end if this process is killed."""
ENDLESS = 1e12
"""A number of steps beyond any run: the job trains until it is stopped."""
NO_ROOM = re.compile(r"out of memory|OutOfMemoryError|MemoryError|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)


class Job(NamedTuple):
    """A job to run: its type, argument vector and number of devices."""

    job_type: str
    command: tuple[str, ...]
    workers: int = 1


@dataclass(frozen=True)
class How:
    """How to measure: for how long (or until ``steps`` are done), and how steps are counted.

    ``start_s``: the longest time to the first step. ``devices``: the devices of this machine.
    """

    devices: Devices
    seconds: float = 60.0
    steps: int | None = None
    start_s: float = 300.0
    pattern: re.Pattern[str] | None = None
    one_process: bool = False


class Ran(NamedTuple):
    """The measurement of one job: its steps while all ran, peak memory, and mean use of its devices.

    ``no_room``: it ran out of memory, so it cannot run in this way.
    """

    samples: list[Sample]
    memory_mib: float | None = None
    utilization: float | None = None
    no_room: bool = False


def run(jobs: Sequence[Job], how: How) -> list[Ran]:
    """Run jobs on the same devices and count their steps. Raises :class:`UserError` for one that fails."""
    with tempfile.TemporaryDirectory(prefix="gavelx-measure-") as place:
        folder, shared = Folder(Path(place) / "agent"), Path(place) / "shared"
        with closing(ProcessRunner(folder, shared, how.devices, GRACE_S, Path.cwd())) as runner:
            return _Run(jobs, how, runner).ran()


class _Run:
    """Leases 1 .. n of a runner, one for each job."""

    def __init__(self, jobs: Sequence[Job], how: How, runner: ProcessRunner) -> None:
        self.jobs, self.how, self.runner = dict(enumerate(jobs, 1)), how, runner
        self.began_s = time.monotonic()
        self.counts: dict[int, Steps] = {
            lease_id: steps_of(runner.folder.lease(lease_id), how.pattern) for lease_id in self.jobs
        }
        self.uses: dict[int, list[Use]] = {lease_id: [] for lease_id in self.jobs}
        self.meter = Meter(runner.measured)
        self.metered_s = self.counted_until_s = 0.0

    def ran(self) -> list[Ran]:
        try:
            with nvml() as library:
                gpus = Gpus(library)
                self._start()
                while self._goes_on():
                    time.sleep(POLL_S)
                    self._look(gpus)
                self.counted_until_s = time.monotonic()
        finally:
            self._stop()
        if (ended := self._failed()) is not None:
            return self._no_room(ended)
        return self._result()

    def _start(self) -> None:
        for lease_id, job in self.jobs.items():
            processes = 1 if self.how.one_process else job.workers
            launch = wire.Launch(
                lease_id=lease_id,
                job_id=lease_id,
                job_type=job.job_type,
                command=job.command,
                slots=range(job.workers),
                world_size=processes,
                processes=processes,
                master_address="127.0.0.1",
                master_port=free_port(),
                until_step=self.how.steps or ENDLESS,
                folder=f"job-{lease_id}",
            )
            self.runner.start(launch, self.began_s + LEASE_S)

    def _look(self, gpus: Gpus) -> None:
        for steps in self.counts.values():
            steps.look()
        if (now_s := time.monotonic()) >= self.metered_s + METER_EVERY_S:
            self.metered_s = now_s
            for lease_id in self.runner.standing():
                self.runner.renew(lease_id, now_s + LEASE_S)
            self.meter.measure(gpus)
            if self._counting_from_s() is not None:
                for lease_id, uses in self.uses.items():
                    uses.append(self.meter.last(lease_id))
        self.runner.poll()

    def _counting_from_s(self) -> float | None:
        """The time at which the last of the jobs did its first step."""
        firsts = [_first_step_s(steps.samples) for steps in self.counts.values()]
        return None if None in firsts else max(first_s for first_s in firsts if first_s is not None)

    def _goes_on(self) -> bool:
        if self.runner.ended():
            return False  # one ended, so not all jobs run any more
        now_s, from_s = time.monotonic(), self._counting_from_s()
        if from_s is None:
            return now_s < self.began_s + self.how.start_s
        return self.how.steps is not None or now_s < from_s + self.how.seconds

    def _stop(self) -> None:
        """Stop the jobs: they save and exit, or are killed after the grace time."""
        for lease_id in list(self.runner.standing()):
            self.runner.stop(lease_id, "measured")
        while self.runner.standing():
            time.sleep(POLL_S)
            self.runner.poll()

    def _failed(self) -> wire.Ended | None:
        return next((ended for ended in self.runner.ended() if ended.failed), None)

    def _no_room(self, ended: wire.Ended) -> list[Ran]:
        """The result of a job that ran out of memory. Raises :class:`UserError` for any other failure."""
        lease = self.runner.folder.lease(ended.lease_id)
        printed = b"".join(path.read_bytes()[-1 << 16 :] for path in lease.path.glob("out.*.log"))
        if NO_ROOM.search(printed.decode(errors="replace")):
            return [Ran([], no_room=True) for _ in self.jobs]
        raise UserError(
            ended.reason or "it failed",
            where=self.jobs[ended.lease_id].job_type,
            expected="a job that runs",
            hint="the command by itself, in this folder",
        )

    def _result(self) -> list[Ran]:
        silent = [job.job_type for n, job in self.jobs.items() if not self.counts[n].samples]
        if silent:
            raise UserError(
                "no step was reported" if self.how.pattern is None else "no line matched --step-pattern",
                where=", ".join(dict.fromkeys(silent)),
                expected="a job that says how many steps it has done",
                hint="gavelx.training.Training around its loop (docs/training.md), or, if it prints them, "
                "--step-pattern 'step (\\d+)'",
            )
        return [self._of(lease_id) for lease_id in self.jobs]

    def _of(self, lease_id: int) -> Ran:
        """The result of one job; of a pair, while both do steps. The last sample is at the end of the counting."""
        samples, from_s = self.counts[lease_id].samples, self._counting_from_s()
        samples = [*samples, Sample(self.counted_until_s, samples[-1].steps)]
        if len(self.jobs) > 1 and from_s is not None:
            samples = [sample for sample in samples if sample.time_s >= from_s]
        uses = self.uses[lease_id]
        memory = max((use.memory_bytes for use in uses), default=0) / 2**20
        shares = [use.device_use for use in uses if use.device_use >= 0]
        return Ran(samples, memory or None, fmean(shares) if shares else None)


def _first_step_s(samples: Sequence[Sample]) -> float | None:
    return next((s.time_s for s in samples if s.steps > samples[0].steps), None)


def check_devices(devices: Devices, workers: int) -> None:
    """Raise :class:`OptionError` if there are fewer than ``workers`` devices."""
    there = len(set(devices.ids)) if any(devices.ids) else len(devices.ids)
    if workers > there:
        raise OptionError(f"{workers} devices", where="--workers", expected=f"at most {there}, as are here")
