"""The base class of our estimators: it returns measured speeds as measured, and estimates only the others."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from statistics import NormalDist

from gavelx.accelerators import NO_DATA_SHEETS, DataSheets
from gavelx.estimator.base import LEVEL, Estimator
from gavelx.estimator.memory_limits import CannotRun
from gavelx.estimator.one_thread import one_thread
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.throughputs import Pairing

UNKNOWN = Estimate(math.nan, math.nan, math.nan, "unknown")


class Completing(Estimator):
    """An estimator that only has to estimate ways to run that were not measured.

    Several measurements of one way are weighted by their errors; without errors, equally. If they contradict each
    other, the interval is wider. 0 (it was tried and cannot run) holds until a later measurement differs.
    """

    def __init__(self, data_sheets: DataSheets = NO_DATA_SHEETS) -> None:
        self.data_sheets = data_sheets
        self._measurements: dict[Way, list[Measurement]] = {}
        self.speed_of: dict[Way, float] = {}
        self.error_of: dict[Way, float] = {}

    def observe(self, measurements: Iterable[Measurement]) -> None:
        changed = set()
        for one in measurements:
            self._measurements.setdefault(one.way, []).append(one)
            changed.add(one.way)
        for way in changed:
            self.speed_of[way], self.error_of[way] = merged(self._measurements[way])
        # in one order, so that the order of arrival does not matter
        self.speed_of = {way: self.speed_of[way] for way in sorted(self.speed_of, key=_key)}
        self._cannot_run = CannotRun(self.speed_of, self.data_sheets)
        self.forget()

    @one_thread
    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        assert 0.0 < level < 1.0, level
        if not self.speed_of:
            return [UNKNOWN] * len(wanted)
        answer_of = {way: self._certain(way, level) for way in wanted}
        missing = sorted((way for way, answer in answer_of.items() if answer is None), key=_key)
        completed = self.complete(missing, level) if missing else []
        answer_of.update(zip(missing, map(_rounded, completed), strict=True))
        return [answer or UNKNOWN for answer in (answer_of[way] for way in wanted)]

    def _certain(self, way: Way, level: float) -> Estimate | None:
        speed = self.speed_of.get(way)
        if speed is not None:
            spread = math.exp(self.error_of[way] * NormalDist().inv_cdf((1 + level) / 2))
            return Estimate(speed, speed / spread, speed * spread, "measured")
        return Estimate(0.0, 0.0, 0.0, "estimated") if self._cannot_run.says(way) else None

    @abstractmethod
    def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
        """Estimates of ways to run that were not measured; None if unknown."""

    def forget(self) -> None:
        """Discard cached results, because there are new measurements."""


def merged(measurements: Sequence[Measurement]) -> tuple[float, float]:
    """Steps/s and relative error of one way to run, from all its measurements: a mean of logarithms.

    If measurements scatter by more than their errors, or have no errors, the error is computed from the scatter
    (Birge, "The Calculation of Errors by the Method of Least Squares", 1932).
    """
    ran = [one for one in measurements if one.steps_per_second > 0]
    failed_at = max((one.measured_at for one in measurements if one.steps_per_second == 0), default=None)
    if not ran or (failed_at is not None and failed_at >= max(one.measured_at for one in ran)):
        return 0.0, 0.0
    stated = all(one.relative_error > 0 for one in ran)
    # in one order, so that the order of measurements does not show in the last digit
    seen = sorted((math.log(one.steps_per_second), one.relative_error**-2 if stated else 1.0) for one in ran)
    weight = sum(weight for _, weight in seen)
    if seen[0][0] == seen[-1][0]:
        return ran[0].steps_per_second, weight**-0.5 if stated else 0.0
    mean = sum(log * weight for log, weight in seen) / weight
    scatter = sum(weight * (log - mean) ** 2 for log, weight in seen) / (len(seen) - 1)
    return math.exp(mean), math.sqrt(max(scatter, float(stated)) / weight)


def _rounded(answer: Estimate | None) -> Estimate | None:
    """The estimate to six digits, because the last bits of linear algebra differ between processors."""
    if answer is None:
        return None
    mid, lower, upper = (float(f"{speed:.6g}") for speed in answer[:3])
    return Estimate(mid, lower, upper, answer.origin)


def _key(way: Way) -> tuple[bool, tuple[object, ...]]:
    return isinstance(way, Pairing), tuple(way)
