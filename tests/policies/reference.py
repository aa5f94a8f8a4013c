"""Slow and simple answers to compare the policies with: dense arrays, scipy's linprog, one question an LP.

Shares nothing with the package's solvers but the formulas of the papers.

Legend: J jobs, A accelerator types; shares x are J x A, flattened row by row where linprog wants a vector.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from gavelx.policies import MinCostSlo
from gavelx.snapshot import Snapshot

just_in_time = MinCostSlo(spare=0.0)
"""``min_cost_slo`` with nothing in hand, as published."""
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class Instance:
    """A snapshot as dense arrays; throughput is 0 where a job cannot run, for whatever reason."""

    throughput_JA: np.ndarray
    scale_J: np.ndarray
    weight_J: np.ndarray
    devices_A: np.ndarray

    @staticmethod
    def of(snapshot: Snapshot) -> "Instance":
        return Instance(
            throughput_JA=np.nan_to_num(snapshot.configurations.throughput_JA),
            scale_J=np.array([job.scale_factor for job in snapshot.jobs], dtype=float),
            weight_J=np.array([job.weight for job in snapshot.jobs], dtype=float),
            devices_A=np.array(snapshot.devices_A, dtype=float),
        )

    @property
    def usable_JA(self) -> np.ndarray:
        """Where a job makes progress and the type has enough devices for its gang."""
        return (self.throughput_JA > 0) & (self.scale_J[:, None] <= self.devices_A)

    @property
    def proportional_J(self) -> np.ndarray:
        """Steps/s with W_a / sum W of every type."""
        return self.throughput_JA @ self.devices_A / self.devices_A.sum()

    @property
    def factor_J(self) -> np.ndarray:
        """s_j / (p_j e_j(proportional)): effective throughput times this is what max-min fairness compares."""
        known = self.proportional_J > 0
        return np.where(known, self.scale_J / (self.weight_J * np.where(known, self.proportional_J, 1.0)), 0.0)

    def normalized(self, share_JA: np.ndarray) -> np.ndarray:
        """The rows of max-min fairness, one a job."""
        return self.factor_J * (self.throughput_JA * share_JA).sum(axis=1)

    def violation(self, share_JA: np.ndarray) -> float:
        """The worst excess over: shares >= 0, a job's time <= 1, a type's devices."""
        return max(
            float((-share_JA).max(initial=0.0)),
            float((share_JA.sum(axis=1) - 1.0).max(initial=0.0)),
            float((self.scale_J @ share_JA - self.devices_A).max(initial=0.0)),
        )

    def best(self, gain_JA: np.ndarray, floor_J: np.ndarray, at_least_J: np.ndarray) -> tuple[float, np.ndarray]:
        """maximise sum(gain * x) over feasible x whose normalised throughputs reach ``at_least_J``.

        Rows with ``floor_J`` must reach a common level t besides, which is maximised when ``gain_JA`` is 0.
        """
        J, A = self.throughput_JA.shape
        maximise_level = not gain_JA.any()
        time = np.kron(np.eye(J), np.ones(A))
        devices = np.kron(self.scale_J, np.eye(A)).reshape(A, J * A)
        rows = np.kron(np.eye(J), np.ones(A)) * (self.factor_J[:, None] * self.throughput_JA).ravel()
        constraints = np.vstack(
            [
                np.hstack([time, np.zeros((J, 1))]),
                np.hstack([devices, np.zeros((A, 1))]),
                np.hstack([-rows, floor_J[:, None].astype(float) if maximise_level else np.zeros((J, 1))]),
            ]
        )
        limits = np.concatenate([np.ones(J), self.devices_A, np.where(maximise_level & floor_J, 0.0, -at_least_J)])
        upper = np.append(self.usable_JA.ravel().astype(float), np.inf if maximise_level else 0.0)
        answer = linprog(
            -np.append(gain_JA.ravel(), float(maximise_level)),
            A_ub=constraints,
            b_ub=limits,
            bounds=np.column_stack([np.zeros(J * A + 1), upper]),
            method="highs",
            options=TIGHT,
        )
        assert answer.status == 0, answer.message
        return -float(answer.fun), answer.x[:-1].reshape(J, A)


def lexicographic_max_min(instance: Instance) -> np.ndarray:
    """The lexicographically largest normalised throughputs: raise the common level, then ask every job alone
    whether it can have more while the others keep theirs; those that cannot are done. (Two rounds of LPs a level,
    no multipliers.)"""
    J = len(instance.scale_J)
    level_J = np.zeros(J)
    free_J = instance.usable_JA.any(axis=1)
    while free_J.any():
        level, _ = instance.best(np.zeros_like(instance.throughput_JA), free_J, level_J)
        at_least_J = np.where(free_J, level, level_J) * (1 - 1e-9)
        most_J = np.full(J, np.inf)
        for j in np.flatnonzero(free_J):
            gain_JA = np.zeros_like(instance.throughput_JA)
            gain_JA[j] = instance.factor_J[j] * instance.throughput_JA[j]
            most_J[j], _ = instance.best(gain_JA, free_J, at_least_J)
        done_J = most_J <= max(level * (1 + 1e-6), most_J.min())
        level_J = np.where(done_J & free_J, level, level_J)
        free_J = free_J & ~done_J
    return level_J


def room_for_improvement(instance: Instance, share_JA: np.ndarray) -> float:
    """By how much normalised throughput can rise, summed over jobs, while none loses any; 0: Pareto efficient."""
    now_J = instance.normalized(share_JA)
    gain_JA = instance.factor_J[:, None] * instance.throughput_JA
    if not gain_JA.any():
        return 0.0
    best, _ = instance.best(gain_JA, np.zeros(len(now_J), dtype=bool), now_J * (1 - 1e-10))
    return best - float(now_J.sum())
