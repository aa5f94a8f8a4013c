"""Sharing incentive, envy and Pareto efficiency of an allocation as numbers, computed from the shares alone.

All are in effective throughput, e_j = sum_c T_jc x_c steps/s, counting only configurations that can run in this
cluster: a share of time in another one (the isolated allocation has such shares) is worth nothing. There is no
correction for weights: a job of weight 5 should have more than a job of weight 1, which may then envy it and stay
below its equal share. The same holds for the deadlines and budgets of a policy.

Legend: J jobs, A accelerator types, C configurations, B bundles of device-time, K jobs of one chunk.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.metrics import equal_share_throughput
from gavelx.snapshot import Snapshot
from gavelx.solvers.maxmin.lexicographic import solve_linear
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Affine, Requirement, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NO_JOB = -1
ROUNDING = 1e-9
"""Envy up to this is rounding."""
GRID = 1e-12
"""Throughputs are rounded to this part of a job's top speed, which keeps identical jobs in one class."""
SLACKS = (0.0, 1e-11, 1e-10, 1e-9, 1e-8)
CHUNK = 1_000_000
"""Numbers in memory at a time in the search for envy."""


def utility_J(allocation: Allocation) -> Floats:
    """Steps/s of each job, counting only configurations that can run here."""
    snapshot = allocation.snapshot
    return np.asarray(snapshot.configurations.throughput_JC @ np.where(snapshot.usable_C, allocation.share_C, 0.0))


def devices_held_JA(allocation: Allocation) -> Floats:
    """Devices of each type that each job holds on average; the members of a pair hold half of theirs each."""
    table = allocation.snapshot.configurations
    share_C = np.where(allocation.snapshot.usable_C, allocation.share_C, 0.0)
    part_C = share_C / np.maximum(1, table.members_C)
    if not table.has_mixes:
        return table.by_job_and_type(part_C * table.devices_C)
    return np.asarray((table.per_job(part_C[table.configuration_M]) @ table.devices_AC.T).toarray())


def speed_JA(snapshot: Snapshot, *, own: bool = False) -> Floats:
    """Steps/s of each job alone, all the time, in its best way to run on each type; 0 where it cannot run.

    ``own``: in the size as submitted.
    """
    table = snapshot.configurations
    alone_C = _alone_C(snapshot) * np.where(table.own_C | (not own), 1.0, 0.0)
    out_JA = np.zeros(table.shape)
    place = (table.job_M, table.accelerator_C[table.configuration_M])
    np.maximum.at(out_JA, place, table.throughput_M * alone_C[table.configuration_M])
    return out_JA


def _alone_C(snapshot: Snapshot) -> NDArray[np.bool_]:
    """The configurations of one job on one type that can run here."""
    table = snapshot.configurations
    return np.asarray(snapshot.usable_C & (table.members_C == 1) & ~table.mixed_C)


def top_speed_J(snapshot: Snapshot) -> Floats:
    """Steps/s of each job in the fastest configuration open to it, pairs included; 0: it can run nowhere."""
    table = snapshot.configurations
    out_J = np.zeros(table.shape[0])
    np.maximum.at(out_J, table.job_M, np.where(snapshot.usable_C[table.configuration_M], table.throughput_M, 0.0))
    return out_J


def equal_share_gain_J(allocation: Allocation) -> Floats:
    """Relative gain of each job over its speed with an equal share of the cluster (0.12: 12 % faster).

    e_j / e_j(equal share) - 1, where the share is W_a / (n s_j) of every type with n the number of jobs, scaled
    down if the shares of a job add up to more than its whole time. Below 0, the sharing incentive is violated: the
    job would run faster on a cluster of its own with 1/n of the devices. NaN if an equal share gives nothing.
    Source: Gavel (OSDI'20), section 4; it is the allocation of :class:`~gavelx.policies.Isolated`.

    On each type the job runs alone, in the size as submitted, by which an elastic job is judged. A type on which
    it can never run (no known speed, or a gang wider than the type) gives nothing in an equal share either: its
    slice stays idle, takes its part of the job's time, and is not exchanged for another type, as in the
    denominator of finish-time fairness (:func:`~gavelx.metrics.equal_share_throughput`). A gang gets the fraction
    W_a / (n s_j) of the time on all its devices at once, also if W_a / n is less than its width, as if slices
    could be saved up.
    """
    snapshot = allocation.snapshot
    n_J = np.full(len(snapshot.jobs), float(len(snapshot.jobs)))
    equal_J = equal_share_throughput(
        speed_JA(snapshot, own=True), snapshot.scale_factor_J.astype(float), snapshot.devices_A, n_J
    )
    ratio_J = np.divide(utility_J(allocation), equal_J, out=np.full(len(n_J), np.nan), where=equal_J > 0)
    return np.asarray(ratio_J - 1.0)


def envy_JJ(allocation: Allocation) -> Floats:
    """Relative gain of job j (row) with the device-time of job i (column); 0 or less: no envy.

    The bundle of i is the number of devices of each type that it holds on average, d_ia = share_ia s_i; the
    members of a pair hold half a device each. Job j would spend d_ia / s_j of its time on type a, alone, fastest
    type first, until its whole time is used; the entry is that speed over its own e_j, minus 1. Infinite for a job
    that has nothing and would run with the other's bundle; 0 on the diagonal. A gang may use one device for eight
    hours like eight devices for one, as in an equal share. An elastic job would use one size on each type, that in
    which it is fastest with the bundle. Source: envy-freeness as in Foley, "Resource allocation
    and the public sector" (Yale Economic Essays 7, 1967); for GPU shares Themis (NSDI'20), section 3.

    The result has J x J numbers; for thousands of jobs use :func:`worst_envy_J`.
    """
    snapshot = allocation.snapshot
    with_other_JJ = _speed_with(snapshot, np.arange(len(snapshot.jobs)), devices_held_JA(allocation))
    out_JJ = _gain(with_other_JJ, utility_J(allocation)[:, None])
    np.fill_diagonal(out_JJ, 0.0)
    return out_JJ


def worst_envy_J(allocation: Allocation) -> tuple[Floats, Ints]:
    """The largest envy of each job, and the job that it envies most (an index).

    The largest entry of each row of :func:`envy_JJ`: 0 or more, and ``NO_JOB`` where it is 0 up to rounding. Jobs
    with the same bundle are compared once; of several most envied jobs, the first is returned.
    """
    J = len(allocation.snapshot.jobs)
    if not J:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    bundles_BA, first_B, bundle_J = np.unique(
        devices_held_JA(allocation), axis=0, return_index=True, return_inverse=True
    )
    last_B = np.zeros(len(bundles_BA), dtype=np.int64)
    np.maximum.at(last_B, bundle_J.ravel(), np.arange(J))
    worst_J, envied_J, now_J = np.zeros(J), np.full(J, NO_JOB), utility_J(allocation)
    step = max(1, CHUNK // max(1, bundles_BA.size))
    for jobs_K in np.split(np.arange(J), range(step, J, step)):
        envy_KB = _gain(_speed_with(allocation.snapshot, jobs_K, bundles_BA), now_J[jobs_K, None])
        owner_KB = np.where(first_B == jobs_K[:, None], last_B, first_B)
        envy_KB[owner_KB == jobs_K[:, None]] = 0.0  # no other job has this bundle
        most_K = _first_largest(envy_KB, owner_KB)
        worst_J[jobs_K] = np.maximum(0.0, np.take_along_axis(envy_KB, most_K[:, None], axis=1)[:, 0])
        envied_J[jobs_K] = np.take_along_axis(owner_KB, most_K[:, None], axis=1)[:, 0]
    envied_J[worst_J <= ROUNDING] = NO_JOB
    return worst_J, envied_J


def pareto_slack(allocation: Allocation) -> float:
    """The sum of gains that are possible without slowing any job down; 0 up to 1e-7: Pareto efficient.

    The largest sum_j (e_j(y) - e_j) / top_j over all feasible shares y with e(y) >= e, by one linear program over
    every configuration that is open in the snapshot, pairs and placements included; top_j is the speed of j's
    fastest configuration, so 1 is one job going from standstill to full speed. (Relative to e_j itself, a job
    without a share would gain infinitely.) Fewer devices for the same throughput are not a gain here: an
    allocation may be efficient and yet not the cheapest.

    Raises :class:`UnsolvedError` if the solver fails.
    """
    snapshot = allocation.snapshot
    if not snapshot.usable_C.any():
        return 0.0
    top_J = top_speed_J(snapshot)
    per_top_J = np.divide(1.0, top_J, out=np.zeros(len(top_J)), where=top_J > np.finfo(float).tiny)
    relative = Affine(snapshot.configurations.throughput_JC, np.zeros(len(top_J)), "job").scaled(per_top_J)
    now_J = np.floor(utility_J(allocation) * per_top_J / GRID) * GRID
    answer = _best_on_floors(snapshot, relative, now_J)
    return max(0.0, float((relative(answer.share_C) - now_J).sum()))


def _best_on_floors(snapshot: Snapshot, relative: Affine, floor_J: Floats) -> Answer:
    """The largest sum above all floors; slightly below them if the shares are feasible only up to rounding."""
    for slack in SLACKS:
        floors = Requirement(relative.shifted(-floor_J * (1.0 - slack)), "no job loses")
        try:
            return solve_linear(Statement(snapshot, (), relative.total(), (floors,), "Pareto improvement"))
        except UnsolvedError as failure:
            last = failure
    raise last


def _speed_with(snapshot: Snapshot, jobs_K: Ints, bundles_BA: Floats) -> Floats:
    """Steps/s (K x B) of each of these jobs with each bundle of device-time, fastest type first."""
    speeds_KA, scale_K = speed_JA(snapshot)[jobs_K], snapshot.scale_factor_J[jobs_K]
    order_KA = np.argsort(-speeds_KA, axis=1, kind="stable")
    time_KBA = bundles_BA.T[order_KA].swapaxes(1, 2) / scale_K[:, None, None]
    used_KBA = np.diff(np.minimum(1.0, np.cumsum(time_KBA, axis=2)), axis=2, prepend=0.0)
    speed_KB = np.einsum("kba,ka->kb", used_KBA, np.take_along_axis(speeds_KA, order_KA, axis=1))
    table, rows_C = snapshot.configurations, np.flatnonzero(_alone_C(snapshot))
    if table.own_C.all():
        return np.asarray(speed_KB)
    job_R = table.rows.job[rows_C]
    elastic_J = np.bincount(job_R[~table.own_C[rows_C]], minlength=len(snapshot.jobs)) > 0
    for k in np.flatnonzero(elastic_J[jobs_K]).tolist():
        speed_KB[k] = _speed_in_sizes(snapshot, rows_C[job_R == jobs_K[k]], bundles_BA)
    return np.asarray(speed_KB)


def _speed_in_sizes(snapshot: Snapshot, rows_R: Ints, bundles_BA: Floats) -> Floats:
    """The same of one job in these configurations: on each type in the size that makes most of the bundle."""
    table = snapshot.configurations
    type_R, devices_R = table.accelerator_C[rows_R], table.devices_C[rows_R]
    speed_R = np.asarray(table.throughput_JC[:, rows_R].sum(axis=0)).ravel()
    time_BA, speed_BA = np.zeros(bundles_BA.shape), np.zeros(bundles_BA.shape)
    for a in np.unique(type_R).tolist():
        speed_r = speed_R[type_R == a]
        time_Br = np.minimum(1.0, bundles_BA[:, a, None] / devices_R[type_R == a])
        best_B = (time_Br * speed_r).argmax(axis=1)
        speed_BA[:, a], time_BA[:, a] = speed_r[best_B], np.take_along_axis(time_Br, best_B[:, None], axis=1)[:, 0]
    order_BA = np.argsort(-speed_BA, axis=1, kind="stable")
    time_BA = np.take_along_axis(time_BA, order_BA, axis=1)
    used_BA = np.diff(np.minimum(1.0, np.cumsum(time_BA, axis=1)), axis=1, prepend=0.0)
    return np.asarray((used_BA * np.take_along_axis(speed_BA, order_BA, axis=1)).sum(axis=1))


def _gain(new: Floats, now: Floats) -> Floats:
    """new / now - 1; infinite if only ``now`` is 0, and 0 if both are."""
    new, now = np.broadcast_arrays(new, now)
    return np.divide(new, now, out=np.where(new > 0, np.inf, 1.0), where=now > 0) - 1.0


def _first_largest(value_KB: Floats, owner_KB: Ints) -> Ints:
    """The column of the largest value in each row; among equals the one with the first owner."""
    is_largest_KB = value_KB == value_KB.max(axis=1, keepdims=True)
    return np.asarray(np.where(is_largest_KB, owner_KB, np.iinfo(np.int64).max).argmin(axis=1))
