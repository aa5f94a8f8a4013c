"""Leases that were given out and have not ended: who runs where, by what was commanded and reported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gavelx.mechanism.commands import Device, Lease
from gavelx.mechanism.stopped import Stopped


@dataclass(slots=True)
class LeasePart:
    """What of a lease is on one server; ``over`` when the server was lost, and the part with it."""

    server_id: int
    slots: tuple[int, ...]
    first_rank: int
    processes: int
    over: bool = False


@dataclass(slots=True)
class LeaseRecord:
    """A lease that was given out and has not reported its end; ``stopping`` if it was taken back.

    ``from_steps``: how far its job was, safely, when it was given out. ``stopped``: what was charged for it when
    it was taken back. ``continued_by``: the lease to which its job is to go over while it runs.

    ``generation`` counts the sizes that a job has had since its launch; ``numbers`` are those of its processes by
    rank, which they keep for life, and ``numbered`` how many were ever given. ``warm_s``: for how long those that
    joined got ready before the job went over to this lease. ``parts_of_rank`` are the parts of the job that each
    process computes, where its devices are of several types.
    """

    lease: Lease
    parts: list[LeasePart]
    from_steps: float = 0.0
    stopping: bool = False
    stopped: Stopped | None = None
    continued_by: int | None = None
    generation: int = 0
    numbers: list[int] = field(default_factory=list)
    numbered: int = 0
    warm_s: float = 0.0
    parts_of_rank: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.numbers:
            self.begin_anew()

    def begin_anew(self) -> None:
        """Its processes are launched, whatever the lease was to continue."""
        self.generation, self.numbered = 0, self.world_size
        self.numbers = list(range(self.numbered))

    @property
    def world_size(self) -> int:
        return sum([part.processes for part in self.parts])

    @property
    def counts_processes(self) -> bool:
        """Whether each device has a process of ours; else the command starts its own."""
        return all(part.processes == len(part.slots) for part in self.parts)

    @property
    def gives_up(self) -> bool:
        """Whether some or all of its devices are another lease's as soon as nothing of it runs there."""
        return self.stopping or self.continued_by is not None

    def numbers_on(self, part: LeasePart) -> list[int]:
        """The numbers of the processes of a part of it."""
        return self.numbers[part.first_rank : part.first_rank + part.processes]

    def number_of_device(self) -> dict[Device, int]:
        """The number of the process on each device, by rank; only where each device has a process."""
        devices = [Device(part.server_id, slot) for part in self.parts for slot in part.slots]
        return dict(zip(devices, self.numbers, strict=True))

    def held_s(self, said_s: Mapping[int, float], took_s: float = 0.0) -> float:
        """For how long it was held: that of the server that held it longest, by what each says.

        Rank 0 knows when the job went over to it. On other servers it may have been held before, for ``warm_s``
        while processes got ready, and for no longer than all took to go over, ``took_s``.
        """
        first, before_s = self.parts[0].server_id, max(self.warm_s, took_s)
        return max([0.0, *(held_s - (i != first) * before_s for i, held_s in said_s.items())])

    def on(self, server_id: int) -> LeasePart | None:
        """Its part on this server."""
        return next((part for part in self.parts if part.server_id == server_id), None)


class LeaseTable(Mapping[int, LeaseRecord]):
    """By lease id, in order; also by server and by job, as there are thousands and each agent asks for its own."""

    def __init__(self) -> None:
        self._runs: dict[int, LeaseRecord] = {}
        self._on: dict[int, dict[int, LeaseRecord]] = {}
        self._of: dict[int, dict[int, LeaseRecord]] = {}

    def __getitem__(self, lease_id: int) -> LeaseRecord:
        return self._runs[lease_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def on(self, server_id: int) -> Mapping[int, LeaseRecord]:
        """Those of which a part is on this server, and not over."""
        return self._on.get(server_id, {})

    def of(self, job_id: int) -> dict[int, LeaseRecord]:
        """Those of a job: one, and before it those that were taken back and have not ended."""
        return self._of.get(job_id, {})

    def latest_of(self, job_id: int) -> LeaseRecord | None:
        """What counts of a job."""
        return next(reversed(self.of(job_id).values()), None)

    def add(self, run: LeaseRecord) -> None:
        lease_id = run.lease.id
        self._runs[lease_id] = run
        self._of.setdefault(run.lease.job_id, {})[lease_id] = run
        for part in run.parts:
            self._on.setdefault(part.server_id, {})[lease_id] = run

    def end(self, lease_id: int) -> LeaseRecord | None:
        """It has ended everywhere; None if it was over already."""
        if (run := self._runs.pop(lease_id, None)) is None:
            return None
        for part in run.parts:
            self._on.get(part.server_id, {}).pop(lease_id, None)
        of_job = self._of[run.lease.job_id]
        del of_job[lease_id]
        if not of_job:
            del self._of[run.lease.job_id]
        return run

    def lose(self, server_id: int) -> list[LeaseRecord]:
        """Nothing runs on this server any more. Leases of which every part is gone have ended without a word."""
        gone = []
        for lease_id, run in self._on.pop(server_id, {}).items():
            part = run.on(server_id)
            assert part is not None
            part.over = True
            if all(part.over for part in run.parts):
                self.end(lease_id)
                gone.append(run)
        return gone
