"""The live jobs, one row each, in order of submission, and the pairs of them that were promised to share devices.

Legend: J live jobs, A accelerator types, P promised pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.overheads import NOTHING, Overhead
from gavelx.promises import NOBODY
from gavelx.snapshot import WAITING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OF_JOB: dict[str, Any] = {
    "total_steps": float,
    "arrival_s": float,
    "scale_factor": np.int64,
    "kind": np.int64,  # jobs of one kind run equally fast everywhere
    "steps_done": float,
    "saved_steps": float,  # of these are in a checkpoint
    "allocated": bool,  # whether the present allocation knows the job
    "promised_s": float,  # time promised so far
    "held_s": float,  # time received so far
    "type": np.int64,  # the accelerator type that it holds, or WAITING
    "partner": np.int64,  # the job id that it shares its devices with, or NOBODY
    "lease": np.int64,  # the lease that it holds; else the one from which reports count
    "lease_held_s": float,  # how long that lease was held, as last reported
    "launched_s": float,
    "busy_s": float,  # with whole steps, how long the lease's steps of this round take
    "spread": bool,  # the devices sit in several servers
    "checkpoint_s": float,
    "restart_s": float,
    "failures": np.int64,  # since it last came forward
    "equal_share_s": float,  # what an equal share would have taken for the steps done at the last solve
    "equal_share_speed": float,  # steps/s of an equal share, as of the last solve
    "equal_share_usd": float,  # the same in dollars
    "equal_share_usd_per_s": float,
    "spent_usd": float,  # what the devices have cost that it held
    "steps_then": float,  # steps done at the last solve
    "done": bool,
}
OF_JOB_AND_TYPE: dict[str, Any] = {
    "throughput": float,  # steps/s, NaN where unknown
    "spread_throughput": float,  # the same over several servers
    "share": float,  # promised share of time, alone on its devices
    "received_s": float,  # time on each type, as the priority counts it
    "credit_s": float,  # time promised and not received
}


@dataclass
class Pairs:
    """Pairs that the present allocation promised devices to; their members are rows of the live jobs."""

    first: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    second: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    type: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    share: Floats = field(default_factory=lambda: np.zeros(0))
    received_s: Floats = field(default_factory=lambda: np.zeros(0))
    credit_s: Floats = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.share)

    def only(self, keep_P: NDArray[np.bool_], row_J: Ints | None = None) -> "Pairs":
        """These of the pairs, their members renumbered."""
        chosen = Pairs(*(column[keep_P] for column in vars(self).values()))
        if row_J is not None:
            chosen.first, chosen.second = row_J[chosen.first], row_J[chosen.second]
        return chosen


class LiveJobs:
    """Live jobs and what is known of each: ``live["share"]`` is a J x A matrix, ``live["steps_done"]`` a column.

    The arrays grow ahead of need, so that a job enters in constant time.
    """

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.index: dict[int, int] = {}
        self.pairs = Pairs()
        self._pair_numbers: dict[tuple[frozenset[int], int], int] | None = None
        self.types = 0
        self._columns = {name: np.zeros(0, dtype=kind) for name, kind in OF_JOB.items()}
        self._columns |= {name: np.zeros((0, 0), dtype=kind) for name, kind in OF_JOB_AND_TYPE.items()}

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name][: len(self.jobs)]

    def blocks(self) -> Iterator[Any]:
        """What was promised and received, of jobs alone (J x A) and of pairs (P): same names, same meaning."""
        yield _Alone(self["share"], self["received_s"], self["credit_s"])
        if len(self.pairs):
            yield self.pairs

    def add(
        self, job: Job, kind: int, throughput_A: Floats, spread_throughput_A: Floats, overhead: Overhead = NOTHING
    ) -> int:
        """A job enters, last in order; its row."""
        j = len(self.jobs)
        if j == len(self._columns["type"]):
            self._grow(max(16, 2 * j))
        for column in self._columns.values():
            column[j] = 0
        self.index[job.id] = j
        self.jobs.append(job)
        first = {"total_steps": job.total_steps, "arrival_s": job.arrival_s, "scale_factor": job.scale_factor}
        speeds = {"throughput": throughput_A, "spread_throughput": spread_throughput_A}
        costs = {"checkpoint_s": overhead.checkpoint_s, "restart_s": overhead.restart_s, "kind": kind}
        nothing_yet = {"type": WAITING, "partner": NOBODY, "lease": NOBODY}
        for name, value in (first | speeds | costs | nothing_yet).items():
            self._columns[name][j] = value
        return j

    def running(self) -> NDArray[np.bool_]:
        """Which jobs hold devices."""
        return np.asarray(self["type"] != WAITING)

    def promised(self) -> Floats:
        """The share of its time that each job was promised, on all types, alone and in pairs."""
        share_J = self["share"].sum(axis=1)
        if len(self.pairs):
            for member in (self.pairs.first, self.pairs.second):
                share_J += np.bincount(member, self.pairs.share, len(share_J))
        return share_J

    def pair_of(self, j: int, k: int, a: int) -> int | None:
        """The pair of these two rows on that type, if it was promised anything."""
        if self._pair_numbers is None:
            columns = (self.pairs.first, self.pairs.second, self.pairs.type)
            ways = zip(*(column.tolist() for column in columns), strict=True)
            self._pair_numbers = {(frozenset((f, s)), t): p for p, (f, s, t) in enumerate(ways)}
        return self._pair_numbers.get((frozenset((j, k)), a))

    def pair_up(self, pairs: Pairs) -> None:
        """These pairs are promised from now on."""
        self.pairs, self._pair_numbers = pairs, None

    def drop_done(self) -> bool:
        """Forget the jobs that are done, and their pairs; says whether there were any."""
        done_J = self["done"]
        if not done_J.any():
            return False
        keep_J, count = ~done_J, len(self.jobs)
        row_J = np.where(keep_J, np.cumsum(keep_J) - 1, -1)
        if len(self.pairs):
            self.pair_up(self.pairs.only(keep_J[self.pairs.first] & keep_J[self.pairs.second], row_J))
        first = int(done_J.argmax())  # rows before it stay where they are
        places = np.flatnonzero(keep_J[first:]) + first
        for column in self._columns.values():
            column[first : first + len(places)] = column[places]
        self.jobs = [job for job, keep in zip(self.jobs, keep_J.tolist(), strict=True) if keep]
        self.index = {job.id: j for j, job in enumerate(self.jobs)}
        assert len(self.jobs) == first + len(places) < count
        return True

    def add_type(self, throughput_J: Floats, spread_throughput_J: Floats) -> None:
        """A new accelerator type: one more column, in which nobody was promised or received anything."""
        self.types += 1
        for name in OF_JOB_AND_TYPE:
            column = self._columns[name]
            self._columns[name] = np.concatenate([column, np.zeros((len(column), 1))], axis=1)
        self["throughput"][:, -1] = throughput_J
        self["spread_throughput"][:, -1] = spread_throughput_J

    def _grow(self, capacity: int) -> None:
        for name, column in self._columns.items():
            shape = (capacity, self.types) if name in OF_JOB_AND_TYPE else (capacity,)
            wider = np.zeros(shape, dtype=column.dtype)
            wider[: len(column)] = column
            self._columns[name] = wider


@dataclass
class _Alone:
    share: Floats
    received_s: Floats
    credit_s: Floats
