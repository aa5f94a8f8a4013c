"""The live jobs, one row each, in order of submission.

Legend: J live jobs, A accelerator types.
"""

from collections.abc import Sequence

import numpy as np

from gavelx.configuration import ABSENT, ALONE
from gavelx.jobs import Job
from gavelx.mechanism.columns import Bools, Columns, Floats, Ints
from gavelx.overheads import NOTHING, Overhead
from gavelx.snapshot import WAITING

NO_WAY = ABSENT
Paid = tuple[int, int, Ints]
"""An accelerator type, devices of it, and those of every other type."""


class LiveJobs(Columns):
    """Live jobs and what is known of each: ``live.throughput`` is J x A, ``live.steps_done`` a column."""

    of_type = frozenset({"throughput", "spread_throughput", "others", "paid_others"})

    throughput: Floats  # steps/s, NaN where unknown
    spread_throughput: Floats  # the same over several servers
    others: Ints  # devices that it holds besides those of its first type, in a mix
    paid_others: Ints  # and those of them for which it is charged

    id: Ints
    total_steps: Floats
    arrival_s: Floats
    wanted_devices: Ints  # as many as it was submitted for
    least_devices: Ints  # and the fewest that it can run on
    elastic: Bools
    kind: Ints  # jobs of one kind run equally fast everywhere
    owner: Ints  # a number for each owner
    checkpoint_s: Floats
    restart_s: Floats
    resize_s: Floats  # NaN for a job that is stopped and launched again instead
    resizing: Bools  # it goes over to its present lease, and has not said yet that it has

    steps_done: Floats
    steps_at_s: Floats  # when there were so many; a job that has to load its checkpoint starts later
    saved_steps: Floats  # of these are in a checkpoint
    steps_then: Floats  # steps done at the last solve; of a job of unknown length, seconds worked
    failures: Ints  # since it last came forward
    saves: Bools  # its work outlives a preemption, as far as known
    protected: Bools  # it would lose its work: it is not to be preempted
    lost_s: Floats  # time on devices that preemptions have lost so far
    worked_s: Floats  # of a job of unknown length: time on its fastest type, or as much elsewhere
    said_steps: Floats  # and its last step by its own word; 0 if it says none
    done: Bools
    gone: Bools  # a job that is done and was let go: its row stays until many such rows are dropped together

    allocated: Bools  # whether the present allocation knows the job
    share: Floats  # of its time, promised in all
    promised_s: Floats  # time promised so far
    held_s: Floats  # time received so far
    since_s: Floats  # its time is accounted for until then

    type: Ints  # the accelerator type that it holds, of a mix the first; or WAITING
    held_devices: Ints  # of that type; 0 while it waits
    paid_type: Ints  # it is charged for so many devices of this type: those that it had before, until it has
    paid_devices: Ints  # gone over to those that it holds
    held_batch: Ints  # samples in an update; 0: as submitted
    size_speed: Floats  # steps/s in the size that it has, if that is not its own; else 0
    partner: Ints  # the job id that it shares its devices with, or ALONE
    way: Ints  # the entitlement under which it runs, an index; or NO_WAY
    spread: Bools  # the devices sit in several servers
    lease: Ints  # the lease that it holds; else the last one, from which reports still count
    heard: Bools  # whether that lease has reported any progress
    lease_held_s: Floats  # how long that lease was held, as accounted
    launched_s: Floats
    stopped_s: Floats  # when it last gave its devices up, or came

    equal_share_s: Floats  # what an equal share would have taken for the steps done at the last solve
    equal_share_speed: Floats  # steps/s of an equal share, as of the last solve
    equal_share_usd: Floats  # the same in dollars; NaN where a price was not known, as below
    equal_share_usd_per_s: Floats
    spent_usd: Floats  # what the devices have cost that it held

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.index: dict[int, int] = {}
        self._owners: dict[str, int] = {}
        self._ids_rise = True  # as in most traces
        self.has_mixes = False  # whether a job ever held devices of several types
        self.has_untold = False  # whether there ever was a job of unknown length
        super().__init__()

    def __len__(self) -> int:
        return len(self.jobs)

    def add(
        self,
        job: Job,
        kind: int,
        throughput_A: Floats,
        spread_throughput_A: Floats,
        overhead: Overhead = NOTHING,
    ) -> int:
        """A job enters, last in order; its row. The columns show it after :meth:`show`."""
        self._ids_rise = self._ids_rise and (not self.jobs or job.id > self.jobs[-1].id)
        self.has_untold = self.has_untold or not job.has_length
        self.index[job.id] = len(self.jobs)
        self.jobs.append(job)
        return self.add_row(
            id=job.id,
            total_steps=job.total_steps,
            arrival_s=job.arrival_s,
            wanted_devices=job.scale_factor,
            least_devices=job.elastic.least if job.elastic else job.scale_factor,
            throughput=throughput_A,
            spread_throughput=spread_throughput_A,
            others=0,
            paid_others=0,
            elastic=job.elastic is not None,
            kind=kind,
            owner=self._owners.setdefault(job.owner, len(self._owners)),
            checkpoint_s=overhead.checkpoint_s,
            restart_s=overhead.restart_s,
            resize_s=np.nan if overhead.resize_s is None or job.elastic is None else overhead.resize_s,
            saves=job.checkpoints or job.preemptible == "yes",
            protected=job.preemptible == "no",
            type=WAITING,
            partner=ALONE,
            lease=ALONE,
            way=NO_WAY,
        )

    @property
    def count(self) -> int:
        """How many jobs there are: rows but those of jobs that are gone."""
        return len(self.index)

    def let_go(self) -> list[int]:
        """Jobs that are done are gone: their ids. What is asked of all rows is no concern of them any more."""
        rows = (self.done & ~self.gone).nonzero()[0]
        ids: list[int] = self.id[rows].tolist()
        for job_id in ids:
            del self.index[job_id]
        self.gone[rows] = True
        self.allocated[rows] = self.protected[rows] = False
        self.checkpoint_s[rows], self.arrival_s[rows] = 0.0, -np.inf
        return ids

    def drop_gone(self) -> Ints:
        """Forget their rows: the new row of each old one (-1 of those)."""
        gone = self.gone.nonzero()[0].tolist()
        for j in reversed(gone):
            del self.jobs[j]
        row_J = self.keep_rows(~self.gone)
        self.index.update(zip(self.id[gone[0] :].tolist(), range(gone[0], len(self)), strict=True))
        return row_J

    def rows(self, ids: Ints) -> Ints:
        """The rows of jobs with these ids; -1 of those that are not here."""
        if not len(self):
            return np.full(len(ids), -1)
        order = None if self._ids_rise else np.argsort(self.id)
        found, by_id = np.empty(len(ids), dtype=np.int64), ids.argsort()  # one is found near the one before it
        found[by_id] = np.minimum(self.id.searchsorted(ids[by_id], sorter=order), len(self) - 1)
        row = found if order is None else order[found]
        return np.where(self.id[row] == ids, row, -1)

    def speeds(self, devices: Sequence[int], rows: Ints | slice = slice(None)) -> Floats:
        """Steps/s, rows x A, on types of so many devices: 0 where it is unknown, or they are too few."""
        fits = self.wanted_devices[rows][:, None] <= np.array(devices, dtype=np.int64)
        return np.where(fits, np.fmax(self.throughput[rows], 0.0), 0.0)

    def pace(self, rows: Ints) -> Floats:
        """Steps/s of these running jobs, as far as known, each alone in the size that it has."""
        own: Floats = self.throughput[rows, self.type[rows]]
        in_size: Floats = self.size_speed[rows]
        return np.where(in_size > 0, in_size, own) if np.count_nonzero(in_size) else own

    def untold(self) -> Ints:
        """The rows of the jobs whose users did not say how long they are."""
        return np.flatnonzero(np.isinf(self.total_steps)) if self.has_untold else np.zeros(0, dtype=np.int64)

    def best_speed(self, rows: Ints) -> Floats:
        """Steps/s on the fastest type of each of these jobs; 1 where it runs nowhere, as far as known."""
        best: Floats = np.fmax.reduce(self.throughput[rows], axis=1, initial=0.0)
        return np.where(best > 0.0, best, 1.0)

    def mixed(self) -> Bools:
        """Which jobs hold devices of several types."""
        return np.asarray(self.others.any(axis=1)) if self.has_mixes else np.zeros(len(self), dtype=bool)

    def others_of(self, j: int) -> tuple[int, ...]:
        """Devices of each type that a job holds besides those of its first one; empty if there are none."""
        return tuple(self.others[j].tolist()) if self.has_mixes and self.others[j].any() else ()

    def uses_of(self, j: int) -> dict[int, int]:
        """Devices of each type that a job holds."""
        others = {a: devices for a, devices in enumerate(self.others_of(j)) if devices}
        return {int(self.type[j]): int(self.held_devices[j]), **others}

    def pays(self, j: int, paid: Paid | None = None) -> None:
        """The job is charged for these devices from now on; default: for those that it holds."""
        type_, devices, others = paid or self.held(j)
        self.paid_type[j], self.paid_devices[j] = type_, devices
        if self.has_mixes:
            self.paid_others[j] = others

    def held(self, j: int) -> Paid:
        """The type, the devices of it and those of other types that the job holds."""
        return int(self.type[j]), int(self.held_devices[j]), self.others[j].copy()

    def running(self) -> Bools:
        """Which jobs hold devices."""
        runs_J: Bools = self.type != WAITING
        return runs_J

    def holders(self) -> Ints:
        """The rows of those jobs."""
        return self.running().nonzero()[0]
