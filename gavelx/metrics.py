"""Figures computed from a run: percentiles, and fairness in time and in money.

Legend: J jobs, A accelerator types, K instants at which the number of live jobs changes.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.job_table import column
from gavelx.jobs import Job

Floats = NDArray[np.float64]


def known(value: float) -> float | None:
    """The number, or None if it is NaN or infinite, which JSON does not have."""
    return value if math.isfinite(value) else None


def mean(values: Floats) -> float | None:
    """The mean, or None for an empty array."""
    return float(np.mean(values)) if len(values) else None


def percentile(values: Floats, q: float) -> float | None:
    """The q-th percentile (linear interpolation), or None for an empty array."""
    return float(np.percentile(values, q)) if len(values) else None


def equal_share_throughput(
    throughput_JA: Floats, scale_factor_J: Floats, devices_A: NDArray[np.int64], sharers_J: Floats
) -> Floats:
    """Steps/s of each job if it held an equal share of every type, with ``sharers_J`` jobs sharing the cluster.

    The share of a type with an unknown speed counts as 0 steps/s.
    """
    return np.asarray(np.nansum(throughput_JA * equal_share(scale_factor_J, devices_A, sharers_J), axis=1))


def equal_share(
    scale_factor_J: NDArray[np.int64] | Floats, devices_A: NDArray[np.int64], sharers_J: Floats | int
) -> Floats:
    """The equal share (J x A) of each job in the devices of every type, with ``sharers_J`` jobs sharing them.

    It is N_a / (n s_j), scaled down where a job's shares add up to more than its whole time (Gavel, OSDI'20,
    section 4: the isolated allocation).
    """
    share_JA: Floats = devices_A / (sharers_J * scale_factor_J)[:, None]
    share_JA /= np.maximum(1.0, share_JA.sum(axis=1, keepdims=True))
    return share_JA


def mean_live_jobs(arrival_s_J: Floats, leave_s_J: Floats) -> Floats:
    """Time-averaged number of live jobs, itself among them, during each job's life (at least 1)."""
    time_s_K, index = np.unique(np.concatenate([arrival_s_J, leave_s_J]), return_inverse=True)
    J = len(arrival_s_J)
    change_K = np.bincount(index[:J], minlength=len(time_s_K)) - np.bincount(index[J:], minlength=len(time_s_K))
    live_K = np.cumsum(change_K)
    area_K = np.concatenate([[0.0], np.cumsum(live_K[:-1] * np.diff(time_s_K))])
    life_s_J = leave_s_J - arrival_s_J
    area_J = area_K[index[J:]] - area_K[index[:J]]
    sharers_J = np.divide(area_J, life_s_J, out=np.ones(J), where=life_s_J > 0)
    return np.asarray(np.maximum(1.0, sharers_J))


def finish_time_fairness(
    jobs: Sequence[Job],
    throughput_JA: Floats,
    devices_A: NDArray[np.int64],
    completion_s_J: Floats,
    end_s: float,
) -> Floats:
    """rho: a job's completion time over the time that an equal share of the cluster would have taken.

    rho_j = (completion_j - arrival_j) / (total_steps_j / throughput of an equal share), where the share is 1/n of
    every accelerator type and n is the average number of live jobs during j's life (Themis, NSDI'20, section 3;
    the average contention is that of Shockwave, NSDI'23, section 8.1). Above 1, the job was worse off than alone
    with its share. NaN for a job that did not complete.
    """
    if not jobs:
        return np.zeros(0)
    arrival_s_J = column(jobs, "arrival_s")
    scale_J = column(jobs, "scale_factor").astype(float)
    steps_J = column(jobs, "total_steps")
    leave_s_J = np.where(np.isnan(completion_s_J), np.maximum(end_s, arrival_s_J), completion_s_J)
    sharers_J = mean_live_jobs(arrival_s_J, leave_s_J)
    alone_J = equal_share_throughput(throughput_JA, scale_J, devices_A, sharers_J)
    return np.asarray((completion_s_J - arrival_s_J) * alone_J / steps_J)


def cost_fairness(
    jobs: Sequence[Job],
    throughput_JA: Floats,
    devices_A: NDArray[np.int64],
    usd_per_hour_JA: Floats,
    cost_usd_J: Floats,
) -> Floats:
    """mu: what a job cost over what the same steps would have cost on an equal share of the cluster.

    mu_j = cost_j / (total_steps_j s_j sum_a W_a price_a / sum_a W_a T_ja), W_a being the devices of type a, s_j
    the job's scale factor and ``usd_per_hour_JA`` the mean prices during its life. An equal share is a part of
    every type in proportion to its devices, so the cost of a step does not depend on other jobs: unlike rho, mu
    does not depend on the number of jobs. Above 1, the job cost more than alone with its share. NaN if a price in
    the cluster is unknown, or if the equal share is free or does no step. Source: "shared cloud cost fairness" of
    the thesis, as in the term ``CostRatio``.
    """
    scale_J = column(jobs, "scale_factor").astype(float)
    steps_J = column(jobs, "total_steps")
    there_A = devices_A > 0
    speed_J = np.nansum(throughput_JA[:, there_A] * devices_A[there_A], axis=1)
    usd_per_s_J = scale_J * (usd_per_hour_JA * devices_A)[:, there_A].sum(axis=1) / 3600.0
    alone_usd_J = np.divide(steps_J * usd_per_s_J, speed_J, out=np.full(len(jobs), np.nan), where=speed_J > 0)
    return np.asarray(np.divide(cost_usd_J, alone_usd_J, out=np.full(len(jobs), np.nan), where=alone_usd_J > 0))
