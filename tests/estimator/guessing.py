"""A very plain estimator for tests: what was measured, and else a guess that is off by a known factor."""

from collections.abc import Iterable, Mapping, Sequence

from gavelx.estimator.base import LEVEL, Estimator
from gavelx.measurements import Estimate, Measurement, Way


class Guessing(Estimator):
    """Believes ``guess``, with ranges from a half to the double, until it is told better."""

    name = "guessing"

    def __init__(self, guess: Mapping[Way, float]) -> None:
        self.guess = guess
        self.measured: dict[Way, list[float]] = {}

    def observe(self, measurements: Iterable[Measurement]) -> None:
        for one in measurements:
            self.measured.setdefault(one.way, []).append(one.steps_per_second)

    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        return [self._of(way) for way in wanted]

    def _of(self, way: Way) -> Estimate:
        if way in self.measured:
            speed = sum(self.measured[way]) / len(self.measured[way])
            return Estimate(speed, speed, speed, "measured")
        if way in self.guess:
            speed = self.guess[way]
            return Estimate(speed, 0.5 * speed, 2.0 * speed, "estimated")
        nothing = float("nan")
        return Estimate(nothing, nothing, nothing, "unknown")
