"""Who held which devices, and when: the story of a run, told from the events that happened and the commands they
brought.

Simulated or real, it is the same story, so the same questions can be put to it. Feed it each event with the
commands that the mechanism answered.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from gavelx.mechanism.commands import Command, Launch, Lease, Resize, Stop
from gavelx.mechanism.events import (
    Event,
    LeaseEnded,
    Progress,
    Resized,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)


@dataclass(slots=True)
class Held:
    """One lease: from ``start_s`` to ``end_s`` its job held the devices, and then ``steps_done`` were safe.

    ``end_s`` is infinite while it is held. It was given out at ``launched_s``, and a launch takes a while:
    ``start_s`` is the end less the time that was reported as held. ``stopped``: it was taken back. ``lost``: a
    server of it was, and no report came; then ``start_s`` is when its devices were free and its job had stopped.
    ``over_s``: by when it had ended on each lost server. When all are lost, it ended with the last of them.
    ``resized``: its job went over to another lease, without a restart. ``warm_s``: for how long those of its
    devices that the one before did not have were held before it began.

    ``free_s``: since when its devices were free, and its job had stopped; ``said_s``: the time reported as held.
    """

    lease: Lease
    launched_s: float
    start_s: float
    end_s: float = inf
    steps_done: float = 0.0
    stopped: bool = False
    failed: bool = False
    lost: bool = False
    resized: bool = False
    warm_s: float = 0.0
    free_s: float = 0.0
    said_s: float = 0.0
    over_s: dict[int, float] = field(default_factory=dict)

    def ended(self, time_s: float, held_s: float, steps_done: float) -> None:
        """It ended then, by a report that says for how long it was held."""
        self.said_s, self.end_s, self.steps_done = held_s, time_s, steps_done
        self.start_s = max(self.free_s, time_s - held_s)

    @property
    def held_s(self) -> float:
        return self.end_s - self.start_s

    def waits_for(self, other: "Held") -> bool:
        """Whether another lease, given out before, has to end first: on the same devices, or of the same job."""
        mine, its = self.lease, other.lease
        if mine.shares_with == its.job_id or its.shares_with == mine.job_id:
            return False
        return its.id < mine.id and (its.job_id == mine.job_id or not set(its.devices).isdisjoint(mine.devices))

    @property
    def servers(self) -> set[int]:
        return {device.server_id for device in self.lease.devices}


class History:
    """All leases of a run, in the order of their launch; ``drained_s`` is when a server was to have no more."""

    def __init__(self) -> None:
        self.by_id: dict[int, Held] = {}
        self.drained_s: dict[int, float] = {}  # by server id
        self._saved_steps: dict[int, float] = {}  # by job id
        self._open: dict[int, Held] = {}  # by lease id, those that have not ended
        self._unheard: dict[int, Held] = {}  # and those that lost a server, and reported nothing since

    @property
    def leases(self) -> tuple[Held, ...]:
        return tuple(self.by_id.values())

    def of(self, job_id: int) -> list[Held]:
        """The leases of one job."""
        return [held for held in self.by_id.values() if held.lease.job_id == job_id]

    def note(self, event: Event, commands: Iterable[Command]) -> None:
        """An event happened, and these commands are the answer to it."""
        match event:
            case LeaseEnded():
                self._ended(event)
            case Resized():
                before = self.by_id[event.before_id]
                if before.end_s == inf:
                    self._ends(before, event.time_s, event.held_s, event.steps_done)
                    before.resized = True
                    self._is_free(before, event.time_s)
                    after = self.by_id[event.lease_id]
                    after.start_s, after.warm_s = event.time_s, event.warm_s
            case Progress():
                for job_id, saved in zip(event.job_id_L.tolist(), event.saved_steps_L.tolist(), strict=True):
                    self._saved_steps[job_id] = max(saved, self._saved_steps.get(job_id, 0.0))
            case WorkerDrained():
                self.drained_s.setdefault(event.server_id, event.time_s)
            case WorkerLost():
                self._gone(event.server_id, event.time_s, event.over_s)
            case WorkerJoined():
                self.drained_s.pop(event.server.id, None)
                self._gone(event.server.id, event.time_s, event.time_s)
        for command in commands:
            if isinstance(command, Launch | Resize):
                held = Held(command.lease, event.time_s, event.time_s, free_s=event.time_s)
                self.by_id[command.lease.id] = self._open[command.lease.id] = held
            elif isinstance(command, Stop):
                self.by_id[command.lease_id].stopped = True

    def _ended(self, event: LeaseEnded) -> None:
        """The first report counts; of a gang that lost a server, the one of those who are left."""
        held = self.by_id[event.lease_id]
        if held.end_s < inf and not held.lost:
            return
        self._ends(held, event.time_s, event.held_s, event.steps_done)
        held.failed, held.lost = event.failed, False
        self._saved_steps[event.job_id] = event.steps_done
        self._is_free(held, event.time_s)

    def _is_free(self, held: Held, time_s: float) -> None:
        """Those that waited for the devices of a lease may begin."""
        self._open.pop(held.lease.id, None)
        self._unheard.pop(held.lease.id, None)
        for other in self._open.values():
            if other.waits_for(held):
                other.start_s = other.free_s = time_s

    def _ends(self, held: Held, time_s: float, held_s: float, steps_done: float) -> None:
        """A lease ended. One that it continued ended when it began, which was before we heard of it."""
        held.ended(time_s, held_s, steps_done)
        before = None if held.lease.continues is None else self.by_id.get(held.lease.continues)
        if before is not None and before.resized:
            held.start_s = time_s - held_s
            self._ends(before, min(before.end_s, held.start_s), before.said_s, before.steps_done)

    def _gone(self, server_id: int, time_s: float, over_s: float) -> None:
        gone = [held for held in self._open.values() if server_id in held.servers]
        for held in gone:
            if any(held.waits_for(other) for other in self._open.values()):
                held.start_s = time_s  # it never began
            held.end_s, held.lost = time_s, True
            held.steps_done = self._saved_steps.get(held.lease.job_id, 0.0)
        for held in gone:
            self._unheard[held.lease.id] = self._open.pop(held.lease.id)
        for held in self._unheard.values():
            if server_id in held.servers - held.over_s.keys():
                held.over_s[server_id] = over_s
                if held.over_s.keys() == held.servers:
                    held.end_s = max(held.start_s, min(held.end_s, max(held.over_s.values())))
