"""What a job says of its own training: how far through its data it is, and how well it does."""

import math
from typing import NamedTuple

KNOWN_MOST = 1e15


class TrainingReport(NamedTuple):
    """Passes through the data so far, samples of a pass, the first and the present loss, validation accuracy.

    NaN: the job does not say. ``epochs`` counts parts of a pass.
    """

    epochs: float = math.nan
    epoch_samples: float = math.nan
    first_loss: float = math.nan
    loss: float = math.nan
    accuracy: float = math.nan

    @staticmethod
    def of(values: dict[str, object]) -> "TrainingReport | None":
        """Those of a job's own words that are numbers; None if it does not count passes through its data."""
        report = TrainingReport(*(_number(values.get(name)) for name in TrainingReport._fields))
        return report if report.says else None

    @property
    def says(self) -> bool:
        """Whether the job says anything."""
        return self.epochs >= 0.0


NOTHING_SAID = TrainingReport()


def _number(value: object) -> float:
    good = isinstance(value, int | float) and math.isfinite(value) and abs(value) <= KNOWN_MOST
    return float(value) if good else math.nan  # type: ignore[arg-type]
