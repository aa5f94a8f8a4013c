"""Protection: a job that would lose its work is not preempted, and no other job starves for it.

A job that saves nothing begins anew each time that it is stopped. Two of them that took turns would never end, so
a job is protected once a preemption has lost all the work of its lease: until it saves something, or to its end. A
job whose user says so (``preemptible="no"``) is protected from the start. Three limits keep others from starving:

* A protected job keeps its devices for ``Rules.protect_s``, and for twice the time that it has lost so far. One
  that takes longer is preempted once more, and protected for longer next time. So every job that ends at all does
  end, and one that never ends makes way again and again.
* The protected jobs of an owner keep the devices that other owners were not promised, and one job in any case.
* A protected job does not begin before a gang that waits for the same devices, unless it ends before they are free
  anyway (EASY backfilling: D. Lifka, The ANL/IBM SP scheduling system, JSSPP 1995).

Legend: J live jobs, V ways to run, N owners, A accelerator types.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE, widened
from gavelx.mechanism.entitlements import Entitlements
from gavelx.mechanism.live import LiveJobs
from gavelx.mechanism.rules import Rules

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
ROUNDING = 1e-9
AGAIN = 1.5
"""So many times as long a protected job keeps its devices that has ended by then."""


def may_keep(live: LiveJobs, rules: Rules, j: Ints, now_s: float) -> Bools:
    """Which of these running jobs have not held their devices for as long as they may without being preempted.

    A protected job that ends soon, by the table, may hold them for half as long again.
    """
    age_s = now_s - live.launched_s[j]
    protected_s = np.where(live.protected[j], np.maximum(rules.protect_s, 2.0 * live.lost_s[j]), 0.0)
    left_s = _left_s(live, j, now_s)
    ends_soon = (left_s > 0) & (age_s + left_s <= AGAIN * protected_s * (1.0 + ROUNDING))
    return np.asarray((age_s < np.maximum(rules.min_run_s, protected_s) * (1.0 - ROUNDING)) | ends_soon)


def to_the_end_s(live: LiveJobs, j: Any, a: Any) -> Any:
    """Seconds that a job needs on a type from where it stands to its last step, by the table; or many jobs.

    In the size as submitted. Of a mix, the slowest of its types is looked at.
    """
    return (live.total_steps[j] - live.steps_done[j]) / live.throughput[j, a]


def _left_s(live: LiveJobs, j: Ints, now_s: float) -> Floats:
    """Seconds that these running jobs still need, in the size that they have."""
    left_s: Floats = (live.total_steps[j] - live.steps_done[j]) / live.pace(j) - (now_s - live.steps_at_s[j])
    return left_s


class Protection:
    """Who is protected at one instant, and which of the protected jobs that wait may begin.

    ``stays_J``: running jobs that are not to be preempted, of those that ``may_J`` stay. ``held_A``: devices that
    the protected ones among them hold. ``filling``: what is given out now are devices that no job has a claim to.
    """

    def __init__(
        self,
        live: LiveJobs,
        ways: Entitlements,
        devices_A: Sequence[int],
        rules: Rules,
        *,
        now_s: float,
        may_J: Bools,
    ) -> None:
        self._live, self._devices_A, self.filling = live, devices_A, False
        self._owner = live.owner.tolist()
        self._waits = (live.protected & ~live.running()).tolist()
        self._gangs: list[set[int]] = [set() for _ in devices_A]  # they come first and wait for devices of a type
        self._quota = _quotas(live, ways, devices_A).tolist()  # N x A
        self._taken = [[0] * len(devices_A) for _ in self._quota]
        self._until_s = [0.0] * len(devices_A)  # until the protected jobs that run have ended, by the table
        self.held_A = [0] * len(devices_A)
        holders = live.holders()
        self.stays_J = np.zeros(len(live), dtype=bool)
        self.stays_J[holders] = may_J[holders] & may_keep(live, rules, holders, now_s)
        self._keep_within_quotas(now_s - live.launched_s < rules.min_run_s, now_s)

    def _keep_within_quotas(self, young_J: Bools, now_s: float) -> None:
        """Of an owner's protected jobs those stay that began first, and those that have hardly begun."""
        live = self._live
        rows = np.flatnonzero(self.stays_J & live.protected)
        for j in rows[np.argsort(live.launched_s[rows], kind="stable")].tolist():
            uses = live.uses_of(j)
            if not self._has_room(j, uses):
                self.stays_J[j] = young_J[j]
                continue
            self._takes(j, uses)
            until_s = float(_left_s(live, np.array([j]), now_s)[0])
            for a, devices in uses.items():
                self.held_A[a] += devices
                self._until_s[a] = max(self._until_s[a], until_s)

    def _takes(self, j: int, uses: Mapping[int, int]) -> None:
        for a, devices in uses.items():
            self._taken[self._owner[j]][a] += devices

    def _has_room(self, j: int, types: Iterable[int]) -> bool:
        """Whether one more protected job on these types is within what its owner may keep."""
        quota_A, taken_A = self._quota[self._owner[j]], self._taken[self._owner[j]]
        return all(taken_A[a] < quota_A[a] - ROUNDING for a in types) or not any(taken_A)

    # -- who may begin ----------------------------------------------------------------------------------------

    def passed_over(self, j: int, uses: Mapping[int, int]) -> None:
        """It is this job's turn, and fewer devices are free than it is to have."""
        if all(devices <= self._devices_A[a] for a, devices in uses.items()):
            for a in uses:
                self._gangs[a].add(j)

    def may_begin(self, j: int, types: Collection[int]) -> bool:
        """Whether a job may run on these types, after all who were passed over."""
        if j == ALONE or not self._waits[j]:
            return True
        if not (self.filling or self._has_room(j, types)):
            return False
        left_s = max(to_the_end_s(self._live, j, a) for a in types)  # infinite where its length is not known
        return all(not self._gangs[a] or bool(left_s <= self._until_s[a] and np.isfinite(left_s)) for a in types)

    def until_s(self, a: int) -> float:
        """How long the protected jobs on a type still run, by the table."""
        return self._until_s[a]

    def begins(self, j: int, uses: Mapping[int, int]) -> None:
        """A job runs on these devices from now on."""
        if j == ALONE:
            return
        for gangs in self._gangs:
            gangs.discard(j)
        if self._waits[j]:
            self._takes(j, uses)


def _quotas(live: LiveJobs, ways: Entitlements, devices_A: Sequence[int]) -> Floats:
    """Devices of each type that other owners were not promised, N x A; a pair counts half for each member."""
    N, A = int(live.owner.max(initial=0)) + 1, len(devices_A)
    alone_V = ways.partner == ALONE
    devices_V = ways.share * ways.devices * np.where(alone_V, 1.0, 0.5)
    owner_J, pair_V = live.owner, ~alone_V
    job = np.concatenate([ways.job, ways.partner[pair_V]])
    place = owner_J[job] * A + np.concatenate([ways.type, ways.type[pair_V]])
    promised_NA = np.bincount(place, np.concatenate([devices_V, devices_V[pair_V]]), N * A).reshape(N, A)
    if ways.has_mixes:
        np.add.at(promised_NA, owner_J[ways.job], ways.share[:, None] * widened(ways.others, A))
    return np.asarray(devices_A - (promised_NA.sum(axis=0) - promised_NA))
