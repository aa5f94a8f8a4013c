"""A second opinion on jobs alone: a plain Gaussian process, smooth in batch size and number of devices.

    log T = prior + level of the model + sum over sides of (a constant + a curve) + noise

The sides are all ways to run, those of one job type, of one device, of one model, and of one model on one device;
each has constants and curves of its own. Curves have a squared-exponential kernel in the logarithms of batch size
and number of devices, with one length scale for each of these. Variances, length scales and noise are the most
likely ones, with wide lognormal priors (maximum a posteriori; Rasmussen and Williams, "Gaussian Processes for
Machine Learning", 2006, section 5.4.1).

It has few terms and fits its length scales, so it is better than the model of ``effects`` where a table is smooth
and much of it is known; elsewhere it knows too little. Pooled, they are about as good as the better of both, and
often better, as their errors differ.

Legend: N measured cells, M wanted cells, n some of the measured ones, K sides, X entries of n x n.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from gavelx.estimator.effects import Cells, Space
from gavelx.estimator.gaussian_process import Errors, Floats, LeftOut, Solved, Whole

FITTED_MAX, SOLVED_MAX, ENTRIES_MAX = 400, 2500, 2_000_000
"""Cells to which variances are fitted; cells solved together; entries of a covariance computed at once."""
SIDES = 5
MIDDLE = np.array([*np.log([0.05, 0.05, 0.05, 4.0, 0.05]), *np.log([0.05] * SIDES), 1.0, 1.0, np.log(0.005)])
SPREAD = np.array([3.0, 3.0, 3.0, 0.1, 3.0, *[3.0] * SIDES, 1.0, 1.0, 2.0])
"""The normal priors of the logarithms of: variances of constants and of curves, both length scales, noise.

The constant of a model is large, since each model counts its own steps, and is not fitted: measurements less their
level do not tell it.
"""
BOUNDS = [*[(-12.0, 4.0)] * 2 * SIDES, (-2.0, 5.0), (-2.0, 5.0), (-10.0, 1.0)]
CONVERGED, DIGITS = {"ftol": 1e-14, "gtol": 1e-7, "maxcor": 30, "maxiter": 1000, "maxfun": 400}, 2
"""The search goes on far beyond what is needed, and its end is rounded: so it is the same on each processor.

It usually takes 60 to 140 evaluations; ``maxfun`` bounds its time."""
APART = 2.0
"""Gangs in one server and in several are as far apart as with so many doublings of the number of devices."""


@dataclass(frozen=True)
class Smooth:
    """The fitted process, given ``at_n`` of the measured cells; ``theta`` are the logarithms of ``MIDDLE``."""

    theta: Floats
    at_n: Whole
    solved: Solved

    @classmethod
    def of(cls, space: Space, cells: Cells, y_N: Floats, known_N: Floats) -> "Smooth":
        """Fit to logarithms of speed less prior and level, with these variances of errors. Pairs are left out."""
        alone = np.random.default_rng(0).permutation(np.flatnonzero(~cells.is_pair_N))
        few, at_n = np.sort(alone[:FITTED_MAX]), np.sort(alone[:SOLVED_MAX])
        theta = _likely(space, cells[few], y_N[few], known_N[few])
        K = _covariance(theta, space, cells[at_n], cells[at_n])
        K[np.diag_indices_from(K)] += np.exp(theta[-1]) + known_N[at_n]
        return cls(theta, at_n, Solved.of(K, y_N[at_n]))

    def ask(self, space: Space, wanted: Cells, known: Cells) -> tuple[Floats, Floats]:
        """Mean and standard deviation of wanted cells, in a space that has the measured ones (``known``) too."""
        mean_M, sd_M = np.empty(len(wanted)), np.empty(len(wanted))
        variance, near = np.exp(self.theta[: 2 * SIDES]).sum() + np.exp(self.theta[-1]), known[self.at_n]
        for part in np.array_split(np.arange(len(wanted)), 1 + len(wanted) * len(near) // ENTRIES_MAX):
            K_MN = _covariance(self.theta, space, wanted[part], near)
            mean_M[part], sd_M[part] = self.solved.ask(K_MN, np.full(len(part), variance))
        return mean_M, sd_M


def _likely(space: Space, cells: Cells, y_n: Floats, known_n: Floats) -> Floats:
    """The most likely logarithms of variances and length scales."""
    n, apart_2X = len(cells), _apart(space, cells, cells).reshape(2, -1)
    side_KX = np.array(_sides(space, cells, cells), float).reshape(SIDES, -1)

    def surprise(theta: Floats) -> tuple[float, Floats]:
        constant_K, curve_K, length_2, noise = _parts(theta)
        square_2X = apart_2X / length_2[:, None] ** 2
        smooth_X = np.exp(-0.5 * square_2X.sum(axis=0))
        curves_X = curve_K @ side_KX * smooth_X
        K = (constant_K @ side_KX + curves_X).reshape(n, n)
        K[np.diag_indices(n)] += noise + known_n
        factor = cho_factor(K, lower=True)
        inverse = cho_solve(factor, np.eye(n))
        a_n, off = inverse @ y_n, (theta - MIDDLE) / SPREAD
        W = inverse - np.outer(a_n, a_n)
        W_X = W.ravel()
        slopes = (
            constant_K * (side_KX @ W_X),
            curve_K * (side_KX @ (W_X * smooth_X)),
            square_2X @ (W_X * curves_X),
            [noise * np.trace(W)],
        )
        unlikely = (y_n @ a_n + off @ off) / 2 + np.log(np.diag(factor[0])).sum()
        return float(unlikely), np.concatenate(slopes) / 2 + off / SPREAD

    found: Floats = minimize(surprise, MIDDLE, jac=True, method="L-BFGS-B", bounds=BOUNDS, options=CONVERGED).x
    return np.round(found, DIGITS)


def _parts(theta: Floats) -> tuple[Floats, Floats, Floats, float]:
    found = np.exp(theta)
    return found[:SIDES], found[SIDES : 2 * SIDES], found[-3:-1], float(found[-1])


def _covariance(theta: Floats, space: Space, a: Cells, b: Cells) -> Floats:
    """cov(a, b) without noise (M x N)."""
    constant_K, curve_K, length_2, _ = _parts(theta)
    smooth_MN = np.exp(-0.5 * np.tensordot(length_2**-2, _apart(space, a, b), 1))
    total_MN = np.zeros((len(a), len(b)))
    for constant, curve, side_MN in zip(constant_K, curve_K, _sides(space, a, b), strict=True):
        total_MN += side_MN * (constant + curve * smooth_MN)
    return total_MN


def _sides(space: Space, a: Cells, b: Cells) -> list[NDArray[np.bool_]]:
    """Whether two cells share each side (M x N)."""
    job, device = a.job_N[:, None] == b.job_N, a.device_N[:, None] == b.device_N
    model = space.model_J[a.job_N][:, None] == space.model_J[b.job_N]
    return [np.ones_like(job), job, device, model, model & device]


def _apart(space: Space, a: Cells, b: Cells) -> Floats:
    """Squared distances of batch sizes and of numbers of devices, in doublings (2 x M x N)."""

    def squares(of_a: Floats, of_b: Floats) -> Floats:
        return (of_a[:, None] - of_b) ** 2

    sizes = squares(space.octave_S[a.shape_N], space.octave_S[b.shape_N])
    spread = squares(space.apart_S[a.shape_N], space.apart_S[b.shape_N])
    return np.array([squares(space.octave_J[a.job_N], space.octave_J[b.job_N]), sizes + APART**2 * spread])


def pooled(
    first: tuple[Floats, Floats], second: tuple[Floats, Floats], where_N: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Means and standard deviations, with a second opinion on those cells where there is one.

    The geometric mean of both normal densities: means are weighted by precision, and the precision is the mean of
    both, since both opinions come from the same measurements (a logarithmic pool of equal weights; Genest and
    Zidek, "Combining probability distributions", 1986). We add the variance of the two means with these weights,
    as a mixture has it: where opinions are far apart, less is known.
    """
    mean_N, sd_N = (of_N.copy() for of_N in first)
    precision, other = sd_N[where_N] ** -2, second[1] ** -2
    share, apart = precision / (precision + other), mean_N[where_N] - second[0]
    mean_N[where_N] = second[0] + share * apart
    sd_N[where_N] = np.sqrt(2 / (precision + other) + share * (1 - share) * apart**2)
    return mean_N, sd_N


@dataclass(frozen=True)
class PooledLeftOut:
    """Leave-out predictions from both models; ``at_N`` is the place of each cell in the second, or -1."""

    effects: LeftOut
    smooth: LeftOut
    at_N: Whole

    def each(self) -> Errors:
        """Errors of each cell, predicted from all others."""
        return _errors(self.effects.each(), self.smooth.each()[self.at_N[self.at_N >= 0]], self.at_N >= 0)

    def together(self, some: Whole) -> Errors:
        """Errors of these cells, predicted from all cells except these."""
        at_n = self.at_N[some]
        return _errors(self.effects.together(some), self.smooth.together(at_n[at_n >= 0]), at_n >= 0)


def _errors(first: Errors, second: Errors, where_N: NDArray[np.bool_]) -> Errors:
    return Errors(*pooled((first.error_N, first.sd_N), (second.error_N, second.sd_N), where_N))
