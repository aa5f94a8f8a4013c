"""The estimates of an estimator as a throughput table with ranges."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    """Every way to run of these: alone; with ``placements`` also spread gangs; with ``pairs`` two on a device."""
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
    """A table of estimated speeds of these ways to run, with ranges at this confidence level.

    A measured speed has a range too, if its error is known. Unknown speeds are left out.
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
    """An estimator's throughput table, kept up to date with the measurements of leases.

    A measured speed is in the table at once. The others are estimated again when a tenth more ways to run have
    been measured than at the last time, so ever more rarely.
    """

    def __init__(self, estimator: Estimator, wanted: Sequence[Way], level: float = LEVEL) -> None:
        self.estimator, self.wanted, self.level = estimator, wanted, level
        self._table: Throughputs | None = None
        self._measured: set[Way] = set()
        self._new: set[Way] = set()  # measured since the table was made
        self._measured_then = 0  # number of measured ways when all were last estimated

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
    """The table with the entries of ``newer`` in place of its own."""
    changed = newer.isolated.keys() | newer.colocated.keys()
    kept = {way: bounds for way, bounds in table.ranges.items() if way not in changed}
    return replace(
        table,
        isolated={**table.isolated, **newer.isolated},
        colocated={**table.colocated, **newer.colocated},
        ranges={**kept, **newer.ranges},
    )
