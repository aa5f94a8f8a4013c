"""Similarity of devices, learnt from speeds: which devices suit the same models.

The effects of model j on the devices are Normal(0, variance C), independent between models. If C has low rank,
models that gain on one device gain on another, as in low-rank completion (probabilistic PCA, Tipping and Bishop
1999). C starts at the identity and is fitted by expectation maximisation (Dempster, Laird and Rubin 1977), with an
inverse-Wishart prior around the identity:

    C <- (sum_j E[e_j e_j' | y] / variance + PRIOR I) / (models + PRIOR)

Legend: N measured cells, D devices.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from gavelx.estimator.gaussian_process import Floats, Whole

STEPS = 20
PRIOR = 4.0
MODELS_MIN, DEVICES_MIN = 6, 4
"""Models that make a device well known (at least one for each device), and such devices needed to compare."""


def well_known(model_N: Whole, device_N: Whole, D: int) -> NDArray[np.bool_]:
    """Whether each device has enough models to be compared with others; False for all if few devices have."""
    device_X, _ = np.unique(np.stack([device_N, model_N]), axis=1)
    known_D: NDArray[np.bool_] = np.bincount(device_X, minlength=D) >= max(MODELS_MIN, D)
    return known_D if known_D.sum() >= DEVICES_MIN else np.zeros(D, bool)


def likely_covariance(
    y_N: Floats, rest_NN: Floats, *, model_N: Whole, device_N: Whole, variance: float, C_DD: Floats
) -> Floats:
    """The most likely C, given the covariance from all other effects (``rest_NN``, noise included).

    Some devices must be ``well_known``.
    """
    same_NN, D = variance * (model_N[:, None] == model_N[None, :]), len(C_DD)
    cells_of = [np.flatnonzero(model_N == model) for model in np.unique(model_N)]
    for _ in range(STEPS):
        K = rest_NN + same_NN * C_DD[np.ix_(device_N, device_N)]
        inverse = cho_solve(cho_factor(K), np.eye(len(K)))
        a_N, total_DD = inverse @ y_N, PRIOR * np.eye(D)
        for some in cells_of:
            to_DN = C_DD[:, device_N[some]]
            mean_D = to_DN @ a_N[some]
            explained_DD = to_DN @ inverse[np.ix_(some, some)] @ to_DN.T
            total_DD += C_DD + variance * (np.outer(mean_D, mean_D) - explained_DD)
        C_DD = total_DD / (len(cells_of) + PRIOR)
    # a device with few models stays independent of the others, with their mean variance
    known_D = well_known(model_N, device_N, D)
    usual = float(np.sqrt(np.mean(np.diag(C_DD)[known_D] ** 2)))
    return np.where(np.outer(known_D, known_D), C_DD, usual * np.eye(D))
