"""Plain matrix completion: few factors of jobs and of columns, in turn by least squares."""

import numpy as np
from numpy.typing import NDArray

from experiments.estimation.baselines.column_mean import two_way
from experiments.estimation.baselines.matrices import MatrixEstimator
from gavelx.estimator.gaussian_process import Floats

RANK, RIDGE, TURNS = 3, 0.1, 30


class Als(MatrixEstimator):
    """Low-rank completion of the matrix by alternating least squares, without features of jobs or devices."""

    name = "als"

    def fill(self, log_JC: Floats) -> Floats:
        return np.where(np.isnan(log_JC), low_rank(log_JC), log_JC)


def low_rank(log_JC: Floats) -> Floats:
    """Effects of rows and columns, and what is left of them as a product of ``RANK`` factors.

    Minimises |M - U V'|^2 over the known entries + RIDGE (|U|^2 + |V|^2) by turns (Koren, Bell and Volinsky,
    "Matrix factorization techniques for recommender systems", 2009).
    """
    effects_JC, _ = two_way(log_JC)
    known_JC = ~np.isnan(log_JC)
    rest_JC = np.where(known_JC, log_JC - effects_JC, 0.0)
    rank = min(RANK, *log_JC.shape)
    factor_CR: Floats = np.linalg.svd(rest_JC, full_matrices=False)[2][:rank].T
    for _ in range(TURNS):
        factor_JR = _least_squares(rest_JC, known_JC, factor_CR)
        factor_CR = _least_squares(rest_JC.T, known_JC.T, factor_JR)
    return effects_JC + factor_JR @ factor_CR.T


def _least_squares(rest_JC: Floats, known_JC: NDArray[np.bool_], factor_CR: Floats) -> Floats:
    """The best factor of each row, given those of the columns."""
    normal_JRR = np.einsum("jc,cr,cs->jrs", known_JC, factor_CR, factor_CR, optimize=True)
    normal_JRR += RIDGE * np.eye(factor_CR.shape[1])
    return np.linalg.solve(normal_JRR, (rest_JC @ factor_CR)[:, :, None])[:, :, 0]
