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
from gavelx.policies.greedy_sizes import WORTH_IT, Size, sizes_alone
from gavelx.policies.proposals import Proposal, accepted
from gavelx.snapshot import WAITING, Kind, Snapshot
from gavelx.solvers import certified

Held = dict[int, tuple[int, Size]]
"""By job (an index), the type and the size that it has."""
BARS = ("job", "type", "devices", "until_s")


class EasyScale(Policy):
    """Every job keeps its least size, first come, first served; idle devices go where each speeds a job up most.

    * A job that waits gets its least size, in order of arrival. If too few devices are free, jobs that have more
      than their least size give some up, those first that lose least speed for each device.
    * Then jobs propose larger sizes, on their type or on another one, and those with the largest speed-up for each
      new device are accepted (`accepted`); then they propose again, until nothing fits. A proposal at most doubles
      the devices of its job, and wastes at most ``waste`` of them: ``1 - speed / (devices x speed of one)``.
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
    uses = frozenset[Kind]({"sizes"})

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
        share_C[[size.configuration for _, size in division.held.values()]] = 1.0
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
        self.sizes = sizes_alone(snapshot)
        self.held: Held = {}
        self.free_A: list[int] = snapshot.devices_A.tolist()
        self._order = by_arrival(snapshot)
        self._age_J = {j: age for age, j in enumerate(self._order)}
        self._types = range(len(snapshot.accelerators))

    def give(self, j: int, a: int, size: Size) -> None:
        """The job gets this size, instead of the one that it has."""
        if j in self.held:
            before, old = self.held[j]
            self.free_A[before] += old.devices
        self.held[j] = a, size
        self.free_A[a] -= size.devices

    def keep(self, barred_s: float) -> None:
        """Running jobs keep their sizes, or get smaller ones that waste less, or for which there is room."""
        had = had_J(self.snapshot)
        for j in self._order:
            a, devices = had.get(j, (WAITING, 0))
            good = [
                size for size in self.sizes.get((j, a), ()) if size.devices <= devices and self.is_good(j, a, size)
            ]
            if good and good[-1].devices < devices <= self.snapshot.devices_A[a]:
                self.barred[j, a] = devices, self.snapshot.time_s + barred_s
            fitting = [size for size in good if size.devices <= self.free_A[a]]
            if fitting:
                self.give(j, a, fitting[-1])

    def is_good(self, j: int, a: int, size: Size) -> bool:
        """Whether a size wastes no more than it may; the least one always does."""
        least = self.sizes[j, a][0]
        return size.speed * least.devices >= (1.0 - self.waste) * size.devices * least.speed

    def admit(self) -> None:
        """Jobs that wait get their least size in order of arrival; none overtakes."""
        for j in self._order:
            if j in self.held or not (types := [a for a in self._types if (j, a) in self.sizes]):
                continue
            need = {a: self.sizes[j, a][0] for a in types}
            room = [a for a in types if need[a].devices <= self.free_A[a]]
            room = room or [a for a in types if need[a].devices <= self.free_A[a] + self._spare(a)]
            if not room:
                return
            a = max(room, key=lambda a: (need[a].speed, self.free_A[a]))
            self._make_room(a, need[a].devices)
            self.give(j, a, need[a])

    def _spare(self, a: int) -> int:
        """The devices of a type that jobs have beyond their least size."""
        return sum(size.devices - self.sizes[j, a][0].devices for j, (b, size) in self.held.items() if b == a)

    def _make_room(self, a: int, devices: int) -> None:
        """Jobs give devices up until so many are free, those first that lose least by it."""
        while self.free_A[a] < devices:
            _, _, j, smaller = min(
                ((1.0 - less.speed / size.speed) / (size.devices - less.devices), -self._age_J[j], j, less)
                for j, (b, size) in self.held.items()
                if b == a
                for less in self.sizes[j, a]
                if less.devices < size.devices
            )
            self.give(j, a, smaller)

    def grow(self, once: bool) -> None:
        """Jobs get larger sizes, or some on faster types, until nothing that fits is proposed."""
        while taken := accepted(self.proposals(), self.free_A):
            for one in taken:
                self.give(one.job, one.type, one.size)
            if once:
                return

    def proposals(self) -> Iterator[Proposal]:
        """Every size that a job could use, with at most twice the devices that it has."""
        for j, (a, now) in self.held.items():
            for b in self._types:
                below = self.barred.get((j, b), (2 * now.devices + 1, 0.0))[0]
                for size in self.sizes.get((j, b), ()):
                    new = size.devices - (now.devices if a == b else 0)
                    gain = size.speed / now.speed - 1.0
                    fits = 0 < new <= self.free_A[b] and size.devices <= min(2 * now.devices, below - 1)
                    if fits and gain > WORTH_IT and self.is_good(j, b, size):
                        yield Proposal(gain / new, new, self._age_J[j], j, b, size)

    def to_remember(self) -> Memory:
        """Sizes that did not keep what they promised, and until when they are not proposed again."""
        ids = [job.id for job in self.snapshot.jobs]
        rows = [(ids[j], a, *barred) for (j, a), barred in self.barred.items()]
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        kinds = (np.int64, np.int64, np.int64, np.float64)
        return {
            name: np.array(column, dtype=kind) for name, column, kind in zip(BARS, columns, kinds, strict=True)
        }


def had_J(snapshot: Snapshot) -> dict[int, tuple[int, int]]:
    """The type and the number of devices of each running job, by its index."""
    row_of = {job.id: j for j, job in enumerate(snapshot.jobs)}
    type_of = {name: a for a, name in enumerate(snapshot.accelerators)}
    promised = snapshot.promised
    found: dict[int, tuple[int, int]] = {}
    columns = promised.configurations.job, promised.configurations.type, promised.configurations.devices
    for job_id, of, devices in zip(*(column.tolist() for column in columns), strict=True):
        j, a = row_of.get(job_id), type_of.get(promised.accelerators[of])
        if j is not None and a is not None and snapshot.running_J[j] == a:
            found[j] = a, max(devices, found.get(j, (a, 0))[1])
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
