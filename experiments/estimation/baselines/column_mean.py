"""The simplest guess: what the others get."""

import numpy as np

from experiments.estimation.baselines.matrices import MatrixEstimator
from gavelx.estimator.gaussian_process import Floats


class ColumnMean(MatrixEstimator):
    """As much faster or slower than its usual speed as other jobs are there, on average."""

    name = "column_mean"

    def fill(self, log_JC: Floats) -> Floats:
        return np.where(np.isnan(log_JC), *two_way(log_JC))


def two_way(log_JC: Floats) -> tuple[Floats, Floats]:
    """The sum of a row's and a column's effect, and the matrix itself, for np.where(gap, effects, matrix)."""
    known_JC = ~np.isnan(log_JC)
    zeroed_JC = np.where(known_JC, log_JC, 0.0)
    row_J, column_C = np.zeros(len(log_JC)), np.zeros(log_JC.shape[1])
    for _ in range(20):
        row_J = ((zeroed_JC - column_C) * known_JC).sum(axis=1) / known_JC.sum(axis=1)
        column_C = ((zeroed_JC - row_J[:, None]) * known_JC).sum(axis=0) / known_JC.sum(axis=0)
    return row_J[:, None] + column_C, log_JC
