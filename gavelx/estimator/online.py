"""Speeds from leases: every lease is a measurement, and together they correct a throughput table.

For each way to run, the latest ``KEPT`` measurements are kept: y_i = log of the speed, with standard errors e_i.

* *The speed* is the median of y_i: up to half of the leases may be wrong. Its standard error is 1.25 of that of a
  mean (Huber and Ronchetti, "Robust Statistics", 1.2), with the larger of the measurements' own errors and their
  scatter (median absolute deviation).
* *Drift*: the standardised distance of each new y_i from the median of those before it goes into a two-sided
  cumulative sum, s = max(0, s + z - 1/2), which raises the alarm above 5 (Page 1954; Montgomery, "Introduction to
  Statistical Quality Control", 9.1). Distances are cut at 3, so that one measurement alone raises no alarm; after
  an alarm, all but the latest ``ENOUGH`` are dropped.
* *Correction*: after ``ENOUGH`` measurements, the speed replaces that of the table, if they differ by more than
  the interval and by more than ``MATTERS``. The profile in the table is then called *wrong*.

Pure: the state follows from the observed measurements and their order.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median

from gavelx.estimator.base import LEVEL
from gavelx.estimator.steady_speed import interval
from gavelx.measurements import Estimate, Measurement, Way

KEPT = 32
ENOUGH = 3
MATTERS = 0.05
"""Relative difference of speeds from which another allocation is worth it."""
ERROR_MIN, ERROR_MAX = 0.01, 0.5
"""Least relative error of a lease, as devices of one type differ; and the error from which a lease is ignored."""
SPEED_MAX = 1e12
SLACK, ALARM, CUT = 0.5, 5.0, 3.0


@dataclass
class Learned:
    """The measurements of leases of one way to run; ``drifted_at`` is the time of its last drift."""

    latest: list[Measurement] = field(default_factory=list)
    count: int = 0
    drifts: int = 0
    drifted_at: str = ""
    _up: float = 0.0
    _down: float = 0.0

    def observe(self, measurement: Measurement) -> bool:
        """Add a measurement; return whether it shows a drift of the speed."""
        drifted = len(self.latest) >= ENOUGH and self._alarmed(measurement)
        self.count += 1
        self.latest = [*self.latest[-KEPT + 1 :], measurement]
        if drifted:
            self.drifts, self.drifted_at = self.drifts + 1, measurement.measured_at
            self.latest = self.latest[-ENOUGH:]
            self._up = self._down = 0.0
        return drifted

    @property
    def speed(self) -> float:
        """Steps/s."""
        return median(m.steps_per_second for m in self.latest)

    @property
    def relative_error(self) -> float:
        """The standard error of the speed, relative to it; at most 1."""
        return min(1.0, 1.2533 * self._scatter() / math.sqrt(len(self.latest)))

    @property
    def seconds(self) -> float:
        """Total seconds over which steps were counted."""
        return sum(m.seconds for m in self.latest)

    def _alarmed(self, measurement: Measurement) -> bool:
        z = math.log(measurement.steps_per_second) - math.log(self.speed)
        z /= math.hypot(self._scatter(), max(measurement.relative_error, ERROR_MIN))
        z = max(-CUT, min(CUT, z))
        self._up, self._down = max(0.0, self._up + z - SLACK), max(0.0, self._down - z - SLACK)
        return max(self._up, self._down) > ALARM

    def _scatter(self) -> float:
        """Relative error of one measurement: the scatter between them, or their own errors if larger."""
        middle = math.log(self.speed)
        apart = 1.4826 * median(abs(math.log(m.steps_per_second) - middle) for m in self.latest)
        said = math.sqrt(fmean(max(m.relative_error, ERROR_MIN) ** 2 for m in self.latest))
        return max(apart, said)


class Online:
    """A throughput table with the measurements of leases. ``table`` holds the speeds before any lease."""

    def __init__(self, table: Mapping[Way, float]) -> None:
        self._table = table
        self._learned: dict[Way, Learned] = {}
        self.drifts = 0

    def __iter__(self) -> Iterator[Way]:
        return iter(self._learned)

    def learned(self, way: Way) -> Learned | None:
        """The measurements of leases of a way to run; None if there are none."""
        return self._learned.get(way)

    def observe(self, measurement: Measurement) -> bool:
        """Add a measurement; return whether it shows a drift. A measurement that is not a speed is ignored."""
        if not (0 < measurement.steps_per_second < SPEED_MAX and 0 <= measurement.relative_error <= ERROR_MAX):
            return False
        drifted = self._learned.setdefault(measurement.way, Learned()).observe(measurement)
        self.drifts += drifted
        return drifted

    def forget(self, ways: Iterable[Way]) -> None:
        """Their measurements were of something else."""
        for way in ways:
            self._learned.pop(way, None)

    def is_known(self, way: Way) -> bool:
        """Whether there are enough measurements."""
        learned = self._learned.get(way)
        return learned is not None and len(learned.latest) >= ENOUGH

    def better(self, way: Way, used: float | None) -> float | None:
        """The speed to use instead of ``used`` (None: no speed); None if ``used`` can stay."""
        stands = not self.is_known(way) if used is None else not self.contradicts(way, used)
        return None if stands else self._learned[way].speed

    def contradicts(self, way: Way, said: float) -> bool:
        """Whether leases contradict this speed: significantly, and by more than ``MATTERS``."""
        if not self.is_known(way):
            return False
        learned = self._learned[way]
        low, high = interval(learned.speed, learned.relative_error)
        return not low / (1 + MATTERS) <= said <= high * (1 + MATTERS)

    def wrong(self) -> list[Way]:
        """Ways to run whose profile in the table is contradicted by measurements."""
        return [way for way in self._learned if way in self._table and self.contradicts(way, self._table[way])]

    def estimate(self, way: Way, level: float = LEVEL) -> Estimate:
        """An estimate of a way to run from the measurements of leases."""
        learned = self._learned.get(way)
        if learned is None:
            return Estimate(math.nan, math.nan, math.nan, "unknown")
        return Estimate(learned.speed, *interval(learned.speed, learned.relative_error, level), "measured")
