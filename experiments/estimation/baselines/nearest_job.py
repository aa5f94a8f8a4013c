"""The job that was most alike wherever both were measured lends its speeds."""

import numpy as np

from experiments.estimation.baselines.column_mean import two_way
from experiments.estimation.baselines.matrices import MatrixEstimator
from gavelx.estimator.gaussian_process import Floats

SAME = 9
"""Distances that agree to so many decimal places are the same: the first job lends, on every processor."""


class NearestJob(MatrixEstimator):
    """As much faster or slower as the job is that was most alike where both were measured."""

    name = "nearest_job"

    def fill(self, log_JC: Floats) -> Floats:
        effects_JC, _ = two_way(log_JC)
        return borrowed(log_JC - effects_JC, log_JC - effects_JC) + effects_JC


def borrowed(fingerprint_JC: Floats, rest_JC: Floats) -> Floats:
    """Each gap of the second matrix from the row whose fingerprint is nearest, of those that have something there.

    Distances are root mean squares over columns that both fingerprints have, with one more column in which they
    are as far apart as two rows are on average: having little in common is not being alike.
    """
    known_JC = ~np.isnan(fingerprint_JC)
    usual = 2 * float(np.nanvar(fingerprint_JC))
    zeroed_JC = np.where(known_JC, fingerprint_JC, 0.0)
    square_JC = zeroed_JC**2
    common_JJ = known_JC.astype(float) @ known_JC.T
    apart_JJ = square_JC @ known_JC.T + known_JC @ square_JC.T - 2 * zeroed_JC @ zeroed_JC.T
    distance_JJ = ((np.maximum(apart_JJ, 0.0) + usual) / (common_JJ + 1)).round(SAME)
    np.fill_diagonal(distance_JJ, np.inf)
    filled_JC = rest_JC.copy()
    for c in range(rest_JC.shape[1]):
        gap_J = np.isnan(rest_JC[:, c])
        lenders = np.flatnonzero(~gap_J)
        filled_JC[gap_J, c] = rest_JC[lenders[np.argmin(distance_JJ[np.ix_(gap_J, lenders)], axis=1)], c]
    return filled_JC
