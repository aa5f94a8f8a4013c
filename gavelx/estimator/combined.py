"""The estimator of missing speeds: completion where a job type was measured, the roofline where it was not."""

from collections.abc import Iterable, Sequence

from gavelx.accelerators import NO_DATA_SHEETS, DataSheets
from gavelx.estimator.base import LEVEL, Estimator
from gavelx.estimator.completion import Completion
from gavelx.measurements import Estimate, Measurement, Way


class Combined(Estimator):
    """Completion."""

    name = "combined"

    def __init__(self, data_sheets: DataSheets = NO_DATA_SHEETS) -> None:
        self.data_sheets = data_sheets
        self.completion = Completion(data_sheets)

    def observe(self, measurements: Iterable[Measurement]) -> None:
        self.completion.observe(measurements)

    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        return self.completion.estimate(wanted, level)
