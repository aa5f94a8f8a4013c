"""What an estimator believes, as a throughput table with ranges."""

from collections.abc import Iterable, Sequence
from itertools import product

from gavelx.estimator.base import LEVEL, Estimator
from gavelx.measurements import Measurement, Way
from gavelx.throughputs import Pairing, Setting, Throughputs


def ways_of(
    job_types: Sequence[str],
    accelerators: Sequence[str],
    scale_factors: Sequence[int] = (1,),
    *,
    pairs: bool = False,
    placements: bool = False,
) -> list[Way]:
    """Every way to run of these: alone; with ``placements`` gangs spread too; with ``pairs`` two on a device."""
    ways: list[Way] = []
    for scale, together in product(scale_factors, (True, False) if placements else (True,)):
        if scale > 1 or together:
            ways += [Setting(job, name, scale, together) for job, name in product(job_types, accelerators)]
    if pairs:
        ways += [Pairing(a, b, name) for a, b, name in product(job_types, job_types, accelerators)]
    return ways


def throughputs_of(
    estimator: Estimator, wanted: Sequence[Way], level: float = LEVEL, name: str = ""
) -> Throughputs:
    """What is believed about these ways to run, with the ranges that hold the truth in this share of cases.

    A measured speed has a range too, where its error is known. What is unknown is left out.
    """
    speeds: tuple[dict[Setting, float], dict[Pairing, float]] = {}, {}
    ranges = {}
    for way, estimate in zip(wanted, estimator.estimate(wanted, level), strict=True):
        if estimate.origin == "unknown":
            continue
        if isinstance(way, Setting):
            speeds[0][way] = estimate.steps_per_second
        else:
            speeds[1][way] = estimate.steps_per_second
        if estimate.lower < estimate.upper:
            ranges[way] = (estimate.lower, estimate.upper)
    return Throughputs(*speeds, name=name or estimator.name, ranges=ranges)


class Believed:
    """The table that an estimator believes in, kept up to date: leases' measurements in, the table out.

    What was measured is in the table at once. Everything else is estimated anew when a tenth more ways to run are
    measured than were the last time, so that it is done ever more seldom.
    """

    def __init__(self, estimator: Estimator, wanted: Sequence[Way], level: float = LEVEL) -> None:
        self.estimator, self.wanted, self.level = estimator, wanted, level
        self._table: Throughputs | None = None
        self._measured: set[Way] = set()
        self._new: set[Way] = set()  # measured since the table was made
        self._measured_then = 0  # how many were when all was estimated last

    def observe(self, measurements: Iterable[Measurement]) -> None:
        measurements = list(measurements)
        self.estimator.observe(measurements)
        self._new |= {one.way for one in measurements}
        self._measured |= self._new

    def throughputs(self) -> Throughputs:
        if self._table is None or len(self._measured) > 1.1 * self._measured_then:
            self._table = throughputs_of(self.estimator, self.wanted, self.level)
            self._measured_then = len(self._measured)
        elif self._new:
            new = [way for way in self.wanted if way in self._new]
            self._table = _with(self._table, throughputs_of(self.estimator, new, self.level))
        self._new = set()
        return self._table


def _with(table: Throughputs, newer: Throughputs) -> Throughputs:
    """The table, in which what is in the other one stands as it is there."""
    changed = newer.isolated.keys() | newer.colocated.keys()
    kept = {way: bounds for way, bounds in table.ranges.items() if way not in changed}
    return Throughputs(
        {**table.isolated, **newer.isolated},
        {**table.colocated, **newer.colocated},
        table.name,
        {**kept, **newer.ranges},
    )
