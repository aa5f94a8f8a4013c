"""The live jobs, one row each, in order of submission.

Legend: J live jobs, A accelerator types.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.overheads import NOTHING, Overhead
from gavelx.promises import NOBODY
from gavelx.snapshot import WAITING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OF_JOB: dict[str, Any] = {
    "total_steps": float,
    "arrival_s": float,
    "scale_factor": np.int64,
    "kind": np.int64,  # jobs of one kind run equally fast everywhere
    "steps_done": float,
    "steps_at_s": float,  # when there were so many; a job that has to load its checkpoint starts later
    "saved_steps": float,  # of these are in a checkpoint
    "allocated": bool,  # whether the present allocation knows the job
    "share": float,  # of its time, promised in all
    "promised_s": float,  # time promised so far
    "held_s": float,  # time received so far
    "type": np.int64,  # the accelerator type that it holds, or WAITING
    "partner": np.int64,  # the job id that it shares its devices with, or NOBODY
    "way": np.int64,  # the way to run in which it does, an index; or NO_WAY
    "lease": np.int64,  # the lease that it holds; else the last one, from which reports still count
    "heard": bool,  # whether that lease has reported any progress
    "lease_held_s": float,  # how long that lease was held, as accounted
    "since_s": float,  # its time is accounted for until then
    "launched_s": float,
    "stopped_s": float,  # when it last gave its devices up, or came
    "round_s": float,  # with whole steps, the time that the lease's steps of this round take
    "over": bool,  # with whole steps, the lease ended before the round did
    "spread": bool,  # the devices sit in several servers
    "checkpoint_s": float,
    "restart_s": float,
    "failures": np.int64,  # since it last came forward
    "protected": bool,  # it would lose its work: it is not to be preempted
    "lost_s": float,  # time on devices that preemptions have lost so far
    "owner": np.int64,  # a number for each owner
    "equal_share_s": float,  # what an equal share would have taken for the steps done at the last solve
    "equal_share_speed": float,  # steps/s of an equal share, as of the last solve
    "equal_share_usd": float,  # the same in dollars; NaN where a price was not known, as below
    "equal_share_usd_per_s": float,
    "spent_usd": float,  # what the devices have cost that it held
    "steps_then": float,  # steps done at the last solve
    "done": bool,
}
OF_JOB_AND_TYPE: dict[str, Any] = {
    "throughput": float,  # steps/s, NaN where unknown
    "spread_throughput": float,  # the same over several servers
}
NO_WAY = -1


class LiveJobs:
    """Live jobs and what is known of each: ``live["throughput"]`` is J x A, ``live["steps_done"]`` a column.

    The arrays grow ahead of need, so that a job enters in constant time.
    """

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.index: dict[int, int] = {}
        self.types = 0
        self._owners: dict[str, int] = {}
        self._columns = {name: np.zeros(0, dtype=kind) for name, kind in OF_JOB.items()}
        self._columns |= {name: np.zeros((0, 0), dtype=kind) for name, kind in OF_JOB_AND_TYPE.items()}
        self._views = dict(self._columns)

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._views[name]

    def add(
        self,
        job: Job,
        kind: int,
        throughput_A: Floats,
        spread_throughput_A: Floats,
        overhead: Overhead = NOTHING,
    ) -> int:
        """A job enters, last in order; its row. The columns show it after :meth:`look`."""
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
        costs |= {"protected": job.preemptible == "no"}
        costs |= {"owner": self._owners.setdefault(job.owner, len(self._owners))}
        nothing_yet = {"type": WAITING, "partner": NOBODY, "lease": NOBODY, "way": NO_WAY}
        for name, value in (first | speeds | costs | nothing_yet).items():
            self._columns[name][j] = value
        return j

    def drop_done(self) -> Ints | None:
        """Forget the jobs that are done: the new row of each old one (-1 of those); None if there were none."""
        done_J = self["done"]
        if not done_J.any():
            return None
        keep_J = ~done_J
        first = int(done_J.argmax())  # rows before it stay where they are
        places = np.flatnonzero(keep_J[first:]) + first
        row_J = np.where(keep_J, np.cumsum(keep_J) - 1, -1)
        for column in self._columns.values():
            column[first : first + len(places)] = column[places]
        self.jobs = [job for job, keep in zip(self.jobs, keep_J.tolist(), strict=True) if keep]
        self.index = {job.id: j for j, job in enumerate(self.jobs)}
        self.look()
        return row_J

    def add_type(self, throughput_J: Floats, spread_throughput_J: Floats) -> None:
        """A new accelerator type: one more column."""
        self.types += 1
        for name in OF_JOB_AND_TYPE:
            column = self._columns[name]
            self._columns[name] = np.concatenate([column, np.zeros((len(column), 1))], axis=1)
        self.look()
        self["throughput"][:, -1] = throughput_J
        self["spread_throughput"][:, -1] = spread_throughput_J

    def speeds(self, devices: Sequence[int], rows: Ints | slice = slice(None)) -> Floats:
        """Steps/s, rows x A, on types of so many devices: 0 where it is unknown, or they are too few."""
        fits = self["scale_factor"][rows][:, None] <= np.array(devices, dtype=np.int64)
        return np.where(fits, np.fmax(self["throughput"][rows], 0.0), 0.0)

    def running(self) -> Bools:
        """Which jobs hold devices."""
        runs_J: Bools = self["type"] != WAITING
        return runs_J

    def holders(self) -> Ints:
        """The rows of those jobs."""
        return self.running().nonzero()[0]

    def _grow(self, capacity: int) -> None:
        for name, column in self._columns.items():
            shape = (capacity, self.types) if name in OF_JOB_AND_TYPE else (capacity,)
            wider = np.zeros(shape, dtype=column.dtype)
            wider[: len(column)] = column
            self._columns[name] = wider

    def look(self) -> None:
        """From now on columns show all jobs."""
        self._views = {name: column[: len(self.jobs)] for name, column in self._columns.items()}
