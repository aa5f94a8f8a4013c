"""The base class of estimators: measurements in, estimates of any way to run out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from gavelx.measurements import Estimate, Measurement, Way

LEVEL = 0.9
"""Default confidence level of intervals."""


class Estimator(ABC):
    """Estimate the speed of any way to run, with an interval, from a few measured speeds.

    A measured speed takes precedence over an estimate, and a job that was measured as unable to run (0) stays at
    0.
    """

    name = ""

    @abstractmethod
    def observe(self, measurements: Iterable[Measurement]) -> None:
        """Add these measurements to those observed before."""

    @abstractmethod
    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        """An estimate of each of these, in steps/s, with intervals at this confidence level."""

    def why_not(self, way: Way) -> str:
        """Why a way to run that was estimated as 0 cannot run; empty if the estimator cannot say."""
        return ""
