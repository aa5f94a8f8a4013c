"""Estimators to compare with: that of the published system, and simpler ones.

They know nothing of devices and names.
"""

from experiments.estimation.baselines.als import Als
from experiments.estimation.baselines.column_mean import ColumnMean
from experiments.estimation.baselines.fingerprint import Fingerprint
from experiments.estimation.baselines.nearest_job import NearestJob
from gavelx.accelerators import DataSheets
from gavelx.estimator import Estimator, estimators, make_estimator
from gavelx.estimator.catalog import MakeEstimator

BASELINES: dict[str, MakeEstimator] = {made.name: made for made in (Fingerprint, Als, NearestJob, ColumnMean)}
NAMES = (*estimators(), *BASELINES)


def estimator_of(name: str, data_sheets: DataSheets) -> Estimator:
    """A new estimator: a baseline, or what ``gavelx throughputs estimate`` calls so."""
    return BASELINES[name](data_sheets) if name in BASELINES else make_estimator(name, data_sheets)
