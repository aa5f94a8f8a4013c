"""What goes wrong in a simulated cluster, and how often. One seed fixes all of it.

Reports are lost (and sent again), late, doubled and so reordered; servers fail and return; policies take their
time; jobs fail and are tried again; jobs are faster or slower than their table says.
"""

import math
from dataclasses import dataclass
from random import Random

from gavelx.mechanism.events import Event, Progress
from gavelx.overheads import Overheads

PUBLISHED_SPEED_NOISE = 0.273
"""Variation of speed from job to job of one type (Shockwave, NSDI'23, reports 27.3 %)."""


@dataclass(frozen=True)
class Faults:
    """How often each thing goes wrong; all zero, and nothing does.

    * ``until_s``: from then on nothing goes wrong any more;
    * ``lost``, ``late``, ``doubled``: chances of a report; a lost one is sent again, but for `Progress`, which the
      next one makes good; late ones come within ``late_s``;
    * ``slow_solves``, ``slow_s``: chance that an answer of the policy takes up to so long;
    * ``server_failures_per_day``: of each server, which comes back after ``outage_s`` on average;
    * ``job_failures_per_hour``: of each running job; it goes on from its last checkpoint, one of which is written
      every ``checkpoint_every_s``;
    * ``speed_noise``: standard deviation of a job's speed over the table's (log-normal, mean 1);
    * ``measured_noise``: standard deviation of the speed that a lease measures over the one that it has;
    * ``overheads``: what stopping and restarting really takes, if not what the rules expect.
    """

    seed: int = 0
    until_s: float = math.inf
    lost: float = 0.0
    late: float = 0.0
    doubled: float = 0.0
    late_s: float = 300.0
    slow_solves: float = 0.0
    slow_s: float = 1000.0
    server_failures_per_day: float = 0.0
    outage_s: float = 1800.0
    job_failures_per_hour: float = 0.0
    checkpoint_every_s: float = 600.0
    speed_noise: float = 0.0
    measured_noise: float = 0.0
    overheads: Overheads | None = None


NO_FAULTS = Faults()


class Chance:
    """Draws what goes wrong, in the order in which it is asked."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.of_reports = faults.lost or faults.late or faults.doubled  # any
        self._random = Random(f"faults:{faults.seed}")
        self._speed_of: dict[int, float] = {}

    def delays_s(self, event: Event, now_s: float) -> list[float]:
        """When a report arrives, from now on, each time that it does."""
        faults, random = self.faults, self._random
        if not self.of_reports or now_s >= faults.until_s:
            return [0.0]
        if random.random() < faults.lost:
            return [] if isinstance(event, Progress) else [random.uniform(1.0, faults.late_s)]
        delays_s = [random.uniform(0.0, faults.late_s) if random.random() < faults.late else 0.0]
        if random.random() < faults.doubled:
            delays_s.append(random.uniform(0.0, faults.late_s))
        return delays_s

    def solve_s(self, now_s: float) -> float:
        """How long the policy takes this time."""
        faults = self.faults
        if not faults.slow_solves or now_s >= faults.until_s or self._random.random() >= faults.slow_solves:
            return 0.0
        return self._random.uniform(0.0, faults.slow_s)

    def failure_of_server_s(self, now_s: float) -> float | None:
        """After how long a server fails; None if never again."""
        return self._exponential(self.faults.server_failures_per_day / 86400.0, now_s)

    def outage_s(self) -> float:
        """How long it is gone then."""
        return self._random.expovariate(1.0 / self.faults.outage_s)

    def failure_of_job_s(self, now_s: float) -> float | None:
        """After how long a job that starts now fails; None if it does not."""
        return self._exponential(self.faults.job_failures_per_hour / 3600.0, now_s)

    def _exponential(self, per_s: float, now_s: float) -> float | None:
        if not per_s or now_s >= self.faults.until_s:
            return None
        wait_s = self._random.expovariate(per_s)
        return wait_s if now_s + wait_s < self.faults.until_s else None

    def speed(self, job_id: int) -> float:
        """The speed of a job as a part of what the table says: the same wherever and whenever it runs."""
        if not self.faults.speed_noise:
            return 1.0
        if job_id not in self._speed_of:
            self._speed_of[job_id] = self._around_one("speed", job_id, self.faults.speed_noise)
        return self._speed_of[job_id]

    def measured(self, lease_id: int, before: int = 0) -> float:
        """The speed that a lease measures as a part of the one that it has, after so many measurements before."""
        noise, number = self.faults.measured_noise, f"{lease_id}.{before}" if before else lease_id
        return self._around_one("measured", number, noise) if noise else 1.0

    def _around_one(self, what: str, number: int | str, deviation: float) -> float:
        """A draw of its own for each number: log-normal, with mean 1."""
        sigma = math.sqrt(math.log1p(deviation**2))
        return math.exp(Random(f"{what}:{self.faults.seed}:{number}").gauss(-(sigma**2) / 2, sigma))
