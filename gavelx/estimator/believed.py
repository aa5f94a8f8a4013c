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
    """The table that an estimator believes in, made anew when it has been told more.

    What a scheduler that learns is given: leases' measurements in, the table out.
    """

    def __init__(self, estimator: Estimator, wanted: Sequence[Way], level: float = LEVEL) -> None:
        self.estimator, self.wanted, self.level = estimator, wanted, level

    def observe(self, measurements: Iterable[Measurement]) -> None:
        self.estimator.observe(measurements)

    def throughputs(self) -> Throughputs:
        return throughputs_of(self.estimator, self.wanted, self.level)
