"""Time slices, and random pairs on trial: Gandiva as the literature compares with it.

Legend: J jobs, A accelerator types, C configurations, M memberships.
"""

from random import Random

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.configuration import ALONE
from gavelx.configurations import Configurations
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import by_arrival
from gavelx.policies.isolated import within_time
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import certified, repaired

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Gandiva(Policy):
    """Let jobs take turns; where there are too many, put random pairs on shared devices and keep those that work.

    If the jobs need no more devices than there are, each gets 1/n of every type, up to its whole time. Otherwise
    jobs that have no partner are paired at random, in up to as many tries as there are such jobs, equal widths
    only; each pair and each job left alone then gets an equal part of every type. At the next call a pair is
    dissolved if some type gives one of its members nothing, or if the parts of their own speeds that they get,
    summed over members and *all* types, are below 1; its members, and all who were left alone, are drawn again.
    Who was paired is what the previous allocation promised, so the policy asks to be called again after
    ``trial_s`` seconds while anything is on trial; with None, only when jobs or devices change.

    Source: Gandiva (OSDI'18), section 3, as the published code of Gavel (OSDI'20) has it, which is called when
    jobs or devices change. Its sum is over members and types, so with many types nearly every pair passes; that is
    kept, for comparison. Not kept: pairs that no type can run, or of which nothing is known, are not tried; no
    time is given where a job cannot run; and pairs do not outlive an hour that has room for everyone. Of
    Gandiva itself, migration is left to the mechanism, and jobs do not grow or shrink.
    """

    name = "gandiva"
    ignores = ("weights",)
    opens = frozenset[Kind]({"pairs"})

    def __init__(self, seed: int = 0, trial_s: float | None = 360.0) -> None:
        self.seed, self.trial_s = seed, trial_s

    def allocate(self, snapshot: Snapshot) -> Allocation:
        snapshot = snapshot.open("pairs")
        partner_J, on_trial = np.full(len(snapshot.jobs), ALONE), False
        crowded = bool(snapshot.scale_factor_J.sum() > snapshot.devices_A.sum())
        if crowded:
            partner_J = _proven(snapshot)
            on_trial = int((partner_J == ALONE).sum()) > 1
            partner_J = self._with_random_pairs(snapshot, partner_J)
        share_C = _equal_parts(snapshot, partner_J, self.parts_where(snapshot, crowded=crowded))
        refresh_s = self.trial_s if on_trial else None
        return certified(
            snapshot,
            repaired(snapshot, share_C),
            path="random pairs",
            seconds=0.0,
            execution=Execution(refresh_s=refresh_s),
        )

    def parts_where(self, snapshot: Snapshot, *, crowded: bool) -> NDArray[np.bool_]:
        """Which configurations get a part, if their jobs are drawn: where all can run."""
        return snapshot.usable_C

    def _with_random_pairs(self, snapshot: Snapshot, partner_J: Ints) -> Ints:
        """The partners, with those who have none paired at random, except in pairs that can run nowhere."""
        chance, scale_J = Random(f"{self.seed}:{snapshot.time_s}"), snapshot.scale_factor_J.tolist()
        left = [j for j in by_arrival(snapshot) if partner_J[j] == ALONE]
        drawn_J = partner_J.copy()
        for _ in range(len(left)):
            if len(left) < 2:
                break
            first, second = chance.sample(range(len(left)), 2)
            j, i = left[first], left[second]
            if scale_J[j] == scale_J[i]:
                drawn_J[j], drawn_J[i] = i, j
                for place in sorted((first, second), reverse=True):
                    left[place] = left[-1]
                    left.pop()
        runs_C = _together(snapshot.configurations, drawn_J) & snapshot.usable_C
        runs_J = snapshot.configurations.membership_JC @ runs_C > 0
        return np.where(runs_J | (drawn_J == partner_J), drawn_J, ALONE)


def _proven(snapshot: Snapshot) -> Ints:
    """The partners that jobs were promised and that they keep."""
    partner_J = _promised_partners(snapshot)
    table = snapshot.configurations
    inside_M = (_together(table, partner_J) & (table.members_C == 2))[table.configuration_M]
    job_M, type_M = table.job_M[inside_M], table.accelerator_C[table.configuration_M[inside_M]]
    speed_M, alone_M = table.throughput_M[inside_M], np.nan_to_num(table.throughput_JA[job_M, type_M])
    part_M = np.divide(speed_M, alone_M, out=np.zeros(len(speed_M)), where=alone_M > 0)
    J = len(partner_J)
    part_J, fails_J = np.bincount(job_M, part_M, J), np.bincount(job_M, speed_M <= 0, J) > 0
    keeps_J = (part_J + part_J[partner_J] >= 1.0) & ~(fails_J | fails_J[partner_J])
    return np.where(keeps_J, partner_J, ALONE)


def _promised_partners(snapshot: Snapshot) -> Ints:
    """Who shared devices with whom under the previous allocation; of several pairs of a job the first counts."""
    index = {job.id: j for j, job in enumerate(snapshot.jobs)}
    partner_J = np.full(len(index), ALONE)
    promised = snapshot.promised.configurations
    for first, second in zip(promised.job.tolist(), promised.partner.tolist(), strict=True):
        j, i = index.get(first, ALONE), index.get(second, ALONE)
        if second != ALONE and ALONE not in (j, i) and partner_J[j] == partner_J[i] == ALONE:
            partner_J[j], partner_J[i] = i, j
    return partner_J


def _together(table: Configurations, partner_J: Ints) -> NDArray[np.bool_]:
    """Which configurations are of a pair and of no other job, or of a job that has no partner."""
    own_J = np.arange(len(partner_J))
    number_J = np.where(partner_J == ALONE, own_J, np.minimum(own_J, partner_J))
    number_M = number_J[table.job_M]
    first_C, last_C = np.empty(len(table), dtype=np.int64), np.empty(len(table), dtype=np.int64)
    first_C[table.configuration_M[::-1]], last_C[table.configuration_M] = number_M[::-1], number_M
    size_J = np.where(partner_J == ALONE, 1, 2)
    return np.asarray((first_C == last_C) & (table.members_C == size_J[first_C]))


def _equal_parts(snapshot: Snapshot, partner_J: Ints, where_C: NDArray[np.bool_]) -> Floats:
    """An equal part of every type for each pair and each job alone, up to its whole time, but only there."""
    table = snapshot.configurations
    count = int((partner_J == ALONE).sum() + (partner_J != ALONE).sum() // 2)
    runs_C = _together(table, partner_J) & where_C
    part_C = snapshot.devices_A[table.accelerator_C] / (max(1, count) * table.devices_C)
    return within_time(snapshot, np.where(runs_C, part_C, 0.0))
