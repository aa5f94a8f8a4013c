"""An independent ledger: what each device really did, kept outside the mechanism and checked against it.

It hears from the simulated machines only: a lease began on these devices, went on at that speed, ended. From that
it works out what was done and what it costs, and compares::

    no device in two leases (but those of a pair that shares it), no gang in part, nothing on a server that is gone
    steps credited <= steps done; a job that counts as complete has done all its steps
    of a job without checkpoints nothing is safe before its end
    lease time = busy + idle
    bill = lease time x price
    time does not go backwards

A breach raises :class:`LedgerError`, which is a fault of ours, never the user's.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, ulp

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism.commands import Device, Lease
from gavelx.prices import Prices

ROUNDING = 1e-6
"""Sums of floating-point seconds and steps agree to this, relative."""


class LedgerError(AssertionError):
    """The books do not add up."""


def usd_between(prices: Prices, changes: Sequence[tuple[float, Prices]]) -> Callable[[str, float, float], float]:
    """Dollars for one device of a type from a time to another: the integral of its price.

    NaN where its price is not known all the time. ``changes`` are times, in order, and the prices from then on.
    """
    from_s = [0.0, *(time_s for time_s, _ in changes)]
    until_s = [*from_s[1:], float("inf")]
    tariffs = [prices, *(later for _, later in changes)]

    def usd(accelerator: str, start_s: float, end_s: float) -> float:
        if not changes:
            return (end_s - start_s) * prices.of(accelerator) / 3600.0 if end_s > start_s else 0.0
        first, last = max(0, bisect_right(from_s, start_s) - 1), bisect_right(from_s, end_s)
        held_s = [min(end_s, until_s[k]) - max(start_s, from_s[k]) for k in range(first, last)]
        return sum(
            seconds * tariffs[k].of(accelerator) / 3600.0 for k, seconds in enumerate(held_s, first) if seconds > 0
        )

    return usd


NO_TARIFF = usd_between(Prices({}), ())


@dataclass(slots=True)
class Entry:
    """A lease that is held."""

    lease: Lease
    start_s: float
    pace: float
    since_s: float
    until_step: float
    from_steps: float
    checkpoints: bool
    busy_s: float = 0.0


class Ledger:
    """The books of one run; ``tariff`` says what a device costs from a time to another."""

    def __init__(self, tariff: Callable[[str, float, float], float] = NO_TARIFF) -> None:
        self.now_s = 0.0
        self.device_s: dict[str, float] = {}  # held, by accelerator type; a shared device counts once
        self.usd_by_type: dict[str, float] = {}  # NaN where a price was not known
        self.lost_device_s = 0.0  # in which steps were done that are lost
        self.failures: Counter[int] = Counter()  # by job id, how often it died by itself
        self._tariff = tariff
        self.servers: dict[int, Server] = {}
        self._up: list[tuple[Server, float]] = []  # and when it came up
        self._gone: list[tuple[Server, float]] = []
        self._holders: dict[Device, list[Entry]] = {}
        self._held_since: dict[Device, float] = {}
        self._entries: dict[int, Entry] = {}  # by lease id
        self._reserved: dict[int, tuple[Device, ...]] = {}  # by lease id, held for jobs that will go over to them
        self._steps: dict[int, float] = {}  # by job id, as of the entry's `since_s`
        self._furthest: dict[int, float] = {}  # by job id, before it fell back to a checkpoint
        self._lease_of: dict[int, int] = {}  # by job id
        self._total: dict[int, float] = {}

    # -- what happened ----------------------------------------------------------------------------------------

    def joined(self, server: Server, time_s: float = 0.0) -> None:
        """A server has come up."""
        self.servers[server.id] = server
        self._up.append((server, time_s))

    def lost(self, server_id: int, time_s: float = 0.0) -> None:
        """A server has gone down; nothing may be held on it any more."""
        self._gone.append((self.servers.pop(server_id), time_s))
        held = [device for device in self._holders if device.server_id == server_id]
        self.require(not held, f"{held} held on a server that is gone")

    def offers(self, server_id: int, devices: int, time_s: float) -> None:
        """A server lends its first so many devices from now on; nothing may be held on the others any more."""
        before = self.servers[server_id]
        self.servers[server_id] = replace(before, device_count=devices)
        change = replace(before, device_count=abs(devices - before.device_count))
        (self._up if devices > before.device_count else self._gone).append((change, time_s))
        held = [d for d in self._holders if d.server_id == server_id and d.slot >= devices]
        self.require(not held, f"{held} held, and not lent any more")

    def started(self, time_s: float, lease: Lease, job: Job, pace: float = 0.0) -> None:
        """A job holds the devices of a lease from now on, and does so many steps/s."""
        self._pass(time_s)
        self._check_gang(lease, job)
        devices, holders = lease.devices, self._holders
        if job.id in self._lease_of or lease.id in self._entries:
            raise self.breach(f"job {job.id} in two leases")
        steps = self._steps.setdefault(job.id, 0.0)
        entry = Entry(lease, time_s, pace, time_s, lease.until_step, steps, job.checkpoints)
        for device in devices:
            self._check_device(device, lease)
            if (held_by := holders.get(device)) is None:
                holders[device] = [entry]
                self._held_since[device] = time_s
                continue
            other = held_by[0].lease
            known = lease.shares_with == other.job_id or other.shares_with == job.id
            if len(held_by) > 1 or not known or other.devices != devices:
                raise self.breach(f"{device} in leases {other.id} and {lease.id}")
            held_by.append(entry)
        self._entries[lease.id] = entry
        self._lease_of[job.id], self._total[job.id] = lease.id, job.total_steps

    def _check_gang(self, lease: Lease, job: Job) -> None:
        """The job has as many devices as its lease says, and as it can run on."""
        devices, least, most = len(lease.devices), job.scale_factor, job.scale_factor
        if devices != lease.configuration.devices_in_all or (devices > 1 and len(set(lease.devices)) < devices):
            raise self.breach(f"gang in part: {lease}")
        if lease.configuration.others:
            self._check_mix(lease, job)
        if job.elastic is not None:
            least, most = job.elastic.least, job.elastic.most
        if not least <= devices <= most:
            raise self.breach(f"gang in part: job {job.id} runs on {least} to {most} devices, {lease}")

    def _check_mix(self, lease: Lease, job: Job) -> None:
        """The job has as many devices of each type as its lease says, and may be on several types at once."""
        held = Counter(self.servers[d.server_id].accelerator for d in lease.devices if d.server_id in self.servers)
        if job.elastic is None or not job.elastic.mixed or held != dict(lease.configuration.uses):
            raise self.breach(f"job {job.id} on {dict(held)}, {lease}")

    def _check_device(self, device: Device, lease: Lease) -> None:
        server, types = self.servers.get(device.server_id), dict(lease.configuration.uses)
        if server is None or device.slot >= server.device_count or server.accelerator not in types:
            raise self.breach(f"there is no {device} of type {' or '.join(sorted(types))}")

    def reserved(self, time_s: float, lease: Lease, devices: tuple[Device, ...]) -> None:
        """Devices of a lease that continues another get ready for its job."""
        self._pass(time_s)
        entry = Entry(lease, time_s, 0.0, time_s, 0.0, 0.0, checkpoints=True)
        for device in devices:
            self._check_device(device, lease)
            if device in self._holders:
                raise self.breach(f"{device} in leases {self._holders[device][0].lease.id} and {lease.id}")
            self._holders[device], self._held_since[device] = [entry], time_s
        self._reserved[lease.id] = devices

    def released(self, time_s: float, lease: Lease) -> None:
        """Devices that got ready are free: their job will not go over to them."""
        self._pass(time_s)
        for device in self._reserved.pop(lease.id):
            self._free(device)

    def gone_over(self, time_s: float, lease: Lease, job: Job, busy_s: float) -> None:
        """The job has gone over to this lease from the one that it continues, which was busy for so long.

        No step is lost, and none done twice. What both have stays held all the time.
        """
        assert lease.continues is not None
        self._pass(time_s)
        self._check_gang(lease, job)
        before = self._entries.pop(lease.continues)
        self._bring_up(before)
        if not self._agree(busy_s, before.busy_s, unseen=4 * ulp(time_s)):
            raise self.breach(f"lease {before.lease.id} says it was busy for {busy_s} s, not {before.busy_s} s")
        new, kept = set(self._reserved.pop(lease.id)), set(lease.devices) & set(before.lease.devices)
        if before.lease.job_id != job.id or new | kept != set(lease.devices):
            raise self.breach(f"{lease} goes over from {before.lease} with {new}")
        steps = self._steps[job.id]
        entry = Entry(lease, time_s, 0.0, time_s, steps, steps, job.checkpoints)
        for device in before.lease.devices:
            if device not in kept:
                self._free(device)
        for device in lease.devices:
            self._holders[device] = [entry]
        self._entries[lease.id], self._lease_of[job.id] = entry, lease.id

    def _free(self, device: Device) -> None:
        """No job holds the device any more, and what it cost is known."""
        del self._holders[device]
        name, since_s = self.servers[device.server_id].accelerator, self._held_since.pop(device)
        self.device_s[name] = self.device_s.get(name, 0.0) + self.now_s - since_s
        self.usd_by_type[name] = self.usd_by_type.get(name, 0.0) + self._tariff(name, since_s, self.now_s)

    def goes_on(self, time_s: float, lease_id: int, pace: float, until_step: float) -> None:
        """From now on the lease does so many steps/s, up to that step."""
        self._pass(time_s)
        entry = self._entries[lease_id]
        self._bring_up(entry)
        entry.pace, entry.until_step = pace, until_step

    def ended(
        self, time_s: float, lease_id: int, busy_s: float, safe_steps: float, *, failed: bool = False
    ) -> None:
        """The devices are free; of what the job did so much is safe, and it says that it worked for so long."""
        self._pass(time_s)
        entry = self._entries.pop(lease_id)
        self._bring_up(entry)
        lease, job_id = entry.lease, entry.lease.job_id
        steps = self._steps[job_id]
        unseen_s = 4 * ulp(time_s)  # a time too short for the clock
        if not self._agree(busy_s, entry.busy_s, unseen=unseen_s):
            raise self.breach(f"lease {lease_id} says it was busy for {busy_s} s, and was for {entry.busy_s} s")
        if busy_s > (time_s - entry.start_s) * (1 + ROUNDING) + ROUNDING:
            raise self.breach(f"lease {lease_id} was busy for longer than it was held")
        if safe_steps > steps and safe_steps > steps + ROUNDING * max(1.0, steps) + entry.pace * unseen_s:
            raise self.breach(f"job {job_id}: {safe_steps} steps are called safe, and {steps} were done")
        if not entry.checkpoints and 0.0 < safe_steps < self._total[job_id]:
            raise self.breach(f"job {job_id} writes no checkpoints, and {safe_steps} steps are called safe")
        if safe_steps < steps:
            self._furthest[job_id] = max(self._furthest.get(job_id, 0.0), steps)
            self.lost_device_s += self._lost_s(entry, steps, safe_steps) * len(lease.devices)
        self._steps[job_id] = safe_steps
        if failed:
            self.failures[job_id] += 1
        del self._lease_of[job_id]
        for device in lease.devices:
            held_by = self._holders[device]
            if len(held_by) > 1:
                held_by.remove(entry)
            else:
                self._free(device)

    @staticmethod
    def _lost_s(entry: Entry, steps: float, safe_steps: float) -> float:
        """Of the time in which the lease did steps, the part in which it did those that are lost."""
        done = steps - entry.from_steps
        return entry.busy_s * min(1.0, (steps - safe_steps) / done) if done > 0 else 0.0

    def available_s(self, accelerator: str, end_s: float) -> float:
        """For how long devices of a type were there, held or not, until the end of the run; in device-seconds."""
        return sum(
            sign * server.device_count * max(0.0, end_s - time_s)
            for sign, times in ((1, self._up), (-1, self._gone))
            for server, time_s in times
            if server.accelerator == accelerator
        )

    # -- what is compared -------------------------------------------------------------------------------------

    def holds(self, lease_id: int) -> bool:
        """Whether this lease holds its devices now."""
        return lease_id in self._entries

    def stands(self, job_id: int) -> float:
        """Steps that the job has behind it now: done since its last checkpoint, or in there."""
        if (lease_id := self._lease_of.get(job_id)) is not None:
            self._bring_up(self._entries[lease_id])
        return self._steps.get(job_id, 0.0)

    def done(self, job_id: int) -> float:
        """Steps that the job has ever done, at best: before it fell back, if it did."""
        return max(self.stands(job_id), self._furthest.get(job_id, 0.0))

    def check_credit(self, time_s: float, credited: Mapping[int, float]) -> None:
        """No job is credited with steps that it has not done; ``credited`` is by job id."""
        self._pass(time_s)
        for job_id, steps in credited.items():
            self.at_most(steps, self.done(job_id), f"credit of job {job_id}")

    def check_complete(self, complete: Mapping[int, float]) -> None:
        """Complete jobs have done all their steps and hold nothing, and a job that has done them is complete.

        ``complete``: total steps by job id.
        """
        for job_id, total_steps in complete.items():
            done = self._steps.get(job_id, 0.0)
            self.at_most(total_steps, done, f"steps of job {job_id}, which counts as complete")
            self.require(job_id not in self._lease_of, f"job {job_id} is complete and holds devices")
        for job_id, steps in self._steps.items():
            known = job_id in complete or job_id in self._lease_of or steps < self._total[job_id]
            self.require(known, f"job {job_id} has done all its steps, and the scheduler does not know")

    @property
    def usd(self) -> float:
        """What all devices have cost; NaN where a price was not known."""
        return sum(self.usd_by_type.values())

    def check_bill(self, usd: float) -> None:
        """The bill is the time that devices were held times their price at the time."""
        self.require(self._agree(usd, self.usd), f"the bill is ${usd}, and ${self.usd} by the ledger")

    def check_bill_by_type(self, usd: Mapping[str, float]) -> None:
        """The same of each accelerator type; NaN is what has no known price."""
        for name, amount in usd.items():
            found = self.usd_by_type.get(name, 0.0)
            self.require(self._agree(amount, found), f"{name} cost ${amount}, and ${found} by the ledger")

    def _bring_up(self, entry: Entry) -> None:
        """The steps done since the entry's last stretch began."""
        seconds, job_id = self.now_s - entry.since_s, entry.lease.job_id
        if entry.pace > 0 and seconds > 0:
            steps = self._steps[job_id]
            until_step = entry.until_step if entry.until_step > steps else steps
            seconds = min(seconds, (until_step - steps) / entry.pace)
            self._steps[job_id] = min(steps + seconds * entry.pace, until_step)
            entry.busy_s += seconds
        entry.since_s = self.now_s

    def _pass(self, time_s: float) -> None:
        if time_s < self.now_s:
            raise self.breach(f"time went back to {time_s}")
        self.now_s = time_s

    def at_most(self, less: float, more: float, what: str) -> None:
        """Raise unless so little is said where so much was done."""
        self.require(less <= more + ROUNDING * max(1.0, abs(more)), f"{what}: {less!r}, and {more!r} were done")

    def require(self, holds: bool, problem: str) -> None:
        """Raise with the problem, and its time, unless all is well."""
        if not holds:
            raise self.breach(problem)

    def breach(self, problem: str) -> LedgerError:
        """What is wrong, and when."""
        return LedgerError(f"at {self.now_s:.3f} s: {problem}")

    def _agree(self, said: float, found: float, *, unseen: float = 0.0) -> bool:
        if said == found:
            return True
        if isnan(said) or isnan(found):
            return isnan(said) and isnan(found)
        return abs(said - found) <= ROUNDING * max(1.0, abs(found)) + unseen
