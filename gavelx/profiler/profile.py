"""The plan to measure a job (scale factors, batch sizes, partners, repetitions), and its results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import NamedTuple

from gavelx.errors import OptionError
from gavelx.estimator.steady_speed import Rejected, Sample, SteadySpeed, measure, together
from gavelx.files.profiles import Profile
from gavelx.measurements import Measurement, Way
from gavelx.profiler.running import How, Job, Ran, run
from gavelx.throughputs import Pairing, Setting

BATCH_SIZE = "{batch_size}"
SOURCE = "gavelx throughputs measure"


@dataclass(frozen=True)
class Plan:
    """A job type with its command, which may contain ``{batch_size}``, and the measurements to make.

    * ``workers``: scale factors; ``batch_sizes``: each is a job type of its own, named as in the shipped tables;
    * ``beside``: partners that share one device with it; a pair is measured for both;
    * ``repeat``: starts of each, so that the interval includes the variation between starts.
    """

    job_type: str
    command: tuple[str, ...]
    workers: tuple[int, ...] = (1,)
    batch_sizes: tuple[int, ...] = ()
    beside: tuple[Job, ...] = ()
    repeat: int = 1
    source: str = SOURCE

    def __post_init__(self) -> None:
        there = any(BATCH_SIZE in word for word in self.command)
        if there and not self.batch_sizes:
            problem = f"the command has a place for {BATCH_SIZE}, and no batch size is given"
            raise OptionError(problem, where="--batch-sizes", expected="such as --batch-sizes 16,32")
        if self.batch_sizes and not there:
            problem = f"the command has no place for {BATCH_SIZE}"
            raise OptionError(problem, where="--batch-sizes", hint=f"-- python train.py --batch-size {BATCH_SIZE}")

    def runs(self) -> Iterator[tuple[Job, ...]]:
        """The runs to make, one after the other, each as the jobs that share the same devices."""
        for batch_size in self.batch_sizes or (None,):
            for workers in self.workers:
                yield (self._job(batch_size, workers),)
            for partner in self.beside:
                yield self._job(batch_size, 1), partner

    def _job(self, batch_size: int | None, workers: int) -> Job:
        if batch_size is None:
            return Job(self.job_type, self.command, workers)
        words = tuple(word.replace(BATCH_SIZE, str(batch_size)) for word in self.command)
        return Job(f"{self.job_type} (batch size {batch_size})", words, workers)


class Refused(NamedTuple):
    """A way to run that could not be measured, and why."""

    way: Way
    reason: str


def profiles(
    plan: Plan, how: How, begins: Callable[[Sequence[Job], int], None] = lambda _jobs, _n: None
) -> Iterator[list[Profile | Refused]]:
    """Make the runs of the plan, one after the other; the result of each run, or of both jobs of a pair.

    ``begins`` is called before every run. Raises :class:`UserError` for a job that fails.
    """
    for jobs in plan.runs():
        times = list[list[Ran]]()
        for n in range(plan.repeat):
            begins(jobs, n)
            times.append(run(jobs, how))
            if any(ran.no_room for ran in times[-1]):
                break
        yield conclude(jobs, times, how, plan.source)


def conclude(
    jobs: Sequence[Job], times: Sequence[Sequence[Ran]], how: How, source: str
) -> list[Profile | Refused]:
    """The result for each of the jobs after its runs. A pair has one only if both jobs have."""
    rans = list(zip(*times, strict=True))
    ways = [_way(jobs, n, how.devices.accelerator) for n in range(len(jobs))]
    if any(ran.no_room for ran in times[-1]):
        return [Profile(Measurement(way, 0.0, measured_at=_now(), source=source)) for way in ways]
    found = [_speed([ran.samples for ran in each]) for each in rans]
    refused = [each.reason for each in found if isinstance(each, Rejected)]
    if refused:
        reasons = (each.reason if isinstance(each, Rejected) else refused[0] for each in found)
        return [Refused(way, reason) for way, reason in zip(ways, reasons, strict=True)]
    memory, use = (_in_all(rans, name) for name in ("memory_mib", "utilization"))
    return [
        Profile(
            Measurement(way, speed.steps_per_second, speed.relative_error, speed.seconds, _now(), source),
            memory,
            use,
        )
        for way, speed in zip(ways, found, strict=True)
        if isinstance(speed, SteadySpeed)
    ]


def _way(jobs: Sequence[Job], n: int, accelerator: str) -> Way:
    if len(jobs) == 1:
        return Setting(jobs[0].job_type, accelerator, jobs[0].workers)
    return Pairing(jobs[n].job_type, jobs[1 - n].job_type, accelerator)


def _speed(runs: Sequence[Sequence[Sample]]) -> SteadySpeed | Rejected:
    """The speed over all runs that can be used, or the reason if none can."""
    found = [measure(samples) for samples in runs]
    good = [each for each in found if isinstance(each, SteadySpeed)]
    return together(good) if good else next(each for each in found if isinstance(each, Rejected))


def _in_all(rans: Sequence[Sequence[Ran]], name: str) -> float | None:
    """The sum over the jobs that ran together, averaged over the runs."""
    known = [[value for ran in each if (value := getattr(ran, name)) is not None] for each in rans]
    return sum(fmean(values) for values in known) if all(known) else None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
