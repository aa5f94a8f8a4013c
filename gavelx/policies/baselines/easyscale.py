"""Devices to the jobs that each of them speeds up most, at least some to every job: EasyScale.

Legend: J jobs, A accelerator types, C configurations.
"""

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.execution import Execution
from gavelx.memory import Memory
from gavelx.policies.base import Policy
from gavelx.policies.greedy import by_arrival
from gavelx.policies.greedy_sizes import WORTH_IT
from gavelx.policies.proposals import Proposal, accepted
from gavelx.policies.ways import Uses, Way, is_within, ways_alone
from gavelx.snapshot import WAITING, Kind, Snapshot
from gavelx.solvers import certified

BARS = ("job", "type", "devices", "until_s")


class EasyScale(Policy):
    """Every job keeps its least size, first come, first served; idle devices go where each speeds a job up most.

    * A job that waits gets its least size, in order of arrival. If too few devices are free, jobs that have more
      than their least size give some up, those first that lose least speed for each device.
    * Then jobs propose larger sizes, on their type or on another one, and mixes of types, and those with the
      largest speed-up for each new device are accepted (`accepted`); then they propose again, until nothing fits.
      A proposal at most doubles the devices of its job, and wastes at most ``waste`` of them:
      ``1 - speed / (devices x speed of one)``, in a mix summed over its types.
    * A size that by today's speeds wastes more than that, or is no faster than a smaller one, did not keep what it
      promised: the job goes back to the largest one below that does, and does not propose that size again for
      ``barred_s`` seconds. That is all that the policy remembers.

    Neither the lengths of jobs nor their weights count. Outside of ``elastic(...)`` each job has its own size, and
    proposals are moves to faster types.

    Source: EasyScale (SC'23), sections 3.4 and 3.5, algorithm 1. Kept: proposals, their order, doubling,
    roll-back, and of the artifact the waste of 30 %. Not kept: the artifact accepts one proposal of a job a
    minute, which ``once`` does as well; the database of companion modules is the table of speeds, which leases
    correct as they run; a job proposes all its sizes and not the best few.
    """

    name = "easyscale"
    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes", "mixes"})

    def __init__(
        self, waste: float = 0.3, interval_s: float = 60.0, barred_s: float = 3600.0, *, once: bool = False
    ) -> None:
        if not (0.0 <= waste < 1.0 and interval_s > 0.0 and barred_s >= 0.0):
            told = f"waste={waste:g}, interval_s={interval_s:g}, barred_s={barred_s:g}"
            expected = "waste from 0 to below 1, interval_s above 0, barred_s not below"
            raise PolicyError(told, where="EasyScale(...)", expected=expected)
        self.waste, self.interval_s, self.barred_s, self.once = waste, interval_s, barred_s, once

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s = perf_counter()
        division = Division(snapshot, self.waste, remembered_bars(snapshot))
        division.keep(self.barred_s)
        division.admit()
        division.grow(self.once)
        share_C = np.zeros(len(snapshot.configurations))
        share_C[[way.configuration for way in division.held.values()]] = 1.0
        again = division.barred or any(division.proposals())
        execution = Execution(refresh_s=self.interval_s if again else None, whole_devices=True, backfill=False)
        allocation = certified(
            snapshot, share_C, path="proposals", seconds=perf_counter() - begin_s, execution=execution
        )
        return allocation.with_memory(division.to_remember())


class Division:
    """Devices being divided: what each job holds, and what is free."""

    def __init__(self, snapshot: Snapshot, waste: float, barred: dict[tuple[int, int], tuple[int, float]]) -> None:
        self.snapshot, self.waste, self.barred = snapshot, waste, barred
        self.ways = ways_alone(snapshot)
        self.least: dict[tuple[int, int], Way] = {}  # of each job on each type
        for j, ways in self.ways.items():
            for way in ways:
                if not way.is_mixed:
                    self.least.setdefault((j, way.type), way)
        types = range(len(snapshot.accelerators))
        self._starts = {  # a job that no type alone has enough devices for begins on a mix
            j: [self.least[j, a] for a in types if (j, a) in self.least]
            or [way for way in ways if way.devices == ways[0].devices]
            for j, ways in self.ways.items()
        }
        self._good = {j: [way for way in ways if self.is_good(j, way)] for j, ways in self.ways.items()}
        self.held: dict[int, Way] = {}
        self.free_A: list[int] = snapshot.devices_A.tolist()
        self._order = by_arrival(snapshot)
        self._age_J = {j: age for age, j in enumerate(self._order)}

    def give(self, j: int, way: Way) -> None:
        """The job runs in this way, instead of the one that it has."""
        for a, devices in self.held[j].uses if j in self.held else ():
            self.free_A[a] += devices
        self.held[j] = way
        for a, devices in way.uses:
            self.free_A[a] -= devices

    def keep(self, barred_s: float) -> None:
        """Running jobs keep their devices, or some that waste less, or for which there is room."""
        had = had_J(self.snapshot)
        for j in self._order:
            a, uses = had.get(j, (WAITING, {}))
            devices = sum(uses.values())
            good = [way for way in self._good.get(j, ()) if is_within(way.uses, uses)]
            are_here = all(count <= self.snapshot.devices_A[b] for b, count in uses.items())
            if good and good[-1].devices < devices and are_here:
                self.barred[j, a] = devices, self.snapshot.time_s + barred_s
            fitting = [way for way in good if self._fits(way.uses)]
            if fitting:
                self.give(j, fitting[-1])

    def _fits(self, uses: Uses) -> bool:
        return all(devices <= self.free_A[a] for a, devices in uses)

    def is_good(self, j: int, way: Way) -> bool:
        """Whether a way to run wastes no more than it may; so does the least one on a type.

        So does a mix with a type that is never enough by itself: by it nothing can be measured.
        """
        if not way.is_mixed:
            least = self.least[j, way.type]
            return way.speed * least.devices >= (1.0 - self.waste) * way.devices * least.speed
        if not all((j, a) in self.least for a, _ in way.uses):
            return True
        able = sum(n * self.least[j, a].speed / self.least[j, a].devices for a, n in way.uses)
        return way.speed >= (1.0 - self.waste) * able

    def admit(self) -> None:
        """Jobs that wait get their least size in order of arrival; none overtakes."""
        for j in self._order:
            if j in self.held or not (starts := self._starts.get(j)):
                continue
            room = [way for way in starts if self._fits(way.uses)]
            room = room or [
                way for way in starts if all(n <= self.free_A[a] + self._spare(a) for a, n in way.uses)
            ]
            if not room:
                return
            way = max(room, key=lambda way: (way.speed, self.free_A[way.type]))
            if not all(self._make_room(a, n) for a, n in way.uses):
                return
            self.give(j, way)

    def _spare(self, a: int) -> int:
        """The devices of a type that jobs could do without."""
        return sum(count - min(dict(less.uses).get(a, 0) for less in [way, *self._less(j, way)])
                   for j, way in self.held.items() if (count := dict(way.uses).get(a, 0)))  # fmt: skip

    def _less(self, j: int, way: Way) -> Iterator[Way]:
        """The ways to run on some of the same devices."""
        uses = dict(way.uses)
        return (less for less in self.ways[j] if less.devices < way.devices and is_within(less.uses, uses))

    def _make_room(self, a: int, devices: int) -> bool:
        """Jobs give devices up until so many are free, those first that lose least by it; False if they cannot."""
        while self.free_A[a] < devices:
            found = [
                ((1.0 - less.speed / way.speed) / fewer, -self._age_J[j], j, less)
                for j, way in self.held.items()
                for less in self._less(j, way)
                if (fewer := dict(way.uses).get(a, 0) - dict(less.uses).get(a, 0)) > 0
            ]
            if not found:
                return False
            _, _, j, smaller = min(found)
            self.give(j, smaller)
        return True

    def grow(self, once: bool) -> None:
        """Jobs get more devices, or some of faster types, until nothing that fits is proposed."""
        while taken := accepted(self.proposals(), self.free_A):
            for one in taken:
                self.give(one.job, one.way)
            if once:
                return

    def proposals(self) -> Iterator[Proposal]:
        """Every way to run that a job could use, with at most twice the devices that it has."""
        for j, now in self.held.items():
            have = dict(now.uses)
            for way in self._good.get(j, ()):
                gain = way.speed / now.speed - 1.0
                if gain <= WORTH_IT or way.devices > 2 * now.devices:
                    continue
                needs = tuple((a, n - have.get(a, 0)) for a, n in way.uses if n > have.get(a, 0))
                below = self.barred.get((j, way.type), (2 * now.devices + 1, 0.0))[0]
                if needs and way.devices < below and self._fits(needs):
                    new = sum(n for _, n in needs)
                    yield Proposal(gain / new, new, self._age_J[j], j, way, needs)

    def to_remember(self) -> Memory:
        """Sizes that did not keep what they promised, and until when they are not proposed again."""
        ids = [job.id for job in self.snapshot.jobs]
        rows = [(ids[j], a, *barred) for (j, a), barred in self.barred.items()]
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        kinds = (np.int64, np.int64, np.int64, np.float64)
        return {
            name: np.array(column, dtype=kind) for name, column, kind in zip(BARS, columns, kinds, strict=True)
        }


def had_J(snapshot: Snapshot) -> dict[int, tuple[int, dict[int, int]]]:
    """The first type of each running job, by its index, and the devices that it has of each type."""
    row_of = {job.id: j for j, job in enumerate(snapshot.jobs)}
    type_of = {name: a for a, name in enumerate(snapshot.accelerators)}
    promised = snapshot.promised
    found: dict[int, tuple[int, dict[int, int]]] = {}
    for each in promised.configurations.named(promised.accelerators):
        j, a = row_of.get(each.members[0]), type_of.get(each.accelerator)
        if (
            j is None
            or a is None
            or snapshot.running_J[j] != a
            or not all(name in type_of for name, _ in each.uses)
        ):
            continue
        if each.devices_in_all > sum(found.get(j, (a, {}))[1].values()):
            found[j] = a, {type_of[name]: devices for name, devices in each.uses}
    return found


def remembered_bars(snapshot: Snapshot) -> dict[tuple[int, int], tuple[int, float]]:
    """By job and type (indices), the devices from which on a job proposes nothing, and until when."""
    columns = [snapshot.memory.get(name, np.zeros(0)) for name in BARS]
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        return {}
    row_of = {job.id: j for j, job in enumerate(snapshot.jobs)}
    return {
        (row_of[int(job_id)], int(a)): (int(devices), float(until_s))
        for job_id, a, devices, until_s in zip(*(column.tolist() for column in columns), strict=True)
        if int(job_id) in row_of and 0 <= a < len(snapshot.accelerators) and until_s > snapshot.time_s
    }
