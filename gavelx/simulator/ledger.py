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
        self._holders: dict[Device, dict[int, Entry]] = {}
        self._held_since: dict[Device, float] = {}
        self._entries: dict[int, Entry] = {}  # by lease id
        self._steps: dict[int, float] = {}  # by job id, as of the entry's `since_s`
        self._furthest: dict[int, float] = {}  # by job id, before it fell back to a checkpoint
        self._lease_of: dict[int, int] = {}  # by job id
        self._total: dict[int, float] = {}

    # -- what happened ----------------------------------------------------------------------------------------

    def joined(self, server: Server) -> None:
        """A server has come up."""
        self._servers[server.id] = server

    def lost(self, server_id: int) -> None:
        """A server has gone down; nothing may be held on it any more."""
        self._servers.pop(server_id)
        held = [device for device, holders in self._holders.items() if device.server_id == server_id and holders]
        self._require(not held, f"{held} held on a server that is gone")

    def started(self, time_s: float, lease: Lease, job: Job) -> None:
        """A job holds the devices of a lease from now on."""
        self._pass(time_s)
        self._require(len(set(lease.devices)) == len(lease.devices) == job.scale_factor, f"gang in part: {lease}")
        self._require(job.id not in self._lease_of, f"job {job.id} in two leases")
        self._require(lease.id not in self._entries, f"lease {lease.id} twice")
        entry = Entry(lease, time_s, 0.0, time_s, lease.until_step)
        for device in lease.devices:
            server = self._servers.get(device.server_id)
            there = server is not None and device.slot < server.device_count
            self._require(there and server is not None and server.accelerator == lease.accelerator, f"no {device}")
            holders = self._holders.setdefault(device, {})
            for other in holders.values():
                paired = lease.shares_with == other.lease.job_id and other.lease.devices == lease.devices
                self._require(paired and len(holders) == 1, f"{device} in leases {other.lease.id} and {lease.id}")
            if not holders:
                self._held_since[device] = time_s
            holders[lease.id] = entry
        self._entries[lease.id] = entry
        self._lease_of[job.id], self._total[job.id] = lease.id, job.total_steps
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
        held_s = time_s - entry.start_s
        self._agree(busy_s, entry.busy_s, f"busy seconds of lease {lease_id}")
        self._require(busy_s <= held_s * (1 + ROUNDING) + ROUNDING, f"lease {lease_id} was busy longer than held")
        self._at_most(safe_steps, self._steps[job_id], f"safe steps of job {job_id}")
        self._furthest[job_id] = max(self._furthest.get(job_id, 0.0), self._steps[job_id])
        self._steps[job_id] = safe_steps
        del self._lease_of[job_id]
        for device in lease.devices:
            del self._holders[device][lease_id]
            if not self._holders[device]:
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
            self._at_most(steps, self.done(job_id), f"credit of job {job_id}")

    def check_complete(self, complete: Mapping[int, float]) -> None:
        """Who counts as complete has done all his steps (``complete``: total steps by job id), and holds nothing."""
        for job_id, total_steps in complete.items():
            self._at_most(
                total_steps, self._steps.get(job_id, 0.0), f"steps of job {job_id}, which counts as complete"
            )
            self._require(job_id not in self._lease_of, f"job {job_id} is complete and holds devices")

    def check_bill(self, usd: float) -> None:
        """The bill is the time that devices were held times their price at the time."""
        self._agree(usd, self.usd, "the bill")

    def _bring_up(self, entry: Entry) -> None:
        """The steps done since the entry's last stretch began."""
        job_id, left = entry.lease.job_id, 0.0
        left = max(0.0, entry.until_step - self._steps[job_id])
        seconds = self.now_s - entry.since_s
        if entry.pace > 0 and seconds > 0:
            seconds = min(seconds, left / entry.pace)
            self._steps[job_id] = min(self._steps[job_id] + seconds * entry.pace, entry.until_step)
            entry.busy_s += seconds
        entry.since_s = self.now_s

    def _pass(self, time_s: float) -> None:
        self._require(time_s >= self.now_s, f"time went back from {self.now_s} to {time_s}")
        self.now_s = time_s

    def _at_most(self, less: float, more: float, what: str) -> None:
        self._require(less <= more + ROUNDING * max(1.0, abs(more)), f"{what}: {less!r}, and {more!r} were done")

    def _agree(self, said: float, found: float, what: str) -> None:
        near = abs(said - found) <= ROUNDING * max(1.0, abs(found))
        self._require(near, f"{what}: {said!r} is said, {found!r} was found")

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise LedgerError(f"at {self.now_s:.3f} s: {problem}")
