"""All that follows from the log: ``apply`` an entry, get the commands. Pure and deterministic, as the mechanism
is.

A service that starts again applies every record since the last snapshot and is where it was. Commands are carried
out by others; who runs where according to them is kept here, since that too has to be known after a restart.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.configuration import ALONE
from gavelx.estimator.online import Online
from gavelx.estimator.untold import Rate
from gavelx.jobs import Job
from gavelx.measurements import Way
from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Command, Device, GiveUp, Launch, Lease, Resize, Solve, Stop, WakeAt
from gavelx.mechanism.events import (
    Allocated,
    Event,
    JobCancelled,
    JobSubmitted,
    LeaseEnded,
    PolicyChanged,
    Progress,
    Resized,
    ServerOffers,
    ThroughputsChanged,
    Wake,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.mechanism.story import Stories
from gavelx.mixes import is_mix, parts_of_devices, setting_of
from gavelx.service.state.leases import LeasePart, LeaseRecord, LeaseTable
from gavelx.service.state.untold import UntoldSpeeds
from gavelx.service.store.allocation_record import allocation_of
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Alive, Answered, Entry, Measured, Started
from gavelx.sizes import OWN_BATCH
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs

ALIVE_PART = 0.5
"""While leases stand, a service writes something at least each such part of the time for which it renews them."""
COMPLETE, FAILED, CANCELLED = "complete", "failed", "cancelled"


@dataclass(slots=True)
class JobRecord:
    """What is known of a job; ``spec`` is what its submission said and the mechanism does not know."""

    job: Job
    spec: dict[str, Any]
    ended: str = ""
    ended_s: float = 0.0
    reason: str = ""  # of its last failure; if there is none, of the end of its last lease
    failures: int = 0
    launches: int = 0
    servers: list[int] = field(default_factory=list)  # where it ran, the last one at the end (rank 0's, of a gang)
    safe_steps: float = 0.0  # by the last word on its leases
    lost_s: float = 0.0  # that preemptions have lost, when it ended
    steps_done: float = 0.0  # when it ended: of a job that is not complete, those that it saved
    spent_usd: float = 0.0  # NaN where it held devices of no known price
    promised_s: float = 0.0
    received_s: float = 0.0
    determinism: str = ""  # by its own last word
    order: str = ""  # in which it adds gradients, likewise
    worked_s: float = 0.0  # of a job of unknown length, when it ended: on its fastest type, or as much elsewhere


@dataclass(slots=True)
class Machine:
    """A server, by the name that its agent gave it. ``boot_id`` changes when all that ran there is gone.

    ``lost``: nothing runs there, by all clocks. ``drained``: an operator wants nothing to run there. It lends its
    first ``lent`` devices to jobs, by the last of so many ``offers``.
    """

    server: Server
    name: str
    address: str
    boot_id: str
    epoch: int
    lost: bool = False
    drained: bool = False
    lent: int = -1
    offers: int = 0

    def __post_init__(self) -> None:
        self.lent = self.server.device_count if self.lent < 0 else self.lent


class State:
    """The mechanism, the records of all jobs, the servers, who runs where.

    ``said`` is what the table says of speeds, and what jobs say that bring theirs; ``speeds`` and ``beside`` are
    what is gone by: the same, but where leases were measured to be otherwise (``online``), or where no
    user and no table says anything (``untold``). ``mixed`` are speeds of mixes, all of them measured.
    """

    def __init__(self, configuration: Configuration) -> None:
        table = configuration.throughputs
        self.job_types = table.job_types
        self.table = table
        self.said = dict(chain[tuple[Way, float]](table.isolated.items(), table.colocated.items()))
        self.speeds, self.beside, self.mixed = dict(table.isolated), dict(table.colocated), dict(table.mixed)
        self.online, self.refine = Online(self.said), configuration.refine
        self.said_at: dict[str, dict[int, dict[str, float]]] = {}  # type, devices, accelerator: what is said
        for setting in table.isolated:
            self._note_said(setting)
        self.untold = UntoldSpeeds(self.said, self.speeds, self.online)
        throughputs = self._throughputs(table.name)
        self.mechanism = Mechanism(throughputs, configuration.prices, configuration.rules, expects_saves=False)
        self.jobs: dict[int, JobRecord] = {}
        self.machines: dict[int, Machine] = {}
        self.runs = LeaseTable()
        self.stories = Stories(self.name_of)
        self.leases_lost: dict[int, LeaseRecord] = {}  # leases that ended without a word: it may come yet
        self.asked: Snapshot | None = None
        self.allocation: Allocation | None = None
        self.policy = ""
        self.started = Started(0.0, "", 0.0)
        self.leased_until_s = 0.0  # by services before the one that has started last, for all that is certain
        self.renewed_until_s = 0.0  # by the same, as they wrote down that they were alive
        self.now_s = 0.0
        self.wakes: dict[float, bool] = {}  # when the mechanism wants to be woken, and whether with a report
        self.next_job_id = 0
        self.live: dict[int, None] = {}  # ids of jobs that have not ended, in order
        self.of_owner: dict[str, list[int]] = {}  # ids of all jobs
        self.live_of: dict[str, dict[int, None]] = {}
        self.of_request: dict[tuple[str, str], int] = {}  # job ids by owner and request id
        self.numbered: Counter[str] = Counter()  # jobs on their way to the log, by owner
        self.ended = {COMPLETE: 0, FAILED: 0, CANCELLED: 0}

    def machine_named(self, name: str) -> Machine | None:
        """The server with this name."""
        return next((machine for machine in self.machines.values() if machine.name == name), None)

    def name_of(self, server_id: int) -> str:
        """What a server is called."""
        return self.machines[server_id].name

    def safe_steps(self, job_id: int) -> float:
        """How far a job is, safely, as far as the log knows."""
        live, steps = self.mechanism.live, self.jobs[job_id].safe_steps
        j = live.index.get(job_id)
        return steps if j is None else max(steps, float(live.saved_steps[j]))

    @property
    def leased_for_s(self) -> float:
        """For how long leases may run, from now on, that services renewed which are gone."""
        return max(self.started.valid_for_s, self.leased_until_s - self.now_s)

    def submitted_of(self, owner: str) -> int:
        """How many jobs of an owner are live, or about to be."""
        return len(self.live_of.get(owner, ())) + self.numbered[owner]

    def forget_unlogged(self) -> None:
        """Numbers that were given to jobs whose submission did not reach the log."""
        self.of_request = {request: i for request, i in self.of_request.items() if i in self.jobs}
        self.next_job_id = max(self.jobs, default=-1) + 1
        self.numbered.clear()

    # -- events -----------------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> list[Command]:  # noqa: PLR0912  # one branch an event
        """Take note of an entry that is on disk; what is to be done."""
        event: Event | None = entry.event
        assert event is not None
        before_s, self.now_s = self.now_s, event.time_s
        if isinstance(event, Wake):
            self.wakes = {time_s: report for time_s, report in self.wakes.items() if time_s > self.now_s}
        if isinstance(event, Progress | LeaseEnded):
            for job_id, bits in entry.note.get("bits", {}).items():
                known = self.jobs[int(job_id)]
                known.determinism, known.order = bits
        match event:
            case Started():
                valid_for_s = self.started.valid_for_s
                self.leased_until_s = max(self.leased_until_s, self.now_s + valid_for_s)
                alive_s = before_s + ALIVE_PART * valid_for_s
                self.renewed_until_s = max(self.renewed_until_s, alive_s + valid_for_s)
                self.started, event = event, None
            case Alive():
                event = None
            case Answered():
                event = self._allocated(event)
            case Measured():
                event = self._measured(event)
            case JobSubmitted():
                self._submitted(event.job, entry.note)
            case WorkerJoined():
                self._joined(event, entry.note)
            case WorkerLost() if event.epoch >= self.machines[event.server_id].epoch:  # else it came back since
                self.machines[event.server_id].lost = True
                self._lapsed(event)
                self._gone(event.server_id)
            case WorkerDrained():
                self.machines[event.server_id].drained = True
            case ServerOffers():
                machine = self.machines[event.server_id]
                machine.lent, machine.offers = event.devices, event.number
            case PolicyChanged():
                self.policy = entry.note["policy"]
            case LeaseEnded():
                self._lease_ended(event, entry.note)
            case Resized():
                self._resized(event)
        commands = [] if event is None else self.mechanism.handle(event)
        if isinstance(event, JobCancelled):
            self._end(event.job_id, CANCELLED, entry.note.get("reason", ""))
        for command in commands:
            self._note(command)
        if isinstance(event, LeaseEnded) and self._is_done(event):
            self._end(event.job_id, COMPLETE, "")
        if event is not None:
            self.stories.note(event, commands, self.mechanism.live)
        return commands

    def _submitted(self, job: Job, spec: dict[str, Any]) -> None:
        self.next_job_id = max(self.next_job_id, job.id + 1)
        self.jobs[job.id] = JobRecord(job, spec)
        self.live[job.id] = None
        self.of_owner.setdefault(job.owner, []).append(job.id)
        self.live_of.setdefault(job.owner, {})[job.id] = None
        self.numbered[job.owner] = max(0, self.numbered[job.owner] - 1)
        if request_id := spec.get("request_id"):
            self.of_request[job.owner, request_id] = job.id
        news = False
        for accelerator, speed in spec.get("speeds", {}).items():
            setting = Setting(job.job_type, accelerator, job.scale_factor)
            if setting not in self.said:
                self.said[setting] = self.speeds[setting] = speed
                self._note_said(setting)
                self.untold.ranges.pop(setting, None)
                news = True
        news |= self.untold.foretell(spec.get("foretold", ()))
        for devices in self._unknown_widths(job, spec):
            news |= self.untold.add((job.job_type, devices))
        if news:
            self.mechanism.know(self._throughputs())

    def _unknown_widths(self, job: Job, spec: dict[str, Any]) -> list[int]:
        """Numbers of devices at which a job's speed is to be estimated: its own, and others that it may have."""
        own = [job.scale_factor] if spec.get("untold") else []
        if (elastic := job.elastic) is None:
            return own
        wanted = set(elastic.widths) - {job.scale_factor}
        if job.job_type not in self.untold.told:
            self.untold.told[job.job_type] = set(self.said_at.get(job.job_type, ()))
        return own + sorted(wanted - self.untold.told[job.job_type])

    def _note_said(self, setting: Setting) -> None:
        """File a new entry of ``said`` under its type and number of devices, so that no search goes over all."""
        here = self.said_at.setdefault(setting.job_type, {}).setdefault(setting.scale_factor, {})
        if setting.consolidated:
            here[setting.accelerator] = self.said[setting]

    def _throughputs(self, name: str = "") -> Throughputs:
        """The speeds that are gone by; another object each time, for they may have changed.

        It takes no copy of them, since a submission of many jobs makes one for each job. What it would have to
        keep as it was is copied before it changes (:meth:`_measured`).
        """
        known = replace(self.table, isolated=self.speeds, colocated=self.beside, mixed=self.mixed)
        return replace(known, name=name, ranges=self.untold.ranges)

    def speeds_of(self, way: Way) -> dict[Any, float]:
        """Those of the speeds that are gone by among which this one is."""
        if isinstance(way, Setting):
            return self.mixed if is_mix(way) else self.speeds
        return self.beside

    def _allocated(self, event: Answered) -> Allocated | None:
        """The answer to what was asked; None where that was answered already."""
        if self.asked is None or event.answer.asked_s != self.asked.time_s:
            return None
        self.allocation, self.asked = allocation_of(event.answer, self.asked), None
        return Allocated(event.time_s, self.allocation)

    def _measured(self, event: Measured) -> ThroughputsChanged | None:
        """Measured beats table: the mechanism hears of a speed that is another one than it goes by."""
        way = event.measurement.way
        if self.untold.concerns(way):
            self.untold.ranges = dict(self.untold.ranges)  # the mechanism compares with what was unsure before
            changed = self.untold.observe(event.measurement)
            if not changed:
                self.mechanism.know(self._throughputs())
            return ThroughputsChanged(event.time_s, self._throughputs()) if changed else None
        self.online.observe(event.measurement)
        speeds = self.speeds_of(way)
        used = speeds.get(way)
        better = self.online.better(way, used) if self.refine else None
        if better is None:
            return None
        speeds[way] = better
        if isinstance(way, Setting) and way.consolidated and used:
            self._scale_spread(way._replace(consolidated=False), better / used)
        return ThroughputsChanged(event.time_s, self._throughputs())

    def _scale_spread(self, way: Setting, factor: float) -> None:
        """What is known of a gang spread over servers is how much slower it is, until that is measured."""
        if way in self.speeds and not self.online.is_known(way):
            self.speeds[way] *= factor

    def way_of(self, run: LeaseRecord) -> Way | None:
        """The way in which a lease runs now; None where there is no word for it."""
        lease, live = run.lease, self.mechanism.live
        j = live.index.get(lease.job_id)
        if j is None or live.lease[j] != lease.id:
            return None
        job, partner = live.jobs[j], live.index.get(int(live.partner[j]))
        if live.held_batch[j] != OWN_BATCH:
            return None
        if lease.configuration.others:
            return setting_of(job, lease.configuration.uses)
        if live.partner[j] == ALONE:
            return Setting(job.job_type, lease.accelerator, lease.configuration.devices, not live.spread[j])
        if partner is None or lease.configuration.devices > 1:
            return None
        return Pairing(job.job_type, live.jobs[partner].job_type, lease.accelerator)

    def _joined(self, event: WorkerJoined, note: dict[str, Any]) -> None:
        before = self.machines.get(event.server.id)
        if before is not None and before.boot_id != note["boot_id"]:
            self._gone(event.server.id)
        machine = Machine(event.server, note["name"], note["address"], note["boot_id"], event.epoch)
        self.machines[event.server.id] = machine
        news = self.untold.foretell(note.get("foretold", ()))
        if self.untold.joined(event.server.accelerator, Rate(*note["rate"]) if "rate" in note else None) or news:
            self.mechanism.know(self._throughputs())

    def _gone(self, server_id: int) -> None:
        """Nothing runs on this server any more."""
        self.leases_lost |= {run.lease.id: run for run in self.runs.lose(server_id)}

    def _lapsed(self, lost: WorkerLost) -> None:
        """Of leases that were taken back: they had ended on this server before that was noticed."""
        if lost.lapsed_s is None:
            return
        for run in self.runs.on(lost.server_id).values():
            if (before := run.stopped) is not None:
                after = before.lost(lost.server_id, lost.over_s)
                if (known := self.jobs[run.lease.job_id]).ended:
                    self._held_otherwise(known, run, after.held_s)
                run.stopped = after

    def _lease_ended(self, event: LeaseEnded, note: dict[str, Any]) -> None:
        known, run = self.jobs[event.job_id], self.runs.end(event.lease_id)
        leases_lost = self.leases_lost.pop(event.lease_id, None)
        if known.ended:
            if (late := run or leases_lost) is not None:
                self._after_the_end(known, late, event.held_s, event.steps_done)
            return
        known.failures += event.failed
        if run is not None:
            known.safe_steps = event.steps_done  # the mechanism does not look, if it has given out a later lease
            for later in self.runs.of(event.job_id).values():
                if later.lease.id > event.lease_id:
                    later.from_steps = event.steps_done
                    later.begin_anew()
        if event.failed or not known.failures:  # why it failed is kept, whatever stops it later
            known.reason = note.get("reason") or known.reason

    def _resized(self, event: Resized) -> None:
        """A job has gone over: its lease before that has ended."""
        known, run = self.jobs[event.job_id], self.runs.end(event.before_id)
        if (after := self.runs.get(event.lease_id)) is not None:
            after.warm_s = event.warm_s
        if not known.ended or run is None:
            return
        self._after_the_end(known, run, event.held_s, event.steps_done)
        if after is not None:  # its new devices had got ready
            new = set(after.lease.devices) - set(run.lease.devices)
            tariff = self.mechanism.accounts.tariffs.last
            for name, devices in Counter(self.machines[d.server_id].server.accelerator for d in new).items():
                self._pay(known, name, devices * event.warm_s, tariff)

    def _after_the_end(self, known: JobRecord, run: LeaseRecord, held_s: float, steps_done: float) -> None:
        """A job that has ended gives its devices back; the mechanism does not look at that any more."""
        assert run.stopped is not None, "its lease was taken back when it ended"
        self._held_otherwise(known, run, held_s)
        known.steps_done = max(known.steps_done, steps_done)

    def _held_otherwise(self, known: JobRecord, run: LeaseRecord, held_s: float) -> None:
        """A lease of a job that has ended was held for so long, and not for as long as was known."""
        charged = run.stopped
        assert charged is not None, "its lease was taken back when it ended"
        seconds = held_s - charged.held_s
        known.received_s += seconds
        for k, some_s in self.mechanism.accounts.tariffs.pieces(charged.until_s, seconds):
            for name, devices in run.lease.configuration.uses:
                self._pay(known, name, some_s * charged.price * devices, k)

    def _pay(self, known: JobRecord, accelerator: str, device_s: float, k: int) -> None:
        """So many seconds of devices, at the prices of that number; none cost nothing, whatever the price."""
        if device_s:
            accounts = self.mechanism.accounts
            known.spent_usd += device_s * accounts.tariffs[k].of(accelerator) / 3600.0
            if accounts.charged is not None:
                type_number = self.mechanism.hardware.accelerators.index(accelerator)
                accounts.charged((known.job.id, type_number, device_s, k))

    # -- commands ---------------------------------------------------------------------------------------------

    def _note(self, command: Command) -> None:
        match command:
            case Solve():
                self.asked = command.snapshot
            case Launch():
                self._launched(command.lease)
            case Resize():
                self._resizing(command.lease)
            case Stop():
                self._stopping(command.lease_id)
            case WakeAt():
                self.wakes[command.time_s] = command.report or self.wakes.get(command.time_s, False)
            case GiveUp():
                self._end(command.job_id, FAILED, "")

    def _stopping(self, lease_id: int) -> None:
        """This lease is taken back, and so is the one from which its job has not gone over to it yet."""
        stopped = self.mechanism.leasing.stopped
        if (word := stopped.get(lease_id)) is not None:
            for run in self.runs.of(word.job_id).values():
                if lease_id in (run.lease.id, run.continued_by):
                    run.stopping, run.stopped = True, stopped.get(run.lease.id)

    def left_of(self, lease_id: int) -> LeaseRecord | None:
        """A lease that is taken back; if all of it is lost, the one from which its job was to go over to it."""
        if (run := self.runs.get(lease_id)) is not None:
            return run
        word = self.mechanism.leasing.stopped.get(lease_id)
        runs = [] if word is None else self.runs.of(word.job_id).values()
        return next((run for run in runs if run.continued_by == lease_id), None)

    def before(self, run: LeaseRecord) -> LeaseRecord | None:
        """The lease from which the job of this one is to go over to it, and has not."""
        return None if run.lease.continues is None else self.runs.get(run.lease.continues)

    def _launched(self, lease: Lease) -> None:
        self.jobs[lease.job_id].launches += 1
        self.runs.add(self._record(lease, lease.devices))

    def _resizing(self, lease: Lease) -> None:
        """Rank 0 is on a device that the job has. Each server has ranks in a row: first those that stay."""
        assert lease.continues is not None
        before = self.runs[lease.continues]
        before.continued_by, before.stopped = lease.id, self.mechanism.leasing.stopped.get(before.lease.id)
        devices, one_each = set(lease.devices), not self.jobs[lease.job_id].spec.get("one_process_per_server")
        number_of = before.number_of_device() if one_each else {}
        kept = [device for device in number_of if device in devices]
        run = self._record(lease, [*kept, *(device for device in lease.devices if device not in number_of)])
        if one_each:
            new = count(before.numbered)
            here = [Device(part.server_id, slot) for part in run.parts for slot in part.slots]
            run.numbers = [number_of[device] if device in number_of else next(new) for device in here]
            run.generation, run.numbered = before.generation + 1, next(new)
        self.runs.add(run)

    def _record(self, lease: Lease, devices: Iterable[Device]) -> LeaseRecord:
        """A lease that is given out, its devices by rank but for those of one server, which come together."""
        known, slots = self.jobs[lease.job_id], dict[int, list[int]]()
        for device in devices:
            slots.setdefault(device.server_id, []).append(device.slot)
        parts, rank = list[LeasePart](), 0
        for server_id, here in slots.items():
            processes = 1 if known.spec.get("one_process_per_server") else len(here)
            parts.append(LeasePart(server_id, tuple(here), rank, processes))
            rank += processes
        known.servers = [i for i in known.servers if i not in slots] + list(slots)[::-1]
        spread = self._spread_parts(known.job, lease, parts) if lease.configuration.others else ()
        return LeaseRecord(lease, parts, self.safe_steps(lease.job_id), parts_of_rank=spread)

    def _spread_parts(self, job: Job, lease: Lease, parts: Iterable[LeasePart]) -> tuple[int, ...]:
        """How many parts of a job on several types each of its processes computes, by the speeds of now."""
        types = [self.machines[part.server_id].server.accelerator for part in parts for _ in part.slots]
        of_device = iter(parts_of_devices(job, lease.configuration.uses, types, self.mechanism.throughputs))
        per_device = [[next(of_device) for _ in part.slots] for part in parts]
        each = zip(parts, per_device, strict=True)
        spread = [here if part.processes == len(here) else [sum(here)] for part, here in each]
        return tuple(count for here in spread for count in here)

    def _is_done(self, event: LeaseEnded) -> bool:
        """Whether the end of this lease was the job's: the mechanism says so, unless it is long over."""
        job = self.mechanism.job(event.job_id)
        return event.complete if job is None else job.done

    def _end(self, job_id: int, how: str, reason: str) -> None:
        known = self.jobs[job_id]
        if known.ended:
            return
        known.ended, known.ended_s, known.reason = how, self.now_s, reason or known.reason
        self.ended[how] += 1
        self.stories.ended(job_id)
        self.live.pop(job_id, None)
        self.live_of[known.job.owner].pop(job_id, None)
        self.leases_lost = {i: run for i, run in self.leases_lost.items() if run.lease.job_id != job_id}
        live = self.mechanism.live
        if (j := live.index.get(job_id)) is not None:
            known.steps_done, known.spent_usd = float(live.saved_steps[j]), float(live.spent_usd[j])
            known.promised_s, known.received_s = float(live.promised_s[j]), float(live.held_s[j])
            known.lost_s = float(live.lost_s[j])
            known.worked_s = float(live.worked_s[j])
        if how == COMPLETE and known.job.has_length:
            known.steps_done = known.job.total_steps
        for name in ("command", "environment"):
            known.spec.pop(name, None)  # it will not be started again
