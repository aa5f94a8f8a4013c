"""How much it matters on a device who runs beside whom: learnt from speeds, as no data sheet says.

A device that every job fills divides its time evenly; on a larger one some pairs hardly notice each other while
others suffer. So each effect of partners counts g_d times on device d, with log g_d ~ Normal(m, SPREAD^2): the
slowdowns of a cell n on device d and a cell m on device e vary together as g_d g_e slowdown_NM. The amplitudes are
those under which what was measured is most likely, over their geometric mean; where few pairs are known it is 1.

Legend: N measured cells, D devices.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from gavelx.estimator.kriging import Floats, Whole

SPREAD, STEPS_MAX = 0.5, 15
PAIRS_MIN = 10
"""Fewer cells of pairs say nothing sure of a device."""


def likely_amplitudes(
    y_N: Floats, rest_NN: Floats, slowdown_NN: Floats, device_N: Whole, known_D: NDArray[np.bool_]
) -> Floats:
    """The most likely amplitude of each device; of those where enough pairs are known, the others keep 1.

    ``slowdown_NN`` is the covariance of slowdowns at amplitudes of 1, ``rest_NN`` all else, noise included.
    """
    D = len(known_D)
    if not known_D.any():
        return np.ones(D)

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

    found = minimize(surprise, np.zeros(D), jac=True, method="L-BFGS-B", options={"maxiter": STEPS_MAX})
    result: Floats = np.where(known_D, np.exp(found.x - found.x[known_D].mean()), 1.0)
    return result
