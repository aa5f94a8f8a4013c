"""What is to be run, told so that any backend can: times in rounds, speeds by a table of two types."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from typing import Literal

from gavelx.cluster import Cluster, Server
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.mechanism.history import History
from gavelx.overheads import Overhead, Overheads
from gavelx.prices import Prices
from gavelx.service.store.configuration import Configuration
from gavelx.throughputs import Setting, Throughputs

SPEEDS = {
    Setting("net", "v100"): 20.0,
    Setting("net", "k80"): 10.0,
    Setting("net", "v100", 2): 20.0,
    Setting("wide", "v100"): 20.0,
    Setting("wide", "v100", 2): 34.0,
}
SPEEDS |= {
    Setting("parts", name, n): speed * n for name, speed in (("v100", 20.0), ("k80", 10.0)) for n in (1, 2, 3)
}
TABLE = Throughputs(SPEEDS, name="conformance")
PRICES = Prices({"v100": 3600.0, "k80": 900.0}, "conformance")


NOTICE_S = 60.0
"""For jobs to leave devices that are not lent any more; it takes them less."""


@dataclass(frozen=True)
class Wanted:
    """A job that takes so many rounds on v100s; ``elastic`` says its other sizes.

    It comes ``after`` so many rounds, and not before the first job has begun.
    """

    rounds: float
    workers: int = 1
    after: float = 0.0
    elastic: str = ""

    @property
    def job_type(self) -> str:
        """Only the wide ones, and those in parts, are faster on more devices."""
        return "net" if not self.elastic else "parts" if "/" in self.elastic else "wide"


@dataclass(frozen=True)
class Happening:
    """Once a job has done this part of its steps, and some of them since the last thing that happened.

    With ``has_held``, it has also taken steps on so many devices, lease after lease, and is on the last of them;
    with ``has_run``, it has taken steps in so many leases.
    Then a job is cancelled, or the server on which it runs is drained or lost, or lends only so many ``devices``.
    """

    once: int
    then: Literal["cancel", "drain", "lose", "offer"]
    job_id: int
    has_done: float = 0.0
    has_held: tuple[int, ...] = ()
    has_run: int = 0
    devices: int = 0

    def is_time(self, job: Job, steps_done: float, steps_before: float, history: Callable[[], History]) -> bool:
        """``history`` is told when it is needed."""
        if steps_done < self.has_done * job.total_steps or steps_done <= steps_before:
            return False
        if not (self.has_held or self.has_run):
            return True
        numbers = devices_by_lease(history(), job.id, steps_done)
        changes = tuple(number for number, _ in groupby(numbers))
        return len(numbers) >= self.has_run and self.has_held in ((), changes)


def devices_by_lease(history: History, job_id: int, steps_done: float) -> list[int]:
    """On how many devices a job took steps, lease after lease; it has done so many by now."""
    numbers, before = list[int](), 0.0
    for held in history.of(job_id):
        steps = held.steps_done if held.end_s < inf else steps_done
        if steps > before:
            numbers.append(len(held.lease.devices))
            before = steps
    return numbers


@dataclass(frozen=True)
class Scenario:
    """Servers in order, jobs in order of arrival (a job's id is its place), happenings one after the other."""

    policy: str
    servers: Mapping[str, tuple[str, int]]
    jobs: tuple[Wanted, ...]
    happenings: tuple[Happening, ...] = ()
    round_s: float = 1.0
    resize_s: float | None = None

    def timed(self, round_s: float, longer: float = 1.0) -> "Scenario":
        """With rounds of this length, and jobs so many times as long."""
        jobs = tuple(replace(job, rounds=job.rounds * longer) for job in self.jobs)
        return replace(self, round_s=round_s, jobs=jobs)

    @property
    def rules(self) -> Rules:
        overheads = Overheads(Overhead(resize_s=self.resize_s))
        return replace(DEFAULT.with_round(self.round_s), overheads=overheads)

    @property
    def configuration(self) -> Configuration:
        return Configuration(TABLE, PRICES, self.rules)

    @property
    def cluster(self) -> Cluster:
        servers = tuple(Server(n, kind, count) for n, (kind, count) in enumerate(self.servers.values()))
        return Cluster(servers, tuple(dict.fromkeys(kind for kind, _ in self.servers.values())))

    def work(self) -> list[Job]:
        return [
            Job(
                id=n,
                job_type=job.job_type,
                total_steps=float(
                    round(job.rounds * self.round_s * TABLE.isolated[Setting(job.job_type, "v100", job.workers)])
                ),
                scale_factor=job.workers,
                arrival_s=job.after * self.round_s,
                elastic=Elastic.of(job.elastic) if job.elastic else None,
            )
            for n, job in enumerate(self.jobs)
        ]
