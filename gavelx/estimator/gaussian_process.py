"""Gaussian-process regression with variance components: a sum of crossed random effects, and their variances.

    y_N ~ Normal(0, K),    K = sum_P variance_P kernel_PNN + diag(noise_N)

Each effect has a kernel (which cells share it, and how much of it); each group of cells has a variance of noise.
The variances are the most likely ones given the measurements (maximum a posteriori), with an inverse-gamma prior
on each, which fades with examples. The method is also known as kriging, and as best linear unbiased prediction
(Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006: equations 2.25, 2.26, 5.12).

Legend: N measured cells, M wanted cells, P effects, G groups of noise.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
STEPS_MAX, CLOSE = 60, 0.02
PRIOR_WEIGHT, PRIOR_EXAMPLES = 0.5, 3.0
"""The weight of an inverse-gamma prior, as a number of independent measurements of a variance: at most the first;
the second divided by the number of examples of the effect, where that is less.

A prior keeps a variance from 0. Of dozens of effects a table has a few, and with the full weight the others
would pass off noise as structure, however many cells are known. But few examples, such as of how devices differ,
need it: with less, a new device is estimated a tenth worse, and intervals of small tables are too narrow.
"""


class Variances(NamedTuple):
    """Variances of effects and of the groups' noise; measurements tell as many as ``told``, priors the rest."""

    effect_P: Floats
    noise_G: Floats
    told: float


def likely_variances(
    y_N: Floats,
    kernel_PNN: Floats,
    *,
    group_N: Whole,
    known_N: Floats,
    mode_P: Floats,
    mode_G: Floats,
    start: Variances | None = None,
) -> Variances:
    """The most likely variance of each effect and each group's noise; ``mode`` holds the modes of their priors.

    ``known_N`` is noise that is known beforehand, such as the error of each measurement; ``start`` is where to
    begin, by default the modes. Priors weigh the less, the more examples there are (``PRIOR_EXAMPLES``).

    Minorisation-maximisation: never less likely than before, never 0, and no step length to choose (Zhou, Hu, Zhou
    and Lange, "MM algorithms for variance components models", 2019; the prior is our addition). With
    a = K^-1 y, t = tr(K^-1 K_p), q = a' K_p a and a prior of weight w and scale b = w mode, the step from v0 to v
    maximises -t v / 2 - v0^2 q / (2 v) - w log v - b / v.
    """
    mode = np.concatenate([mode_P, mode_G])
    variance = mode if start is None else np.concatenate([start.effect_P, start.noise_G])
    P, G, N = len(mode_P), len(mode_G), len(y_N)
    # the lower triangle is enough, with what is off the diagonal counted twice
    lower = np.tril_indices(N)
    flat_PX, twice_X = kernel_PNN[:, *lower], np.where(lower[0] == lower[1], 1.0, 2.0)
    examples = np.concatenate([_examples(flat_PX, twice_X), np.bincount(group_N, minlength=G)])
    w = np.minimum(PRIOR_WEIGHT, PRIOR_EXAMPLES / np.maximum(examples, 1.0))
    scale = w * mode
    K = np.zeros((N, N))
    for _ in range(STEPS_MAX):
        K[lower] = variance[:P] @ flat_PX
        K[np.diag_indices_from(K)] += variance[P:][group_N] + known_N
        inverse = cho_solve(cho_factor(K, lower=True), np.eye(N))
        a_N = inverse @ y_N
        noise_t, noise_q = (np.bincount(group_N, of_N, minlength=G) for of_N in (np.diag(inverse), a_N**2))
        weight_X2 = np.stack([inverse[lower], a_N[lower[0]] * a_N[lower[1]]], axis=1) * twice_X[:, None]
        effect_t, effect_q = (flat_PX @ weight_X2).T
        t, q = np.concatenate([effect_t, noise_t]), np.concatenate([effect_q, noise_q])
        gain = variance**2 * q / 2 + scale
        before, variance = variance, 2 * gain / (w + np.sqrt(w**2 + 2 * t * gain))
        if np.abs(np.log(variance / before)).max() < CLOSE:
            break
    return Variances(variance[:P], variance[P:], float((1.0 - scale / gain).sum()))


def _examples(flat_PX: Floats, twice_X: Floats) -> Floats:
    """As how many independent ones these cells have each effect, (tr K)^2 / tr(K^2), from lower triangles.

    An effect of each device has as many examples as there are devices, if all have as many cells.
    """
    trace_P = flat_PX @ (twice_X == 1.0)
    return np.asarray(trace_P**2 / np.maximum(flat_PX**2 @ twice_X, np.finfo(float).tiny))


@dataclass(frozen=True)
class Solved:
    """Measured cells with the factor of their covariance, K = L L', and the weights K^-1 y, for predictions."""

    factor: tuple[Floats, bool]
    weight_N: Floats

    @classmethod
    def of(cls, K: Floats, y_N: Floats) -> "Solved":
        factor = cho_factor(K, lower=True)
        return cls(factor, cho_solve(factor, y_N))

    def ask(self, K_MN: Floats, variance_M: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each wanted cell."""
        root_NM = solve_triangular(self.factor[0], K_MN.T, lower=True, check_finite=False)
        explained_M = np.einsum("nm,nm->m", root_NM, root_NM)
        return K_MN @ self.weight_N, np.sqrt(np.maximum(variance_M - explained_M, 1e-12))

    def left_out(self) -> "LeftOut":
        """Predictions of measured cells from the others."""
        return LeftOut(cho_solve(self.factor, np.eye(len(self.weight_N))), self.weight_N)


@dataclass(frozen=True)
class Errors:
    """Errors of cells that were left out, and their predicted standard deviations."""

    error_N: Floats
    sd_N: Floats

    def __len__(self) -> int:
        return len(self.error_N)

    def __getitem__(self, some: Whole | NDArray[np.bool_]) -> "Errors":
        return Errors(self.error_N[some], self.sd_N[some])

    def grown(self, factor: float) -> "Errors":
        """Errors larger by this factor."""
        return Errors(factor * self.error_N, self.sd_N)

    def quantile(self, level: float) -> float:
        """Quantile of the errors in standard deviations that one more error stays within at this level."""
        N = len(self)
        return float(np.quantile(np.abs(self.error_N) / self.sd_N, min(1.0, level * (N + 1) / N)))


class LeftOut(NamedTuple):
    """Leave-out predictions of measured cells (equation 5.12); ``precision_NN`` is K^-1."""

    precision_NN: Floats
    weight_N: Floats

    def each(self) -> Errors:
        """Errors of each cell, predicted from all others."""
        precision_N = np.diag(self.precision_NN)
        return Errors(self.weight_N / precision_N, precision_N**-0.5)

    def together(self, some: Whole) -> Errors:
        """Errors of these cells, predicted from all cells except these."""
        covariance = cho_solve(cho_factor(self.precision_NN[np.ix_(some, some)]), np.eye(len(some)))
        return Errors(covariance @ self.weight_N[some], np.sqrt(np.diag(covariance)))
