"""A plain Gaussian process, as anyone would write one in forty lines: what little effort gives.

    log speed = mean + job + device + model + f(batch size, devices) + the same f of each model and device + noise

Jobs, devices and models are categories (kernels of one or zero), f has a squared-exponential kernel of the
logarithms of batch size and of the number of devices. Variances, length scales and noise are the most likely ones
(type II maximum likelihood, L-BFGS from two starts). It knows no data sheets and no pairs.
"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from gavelx.estimator.gaussian_process import Floats
from gavelx.estimator.known import Completing
from gavelx.estimator.names import read_name
from gavelx.measurements import Estimate, Way
from gavelx.throughputs import Setting

TERMS = ("", "job", "device", "model", "device model", "f", "f device", "f model", "f device model")
STARTS = (0.1, 1.0)
LOG_RANGE, LOG_NOISE_RANGE = (-12.0, 4.0), (-10.0, 1.0)


class SimpleProcess(Completing):
    """Gaussian-process regression with one-hot kernels and a smooth function of batch size and width."""

    name = "simple_process"

    def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
        known = {
            way: np.log(speed) for way, speed in self.speed_of.items() if speed > 0 and isinstance(way, Setting)
        }
        jobs = {way.job_type for way in known}
        wanted = [way for way in missing if isinstance(way, Setting) and way.job_type in jobs]
        if not wanted:
            return [None] * len(missing)
        y_N = np.array(list(known.values()))
        logs = _answers(list(known), (y_N - y_N.mean()), wanted)
        reach = NormalDist().inv_cdf((1 + level) / 2)
        answer_of = {
            way: Estimate(*np.exp(y_N.mean() + mid + reach * sd * np.array([0, -1, 1])).tolist(), "estimated")
            for way, mid, sd in zip(wanted, *logs, strict=True)
        }
        return [answer_of.get(way) for way in missing]


def _answers(known: Sequence[Setting], y_N: Floats, wanted: Sequence[Setting]) -> tuple[Floats, Floats]:
    """Means and standard deviations of the wanted logarithms, noise included."""
    same, apart = _sides(known, known)
    scale = max(float(y_N.std()), 1e-3)
    y_N = y_N / scale

    def surprise(theta: Floats) -> tuple[float, Floats]:
        terms, slopes = _terms(same, apart, theta)
        K = sum(terms) + np.exp(theta[-1]) * np.eye(len(y_N))
        try:
            factor = cho_factor(K, lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(len(theta))
        inverse = cho_solve(factor, np.eye(len(y_N)))
        a_N = inverse @ y_N
        W = inverse - np.outer(a_N, a_N)
        gradient = [np.vdot(W, each) / 2 for each in (*terms, *slopes, np.exp(theta[-1]) * np.eye(len(y_N)))]
        return float(y_N @ a_N / 2 + np.log(np.diag(factor[0])).sum()), np.array(gradient)

    T = len(TERMS)
    bounds = [LOG_RANGE] * T + [(-2.0, 5.0)] * len(apart) + [LOG_NOISE_RANGE]
    starts = [np.array([np.log(v)] * T + [1.0] * len(apart) + [np.log(0.01)]) for v in STARTS]
    found = min(
        (minimize(surprise, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts),
        key=lambda one: float(one.fun),
    ).x
    noise = np.exp(found[-1])
    K = sum(_terms(same, apart, found)[0]) + noise * np.eye(len(y_N))
    to_MN = sum(_terms(*_sides(wanted, known), found)[0])
    inverse = np.linalg.inv(K)
    variance_M = np.exp(found[:T]).sum() + noise - np.einsum("mn,nk,mk->m", to_MN, inverse, to_MN)
    return scale * (to_MN @ inverse @ y_N), scale * np.sqrt(np.maximum(variance_M, 1e-12))


def _terms(same: dict[str, Floats], apart: Sequence[Floats], theta: Floats) -> tuple[list[Floats], list[Floats]]:
    """Each term of the covariance, and the slopes of their sum against the logarithms of the length scales."""
    T = len(TERMS)
    lengths = np.exp(theta[T : T + len(apart)])
    smooth = np.exp(-0.5 * sum(each / length**2 for each, length in zip(apart, lengths, strict=True)))
    terms = []
    for name, log in zip(TERMS, theta, strict=False):
        term = np.exp(log) * np.ones_like(smooth)
        for side in name.split():
            term = term * (smooth if side == "f" else same[side])
        terms.append(term)
    of_f = sum(term for name, term in zip(TERMS, terms, strict=True) if name.startswith("f"))
    return terms, [of_f * each / length**2 for each, length in zip(apart, lengths, strict=True)]


def _sides(a: Sequence[Setting], b: Sequence[Setting]) -> tuple[dict[str, Floats], list[Floats]]:
    """Which cells share a job, a device, a model; squared distances of batch size and of width and placement."""

    def columns(ways: Sequence[Setting]) -> tuple[dict[str, np.ndarray], Floats]:
        names = [read_name(way.job_type) for way in ways]
        sides = {
            "job": np.array([way.job_type for way in ways]),
            "device": np.array([way.accelerator for way in ways]),
            "model": np.array([name.model for name in names]),
        }
        batch = np.nan_to_num(np.log2([name.batch_size for name in names]))
        width = [np.log2(way.scale_factor) for way in ways]
        return sides, np.array([batch, width, [2.0 * (not way.consolidated) for way in ways]])

    (of_a, x_a), (of_b, x_b) = columns(a), columns(b)
    same = {side: (of_a[side][:, None] == of_b[side][None, :]) * 1.0 for side in of_a}
    apart = (x_a[:, :, None] - x_b[:, None, :]) ** 2
    return same, [apart[0], apart[1] + apart[2]]
