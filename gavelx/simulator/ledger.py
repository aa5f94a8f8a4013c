"""An independent ledger: what each device really did, kept outside the mechanism and checked against it.

It hears from the simulated machines only: a lease began on these devices, went on at that speed, ended. From that
it works out what was done and what it costs, and compares::

    no device in two leases (but those of a pair that shares it), no gang in part, nothing on a server that is gone
    steps credited <= steps done; who counts as complete has done all his steps, and is known to be
    lease time = busy + idle
    bill = lease time x price
    time does not go backwards

A breach raises :class:`LedgerError`, which is a fault of ours, never the user's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism.commands import Device, Lease

ROUNDING = 1e-6
"""Sums of floating-point seconds and steps agree to this, relative."""


class LedgerError(AssertionError):
    """The books do not add up."""


@dataclass(slots=True)
class Entry:
    """A lease that is held."""

    lease: Lease
    start_s: float
    pace: float
    since_s: float
    until_step: float
    busy_s: float = 0.0


class Ledger:
    """The books of one run. ``usd_s`` holds device-seconds by accelerator type and by who paid, for the bill."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.device_s: dict[str, float] = {}  # held, by accelerator type; a shared device counts once
        self.usd = 0.0
        self.usd_per_s: Callable[[str, float, float], float] = lambda accelerator, start_s, end_s: 0.0
        self._servers: dict[int, Server] = {}
        self._holders: dict[Device, list[Entry]] = {}
        self._held_since: dict[Device, float] = {}
        self._entries: dict[int, Entry] = {}  # by lease id
        self._steps: dict[int, float] = {}  # by job id, as of the entry's `since_s`
        self._furthest: dict[int, float] = {}  # by job id, before it fell back to a checkpoint
        self._lease_of: dict[int, int] = {}  # by job id

    # -- what happened ----------------------------------------------------------------------------------------

    def joined(self, server: Server) -> None:
        """A server has come up."""
        self._servers[server.id] = server

    def lost(self, server_id: int) -> None:
        """A server has gone down; nothing may be held on it any more."""
        self._servers.pop(server_id)
        if held := [device for device in self._holders if device.server_id == server_id]:
            raise self._breach(f"{held} held on a server that is gone")

    def started(self, time_s: float, lease: Lease, job: Job, pace: float) -> None:
        """A job holds the devices of a lease from now on, and does so many steps/s."""
        self._pass(time_s)
        devices, holders = lease.devices, self._holders
        if not len(devices) == len(set(devices)) == job.scale_factor:
            raise self._breach(f"gang in part: {lease}")
        if job.id in self._lease_of or lease.id in self._entries:
            raise self._breach(f"job {job.id} in two leases")
        entry = Entry(lease, time_s, pace, time_s, lease.until_step)
        for device in devices:
            server = self._servers.get(device.server_id)
            if server is None or device.slot >= server.device_count or server.accelerator != lease.accelerator:
                raise self._breach(f"there is no {device} of type {lease.accelerator}")
            if (held_by := holders.get(device)) is None:
                holders[device] = [entry]
                self._held_since[device] = time_s
                continue
            other = held_by[0].lease
            if len(held_by) > 1 or lease.shares_with != other.job_id or other.devices != devices:
                raise self._breach(f"{device} in leases {other.id} and {lease.id}")
            held_by.append(entry)
        self._entries[lease.id] = entry
        self._lease_of[job.id] = lease.id
        self._steps.setdefault(job.id, 0.0)

    def goes_on(self, time_s: float, lease_id: int, pace: float, until_step: float) -> None:
        """From now on the lease does so many steps/s, up to that step."""
        self._pass(time_s)
        entry = self._entries[lease_id]
        self._bring_up(entry)
        entry.pace, entry.until_step = pace, until_step

    def ended(self, time_s: float, lease_id: int, busy_s: float, safe_steps: float) -> None:
        """The devices are free; of what the job did so much is safe, and it says that it worked for so long."""
        self._pass(time_s)
        entry = self._entries.pop(lease_id)
        self._bring_up(entry)
        lease, job_id = entry.lease, entry.lease.job_id
        steps = self._steps[job_id]
        if not self._agree(busy_s, entry.busy_s):
            raise self._breach(f"lease {lease_id} says it was busy for {busy_s} s, and was for {entry.busy_s} s")
        if busy_s > (time_s - entry.start_s) * (1 + ROUNDING) + ROUNDING:
            raise self._breach(f"lease {lease_id} was busy for longer than it was held")
        if safe_steps > steps + ROUNDING * max(1.0, steps):
            raise self._breach(f"job {job_id}: {safe_steps} steps are called safe, and {steps} were done")
        if safe_steps < steps:
            self._furthest[job_id] = max(self._furthest.get(job_id, 0.0), steps)
        self._steps[job_id] = safe_steps
        del self._lease_of[job_id]
        for device in lease.devices:
            held_by = self._holders[device]
            if len(held_by) > 1:
                held_by.remove(entry)
                continue
            del self._holders[device]
            since_s = self._held_since.pop(device)
            self.device_s[lease.accelerator] = self.device_s.get(lease.accelerator, 0.0) + time_s - since_s
            self.usd += self.usd_per_s(lease.accelerator, since_s, time_s)

    # -- what is compared -------------------------------------------------------------------------------------

    def done(self, job_id: int) -> float:
        """Steps that the job has really done by now, at best: before it fell back, if it did."""
        if (lease_id := self._lease_of.get(job_id)) is not None:
            self._bring_up(self._entries[lease_id])
        return max(self._steps.get(job_id, 0.0), self._furthest.get(job_id, 0.0))

    def check_credit(self, time_s: float, credited: Mapping[int, float]) -> None:
        """Nobody is credited with steps that he has not done; ``credited`` is by job id."""
        self._pass(time_s)
        for job_id, steps in credited.items():
            if steps > (done := self.done(job_id)) + ROUNDING * max(1.0, done):
                raise self._breach(f"job {job_id} is credited with {steps} steps, and did {done}")

    def check_complete(self, complete: Mapping[int, float]) -> None:
        """Who counts as complete has done all his steps (``complete``: total steps by job id), and holds nothing."""
        for job_id, total_steps in complete.items():
            if total_steps > (done := self._steps.get(job_id, 0.0)) + ROUNDING * max(1.0, done):
                raise self._breach(f"job {job_id} counts as complete with {done} of {total_steps} steps")
            if job_id in self._lease_of:
                raise self._breach(f"job {job_id} is complete and holds devices")

    def check_bill(self, usd: float) -> None:
        """The bill is the time that devices were held times their price at the time."""
        if not self._agree(usd, self.usd):
            raise self._breach(f"the bill is ${usd}, and ${self.usd} by the ledger")

    def _bring_up(self, entry: Entry) -> None:
        """The steps done since the entry's last stretch began."""
        seconds, job_id = self.now_s - entry.since_s, entry.lease.job_id
        if entry.pace > 0 and seconds > 0:
            steps = self._steps[job_id]
            seconds = min(seconds, max(0.0, entry.until_step - steps) / entry.pace)
            self._steps[job_id] = min(steps + seconds * entry.pace, max(steps, entry.until_step))
            entry.busy_s += seconds
        entry.since_s = self.now_s

    def _pass(self, time_s: float) -> None:
        if time_s < self.now_s:
            raise self._breach(f"time went back to {time_s}")
        self.now_s = time_s

    def _agree(self, said: float, found: float) -> bool:
        return abs(said - found) <= ROUNDING * max(1.0, abs(found))

    def _breach(self, problem: str) -> LedgerError:
        return LedgerError(f"at {self.now_s:.3f} s: {problem}")
