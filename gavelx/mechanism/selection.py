"""Selection: which jobs run, how and where, given what each way to run is owed and the free devices.

Legend: V ways to run, J live jobs, R those that may fill, A accelerator types.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
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
FEW = 256
"""Ways that are looked at one by one."""
WORTH = 0.1
"""The price of a second of work that a preemption loses, in seconds for which another job is behind."""
MOST_OF_A_ROUND = 0.9
"""A job that waited for a whole round is counted, however the times of messages are rounded."""
CHUNK = 64
"""Ways looked at together, beyond twice as many as there are devices."""


class Choice(NamedTuple):
    """A configuration that is to run: jobs (rows; ``ALONE`` for no partner) on devices of a type.

    ``number`` is its place among the entitlements, or ``NO_WAY``; ``batch`` the samples in an update, 0 as
    submitted; ``others`` the devices of each further type in a mix, empty if it is none.
    """

    job: int
    partner: int
    type: int
    devices: int
    number: int = NO_WAY
    batch: int = 0
    others: tuple[int, ...] = ()

    @property
    def uses(self) -> dict[int, int]:
        """Devices of each of its types."""
        return {self.type: self.devices, **{a: devices for a, devices in enumerate(self.others) if devices}}


def _numbers() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(eq=False)
class Choices(ConfigurationSet):
    """Configurations that are to run, or may be, as columns; members are rows, ``number`` as in a `Choice`."""

    number: Ints = field(default_factory=_numbers)

    def members(self) -> Ints:
        """The rows of all jobs in them."""
        return np.concatenate([self.job, self.partner[self.partner != ALONE]])

    def one_by_one(self) -> list[Choice]:
        columns = (self.job, self.partner, self.type, self.devices, self.number, self.batch)
        mixes = self.others.tolist() if self.has_mixes else [()] * len(self)
        others = [tuple(row) if any(row) else () for row in mixes]
        return list(map(Choice._make, zip(*(column.tolist() for column in columns), others, strict=True)))


class Candidates(NamedTuple):
    """Configurations that may be chosen, with their sort keys, the first one first."""

    ways: Choices
    keys: list[Floats]

    def only(self, chosen: Bools) -> "Candidates":
        """These of them."""
        if np.count_nonzero(chosen) == len(chosen):
            return self
        return Candidates(self.ways.take(chosen), [key[chosen] for key in self.keys])


def select(
    candidates: Candidates, free_A: Sequence[int], *, protection: Protection | None = None
) -> tuple[Choices, list[int]]:
    """Greedy selection in descending order of the keys while devices are free.

    Equal keys keep the order in which they come. A job is taken once, and a gang either whole or not at all.
    ``protection`` says which protected jobs may begin. Also says how many devices of each type are left.
    """
    ways, order = candidates.ways, np.lexsort([-key for key in reversed(candidates.keys)])
    plain = not (np.count_nonzero(ways.partner != ALONE) or ways.has_mixes)
    if len(order) > FEW and protection is None and plain:
        return _take_together(ways, order, np.array(free_A))
    taking = _Taking(ways, list(free_A), protection)
    taking.take(order, sum(free_A))
    return ways.take(np.array(taking.chosen, dtype=np.int64)), taking.free


def _take_together(ways: Choices, order: Ints, free_A: Ints) -> tuple[Choices, list[int]]:
    """The same for many jobs alone: all are taken at once up to the first that finds too few devices."""
    taken = list[Ints]()
    order = order[ways.devices[order] <= free_A[ways.type[order]]]
    place_J = np.zeros(int(ways.job.max(initial=-1)) + 1, dtype=np.int64)
    while len(order):
        job, type_, width, place = ways.job[order], ways.type[order], ways.devices[order], np.arange(len(order))
        place_J[job[::-1]] = place[::-1]
        best = place_J[job] == place  # the first way of each job
        used = np.zeros(len(order), dtype=np.int64)  # of its type, up to this way
        for a in free_A.nonzero()[0].tolist():
            of_type = best & (type_ == a)
            used[of_type] = width[of_type].cumsum()
        full = used > free_A[type_]
        end = int(full.argmax()) if np.count_nonzero(full) else len(order)
        now = order[:end][best[:end]]
        taken.append(now)
        free_A = free_A - np.bincount(ways.type[now], ways.devices[now], len(free_A)).astype(np.int64)
        waits_J = np.ones(len(place_J), dtype=bool)
        waits_J[ways.job[now]] = False
        rest = order[end:]
        order = rest[waits_J[ways.job[rest]] & (ways.devices[rest] <= free_A[ways.type[rest]])]
    chosen = np.concatenate(taken) if taken else order
    return ways.take(chosen), free_A.tolist()


class _Taking:
    """The places of those ways that are ``chosen``, and the devices that they leave ``free``."""

    def __init__(self, ways: Choices, free: list[int], protection: Protection | None) -> None:
        self.ways, self.free, self.protection = ways, free, protection
        self.chosen: list[int] = []
        self._taken: set[int] = set()

    def take(self, order: Ints, left: int) -> None:
        """Choose what can be had, in this order, until none of so many devices are left.

        It seldom takes many more ways than there are devices, so not all of them are looked at.
        """
        ways, free, taken, size = self.ways, self.free, self._taken, 2 * left + CHUNK
        protected, mixed = self.protection is not None, ways.has_mixes
        columns = ways.job, ways.partner, ways.type, ways.devices
        for start in range(0, len(order) if left else 0, size):
            part = order[start : start + size]
            more = ways.others[part].tolist() if mixed else repeat(())
            for v, j, k, a, width, others in zip(
                part.tolist(), *(column[part].tolist() for column in columns), more, strict=False
            ):
                if j in taken or (width > free[a] and not protected) or k in taken:
                    continue
                uses = {a: width}
                if mixed:
                    uses |= {b: count for b, count in enumerate(others) if count}
                if protected:
                    if not self._may_take(j, k, uses):
                        continue
                elif mixed and any(count > free[b] for b, count in uses.items()):
                    continue
                taken.add(j)
                if k != ALONE:
                    taken.add(k)
                for b, count in uses.items():
                    free[b] -= count
                    left -= count
                self.chosen.append(v)
                if left == 0:
                    return

    def _may_take(self, j: int, k: int, uses: dict[int, int]) -> bool:
        """Whether enough devices are left, and protected jobs may begin on them."""
        protection = self.protection
        assert protection is not None
        if any(devices > self.free[a] for a, devices in uses.items()):
            protection.passed_over(j, uses)
            return False
        if not (protection.may_begin(j, uses) and protection.may_begin(k, uses)):
            return False
        protection.begins(j, uses)
        protection.begins(k, uses)
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
    accounts: Accounts,
    execution: Execution,
    now_s: float,
    *,
    stays_J: Bools | None = None,
    only: Ints | None = None,
    spares_J: Bools | None = None,
) -> Candidates:
    """The configurations that may be given out now, with the keys that order them.

    A job may run where it was promised a share. Where shares are quotas, no job runs that is not owed a round, or
    what it needs to start. Those who stay (``stays_J``) come first, as they run. ``only`` these ways, of jobs
    that wait, may be looked at, to look at less. ``spares_J``: jobs that run on if they will be complete within a
    round; default: all.
    """
    live, rules, ways = accounts.live, accounts.rules, accounts.ways
    owed_V = within_quota(ways, live, rules, now_s) if execution.quota else None
    number, some = (np.arange(len(ways)), ways) if only is None else (only, ways.take(only))
    key, turn_V = accounts.priority.key(some), _turns(some, live, rules)
    if only is None:
        _prefer_running(key, turn_V, live, rules, now_s, spares_J)
    key /= turn_V
    found = Candidates(Choices.to(some, number=number), [key])
    if owed_V is not None:
        found = found.only(owed_V[number])
    if stays_J is not None and np.count_nonzero(stays_J):
        found = _as_they_run(found, accounts, stays_J)
    return found


def furthest_behind(accounts: Accounts, now_s: float) -> Candidates:
    """The promised configurations, ordered only by how far each is behind its promise now, in turns.

    A job that waits counts once it is behind by most of what it is promised of a round.
    """
    live, rules, ways = accounts.live, accounts.rules, accounts.ways
    behind_s = ways.credit_s.copy()
    j = (live.way != NO_WAY).nonzero()[0]
    np.subtract.at(behind_s, live.way[j], now_s - live.since_s[j])
    counts_V = live.running()[ways.job] | (behind_s >= MOST_OF_A_ROUND * ways.share * rules.round_s)
    turns_V = np.round(behind_s / _turns(ways, live, rules), 6)  # messages take some time: who is equal stays so
    found = Candidates(Choices.to(ways, number=np.arange(len(ways))), [turns_V])
    return found.only(counts_V)


def as_they_run(accounts: Accounts, rows: Ints) -> Choices:
    """The present configurations of these running jobs."""
    ways = accounts.as_they_run(rows)
    return Choices.to(ways, number=accounts.ways.find(ways))


def of_these(ways: ConfigurationSet, candidate_J: Bools, free_A: Sequence[int] | None) -> Ints:
    """Those of the ways that are of these candidates alone, and fit the devices that are free, if that matters."""
    number: Ints = candidate_J[ways.job].nonzero()[0]
    partner = ways.partner[number]
    if np.count_nonzero(partner != ALONE):
        number = number[np.append(candidate_J, True)[partner]]  # ALONE always may
    return number if free_A is None else number[ways.take(number).fits(np.array(free_A))]


def first_on(found: Candidates, live: LiveJobs, wanted: Sequence[tuple[int, int]]) -> Candidates:
    """Jobs (ids) that never ran begin on these types if they find a place there, in their turn as elsewhere."""
    type_of = {
        j: a
        for job_id, a in wanted
        if (j := live.index.get(job_id)) is not None and live.held_s[j] == 0.0 and live.type[j] == WAITING
    }
    ways = found.ways
    mine_V = np.isin(ways.job, list(type_of)) & (ways.partner == ALONE)
    if not mine_V.any():
        return found
    rows = np.flatnonzero(mine_V)
    rows = rows[np.lexsort([-key[rows] for key in reversed(found.keys)])]
    rows = rows[np.unique(ways.job[rows], return_index=True)[1]]  # the best way of each
    job = ways.job[rows]
    there = ConfigurationSet.alone(job, np.array([type_of[j] for j in job.tolist()]), live.wanted_devices[job])
    return Candidates(
        Choices.to(there, number=ways.number[rows]).joined(ways), [np.append(key[rows], key) for key in found.keys]
    )


def _turns(ways: Entitlements, live: LiveJobs, rules: Rules) -> Floats:
    """How long a turn of each way is: that of its job, or the shorter one of a pair's."""
    turn_V = np.maximum(rules.round_s, rules.turn * live.held_s[ways.job])
    pair_V = ways.partner != ALONE
    if np.count_nonzero(pair_V):
        partner_s = np.maximum(rules.round_s, rules.turn * live.held_s[ways.partner[pair_V]])
        turn_V[pair_V] = np.minimum(turn_V[pair_V], partner_s)
    return turn_V


def _prefer_running(  # noqa: PLR0917
    key: Floats, turn_V: Floats, live: LiveJobs, rules: Rules, now_s: float, spares_J: Bools | None
) -> None:
    """What runs counts as a turn further behind than it is.

    It has also received time since it was last accounted for, and would lose some by being stopped. A job that
    will be complete within a round stays: it would wait long for so little.
    """
    j = (live.way != NO_WAY).nonzero()[0]
    if not len(j):
        return
    way = live.way[j]
    risk_s = rules.round_s * np.rint(at_risk_s(live, j, now_s) / rules.round_s)
    gain_s = turn_V[way] + loss_s(live, j) + WORTH * risk_s - (now_s - live.since_s[j])
    spared = ends_within(rules.round_s, live, j, now_s)
    gain_s[spared if spares_J is None else spared & spares_J[j]] = STAYS_S
    pair_L = live.partner[j] != ALONE
    if np.count_nonzero(pair_L):
        np.add.at(key, way, np.where(pair_L, gain_s / 2, gain_s))  # half from each of the two
    else:
        key[way] += gain_s


def _as_they_run(found: Candidates, accounts: Accounts, stays_J: Bools) -> Candidates:
    """Jobs that are not to be preempted have one way to run: the present one, be it promised or not."""
    ways = found.ways
    others = found.only(~(stays_J[ways.job] | np.append(stays_J, False)[ways.partner]))
    both = as_they_run(accounts, np.flatnonzero(stays_J))
    mine = both.take(np.unique(both.job, return_index=True)[1])  # a pair has two members
    return Candidates(
        mine.joined(others.ways),
        [np.concatenate([np.full(len(mine), math.inf), key]) for key in others.keys],
    )


def fillers(  # noqa: PLR0917
    live: LiveJobs,
    rules: Rules,
    left_J: Bools,
    now_s: float,
    devices: Sequence[int],
    free_A: Sequence[int] | None = None,
    *,
    settled_J: Bools,
) -> Candidates:
    """Where jobs that got nothing may fill idle devices: who runs there first, then where they are fastest.

    ``free_A``: only where so many devices are enough. ``settled_J``: jobs that stay where they run, or make way.
    """
    waited_J = live.running() | (now_s - live.stopped_s >= rules.backfill_after_s)
    rows = (live.allocated & left_J & waited_J).nonzero()[0]
    speed_RA = live.speeds(devices, rows)
    best_R = speed_RA.max(axis=1, initial=0.0)
    open_RA = (speed_RA > 0) & (speed_RA >= (rules.backfill or 0.0) * best_R[:, None])
    here_R = settled_J[rows].nonzero()[0]
    open_RA[here_R] = False
    open_RA[here_R, live.type[rows[here_R]]] = True
    if free_A is not None:
        open_RA &= live.wanted_devices[rows, None] <= np.array(free_A)
    row, type_ = open_RA.nonzero()
    job = rows[row]
    stays = (live.type[job] == type_).astype(float)
    ways = ConfigurationSet.alone(job, type_, live.wanted_devices[job])
    return Candidates(
        Choices.to(ways, number=np.full(len(job), NO_WAY)), [stays, speed_RA[row, type_] / best_R[row]]
    )


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
    pace = live.pace(j)
    left = _steps_left(live, j, now_s, pace)
    ends: Bools = (left > 0) & (left <= pace * seconds) & (live.partner[j] == ALONE)
    return ends


def steps_left(live: LiveJobs, j: Ints, now_s: float) -> Floats:
    """Steps that these running jobs still have to do, as far as known; infinite where they end by themselves."""
    return _steps_left(live, j, now_s, live.pace(j))


def _steps_left(live: LiveJobs, j: Ints, now_s: float, pace: Floats) -> Floats:
    since_s = np.maximum(0.0, now_s - live.steps_at_s[j])
    left: Floats = live.total_steps[j] - live.steps_done[j] - pace * since_s
    return left


def at_risk_s(live: LiveJobs, j: Ints, now_s: float) -> Floats:
    """Seconds of work that these running jobs would do again if they were preempted, as they save nothing."""
    if live.saves[j].all():
        return np.zeros(len(j))
    return np.where(live.saves[j], 0.0, live.lease_held_s[j] + now_s - live.since_s[j])


def settled(accounts: Accounts, execution: Execution, now_s: float) -> Bools:
    """Running jobs that would lose their work if they were moved, and may stay where they are.

    They make way for a job that has no other place, and for nobody's speed, their own included. A job that goes
    over to other devices while it runs loses nothing, and one that was promised a partner may get it.
    """
    live = accounts.live
    settled_J: Bools = live.running() & ~live.saves & np.isnan(live.resize_s) & (live.partner == ALONE)
    if np.count_nonzero(settled_J):
        settled_J &= may_stay(accounts, execution, now_s)
        ways = accounts.ways
        pair_V = ways.partner != ALONE
        settled_J[ways.job[pair_V]] = settled_J[ways.partner[pair_V]] = False
    return settled_J


def loss_s(live: LiveJobs, j: Ints) -> Floats:
    """Seconds that these running jobs, which save their work, would lose if they were stopped now.

    That is a checkpoint, or the work since the last one where that is less, and the restart.
    """
    checkpoint_s = live.checkpoint_s[j]
    restart_s: Floats = live.restart_s[j]
    if not np.count_nonzero(checkpoint_s):
        return restart_s
    speed = live.pace(j)
    unsaved = live.steps_done[j] - live.saved_steps[j]
    since_s = np.divide(unsaved, speed, out=np.zeros(len(j)), where=speed > 0)
    lost_s: Floats = restart_s + np.minimum(checkpoint_s, since_s)
    return lost_s
