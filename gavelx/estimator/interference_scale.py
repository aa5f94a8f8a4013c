"""The scale of interference on each device, learnt from speeds: how much the slowdowns of pairs differ there.

A device that every job fills divides its time evenly; on a larger one, some pairs hardly slow down while others
do. So differences between pairs are scaled by an amplitude g_d on device d: the slowdowns of cell n on device d
and of cell m on device e have the covariance g_d g_e slowdown_NM, with log g_d ~ Normal(m, SPREAD^2). The
amplitudes are the most likely ones given the measurements, divided by their geometric mean.

For a device with few known pairs, the amplitude is predicted from the other devices: it grows with a device's
speed.

Legend: N measured cells, D devices.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from gavelx.estimator.gaussian_process import Floats, Whole

SPREAD, STEPS_MAX = 0.5, 15
GROWTH, GROWTH_SPREAD, COMMON_SPREAD = 0.5, 0.5, 1.0
"""Prior: the power of a device's speed in its amplitude, the spread of that power, and of the common factor."""
PAIRS_MIN = 10
"""Cells of pairs that a device needs for an amplitude of its own."""


def likely_amplitudes(
    y_N: Floats, rest_NN: Floats, slowdown_NN: Floats, device_N: Whole, known_D: NDArray[np.bool_]
) -> Floats:
    """The logarithm of each device's most likely amplitude; NaN if too few pairs are known.

    ``slowdown_NN`` is the covariance of slowdowns at amplitudes of 1, ``rest_NN`` all others, noise included.
    """
    D = len(known_D)

    def surprise(log_D: Floats) -> tuple[float, Floats]:
        """Minus the logarithm of the likelihood and of the prior, and its gradient."""
        g_N = np.exp(log_D)[device_N]
        scaled_NN = slowdown_NN * np.outer(g_N, g_N)
        factor = cho_factor(rest_NN + scaled_NN, lower=True)
        inverse = cho_solve(factor, np.eye(len(y_N)))
        a_N = inverse @ y_N
        apart_D = log_D - log_D.mean()
        value = y_N @ a_N / 2 + np.log(np.diag(factor[0])).sum() + apart_D @ apart_D / (2 * SPREAD**2)
        slope_N = (inverse * scaled_NN).sum(axis=1) - a_N * (scaled_NN @ a_N)
        return value, np.bincount(device_N, slope_N, minlength=D) + apart_D / SPREAD**2

    from scipy.optimize import minimize  # noqa: PLC0415  # slow to import, and only needed here

    found = minimize(surprise, np.zeros(D), jac=True, method="L-BFGS-B", options={"maxiter": STEPS_MAX})
    result: Floats = np.where(known_D, found.x - found.x[known_D].mean(), np.nan)
    return result


def foretold_amplitudes(log_D: Floats, speed_D: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the logarithm of every amplitude, given some (the others NaN) and speeds.

    ``speed_D`` are logarithms, too. Simple kriging of log g_d = c + b speed_d + rest_d; if no amplitude is known,
    c is 0.
    """
    known = np.flatnonzero(~np.isnan(log_D))
    common = COMMON_SPREAD**2 if len(known) else 0.0
    K_DD = common + SPREAD**2 * np.eye(len(log_D)) + GROWTH_SPREAD**2 * np.outer(speed_D, speed_D)
    weight_KD = np.linalg.solve(K_DD[np.ix_(known, known)], K_DD[known])
    mean_D = GROWTH * speed_D
    mean_D = mean_D + (log_D[known] - mean_D[known]) @ weight_KD
    variance_D = np.diag(K_DD) - (K_DD[known] * weight_KD).sum(axis=0)
    return mean_D, np.sqrt(np.maximum(variance_D, 0.0))
