"""Time of a training step, by the number of devices of one type, their placement and the batch size.

    T_compute = a_c + b_c m                                        m: batch size on each device
    T_sync    = 0                                     one device
              = a_l + b_l (K - 2)                     K devices in one server
              = a_n + b_n (K - 2) + c_n (k - 1)       K devices in several servers, k in the fullest of them
    T_step    = s T_compute + (T_compute^p + T_sync^p)^(1/p)     s: batches accumulated before the gradients' sync

p is from 1 (sync begins after computing) to 10 (sync is hidden). Source: Pollux (OSDI'21), section 3.2,
equations 8 to 11, which Sia (SOSP'23) has for each accelerator type. The term with c_n is ours: devices of one
server share its network card. On the public V100 profiles it brings the median error of bert and deepspeech2
from 11 % to 4 %.

Legend: N profiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Placement = tuple[int, ...]
"""Devices on each server: (4, 4) is eight on two."""
OUTLIER = 0.1
"""Errors above this (in logarithms) count linearly, not squared: profiles have stalls in them."""
COMPUTE_WEIGHT = 0.5
"""Weight of an error in T_compute relative to one in T_step, which schedulers need."""
GROWTH_WEIGHT, OVERLAP_WEIGHT = 0.01, 0.003
"""Weights of sync that grows with devices (as a ratio), and of overlap: a percent of an error outweighs them."""
ENOUGH = 1e-4
"""The fit ends when it gets better by less, relative to what is left."""
NEGLIGIBLE = 1e-9
"""Least seconds of a step, because logarithms need a positive number."""


class Profile(NamedTuple):
    """A measured step time, and the part of it spent waiting for gradients (seconds)."""

    placement: Placement
    local_batch: float
    step_s: float
    sync_s: float


@dataclass(frozen=True)
class StepTime:
    """The model's coefficients: seconds, seconds per sample or per device, and the exponent p."""

    compute_s: float
    compute_s_per_sample: float
    server_s: float
    server_s_per_device: float
    network_s: float
    network_s_per_device: float
    network_s_per_neighbour: float
    overlap: float

    def compute_seconds(self, local_batch: float | Floats) -> float | Floats:
        """T_compute: forward and backward pass of one batch on each device."""
        return self.compute_s + self.compute_s_per_sample * local_batch

    def sync_seconds(self, placement: Placement) -> float:
        """T_sync: time to average the gradients without overlap."""
        devices = sum(placement)
        if devices == 1:
            return 0.0
        if len(placement) == 1:
            return self.server_s + self.server_s_per_device * (devices - 2)
        shared = self.network_s_per_neighbour * (max(placement) - 1)
        return self.network_s + self.network_s_per_device * (devices - 2) + shared

    def seconds(
        self, placement: Placement, local_batch: float | Floats, accumulated: float | Floats = 0
    ) -> float | Floats:
        """T_step, with the batches accumulated before it; arrays give arrays."""
        compute_s = self.compute_seconds(local_batch)
        return accumulated * compute_s + _overlapped(compute_s, self.sync_seconds(placement), self.overlap)


def _overlapped(compute_s: float | Floats, sync_s: float | Floats, p: float) -> float | Floats:
    """(T_compute^p + T_sync^p)^(1/p), without underflow."""
    longer_s, shorter_s = np.maximum(compute_s, sync_s), np.minimum(compute_s, sync_s)
    result: float | Floats = longer_s * (1.0 + (shorter_s / longer_s) ** p) ** (1.0 / p)
    return result


def fit_step_time(profiles: Sequence[Profile]) -> StepTime:
    """Fit the coefficients to these profiles: least squares of logarithms, robust against outliers.

    A few profiles are enough, as a job reports them while it runs. What they cannot tell is taken as in Pollux
    (section 4.1, "prior-driven exploration"): gangs over several servers are as fast as in one, devices in one
    server sync for free, more than two devices sync as two do, and half of the computing is the same at any batch.
    Where several coefficients fit equally well, time that does not grow with the number of devices is preferred.
    """
    assert profiles, "nothing to fit"
    seen = _Seen.of(profiles)
    free = np.array(
        [
            len(np.unique(seen.batch_N)) > 1,
            True,
            seen.inside_N.any(),
            bool((seen.inside_N & (seen.devices_N > 2)).any()),
            seen.across_N.any(),
            bool((seen.across_N & (seen.devices_N > 2)).any()),
            bool((seen.across_N & (seen.fullest_N > 1)).any()),
        ]
    )
    typical_s = float(np.median(seen.step_N))
    fixed = np.full(len(free), -np.inf)
    fixed[0] = np.log(seen.compute_N.mean() / 2.0)

    def coefficients(found: Floats) -> Floats:
        whole = fixed.copy()
        whole[free] = found[:-1]
        return np.append(np.exp(whole), found[-1])

    per_sample_s = 0.7 * typical_s / float(seen.batch_N.mean())
    parts = np.array([0.3 * typical_s, per_sample_s, *[0.05 * typical_s, 0.01 * typical_s] * 2, 0.01 * typical_s])
    least, most = np.log(typical_s) - 30.0, np.log(typical_s) + 10.0
    found = least_squares(
        lambda found: seen.residuals(coefficients(found)),
        np.append(np.log(parts[free]), 1.5),
        bounds=([least] * int(free.sum()) + [1.0], [most] * int(free.sum()) + [10.0]),
        loss="soft_l1",
        f_scale=OUTLIER,
        ftol=ENOUGH,
    )
    a_c, b_c, a_l, b_l, a_n, b_n, c_n, p = coefficients(found.x).tolist()
    if not seen.across_N.any():
        a_n, b_n, c_n = a_l, b_l, 0.0
    return StepTime(a_c, b_c, a_l, b_l, a_n, b_n, c_n, p)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Profiles as columns."""

    devices_N: Floats
    fullest_N: Floats
    batch_N: Floats
    step_N: Floats
    compute_N: Floats
    inside_N: Bools
    """Several devices of one server."""
    across_N: Bools
    """Devices of several servers."""

    @staticmethod
    def of(profiles: Sequence[Profile]) -> "_Seen":
        devices_N = np.array([sum(one.placement) for one in profiles], dtype=float)
        servers_N = np.array([len(one.placement) for one in profiles])
        step_N = np.array([one.step_s for one in profiles], dtype=float)
        sync_N = np.array([one.sync_s for one in profiles], dtype=float)
        return _Seen(
            devices_N,
            np.array([max(one.placement) for one in profiles], dtype=float),
            np.array([one.local_batch for one in profiles], dtype=float),
            step_N,
            np.maximum(step_N - sync_N, 0.05 * step_N),
            (servers_N == 1) & (devices_N > 1),
            servers_N > 1,
        )

    def residuals(self, coefficients: Floats) -> Floats:
        """Errors in logarithms, and what the preference for constant times costs."""
        a_c, b_c, a_l, b_l, a_n, b_n, c_n, p = coefficients
        compute_s = a_c + b_c * self.batch_N
        sync_s = np.full(len(self.step_N), NEGLIGIBLE)
        sync_s[self.inside_N] += (a_l + b_l * (self.devices_N - 2))[self.inside_N]
        sync_s[self.across_N] += (a_n + b_n * (self.devices_N - 2) + c_n * (self.fullest_N - 1))[self.across_N]
        step_s = _overlapped(compute_s, sync_s, p)
        growth = np.array([b_l / max(a_l, NEGLIGIBLE), b_n / max(a_n, NEGLIGIBLE), c_n / max(a_n, NEGLIGIBLE)])
        return np.concatenate(
            [
                np.log(step_s / self.step_N),
                COMPUTE_WEIGHT * np.log(compute_s / self.compute_N),
                GROWTH_WEIGHT * np.minimum(growth, 1.0 / GROWTH_WEIGHT),
                [OVERLAP_WEIGHT * (p - 1.0)],
            ]
        )


def held_out_errors(profiles: Sequence[Profile], folds: int = 5, seed: int = 0) -> Floats:
    """The error of each profile (logarithm of predicted over measured) by a model fitted without it."""
    fold_N = np.random.default_rng(seed).permutation(np.arange(len(profiles)) % folds)
    error_N = np.zeros(len(profiles))
    for fold in np.unique(fold_N).tolist():
        model = fit_step_time([one for one, its in zip(profiles, fold_N, strict=True) if its != fold])
        for n in np.flatnonzero(fold_N == fold).tolist():
            one = profiles[n]
            error_N[n] = np.log(model.seconds(one.placement, one.local_batch) / one.step_s)
    return error_N
