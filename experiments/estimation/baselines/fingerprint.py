"""The estimator of the published system: complete a fingerprint, match it to a reference job, borrow its row."""

import numpy as np

from experiments.estimation.baselines.als import low_rank
from experiments.estimation.baselines.column_mean import two_way
from experiments.estimation.baselines.matrices import MatrixEstimator
from experiments.estimation.baselines.nearest_job import borrowed
from gavelx.estimator.gaussian_process import Floats


class Fingerprint(MatrixEstimator):
    """As Gavel's: matrix completion makes a fingerprint of a job, and the nearest reference job lends its speeds.

    "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads" (OSDI'20), section 6, after
    Quasar (ASPLOS'14). There the reference jobs are profiled beforehand with all pairs; here every job type is a
    reference in those columns in which it was measured, as tables do not say who is one. We match logarithms less
    the effects of row and column, so that no unit counts for more than another.
    """

    name = "fingerprint"

    def fill(self, log_JC: Floats) -> Floats:
        effects_JC, _ = two_way(log_JC)
        fingerprint_JC = np.where(np.isnan(log_JC), low_rank(log_JC), log_JC) - effects_JC
        return borrowed(fingerprint_JC, log_JC - effects_JC) + effects_JC
