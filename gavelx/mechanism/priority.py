"""Priorities: how the shares that a policy promised become an order in which jobs are served.

Both kinds compare the share promised with the share received, of every way to run.

Legend: V ways to run, J live jobs, L running jobs.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import NOBODY, ConfigurationSet
from gavelx.mechanism.live import LiveJobs
from gavelx.mechanism.promised import Entitlements

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Credit:
    """Serve first whoever is furthest behind what was promised, in seconds.

    The credit of a way to run grows by its share per second and falls by one for every second in it; the key is
    the credit that there would be at the end of the round without it. Unlike a ratio of shares it does not forget
    at a new allocation, so small shares are served too, however often the policy is asked. Selection counts it in
    turns, which are longer for jobs that have run for long (``Rules.turn``); serving the largest weighted backlog
    keeps every backlog bounded whatever the weights, where the shares are feasible (Tassiulas and Ephremides,
    IEEE TAC 37(12), 1992). A way that no longer is promised holds no credit.
    """

    prefers_running = True

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def admitted(self, ways: Entitlements, live: LiveJobs, new_J: Ints) -> Entitlements:
        """New jobs were promised nothing yet."""
        return ways

    def passed(self, ways: Entitlements, seconds: float) -> None:
        """Time went by: promises accrue."""
        ways.credit_s += ways.share * seconds

    def received(self, ways: Entitlements, way_L: Ints, seconds_L: Floats) -> None:
        """These ways had devices for so many seconds."""
        np.subtract.at(ways.credit_s, way_L, seconds_L)

    def allocated(self, old: Entitlements, new: Entitlements, live: LiveJobs, since_s: float) -> Entitlements:
        """The ways of a new allocation, ``since_s`` after the last one, with the credit that they have."""
        place = old.find(new)
        new.credit_s = np.where(place >= 0, old.credit_s[place], 0.0) if len(old) else new.credit_s
        return new

    def keys(self, ways: Entitlements, allocated: Bools) -> list[Floats]:
        """Sort keys of every way, the first one first; larger is served earlier."""
        return [ways.credit_s + ways.share * self.round_s]


class PublishedPriority:
    """The priorities of the published system: share promised over time received on the type.

    Times start again at half a round with every allocation; what was owed then only breaks ties. Ways without a
    share take part, behind those with one. Source: Gavel (OSDI'20), section 5, and its simulator, which divides
    the time by the sum over all jobs of that type. That changes the order by rounding alone: times that differ in
    the last bit may be equal parts of the sum, and then what is owed decides. So the sum is kept as it is there.
    """

    prefers_running = False

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s
        self._first_s = round_s / 2  # what jobs had received of any type when times last started
        self._received_s_A = np.zeros(0)  # since then, all jobs together

    def admitted(self, ways: Entitlements, live: LiveJobs, new_J: Ints) -> Entitlements:
        n, types = np.nonzero(live.throughput[new_J] > 0)
        new = Entitlements.to(
            ConfigurationSet.of(new_J[n], NOBODY, types, live.wanted_devices[new_J[n]]), np.zeros(len(n))
        )
        new.received_s += self.round_s / 2
        return ways.joined(new)

    def passed(self, ways: Entitlements, seconds: float) -> None:
        """Promises accrue only when the next allocation comes."""

    def received(self, ways: Entitlements, way_L: Ints, seconds_L: Floats) -> None:
        np.add.at(ways.received_s, way_L, seconds_L)
        order = np.lexsort([ways.job[way_L], -seconds_L])  # in which the published simulator adds them up
        np.add.at(self._of_all(ways), ways.type[way_L[order]], seconds_L[order])

    def _of_all(self, ways: Entitlements) -> Floats:
        """What all jobs have received of each type; one that is new counts as those that were there."""
        new = int(ways.type.max(initial=-1)) + 1 - len(self._received_s_A)
        if new > 0:
            self._received_s_A = np.append(self._received_s_A, np.full(new, self._first_s))
        return self._received_s_A

    def allocated(self, old: Entitlements, new: Entitlements, live: LiveJobs, since_s: float) -> Entitlements:
        owed_s = old.share * since_s - (old.received_s - self.round_s / 2)
        old.credit_s += np.where(live.allocated[old.job], owed_s, 0.0)
        place = new.find(old)
        old.share = np.where(place >= 0, new.share[place], 0.0) if len(new) else np.zeros(len(old))
        kept = old.take((old.partner == NOBODY) | (place >= 0))
        fresh = old.find(new) < 0
        kept = kept.joined(new.take(fresh)) if fresh.any() else kept
        kept.received_s[:] = self.round_s / 2
        self._first_s = max(1, len(live)) * self.round_s / 2
        self._received_s_A = np.full(live.types, self._first_s)
        return kept

    def keys(self, ways: Entitlements, allocated: Bools) -> list[Floats]:
        promised = allocated[ways.job] & (ways.share > 0)
        part = ways.received_s / self._of_all(ways)[ways.type]
        ratio = ways.share / np.where(part > 0, part, 1e-9)
        return [np.where(promised, ratio, 0.0), ways.credit_s, ways.share]
