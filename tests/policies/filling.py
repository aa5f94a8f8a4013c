"""Progressive filling of a tree of owners, slow and simple, to compare ``hierarchical`` with.

Rates are worked out recursively from lists; who can still rise is asked with one linear program a job, by scipy.
Shares nothing with the package but the definition: everyone rises at his part of the whole, who cannot rise keeps
what he has, and his part goes to his siblings.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Mapping

import numpy as np
from scipy.optimize import linprog

from tests.policies.reference import TIGHT, Instance

Tree = list["Tree"] | int
"""A node: its children, or the number of a job."""


def rates(tree: Mapping[str, object], part: float, rising: set[int]) -> dict[int, float]:
    """Each job's part: ``{"fifo": bool, "children": [(weight, node), ...]}`` with a job's number as a leaf."""
    alive = [(weight, node) for weight, node in tree["children"] if set(leaves(node)) & rising]  # type: ignore[attr-defined]
    if tree["fifo"]:
        first = next((job for _, node in alive for job in leaves(node) if job in rising), None)
        return {} if first is None else {first: part}
    total = sum(weight for weight, _ in alive)
    out: dict[int, float] = {}
    for weight, node in alive:
        if isinstance(node, int):
            out[node] = part * weight / total
        else:
            out |= rates(node, part * weight / total, rising)
    return out


def leaves(node: object) -> list[int]:
    """The jobs below a node, in its order."""
    if isinstance(node, int):
        return [node]
    return [job for _, child in node["children"] for job in leaves(child)]  # type: ignore[index]


def filled(instance: Instance, tree: Mapping[str, object]) -> np.ndarray:
    """What each job ends up with, s_j e_j / e_j(proportional)."""
    J = len(instance.scale_J)
    value_J, rising = np.zeros(J), set(np.flatnonzero(instance.usable_JA.any(axis=1)).tolist())
    while rising:
        rate_J = np.zeros(J)
        for job, rate in rates(tree, 1.0, rising).items():
            rate_J[job] = rate
        step = most(instance, value_J, rate_J)
        value_J = value_J + rate_J * step
        stuck = {
            j
            for j in rising
            if rate_J[j] > 0 and most(instance, value_J * (1 - 1e-9), np.eye(J)[j]) <= 1e-6 * (1 + value_J[j])
        }
        assert stuck, "somebody must be at the end"
        rising -= stuck
    return value_J


def most(instance: Instance, value_J: np.ndarray, rate_J: np.ndarray) -> float:
    """The largest t for which everybody can have ``value + rate t``."""
    J, A = instance.throughput_JA.shape
    weight_J = instance.factor_J * instance.weight_J
    rows = np.kron(np.eye(J), np.ones(A)) * (weight_J[:, None] * instance.throughput_JA).ravel()
    constraints = np.vstack(
        [
            np.hstack([np.kron(np.eye(J), np.ones(A)), np.zeros((J, 1))]),
            np.hstack([np.kron(instance.scale_J, np.eye(A)).reshape(A, J * A), np.zeros((A, 1))]),
            np.hstack([-rows, rate_J[:, None]]),
        ]
    )
    limits = np.concatenate([np.ones(J), instance.devices_A, -value_J])
    upper = np.append(instance.usable_JA.ravel().astype(float), np.inf)
    bounds = np.column_stack([np.zeros(J * A + 1), upper])
    objective = -np.append(np.zeros(J * A), 1.0)
    answer = linprog(objective, A_ub=constraints, b_ub=limits, bounds=bounds, method="highs", options=TIGHT)
    assert answer.status == 0, answer.message
    return -float(answer.fun)
