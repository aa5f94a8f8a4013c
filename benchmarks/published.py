"""The published formulations, as the literature states them, written anew from the formulas.

Each takes an instance and gives shares x_JA, and builds its program from nothing at every call, as the published
systems do. Max-min is one vectorised cvxpy expression there, finish-time and cost fairness one expression per job.

Legend: J jobs, A accelerator types, R machines times queue positions.
"""

import cvxpy as cp
import highspy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from benchmarks.instances import Instance
from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]


def least_attained_service(instance: Instance) -> Floats:
    """maximise min_j e_j / (p_j e_j(proportional)); Gavel (OSDI'20), section 4.1, ECOS."""
    factor_J = 1.0 / (instance.weight_J * instance.proportional_J)
    x_JA = cp.Variable(instance.throughput_JA.shape)
    gain_JA = instance.throughput_JA * factor_J[:, None]
    worst = cp.min(cp.sum(cp.multiply(gain_JA, x_JA), axis=1))
    return _solved(cp.Maximize(worst), x_JA, instance)


def finish_time_fairness(instance: Instance) -> Floats:
    """minimise max_j (a_j + r_j/e_j) / (D_j + r_j/e_j(equal share)); Gavel, section 4.2, ECOS."""
    return _largest_ratio(instance, instance.throughput_JA, instance.equal_share_s_J)


def shared_cloud_cost_fairness(instance: Instance) -> Floats:
    """The same with every speed divided by the price of its type: Algorithm 5.1 as printed, ECOS.

    No job of the benchmark has a past, so what it spent is 0; it has only waited.
    """
    return _largest_ratio(
        instance, instance.throughput_JA / instance.usd_per_hour_A, np.zeros(len(instance.weight_J))
    )


def _largest_ratio(instance: Instance, rate_JA: Floats, past_J: Floats) -> Floats:
    """One cvxpy expression per job, as published."""
    x_JA = cp.Variable(rate_JA.shape)
    alone_J = alone(instance, rate_JA, past_J)
    ratios = []
    for j in range(len(rate_JA)):
        rate = cp.sum(cp.multiply(rate_JA[j], x_JA[j]))
        expected = instance.elapsed_s_J[j] + instance.steps_left_J[j] * cp.inv_pos(rate)
        ratios.append(expected / alone_J[j])
    largest = cp.maximum(*ratios) if len(ratios) > 1 else ratios[0]
    return _solved(cp.Minimize(largest), x_JA, instance)


def packed_finish_time_fairness(ready: tuple[Instance, Snapshot]) -> Floats:
    """The same over every pair of jobs too, one share for each; Gavel, section 4.2 with 3.1, ECOS. Gives e_J."""
    instance, snapshot = ready
    table, devices_A = snapshot.known, instance.devices_A
    speed_JC = table.throughput_JC
    alone_J = alone(instance, instance.throughput_JA, instance.equal_share_s_J)
    x_C = cp.Variable(len(table))
    ratios = []
    for j in range(len(alone_J)):
        row = speed_JC[[j]]
        rate = row.data @ x_C[row.indices]
        expected = instance.elapsed_s_J[j] + instance.steps_left_J[j] * cp.inv_pos(rate)
        ratios.append(expected / alone_J[j])
    base = [x_C >= 0, table.membership_JC @ x_C <= 1, table.devices_AC @ x_C <= devices_A]
    cp.Problem(cp.Minimize(cp.maximum(*ratios)), base).solve(solver=cp.ECOS)
    return np.asarray(speed_JC @ np.asarray(x_C.value).clip(0.0, 1.0))


def alone(instance: Instance, rate_JA: Floats, past_J: Floats) -> Floats:
    """D_j + r_j/e_j(equal share), at these rates, D being the past."""
    return past_J + instance.steps_left_J / instance.equal_share_of(rate_JA)


def _solved(objective: cp.Minimize | cp.Maximize, x_JA: cp.Variable, instance: Instance) -> Floats:
    """Solve over the base set: shares of time that fit the jobs and the devices."""
    base = [x_JA >= 0, cp.sum(x_JA, axis=1) <= 1, cp.sum(x_JA, axis=0) <= instance.devices_A]
    cp.Problem(objective, base).solve(solver=cp.ECOS)
    return np.asarray(x_JA.value).clip(0.0, 1.0)


def full_linear_program(instance: Instance) -> Floats:
    """Max-min as one linear program with a variable for each job and type, by HiGHS interior point.

    Without crossover to a vertex, which this comparison does not need and which takes several times longer.
    """
    gain_JA = instance.throughput_JA / (instance.weight_J * instance.proportional_J)[:, None]
    return _highest_level(instance, gain_JA, {"solver": "ipm", "run_crossover": "off"})


def makespan(instance: Instance) -> Floats:
    """The least makespan as one linear program, by HiGHS as it chooses; what that leaves free stays so."""
    per_s_JA = instance.throughput_JA / instance.steps_left_J[:, None]
    return _highest_level(instance, per_s_JA / per_s_JA.max(axis=1).min(), {})


def _highest_level(instance: Instance, gain_JA: Floats, options: dict[str, str]) -> Floats:
    """Shares that make the least ``sum_a gain_ja x_ja`` largest."""
    J, A = gain_JA.shape
    of_job, of_type = np.repeat(np.arange(J), A), np.tile(np.arange(A), J)
    column = np.arange(J * A)
    ones = np.ones(J * A)
    level = (-np.ones(J), (np.arange(J), np.full(J, J * A)))
    rows = [
        sparse.csr_array((gain_JA.ravel(), (of_job, column)), shape=(J, J * A + 1))
        + sparse.csr_array(level, shape=(J, J * A + 1)),
        sparse.csr_array((ones, (of_job, column)), shape=(J, J * A + 1)),
        sparse.csr_array((ones, (of_type, column)), shape=(A, J * A + 1)),
    ]
    matrix = sparse.csr_array(sparse.vstack(rows, format="csr"))
    lower = np.concatenate([np.zeros(J), np.full(J + A, -np.inf)])
    upper = np.concatenate([np.full(J, np.inf), np.ones(J), instance.devices_A])
    value = _by_highs(np.concatenate([np.zeros(J * A), [-1.0]]), matrix, (lower, upper), options)
    return value[:-1].reshape(J, A).clip(0.0, 1.0)


def _by_highs(
    cost: Floats, matrix: sparse.csr_array, sides: tuple[Floats, Floats], options: dict[str, str]
) -> Floats:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = cost
    lp.col_lower_, lp.col_upper_ = np.zeros(len(cost)), np.full(len(cost), np.inf)
    lp.row_lower_, lp.row_upper_ = sides
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    highs = highspy.Highs()
    for option, setting in {"output_flag": False, **options}.items():
        highs.setOptionValue(option, setting)
    highs.passModel(lp)
    highs.run()
    return np.array(highs.getSolution().col_value)


def allox(instance: Instance) -> float:
    """The least sum of completion times, over the jobs x (machines times positions) matrix; AlloX (EuroSys'20).

    A job k-th from last on a machine delays itself and those behind it: k r_j / T_ja. The shares would only show
    the first job of each machine, so what is returned is the sum of the whole plan.
    """
    J = len(instance.throughput_JA)
    machine_type = np.repeat(np.arange(len(instance.devices_A)), instance.devices_A)
    seconds_JM = instance.steps_left_J[:, None] / np.maximum(instance.throughput_JA[:, machine_type], 1e-10)
    cost_JR = np.concatenate([k * seconds_JM for k in range(1, J + 1)], axis=1) + instance.elapsed_s_J[:, None]
    job, slot = linear_sum_assignment(cost_JR)
    return float(cost_JR[job, slot].sum())
