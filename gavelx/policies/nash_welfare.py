"""Proportional fairness, and a form of it in which no user gains by lying."""

from dataclasses import replace

import numpy as np

from gavelx.allocation import Allocation
from gavelx.policies.base import Floats, Policy
from gavelx.policies.program import Maximize
from gavelx.policies.terms import Log, Sum, Throughput
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import Statement, certified, solve
from gavelx.solvers.conic.logarithms import OwnLogs
from gavelx.solvers.program.collapse import Classes, collapse
from gavelx.solvers.program.errors import UnsolvedError


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
        classes = collapse(statement)
        part_G = _parts(statement, classes, fair.share_C)
        table = snapshot.configurations
        share_C = fair.share_C.copy()
        share_C[table.configuration_M] *= part_G[classes.class_J][table.job_M]
        path = f"{len(classes) + 1} programs: {fair.certificate.path}"
        seconds = fair.certificate.seconds
        answer = certified(snapshot, share_C, path=path, seconds=seconds, classes=len(classes))
        return answer.with_notes(fair.notes)


def _parts(statement: Statement, classes: Classes, share_C: Floats) -> Floats:
    """What one job of each class may keep: the loss of the others by its presence, by its own weight."""
    weight_J = statement.logs[0].weight_R
    counts_G = weight_J[classes.representative_G] > 0
    if counts_G.sum() == 0 or (weight_J > 0).sum() == 1:  # no other loses anything
        return np.ones(len(classes))
    try:
        rows = OwnLogs.of(statement, classes)
        loss_G = _losses(statement, classes, share_C) if rows is None else rows.losses(share_C)
    except UnsolvedError:
        loss_G = _losses(statement, classes, share_C)
    per_weight_G = np.divide(
        loss_G, weight_J[classes.representative_G], out=np.zeros(len(classes)), where=counts_G
    )
    return np.asarray(np.minimum(1.0, np.exp(-per_weight_G).round(EXACT)))


def _losses(statement: Statement, classes: Classes, share_C: Floats) -> Floats:
    """The same losses by a program for each class."""
    logs, loss_G = statement.logs[0], np.zeros(len(classes))
    speed_J = logs.affine(share_C)
    for g, j in enumerate(classes.representative_G.tolist()):
        others_J = logs.weight_R > 0
        if not others_J[j]:
            continue
        others_J[j] = False
        weight_J = np.where(others_J, logs.weight_R, 0.0)
        without = solve(replace(statement, logs=(replace(logs, weight_R=weight_J),)))
        ratio_J = logs.affine(without.share_C)[others_J] / speed_J[others_J]
        loss_G[g] = (weight_J[others_J] * np.log(ratio_J)).sum()
    return loss_G
