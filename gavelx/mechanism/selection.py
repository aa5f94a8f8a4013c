"""Selection: which jobs run, how and where, given what each way to run is owed and the free devices.

Legend: V ways to run, J live jobs, A accelerator types.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE, ConfigurationSet
from gavelx.execution import Execution
from gavelx.mechanism.accounts import Accounts
from gavelx.mechanism.entitlements import Entitlements
from gavelx.mechanism.live import NO_WAY, LiveJobs
from gavelx.mechanism.protection import Protection
from gavelx.mechanism.quota import within_quota
from gavelx.mechanism.rules import Rules
from gavelx.snapshot import WAITING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
STAYS_S = 1e12
"""Further behind than any other: a job that is nearly complete."""
CHUNK = 64
"""Ways looked at together, beyond twice as many as there are devices."""


class Choice(NamedTuple):
    """A configuration that is to run: jobs (rows; ``ALONE`` for no partner) on devices of a type.

    ``number`` is its place among the entitlements, or ``NO_WAY``; ``batch`` the samples in an update, 0 as
    submitted.
    """

    job: int
    partner: int
    type: int
    devices: int
    number: int = NO_WAY
    batch: int = 0


class Candidates(NamedTuple):
    """Configurations that may be chosen, with their sort keys, the first one first."""

    configurations: ConfigurationSet
    number: Ints
    keys: list[Floats]

    def only(self, chosen: Bools) -> "Candidates":
        """These of them."""
        if chosen.all():
            return self
        keys = [key[chosen] for key in self.keys]
        return Candidates(self.configurations.take(chosen), self.number[chosen], keys)


def select(
    candidates: Candidates,
    free_A: Sequence[int],
    candidate_J: Bools | None = None,
    *,
    protection: Protection | None = None,
) -> tuple[list[Choice], list[int]]:
    """Greedy selection in descending order of the keys while devices are free; of all jobs, or of these alone.

    Equal keys keep the order in which they come. A job is taken once, and a gang either whole or not at all.
    ``protection`` says which protected jobs may begin. Also says how many devices of each type are left.
    """
    if candidate_J is not None:
        ways, partner_J = candidates.configurations, np.append(candidate_J, True)  # ALONE always may
        may_V = candidate_J[ways.job] & partner_J[ways.partner]
        if protection is None:  # else it has to know who is passed over
            may_V &= ways.devices <= np.array(free_A)[ways.type]
        candidates = candidates.only(may_V)
    order = np.lexsort([-key for key in reversed(candidates.keys)])
    taking = _Taking(candidates, list(free_A), protection)
    taking.take(order, sum(free_A))
    return taking.chosen, taking.free


class _Taking:
    """The ways that are ``chosen``, and the devices that they leave ``free``."""

    def __init__(self, candidates: Candidates, free: list[int], protection: Protection | None) -> None:
        self.candidates, self.free, self.protection = candidates, free, protection
        self.chosen: list[Choice] = []
        self._taken: set[int] = set()

    def take(self, order: Ints, left: int) -> None:
        """Choose what can be had, in this order, until none of so many devices are left.

        It seldom takes many more ways than there are devices, so not all of them are looked at.
        """
        ways, free, taken, size = self.candidates.configurations, self.free, self._taken, 2 * left + CHUNK
        protected = self.protection is not None
        for start in range(0, len(order) if left else 0, size):
            part = order[start : start + size]
            columns = (ways.job, ways.partner, ways.type, ways.devices, self.candidates.number, ways.batch)
            for j, k, a, width, v, batch in zip(*(column[part].tolist() for column in columns), strict=True):
                if j in taken or k in taken or (width > free[a] and not protected):
                    continue
                if protected and not self._may_take(j, k, a, width):
                    continue
                taken.add(j)
                if k != ALONE:
                    taken.add(k)
                free[a] -= width
                left -= width
                self.chosen.append(Choice(j, k, a, width, v, batch))
                if left == 0:
                    return

    def _may_take(self, j: int, k: int, a: int, width: int) -> bool:
        """Whether enough devices are left, and protected jobs may begin on them."""
        protection = self.protection
        assert protection is not None
        if width > self.free[a]:
            protection.passed_over(j, a, width)
            return False
        if not (protection.may_begin(j, a) and protection.may_begin(k, a)):
            return False
        protection.begins(j, a, width)
        protection.begins(k, a, width)
        return True


def may_stay(accounts: Accounts, execution: Execution, now_s: float) -> Bools:
    """Which running jobs the allocation lets run on, if they are protected.

    Where shares are quotas it takes what is owed to the way in which they run; where idle devices are not to be
    filled, a share, but for those that have hardly begun.
    """
    live, rules = accounts.live, accounts.rules
    if not execution.quota:
        young_J = now_s - live.launched_s < rules.min_run_s
        return np.ones(len(live), dtype=bool) if execution.backfill else (live.share > 0) | young_J
    may_J, j_L = np.zeros(len(live), dtype=bool), live.holders()
    number_L = accounts.ways.find(accounts.as_they_run(j_L))
    owed_V = np.append(within_quota(accounts.ways, live, rules, now_s), False)
    may_J[j_L] = owed_V[number_L]  # NO_WAY is the last
    return may_J


def candidates(
    accounts: Accounts, execution: Execution, now_s: float, *, stays_J: Bools | None = None
) -> Candidates:
    """The configurations that may be given out now, with the keys that order them.

    A job may run where it was promised a share. Where shares are quotas, no job runs that is not owed a round, or
    what it needs to start. Those who stay (``stays_J``) come first, as they run.
    """
    live, rules, ways, key = accounts.live, accounts.rules, accounts.ways, accounts.priority.key(accounts.ways)
    found = Candidates(ways.configurations, np.arange(len(ways)), [key])
    owed = within_quota(ways, live, rules, now_s) if execution.quota else None
    _in_turns(key, ways, live, rules, now_s)
    if owed is not None:
        found = found.only(owed)
    if stays_J is not None and stays_J.any():
        found = _as_they_run(found, accounts, stays_J)
    return found


def first_on(found: Candidates, live: LiveJobs, wanted: Sequence[tuple[int, int]]) -> Candidates:
    """Jobs (ids) that never ran begin on these types, in their turn by what they were promised elsewhere."""
    type_of = {
        j: a
        for job_id, a in wanted
        if (j := live.index.get(job_id)) is not None and live.held_s[j] == 0.0 and live.type[j] == WAITING
    }
    ways = found.configurations
    mine_V = np.isin(ways.job, list(type_of)) & (ways.partner == ALONE)
    if not mine_V.any():
        return found
    rows = np.flatnonzero(mine_V)
    rows = rows[np.lexsort([-key[rows] for key in reversed(found.keys)])]
    rows = rows[np.unique(ways.job[rows], return_index=True)[1]]  # the best way of each
    job, others = ways.job[rows], found.only(~mine_V)
    there = ConfigurationSet.alone(job, np.array([type_of[j] for j in job.tolist()]), live.wanted_devices[job])
    return Candidates(
        there.joined(others.configurations),
        np.concatenate([found.number[rows], others.number]),
        [np.concatenate([key[rows], rest]) for key, rest in zip(found.keys, others.keys, strict=True)],
    )


def _in_turns(key: Floats, ways: Entitlements, live: LiveJobs, rules: Rules, now_s: float) -> None:
    """How many turns of its own each way is behind, in place of seconds; what runs counts as one further behind.

    What runs has also received time since it was last accounted for, and would lose some by being stopped. A job
    that will be complete within a round stays: it would wait long for so little.
    """
    turn_J = np.maximum(rules.round_s, rules.turn * live.held_s)
    turn_V, pairs = turn_J[ways.job], (ways.partner != ALONE).any()
    if pairs:
        turn_V = np.minimum(turn_V, np.append(turn_J, math.inf)[ways.partner])
    j = (live.way != NO_WAY).nonzero()[0]
    if len(j):
        way = live.way[j]
        gain_s = turn_V[way] + loss_s(live, j) - (now_s - live.since_s[j])
        gain_s[ends_within(rules.round_s, live, j, now_s)] = STAYS_S
        if pairs:
            gain_s = np.where(live.partner[j] != ALONE, gain_s / 2, gain_s)  # half from each of the two
        np.add.at(key, way, gain_s)
    key /= turn_V


def _as_they_run(found: Candidates, accounts: Accounts, stays_J: Bools) -> Candidates:
    """Jobs that are not to be preempted have one way to run: the present one, be it promised or not."""
    ways = found.configurations
    others = found.only(~(stays_J[ways.job] | np.append(stays_J, False)[ways.partner]))
    both = accounts.as_they_run(np.flatnonzero(stays_J))
    mine = both.take(np.unique(both.job, return_index=True)[1])  # a pair has two members
    return Candidates(
        mine.joined(others.configurations),
        np.concatenate([accounts.ways.find(mine), others.number]),
        [np.concatenate([np.full(len(mine), math.inf), key]) for key in others.keys],
    )


def fillers(live: LiveJobs, rules: Rules, left_J: Bools, now_s: float, devices: Sequence[int]) -> Candidates:
    """Where jobs that got nothing may fill idle devices: who runs there first, then where they are fastest."""
    speed_JA = live.speeds(devices)
    best_J = speed_JA.max(axis=1, initial=0.0)
    open_JA = (speed_JA > 0) & (speed_JA >= (rules.backfill or 0.0) * best_J[:, None])
    waited_J = live.running() | (now_s - live.stopped_s >= rules.backfill_after_s)
    open_JA &= (live.allocated & left_J & waited_J)[:, None]
    job, type_ = np.nonzero(open_JA)
    stays = (live.type[job] == type_).astype(float)
    ways = ConfigurationSet.alone(job, type_, live.wanted_devices[job])
    return Candidates(ways, np.full(len(job), NO_WAY), [stays, speed_JA[job, type_] / best_J[job]])


def until_filling_s(live: LiveJobs, rules: Rules, now_s: float) -> float:
    """Where jobs fill idle devices after a while only: how long until the next has waited for so long."""
    if rules.backfill is None:
        return math.inf
    missing_s_J = rules.backfill_after_s - (now_s - live.stopped_s)
    return float(missing_s_J[live.allocated & (missing_s_J > 0)].min(initial=math.inf))


def ends_within(seconds: float, live: LiveJobs, j: Ints, now_s: float) -> Bools:
    """Which of these running jobs will be complete so soon, going by what they last said and the table's speed.

    Who shares a device is slower than that; and who should have been complete by now is not as fast as believed.
    """
    left = steps_left(live, j, now_s)
    ends: Bools = (left > 0) & (left <= live.pace(j) * seconds) & (live.partner[j] == ALONE)
    return ends


def steps_left(live: LiveJobs, j: Ints, now_s: float) -> Floats:
    """Steps that these running jobs still have to do, as far as known; infinite where they end by themselves."""
    since_s = np.maximum(0.0, now_s - live.steps_at_s[j])
    left: Floats = live.total_steps[j] - live.steps_done[j] - live.pace(j) * since_s
    return left


def loss_s(live: LiveJobs, j: Ints) -> Floats:
    """Seconds that these running jobs would lose if they were stopped now.

    That is a checkpoint, or the work since the last one where that is less, and the restart.
    """
    checkpoint_s = live.checkpoint_s[j]
    restart_s: Floats = live.restart_s[j]
    if not checkpoint_s.any():
        return restart_s
    speed = live.pace(j)
    unsaved = live.steps_done[j] - live.saved_steps[j]
    since_s = np.divide(unsaved, speed, out=np.zeros(len(j)), where=speed > 0)
    lost_s: Floats = restart_s + np.minimum(checkpoint_s, since_s)
    return lost_s
