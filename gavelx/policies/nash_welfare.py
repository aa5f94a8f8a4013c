"""Proportional fairness, and a form of it in which no user gains by lying."""

from dataclasses import replace

import numpy as np

from gavelx.allocation import Allocation
from gavelx.policies.base import Policy
from gavelx.policies.program import Maximize
from gavelx.policies.terms import Log, Sum, Throughput
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import Statement, certified, solve
from gavelx.solvers.program.collapse import collapse


class NashWelfare(Maximize):
    """Make the product of all effective throughputs as large as possible (proportional fairness).

    maximise sum_j p_j log e_j: a job gives up a percent of its speed only where others gain more than a percent
    in sum, counted by priority. Between ``max_sum_throughput`` and ``max_min_fairness`` in spirit, and it does not
    depend on the unit of any job's steps. Source: Nash (1950); Kelly, Maulloo and Tan (1998) for networks.
    """

    name = "nash_welfare"
    promises = ("pareto_efficiency",)

    def __init__(self) -> None:
        super().__init__(Sum(Log(Throughput())))


EXACT = 12
"""Decimal places of exp and log that are the same on every processor."""


class StrategyProof(Policy):
    """Proportional fairness from which a part is withheld, so that no user gains by misreporting speeds.

    Each job gets the part f_j of its share under ``nash_welfare``, f_j = prod_i (e_i / e_i without j)^(p_i / p_j)
    over the other jobs i: what its presence costs them. What is withheld stays idle, and all jobs of one class
    cost one more program. Source: partial allocation of Cole, Gkatzelis and Goel (EC'13), as in Gavel (OSDI'20)'s
    published code, which has no weights and fails for a single job.
    """

    name = "strategy_proof"
    promises = ("strategy_proofness",)
    uses = frozenset[Kind]()

    def allocate(self, snapshot: Snapshot) -> Allocation:
        statement, fair = NashWelfare().state(snapshot), NashWelfare().allocate(snapshot)
        assert isinstance(statement, Statement)
        logs, classes = statement.logs[0], collapse(statement)
        speed_J, part_J = logs.affine(fair.share_C), np.ones(len(snapshot.jobs))
        part_G = np.ones(len(classes))
        for g, j in enumerate(classes.representative_G.tolist()):
            part_G[g] = _part(statement, speed_J, j) if logs.weight_R[j] > 0 else 1.0
        table = snapshot.configurations
        part_J = part_G[classes.class_J]
        share_C = fair.share_C.copy()
        share_C[table.configuration_M] *= part_J[table.job_M]
        path = f"{len(classes) + 1} programs: {fair.certificate.path}"
        seconds = fair.certificate.seconds
        answer = certified(snapshot, share_C, path=path, seconds=seconds, classes=len(classes))
        return answer.with_notes(fair.notes)


def _part(statement: Statement, speed_J: np.ndarray, j: int) -> float:
    """What job j may keep: the loss of the others by its presence, in proportion to its own weight."""
    logs = statement.logs[0]
    weight_J = logs.weight_R.copy()
    weight_J[j] = 0.0
    others_J = weight_J > 0
    if not others_J.any():
        return 1.0
    without = solve(replace(statement, logs=(replace(logs, weight_R=weight_J),)))
    ratio_J = speed_J[others_J] / logs.affine(without.share_C)[others_J]
    lost = (weight_J[others_J] * np.log(ratio_J)).sum()
    return float(min(1.0, np.exp(lost / logs.weight_R[j]).round(EXACT)))
