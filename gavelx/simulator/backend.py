"""The simulated cluster: a backend in virtual time.

It knows what each job really does (its steps, its speed) and reports it, as workers would; it takes no
decisions. What goes wrong comes from `faults`; what devices really did goes into the `ledger`.
"""

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from gavelx.cluster import Cluster, Server
from gavelx.jobs import Job
from gavelx.measurements import Way
from gavelx.mechanism.commands import (
    Command,
    Device,
    Extend,
    GiveUp,
    Launch,
    Lease,
    Resize,
    Stop,
    WakeAt,
)
from gavelx.mechanism.events import (
    Allocated,
    ArrivalsEnded,
    Event,
    JobCancelled,
    JobSubmitted,
    LeaseEnded,
    PriceChanged,
    Resized,
    ServerOffers,
    Wake,
    WorkerLost,
)
from gavelx.mechanism.rules import DEFAULT, Rules
from gavelx.mixes import setting_of, speed_on
from gavelx.overheads import Overhead
from gavelx.prices import Prices
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.faults import NO_FAULTS, Chance, Faults
from gavelx.simulator.ledger import Ledger
from gavelx.simulator.recorder import Recorder
from gavelx.simulator.runs import Run, Stretches
from gavelx.simulator.servers import OF_SERVERS, Heard, Servers
from gavelx.sizes import OWN_BATCH, speed
from gavelx.throughputs import Pairing, Setting, Size, Throughputs

FREED, HAPPENS, WAKES = range(3)
"""What comes first among things at the same time: devices fall free, things happen, then decisions are taken."""
OUTAGES = ("_lose", "_notice", "_lend_notice", "_devices_change")
NEVER_S = 1e15
"""Between two checkpoints of a job that writes none."""
MEASURED_AGAIN_S = 300.0
"""A lease that goes on measures its speed so often, as on a cluster (`gavelx.service.agents.timing`)."""
IN_VAIN = 2000
"""After so many leases in a row with which no job got any further, none will: a run ends then."""


@dataclass(slots=True)
class Resizing:
    """A job that is to go over from the lease ``before``, whose ``new`` devices get ready since ``since_s``."""

    lease: Lease
    before: Lease
    new: tuple[Device, ...]
    since_s: float | None = None
    logged_s: float = 0.0
    void: bool = False  # it lost a server, and waits to be stopped


@dataclass
class SimulatedCluster:
    """Runs ``jobs`` on ``cluster`` in virtual time, at the speeds of ``throughputs``.

    It ends when nothing can happen any more or, with ``measured`` positions among the jobs, as soon as all of
    those are complete. ``jobs`` may be endless if some are measured;
    they must come in order of arrival. ``price_changes`` are times and the prices from then on. Of types with a
    series in ``capacities`` servers come and go, or some of their devices; servers that come and go do not fail by
    ``faults`` as well. ``ran`` is told how a lease goes, how fast (steps/s) and for how long (s) since it was told
    last: at its end, and at ends of rounds while it goes on. With ``hide_lengths`` the scheduler is not told how
    many steps a job has: the job says that it is complete.
    """

    jobs: Iterable[Job]
    cluster: Cluster
    throughputs: Throughputs
    rules: Rules = DEFAULT
    measured: range | None = None
    faults: Faults = NO_FAULTS
    price_changes: Sequence[tuple[float, Prices]] = ()
    capacities: Sequence[Capacity] = ()
    now_s: float = 0.0
    submitted: list[Job] = field(default_factory=list)
    recorder: Recorder = field(default_factory=Recorder)
    ledger: Ledger = field(default_factory=Ledger)
    ran: Callable[[Way, float, float], None] | None = None
    hide_lengths: bool = False

    def __post_init__(self) -> None:
        self._chance = Chance(self.faults)
        self._overheads = self.faults.overheads or self.rules.overheads
        self._arrivals: Iterator[Job] | None = iter(self.jobs)
        self._missing = len(self.measured) if self.measured is not None else -1
        self._measured_ids: set[int] = set()
        self._running: dict[int, Run] = {}  # by lease id
        self._stretches = Stretches()  # of those
        self._waiting: dict[int, Lease] = {}  # for devices or a checkpoint that are not free yet
        self._closing: dict[int, Run] = {}  # they write a checkpoint
        self._resizing: dict[int, Resizing] = {}  # by the lease that the job is in until it goes over
        self._on: dict[Device, list[int]] = {}  # leases that hold a device
        self._safe_steps: dict[int, float] = {}  # by job id, those in the last checkpoint
        self._lease_of: dict[int, int] = {}  # by job id, the lease that it runs in or leaves
        self._job: dict[int, Job] = {}  # those that are neither complete nor given up, by id
        self._on_their_way: list[Event] = []  # reports that have not arrived yet
        self._in_vain = 0  # leases in a row that ended with no more saved than before
        self._servers, self._heard = Servers(), Heard()
        self._away: dict[int, Server] = {}  # those that will come back with the capacity of their type
        self._queue: list[tuple[float, int, int, Any]] = []
        self._posted: deque[Event] = deque()
        self._sequence = count()
        self._spot = {each.accelerator for each in self.capacities if each.of == "servers"}
        self._lent = {each.accelerator: (each, 1.0) for each in self.capacities if each.of == "devices"}
        self._spread: set[int] = set()  # leases of gangs over more servers than they need, of those
        self._wakes: dict[float, bool] = {}  # when, and whether with a report
        self._lapse_s = float("inf")
        for server in self.cluster.servers:
            self._join(server)
        for capacity in self.capacities:
            self._next_change(capacity, capacity.changes())
        for time_s, prices in self.price_changes:
            self._push(time_s, HAPPENS, ("_prices_change", PriceChanged(time_s, prices)))
        self._next_arrival()

    # -- what happens -----------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Events in order of time, until nothing more can happen or all that is measured is done."""
        while self._posted or (self._queue and not self._is_over()):
            if self._posted:
                event = self._posted.popleft()
                if isinstance(event, OF_SERVERS):
                    self._heard.hears(event)
                yield event
                continue
            if self._running and self._queue[0][0] > self._lapse_s:
                self._lapse()
                continue
            time_s, _, _, what = heapq.heappop(self._queue)
            assert time_s >= self.now_s, (time_s, self.now_s, what)
            self.now_s = time_s
            if isinstance(what, Wake):
                if self._wakes.pop(time_s) and self._running:
                    self._report(self._stretches.progress(self.now_s))
                self._measure_what_goes_on()
                self.post(what)
            elif isinstance(what, JobSubmitted):
                self._submit(what.job)
                self._next_arrival()
            elif isinstance(what, Event):
                self.post(what)
            else:
                getattr(self, what[0])(*what[1:])
        for lease_id in [*self._running, *self._closing]:
            self._end(lease_id, quiet=True)

    def progress(self) -> tuple[int, int]:
        """How many of the jobs that count are complete, and how many they are."""
        if self.measured is not None:
            return len(self.measured) - self._missing, len(self.measured)
        return len(self.recorder.completion_s), len(self.jobs) if isinstance(self.jobs, Sequence) else 0

    def unheard(self) -> list[Event]:
        """What has happened and the scheduler has not been told yet."""
        return [*self._posted, *self._on_their_way]

    def launched(self) -> set[int]:
        """Leases that are held, or wait for their devices, and are not being given up."""
        new = {each.lease.id for before_id, each in self._resizing.items() if before_id in self._running}
        return (self._running.keys() - self._resizing.keys()) | self._waiting.keys() | new

    def _is_over(self) -> bool:
        """Whether all that is measured is complete, or nothing more can be."""
        if self._missing == 0:
            return True
        if self._arrivals is not None or self._on_their_way:
            return False
        return not self._job or self._is_in_vain() or self._is_at_rest()

    def _is_in_vain(self) -> bool:
        """Whether no job has got any further for long, nor does now."""
        if self._in_vain < IN_VAIN:
            return False
        return not any(run.steps_at(self.now_s) > self._safe_steps[run.job.id] for run in self._running.values())

    def _is_at_rest(self) -> bool:
        """No job runs though every server is there, and nothing is to come but that servers go and come back."""
        if self._running or self._closing or self._waiting or self._wakes or self._away:
            return False
        servers = self._servers
        all_there = len(servers.here) == len(self.cluster.servers)
        all_there &= all(servers.offered(server) == server.device_count for server in servers.here.values())
        return all_there and all(isinstance(what, tuple) and what[0] in OUTAGES for _, _, _, what in self._queue)

    def _submit(self, job: Job) -> None:
        self.submitted.append(job)
        self._job[job.id], self._in_vain = job, 0
        if self.measured is not None and len(self.submitted) - 1 in self.measured:
            self._measured_ids.add(job.id)
        told = replace(job, total_steps=math.inf) if self.hide_lengths else job
        self._report(JobSubmitted(self.now_s, told))

    def _next_arrival(self) -> None:
        """The next job, or the news that there is none."""
        assert self._arrivals is not None
        if (job := next(self._arrivals, None)) is not None:
            assert not self.submitted or job.arrival_s >= self.submitted[-1].arrival_s, "jobs out of order"
            self._push(job.arrival_s, HAPPENS, JobSubmitted(job.arrival_s, job))
        else:
            self._arrivals = None
            last_s = self.submitted[-1].arrival_s if self.submitted else 0.0
            self._push(last_s, HAPPENS, ArrivalsEnded(last_s))

    def _report(self, event: Event) -> None:
        """Send an event to the scheduler; it may come late or twice, and what is lost is sent again."""
        if not self._chance.of_reports:
            self._posted.append(event)
            return
        for delay_s in self._chance.delays_s(event, self.now_s):
            if delay_s == 0.0:
                self.post(event)
            else:
                self._on_their_way.append(event)
                self._push(self.now_s + delay_s, HAPPENS, ("_arrives", event))

    def post(self, event: Event) -> None:
        """Hand in an event at the present time; a policy's answer may take longer."""
        if isinstance(event, Allocated) and (delay_s := self._chance.solve_s(self.now_s)) > 0:
            self._push(self.now_s + delay_s, HAPPENS, ("_answered", event.allocation))
            return
        self._posted.append(event)

    def bring_about(self, event: Event) -> None:
        """A job is cancelled, or a server is drained, lost, or lends other devices, at the present time."""
        if isinstance(event, WorkerLost):
            self._lose(event.server_id)
            return
        if isinstance(event, ServerOffers):
            server = self._servers.here[event.server_id]
            self._offer(server, event.devices, event.notice_s)
            self._push(self.now_s + event.notice_s, HAPPENS, ("_take_back", server))
            return
        if isinstance(event, JobCancelled):
            self._is_gone(event.job_id)
        self.post(event)

    def _arrives(self, event: Event) -> None:
        self._on_their_way.remove(event)
        then = {"lapsed_s": event.time_s} if isinstance(event, WorkerLost) else {}
        self._posted.append(replace(event, time_s=self.now_s, **then))

    def _prices_change(self, event: PriceChanged) -> None:
        """What is held now is in the log at the prices that it had."""
        for run in [*self._running.values(), *self._closing.values()]:
            self._turn(run, run.until_step)
            self._log(run)
        for resizing in self._resizing.values():
            self._log_new_devices(resizing)
        self.post(event)

    def _log(self, run: Run) -> None:
        """What the log does not have yet of a lease."""
        since_s, billed_s, worked_s = run.logged
        self.recorder.lease(run.lease, since_s, self.now_s, run.billed_s - billed_s, run.worked_s - worked_s)
        run.logged = self.now_s, run.billed_s, run.worked_s

    def _answered(self, allocation: Any) -> None:
        self._posted.append(Allocated(self.now_s, allocation))

    # -- servers ----------------------------------------------------------------------------------------------

    def _join(self, server: Server) -> None:
        self.ledger.joined(server, self.now_s)
        self._report(self._servers.joins(server, self.now_s))
        capacity, share = self._lent.get(server.accelerator, (None, 1.0))
        self._lend(server, capacity.left(server.device_count, share) if capacity else server.device_count)
        if server.accelerator in self._spot:
            return
        if (after_s := self._chance.failure_of_server_s(self.now_s)) is not None:
            self._push(self.now_s + after_s, HAPPENS, ("_lose", server.id))

    def _lose(self, server_id: int) -> None:
        """A server dies; it takes the news a while to get around."""
        server = self._take_down(server_id, quiet=True)
        self._push(self.now_s + self._chance.outage_s(), HAPPENS, ("_join", server))

    def _take_down(self, server_id: int, *, quiet: bool) -> Server:
        """A server is gone, with every gang that had a device there."""
        server = self._servers.leaves(server_id)
        for resizing in self._resizing.values():
            if any(device.server_id == server_id for device in resizing.new):
                self._let_go(resizing)
        for run in [*self._running.values(), *self._closing.values()]:
            if any(device.server_id == server_id for device in run.lease.devices):
                self._end(run.lease.id, safe_steps=run.saved_at(self.now_s), quiet=quiet)
        self.ledger.lost(server_id, self.now_s)
        self._report(self._servers.lost(server_id, self.now_s))
        return server

    def _next_change(self, capacity: Capacity, changes: Iterator[tuple[float, float]]) -> None:
        """Prepare for the next time that capacity changes, as early as it is known."""
        if (change := next(changes, None)) is not None:
            time_s, share = change
            notice_s = max(self.now_s, time_s - capacity.notice_s)
            notice = "_notice" if capacity.of == "servers" else "_lend_notice"
            self._push(notice_s, HAPPENS, (notice, capacity, changes, time_s, share))

    def _notice(
        self, capacity: Capacity, changes: Iterator[tuple[float, float]], time_s: float, share: float
    ) -> None:
        """The servers that will go are drained: the last ones, as many as are too many."""
        total = sum(server.accelerator == capacity.accelerator for server in self.cluster.servers)
        there = [server.id for server in self._servers.of_type(capacity.accelerator)]
        left = capacity.left(total, share)
        leaving = sorted(there)[left:]
        for server_id in leaving:
            self._report(self._servers.drained(server_id, self.now_s))
        back = max(0, left - len(there))
        self._push(time_s, HAPPENS, ("_capacity_changes", capacity, changes, leaving, back))

    def _capacity_changes(
        self, capacity: Capacity, changes: Iterator[tuple[float, float]], leaving: list[int], back: int
    ) -> None:
        """The servers on notice go, whatever ran there says how far it came; or some that went come back."""
        for server_id in leaving:
            self._away[server_id] = self._take_down(server_id, quiet=False)
        returning = sorted(i for i, server in self._away.items() if server.accelerator == capacity.accelerator)
        for server_id in returning[:back]:
            self._join(self._away.pop(server_id))
        self._next_change(capacity, changes)

    def _lend_notice(
        self, capacity: Capacity, changes: Iterator[tuple[float, float]], time_s: float, share: float
    ) -> None:
        """Servers say which devices they will take back; those that they lend again are said at their time."""
        for server in self._servers.of_type(capacity.accelerator):
            if (devices := capacity.left(server.device_count, share)) < self._servers.lends(server):
                self._offer(server, devices, time_s - self.now_s)
        self._push(time_s, HAPPENS, ("_devices_change", capacity, changes, share))

    def _devices_change(self, capacity: Capacity, changes: Iterator[tuple[float, float]], share: float) -> None:
        """Devices are taken back, whatever runs there says how far it came; or some are lent again."""
        self._lent[capacity.accelerator] = capacity, share
        for server in self._servers.of_type(capacity.accelerator):
            self._lend(server, capacity.left(server.device_count, share))
        self._next_change(capacity, changes)

    def _offer(self, server: Server, devices: int, notice_s: float) -> None:
        """The scheduler is told which devices a server lends, unless it is so already."""
        if offer := self._servers.offer(server, devices, notice_s, self.now_s):
            self._report(offer)

    def _take_back(self, server: Server) -> None:
        """A notice is over: a server that is still here lends no more than it says."""
        if server.id in self._servers.here:
            self._lend(server, self._servers.offered(server))

    def _lend(self, server: Server, devices: int) -> None:
        """From now on a server lends its first so many devices; what runs on others ends."""
        self._offer(server, devices, 0.0)
        if self._servers.lend(server, devices):
            for resizing in self._resizing.values():
                if any(d.server_id == server.id and d.slot >= devices for d in resizing.new):
                    self._let_go(resizing)
            for run in [*self._running.values(), *self._closing.values()]:
                if any(d.server_id == server.id and d.slot >= devices for d in run.lease.devices):
                    self._end(run.lease.id, safe_steps=run.saved_at(self.now_s))
            self.ledger.offers(server.id, devices, self.now_s)

    # -- what the mechanism wants -----------------------------------------------------------------------------

    def execute(self, command: Command) -> None:
        match command:
            case Launch():
                self._lapse_s = command.lease.until_s
                self._launch(self._to_its_end(command.lease))
            case Resize():
                self._lapse_s = command.lease.until_s
                self._resize(self._to_its_end(command.lease))
            case Stop():
                self._stop(command.lease_id)
            case Extend():
                self._lapse_s = command.until_s
            case WakeAt():
                if command.time_s not in self._wakes:
                    self._push(command.time_s, WAKES, Wake(command.time_s))
                self._wakes[command.time_s] = command.report or self._wakes.get(command.time_s, False)
            case GiveUp():
                self._is_gone(command.job_id)
            case _:
                raise AssertionError(command)

    def _launch(self, lease: Lease) -> None:
        self._waiting[lease.id] = lease
        if self._heard.is_spread(lease):
            self._spread.add(lease.id)
        self._start(lease)

    def _resize(self, lease: Lease) -> None:
        """The job goes over as soon as the new devices are ready; one that does not run is launched instead."""
        assert lease.continues is not None
        if (run := self._running.get(lease.continues)) is None:
            if (before := self._waiting.pop(lease.continues, None)) is not None:
                self._never_began(before)
            self._launch(lease)
            return
        if self._heard.is_spread(lease):
            self._spread.add(lease.id)
        new = tuple(device for device in lease.devices if device not in run.lease.devices)
        self._resizing[run.lease.id] = resizing = Resizing(lease, run.lease, new)
        self._warm_up(resizing)

    def _warm_up(self, resizing: "Resizing") -> None:
        """The new devices get ready as soon as they are free, which takes as long as a restart."""
        lease, now_s = resizing.lease, self.now_s
        holders = [holder for device in resizing.new for holder in self._on.get(device, ())]
        if resizing.since_s is not None or resizing.void or any(map(self._is_given_up, holders)):
            return  # looked at again when one of them has ended
        if news := self._servers.news_of(resizing.new, self.now_s):
            for event in news:
                self.post(event)
            return  # the scheduler will stop it
        resizing.since_s = resizing.logged_s = now_s
        self.ledger.reserved(now_s, lease, resizing.new)
        for device in resizing.new:
            self._on.setdefault(device, []).append(lease.id)
        warm_s = (
            self._overheads.of(self._running[resizing.before.id].job.job_type).restart_s if resizing.new else 0.0
        )
        self._push(now_s + warm_s, FREED, ("_go_over", resizing.before.id, lease.id))

    def _go_over(self, before_id: int, lease_id: int) -> None:
        """All is ready: the job goes over to the lease that continues its own, and pauses for it."""
        resizing, before = self._resizing.get(before_id), self._running.get(before_id)
        if resizing is None or before is None or resizing.lease.id != lease_id or resizing.since_s is None:
            return
        del self._resizing[before_id]
        job, lease, now_s = before.job, resizing.lease, self.now_s
        self._log_new_devices(resizing)
        self._running.pop(before_id)
        self._stretches.drop(before_id)
        self._measure(before)
        before.turn(now_s)
        self._log(before)
        for device in before.lease.devices:
            self._on[device].remove(before_id)
            if device in lease.devices:
                self._on[device].append(lease_id)
        self._spread.discard(before_id)
        self.ledger.gone_over(now_s, lease, job, before.worked_s)
        warm_s = now_s - resizing.since_s
        self._report(Resized(now_s, lease_id, before_id, job.id, before.from_steps, before.held_s, warm_s))
        pause_s = self._overhead(job).resize_s or 0.0
        self._run(lease, job, now_s + pause_s, before.from_steps, before.saved_steps)
        for waiting in list(self._waiting.values()):
            self._start(waiting)
        for other in list(self._resizing.values()):
            self._warm_up(other)

    def _is_given_up(self, lease_id: int | None) -> bool:
        """Whether devices of this lease will be free soon, but are not yet."""
        if lease_id in self._closing or lease_id in self._resizing:
            return True
        stopped = (each for before_id, each in self._resizing.items() if before_id in self._closing)
        return any(each.lease.id == lease_id for each in stopped)  # new devices, on which nobody will run any more

    def _log_new_devices(self, resizing: "Resizing") -> None:
        """What the log does not have yet of devices that get ready."""
        if resizing.since_s is not None and resizing.new:
            seconds, since_s = self.now_s - resizing.logged_s, resizing.logged_s
            if seconds > 0:
                servers = self.ledger.servers
                new = Counter(servers[device.server_id].accelerator for device in resizing.new)
                self.recorder.lease(resizing.lease, since_s, self.now_s, seconds, 0.0, new)
            resizing.logged_s = self.now_s

    def _let_go(self, resizing: "Resizing") -> float:
        """The job will not go over: its new devices are free. For how long these were held, as leases count it."""
        resizing.void = True
        if resizing.since_s is None:
            return 0.0
        self._log_new_devices(resizing)
        self.ledger.released(self.now_s, resizing.lease)
        for device in resizing.new:
            self._on[device].remove(resizing.lease.id)
        held_s = (self.now_s - resizing.since_s) * len(resizing.new) / len(resizing.lease.devices)
        resizing.since_s = None
        return held_s

    def _never_went_over(self, resizing: "Resizing", steps: float, *, failed: bool) -> None:
        """Its job has ended, or has given up the lease that it was in, so the lease that continues it ends too."""
        lease, held_s = resizing.lease, self._let_go(resizing)
        self._spread.discard(lease.id)
        complete = self.hide_lengths and lease.job_id in self.recorder.completion_s
        self._report(LeaseEnded(self.now_s, lease.id, lease.job_id, steps, held_s, failed, 0.0, complete))

    def _start(self, lease: Lease) -> None:
        """The job begins as soon as its devices are free and its last checkpoint is written."""
        if self._closing or self._resizing:
            holders = [holder for device in lease.devices for holder in self._on.get(device, ())]
            if any(map(self._is_given_up, (*holders, self._lease_of.get(lease.job_id)))):
                return  # looked at again when one of them has ended
        del self._waiting[lease.id]
        news = self._servers.news_of(lease.devices, self.now_s)
        for event in news:
            self.post(event)
        if lease.job_id not in self._job or news:
            self._never_began(lease)
        else:
            self._begin(lease)

    def _never_began(self, lease: Lease) -> None:
        """It is taken back before it began, or its job is gone; of one that is complete that is said once more."""
        job_id = lease.job_id
        complete = self.hide_lengths and job_id in self.recorder.completion_s
        steps = self._safe_steps.get(job_id, 0.0)
        self._report(LeaseEnded(self.now_s, lease.id, job_id, steps, 0.0, complete=complete))

    def _begin(self, lease: Lease) -> None:
        job, now_s = self._job[lease.job_id], self.now_s
        goes_on = job.id in self._safe_steps and job.checkpoints  # else it begins, which takes no longer than ever
        begin_s = now_s + self._overhead(job).restart_s if goes_on else now_s
        safe_steps = self._safe_steps.setdefault(job.id, 0.0)
        for device in lease.devices:
            self._on.setdefault(device, []).append(lease.id)
        self.ledger.started(now_s, lease, job)
        self._run(lease, job, begin_s, safe_steps, safe_steps)

    def _run(self, lease: Lease, job: Job, begin_s: float, steps: float, saved_steps: float) -> None:
        """The job runs on the devices of a lease, from ``begin_s`` on."""
        now_s = self.now_s
        run = Run(
            lease=lease,
            job=job,
            start_s=now_s,
            begin_s=begin_s,
            from_s=begin_s,
            from_steps=steps,
            until_step=max(lease.until_step, steps),  # the mechanism may not know how far the job is already
            steps_per_s=1.0,
            saved_steps=saved_steps,
            checkpoint_every_s=self.faults.checkpoint_every_s if job.checkpoints else NEVER_S,
            logged=(now_s, 0.0, 0.0),
        )
        self._running[lease.id], self._lease_of[job.id] = run, lease.id
        others = self._beside(run)
        run.steps_per_s = self._speed(run, others)
        self._set_pace(run, others)
        self.ledger.goes_on(now_s, lease.id, run.steps_per_s if begin_s == now_s else 0.0, run.until_step)
        for other in others:
            self._turn(other, other.until_step)
        if (after_s := self._chance.failure_of_job_s(now_s)) is not None:
            self._push(begin_s + after_s, HAPPENS, ("_fail", lease.id))

    def _turn(self, run: Run, until_step: float) -> None:
        """A new stretch begins: a job came to the devices, or left them."""
        now_s, others = self.now_s, self._beside(run)
        run.turn(now_s)
        if self._price_part(others) != run.price_part and now_s > run.logged[0]:
            self._log(run)
        if run.lease.id in self._closing:
            run.price_part = self._price_part(others)
            return
        run.until_step = max(until_step, run.from_steps)
        if others or run.shared:
            run.steps_per_s = self._speed(run, others)
        self._set_pace(run, others)
        pace = run.steps_per_s if run.from_s == now_s else 0.0
        self.ledger.goes_on(now_s, run.lease.id, pace, run.until_step)

    def _price_part(self, others: Sequence[Run]) -> float:
        return 0.5 if others else 1.0

    def _set_pace(self, run: Run, others: Sequence[Run]) -> None:
        """Who pays, and when the run will have done its job at the speed that it has."""
        run.shared, run.price_part = bool(others), self._price_part(others)
        self._stretches.put(run)
        if run.from_s > self.now_s:  # still loading
            self._push(run.from_s, FREED, ("_runs", run.lease.id, run.version))
        if run.until_step >= run.job.total_steps:
            self._push(run.end_s, FREED, ("_completes", run.lease.id, run.version))

    def _runs(self, lease_id: int, version: int) -> None:
        """The checkpoint is loaded."""
        if (run := self._running.get(lease_id)) is not None and run.version == version:
            self.ledger.goes_on(self.now_s, lease_id, run.steps_per_s, run.until_step)

    def _speed(self, run: Run, others: Sequence[Run]) -> float:
        """Steps/s as things are: alone or beside another job, in one server or several."""
        way, known = self._way(run, others), self.throughputs
        how = run.lease.configuration
        if how.others:
            steps_per_s = speed_on(run.job, how.uses, how.batch, known)
        elif isinstance(way, Pairing):
            steps_per_s = known.colocated.get(way)
        elif run.job.elastic is None:
            steps_per_s = known.isolated.get(way)
        else:
            size = way.scale_factor, how.batch
            steps_per_s = speed(run.job, way.accelerator, *size, known, consolidated=way.consolidated)
        assert steps_per_s, f"job {run.job.id} cannot run in {run.lease}"
        return steps_per_s * self._chance.speed(run.job.id)

    def _way(self, run: Run, others: Sequence[Run]) -> Way:
        """How the job runs as things are; a gang over several servers as if in one where nothing else is known."""
        job, lease = run.job, run.lease
        if others:
            return Pairing(job.job_type, others[0].job.job_type, lease.accelerator)
        devices, batch = lease.configuration.devices, lease.configuration.batch
        if lease.id in self._spread:
            slower = speed(job, lease.accelerator, devices, batch, self.throughputs, consolidated=False)
            if slower is not None:
                return Setting(job.job_type, lease.accelerator, devices, consolidated=False)
        return Setting(job.job_type, lease.accelerator, devices)

    def _beside(self, run: Run) -> list[Run]:
        """Who holds the same devices, be it to write a last checkpoint."""
        holders = self._on[run.lease.devices[0]]
        if len(holders) == 1:
            return []
        return [self._running.get(i) or self._closing[i] for i in holders if i != run.lease.id]

    def _stop(self, lease_id: int) -> None:
        """The job writes a checkpoint, if it did anything since the last one, and ends."""
        for before_id, resizing in self._resizing.items():
            if resizing.lease.id == lease_id:  # the job gives up the lease that it is in, and then this one
                self._stop(before_id)
                return
        if (lease := self._waiting.pop(lease_id, None)) is not None:
            self._never_began(lease)
        elif (run := self._running.get(lease_id)) is not None:
            checkpoint_s = self._overhead(run.job).checkpoint_s if run.job.checkpoints else 0.0
            if checkpoint_s == 0.0 or run.steps_at(self.now_s) == run.saved_steps:
                self._end(lease_id, taken_back=True)
                return
            self._measure(run)
            run.turn(self.now_s)
            run.until_step = run.from_steps
            self.ledger.goes_on(self.now_s, lease_id, 0.0, run.from_steps)
            self._closing[lease_id] = self._running.pop(lease_id)
            self._stretches.drop(lease_id)
            self._push(self.now_s + checkpoint_s, FREED, ("_closed", lease_id))

    def _measure_what_goes_on(self) -> None:
        """Long leases measure while they run: a job that runs alone in a bad size learns that it is one."""
        if self.ran is not None:
            for run in self._running.values():
                if self.now_s - run.measured_to_s >= MEASURED_AGAIN_S:
                    self._measure(run)

    def _measure(self, run: Run) -> None:
        """The run says how fast it was since it did so last, or since a job came to its devices or left them.

        In another size than its own it says how fast gangs of so many devices are, if its speed follows from that.
        """
        how = run.lease.configuration
        if self.ran is None:
            return
        way, steps_per_s = self._way(run, self._beside(run)), run.steps_per_s
        if how.others:
            way = setting_of(run.job, how.uses)
        elif (how.devices, how.batch) != (run.job.scale_factor, OWN_BATCH):
            batch = how.batch or (run.job.elastic.batch if run.job.elastic else 0)
            gang = self.throughputs.isolated.get(way) if isinstance(way, Setting) else None
            if not isinstance(way, Setting) or not gang or _sized(way, batch) in self.throughputs.sizes:
                return
            in_size = speed(
                run.job, how.accelerator, how.devices, how.batch, self.throughputs, consolidated=way.consolidated
            )
            steps_per_s *= gang / in_size if in_size else 0.0
        seen = self._chance.measured(run.lease.id, run.measurements)
        self.ran(way, steps_per_s * seen, self.now_s - run.measured_to_s)
        run.measured_s, run.measurements = self.now_s, run.measurements + 1

    def _closed(self, lease_id: int) -> None:
        if lease_id in self._closing:
            self._end(lease_id, taken_back=True)

    def _completes(self, lease_id: int, version: int) -> None:
        if (run := self._running.get(lease_id)) is not None and run.version == version:
            self._end(lease_id, safe_steps=run.until_step)  # by its own clock it may be a rounding short of that

    def _fail(self, lease_id: int) -> None:
        if (run := self._running.get(lease_id)) is not None:
            self._end(lease_id, safe_steps=run.saved_at(self.now_s), failed=True)

    def _lapse(self) -> None:
        """The leases were not extended."""
        self.now_s = max(self.now_s, self._lapse_s)
        for lease_id in list(self._running):
            self._end(lease_id)

    def _end(
        self,
        lease_id: int,
        *,
        safe_steps: float | None = None,
        failed: bool = False,
        taken_back: bool = False,
        quiet: bool = False,
    ) -> None:
        """The devices of a lease fall free; what the job did up to its last checkpoint is safe."""
        if (run := self._running.pop(lease_id, None)) is not None:
            self._stretches.drop(lease_id)
            if self.ran is not None:
                self._measure(run)
        else:
            run = self._closing.pop(lease_id)
        run.turn(self.now_s)
        job, lease = run.job, run.lease
        if safe_steps is None:
            safe_steps = run.from_steps if job.checkpoints else run.saved_steps
        came_forward = safe_steps > self._safe_steps[job.id]
        self._in_vain = 0 if came_forward else self._in_vain + 1
        self._safe_steps[job.id] = safe_steps
        del self._lease_of[job.id]
        self._spread.discard(lease_id)
        for device in lease.devices:
            self._on[device].remove(lease_id)
        self._log(run)
        self.ledger.ended(self.now_s, lease_id, run.worked_s, safe_steps, failed=failed)
        if safe_steps >= job.total_steps:
            self.recorder.completion_s[job.id] = self.now_s
            self._is_gone(job.id)
        if not quiet:
            lost_s = run.held_s if taken_back and not came_forward else 0.0
            complete = self.hide_lengths and safe_steps >= job.total_steps
            ended = LeaseEnded(self.now_s, lease_id, job.id, safe_steps, run.held_s, failed, lost_s, complete)
            self._report(ended)
        if (resizing := self._resizing.pop(lease_id, None)) is not None:
            self._never_went_over(resizing, safe_steps, failed=failed)
        for holder in list(self._on[lease.devices[0]]):
            if (other := self._running.get(holder) or self._closing.get(holder)) is not None:
                self._turn(other, other.until_step)
        for waiting in list(self._waiting.values()) if self._waiting else ():
            self._start(waiting)
        for each in list(self._resizing.values()) if self._resizing else ():
            self._warm_up(each)

    def _to_its_end(self, lease: Lease) -> Lease:
        """The lease until the last step of its job, where the scheduler does not know that."""
        if not self.hide_lengths or (job := self._job.get(lease.job_id)) is None:
            return lease
        return lease._replace(until_step=job.total_steps)

    def _is_gone(self, job_id: int) -> None:
        """The job is complete, or will not be run any more."""
        if self._job.pop(job_id, None) is not None and job_id in self._measured_ids:
            self._missing -= 1

    def _overhead(self, job: Job) -> Overhead:
        return self._overheads.of(job.job_type)

    def _push(self, time_s: float, order: int, what: Any) -> None:
        heapq.heappush(self._queue, (time_s, order, next(self._sequence), what))


def _sized(way: Setting, batch: int) -> Size:
    """That many devices with so many samples in an update."""
    return Size(way.job_type, way.accelerator, way.scale_factor, batch, way.consolidated)
