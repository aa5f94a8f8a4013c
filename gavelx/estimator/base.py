"""What every estimator is: it is told measurements and says what it believes about any way to run."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from gavelx.measurements import Estimate, Measurement, Way

LEVEL = 0.9
"""How often an interval is to hold the truth, unless somebody asks for another share."""


class Estimator(ABC):
    """Knows much from little: a few measured speeds in, a speed and an interval for any way to run out.

    A measured speed beats an estimate; a job that cannot run somewhere (0) is never said to run there.
    """

    name = ""

    @abstractmethod
    def observe(self, measurements: Iterable[Measurement]) -> None:
        """Take these into account, besides what was observed before."""

    @abstractmethod
    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        """What is believed about each of these, with intervals that hold the truth in this share of cases."""
