"""The published priority: which configuration is served first, by the share promised over the time received.

Jobs go by the order of their submission, so a number stands for the same job all the time.

Legend: V configurations, J jobs, A accelerator types.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE, ConfigurationSet, PromisedSet, keys
from gavelx.promises import Promises
from gavelx.snapshot import WAITING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NO_TIME = 1e-9
"""The part of a type's time that counts where none was received."""


def _floats() -> Floats:
    return np.zeros(0)


@dataclass(eq=False)
class Ways(PromisedSet):
    """Configurations, none of them spread, and what became of each.

    ``share`` is the share of time promised, ``received_s`` the time received since the policy was asked,
    ``owed_s`` what was promised before and not received.
    """

    received_s: Floats = field(default_factory=_floats)
    owed_s: Floats = field(default_factory=_floats)


def new_ways(how: ConfigurationSet, share: Floats, first_s: float) -> Ways:
    """Configurations that are owed nothing and count as having received so much."""
    return Ways.to(how, share=share, received_s=np.full(len(how), first_s), owed_s=np.zeros(len(how)))


def promised_ways(
    promises: Promises, row: Mapping[int, int], throughput_JA: Floats, types: Sequence[str], first_s: float
) -> Ways:
    """What was promised to jobs where they run: jobs alone in their order, then pairs; ``row`` is by job id.

    The same way over several servers counts with it, for servers make no difference.
    """
    given, together = promises.configurations, np.zeros(len(promises), dtype=bool)
    type_A = np.array([types.index(name) for name in promises.accelerators], dtype=np.int64)
    job = np.array([row[i] for i in given.job.tolist()], dtype=np.int64)
    partner = np.array([row.get(i, ALONE) for i in given.partner.tolist()], dtype=np.int64)
    type_ = type_A[given.type]
    runs = throughput_JA[job, type_] > 0
    how = ConfigurationSet(job, partner, type_, given.devices, together, given.batch).take(runs)
    ways = new_ways(how, promises.share_P[runs], first_s)
    return ways.in_order(merged=bool(given.spread.any()))


class Priority:
    """Who is served first: by the share promised over the part received of the type's time, then by what is owed.

    Times start again at half a round with every allocation; what was owed then only breaks ties. Ways without a
    share take part, behind those with one. Source: Gavel (OSDI'20), section 5, and its simulator, which divides
    the time by the sum over all jobs of that type. That changes the order by rounding alone: times that differ in
    the last bit may be equal parts of the sum, and then what is owed decides. So the sum is kept as it is there.
    """

    def __init__(self, round_s: float, types: int) -> None:
        self.ways = Ways()
        self._first_s = round_s / 2
        self._all_received_s_A = np.full(types, self._first_s)

    def admit(self, job: Ints, type_: Ints, devices: Ints) -> None:
        """New jobs may run alone on these types; they were promised nothing yet."""
        alone = ConfigurationSet.alone(job, type_, devices)
        self.ways = self.ways.joined(new_ways(alone, np.zeros(len(job)), self._first_s))

    def forget(self, gone_J: Bools) -> None:
        """These jobs are gone."""
        ways = self.ways
        self.ways = ways.take(~(gone_J[ways.job] | np.append(gone_J, False)[ways.partner]))

    def receive(self, way_L: Ints, seconds_L: Floats) -> None:
        """These ways had devices for so long."""
        ways = self.ways
        order = np.lexsort([ways.job[way_L], -seconds_L])  # in which the published simulator adds them up
        way_L, seconds_L = way_L[order], seconds_L[order]
        np.add.at(ways.received_s, way_L, seconds_L)
        np.add.at(self._all_received_s_A, ways.type[way_L], seconds_L)

    def restart(self, promised: Ways, jobs: int, since_s: float) -> None:
        """The policy has promised anew, ``since_s`` after the last time, and so many jobs live: times start again.

        Pairs that are promised nothing are forgotten.
        """
        old = self.ways
        old_key, new_key = keys(old, promised)
        known = {key: v for v, key in enumerate(new_key.tolist())}
        old.owed_s += old.share * since_s - (old.received_s - self._first_s)
        place = np.array([known.pop(key, -1) for key in old_key.tolist()], dtype=np.int64)
        old.share = np.append(promised.share, 0.0)[place]
        kept = old.take((old.partner == ALONE) | (place >= 0))
        self.ways = kept.joined(promised.take(np.array(list(known.values()), dtype=np.int64))) if known else kept
        self.ways.received_s[:] = self._first_s
        self._all_received_s_A[:] = max(1, jobs) * self._first_s

    def order(self, allocated_J: Bools) -> Ints:
        """All ways, type by type, the first one to be served first; equal ones as they came."""
        ways = self.ways
        part = ways.received_s / self._all_received_s_A[ways.type]
        ratio = ways.share / np.where(part > 0, part, NO_TIME)
        first = np.where(allocated_J[ways.job] & (ways.share > 0), ratio, 0.0)
        return np.lexsort([-ways.share, -ways.owed_s, -first, ways.type])

    def staying_J(self, jobs: int) -> Ints:
        """The type on which each job has all its time, so that it stays there; ``WAITING`` for the others."""
        type_J, whole = np.full(jobs, WAITING), self.ways.share == 1.0
        type_J[self.ways.job[whole]] = self.ways.type[whole]
        return type_J
