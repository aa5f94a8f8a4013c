"""The data of plots, computed from a result: completions, busy devices over time, hours and dollars by type.

Legend: A accelerator types, B bins of time, K instants of change, L leases.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.result import Result

Floats = NDArray[np.float64]


def completion_curve(result: Result) -> tuple[Floats, Floats]:
    """The cumulative share of measured jobs by completion time: sorted JCTs in hours, and the share from each on.

    Jobs that did not complete count in the share, so that the curve of a starving policy stays below 1.
    """
    jct_s = result.jct_s_J[result.measured or slice(None)]
    done_h = np.sort(jct_s[~np.isnan(jct_s)]) / 3600.0
    return done_h, np.arange(1, len(done_h) + 1) / max(1, len(jct_s))


def busy_shares(result: Result, end_s: float, bins: int) -> tuple[Floats, Floats]:
    """Busy devices of each type: the edges of equal bins of time in hours, and the mean share of busy devices.

    Shapes (B + 1,) and (B, A). Means are exact: the integral of a step function is piecewise linear, so
    interpolating it at the edges loses nothing, however many changes a bin holds.
    """
    edges_s = np.linspace(0.0, end_s, bins + 1)
    devices_A = result.cluster.devices_A
    busy_BA = np.zeros((bins, len(devices_A)))
    time_s_K, busy_KA = result.busy_devices()
    if len(time_s_K) and end_s > 0:
        for a, busy_K in enumerate(busy_KA.T):
            area_K = np.concatenate([[0.0], np.cumsum(busy_K[:-1] * np.diff(time_s_K))])
            busy_BA[:, a] = np.diff(np.interp(edges_s, time_s_K, area_K)) * (bins / end_s)
    return edges_s / 3600.0, busy_BA / np.maximum(1, devices_A)


def device_hours(result: Result) -> Floats:
    """Device-hours billed, by accelerator type."""
    leases = result.leases
    hours_L = leases.devices_L * leases.billed_s_L / 3600.0
    hours_A = np.bincount(leases.accelerator_L, weights=hours_L, minlength=len(result.cluster.accelerators))
    return hours_A.astype(float)
