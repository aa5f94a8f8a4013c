"""The mechanism: turns allocations into leases, round by round. Events in, commands out.

It does no I/O and knows no clock: time is what events say. A round reads like this::

    account     promises accrue; what workers reported was credited as it came
    admit       let go of the jobs that are done, let new ones in
    solve       ask the policy, if jobs, devices or prices changed since it was last asked
    plan        order jobs by what they were promised and have not received; stop, extend, launch

Always true: a device is in one lease at most (in two of a promised pair), a gang is launched whole or not at all,
and nothing is launched on a server that is gone. A policy that answers late blocks nothing: leases run on. The
rules that may differ from run to run are in `rules`; who holds which devices is in `leasing`.

Legend: J live jobs, A accelerator types, L leases.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.configuration import ALONE, ConfigurationSet
from gavelx.configurations import Configurations
from gavelx.execution import Execution
from gavelx.jobs import Job
from gavelx.mechanism import events
from gavelx.mechanism.accounts import Accounts
from gavelx.mechanism.attained_service import AttainedService
from gavelx.mechanism.commands import Command, GiveUp, Solve, WakeAt
from gavelx.mechanism.entitlements import Entitlements, entitlements
from gavelx.mechanism.failures import Failures
from gavelx.mechanism.hardware import Hardware
from gavelx.mechanism.invariants import validate
from gavelx.mechanism.leasing import Leasing, servers_of
from gavelx.mechanism.lengths import Left, Lengths
from gavelx.mechanism.live import NO_WAY, LiveJobs
from gavelx.mechanism.protection import Protection
from gavelx.mechanism.quota import until_owed_s
from gavelx.mechanism.reservation import Reservation, reserve
from gavelx.mechanism.rules import DEFAULT, Rules
from gavelx.mechanism.selection import (
    Candidates,
    Choice,
    Choices,
    as_they_run,
    candidates,
    fillers,
    first_on,
    furthest_behind,
    may_stay,
    of_these,
    select,
    settled,
    until_filling_s,
)
from gavelx.mechanism.solve_trigger import NEVER, SolveTrigger
from gavelx.mechanism.stopped import Stopped
from gavelx.mechanism.view import JobView
from gavelx.memory import Memory
from gavelx.prices import Prices
from gavelx.promises import Promises
from gavelx.snapshot import WAITING, Kind, Snapshot
from gavelx.throughputs import Setting, Throughputs
from gavelx.ways_to_run import ways_to_run

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NEGLIGIBLE = 1e-9
"""A share of time below this is a solver's rounding, not a promise."""
SHORTEST_S = 1e-3
"""No wait is shorter."""
FAST_ENOUGH = 0.5
FIRST = 1e15
"""The key of the gang that has waited for long enough: before all but those that are not preempted."""
GONE_AT_MOST = 8
"""Of so many rows one may be that of a job that is gone."""


class Mechanism:
    """``handle(event)`` returns the commands that follow; everything else is how.

    ``opens`` names the kinds of configuration that the policy wants to be told of beyond the plain ones, and
    ``lengths`` believes how long jobs are that do not say so. ``expects_saves``: jobs save their work as
    ``Job.checkpoints`` says; otherwise a job is not expected to before it has.
    """

    def __init__(
        self,
        throughputs: Throughputs,
        prices: Prices | None = None,
        rules: Rules = DEFAULT,
        opens: frozenset[Kind] = frozenset(),
        lengths: Lengths | None = None,
        *,
        expects_saves: bool = True,
    ) -> None:
        self.throughputs, self.rules, self.opens = throughputs, rules, opens
        self.live = LiveJobs()
        self.accounts = Accounts(self.live, prices or Prices({}), rules)
        self.hardware = Hardware()
        self.failures = Failures(rules)
        self.leasing = Leasing(self.live, self.hardware, throughputs, self.accounts.settle, self.failures)
        self.lengths, self.expects_saves = lengths or Lengths(), expects_saves
        self.rounds = 0
        self.given_up: list[int] = []  # ids of jobs that failed too often
        self.lost_s = 0.0  # time on devices that preemptions have lost, of all jobs ever
        self._arrived: list[Job] = []
        self._known: set[int] = set()  # every job that was ever submitted
        self._kinds: dict[tuple[str, int], int] = {}
        self._speeds: dict[int, tuple[Floats, Floats]] = {}  # of a kind, on one server and on several
        self._promises = Promises()
        self._memory: Memory = {}
        self._trigger = SolveTrigger(rules)
        self.execution = Execution()  # of the present allocation
        self._asleep = False  # nothing can change before something happens
        self._sleep_until_s = -np.inf  # when the mechanism will be woken from its last sleep, if by nothing else
        self._planned = True  # the present round's devices are given out
        self.reserved: Reservation | None = None  # devices are held for this gang
        self._chosen: Choices | None = None  # or a portion of them is, and these are to have them
        self._now_s = self._round_end_s = 0.0

    # -- events -----------------------------------------------------------------------------------------------

    def handle(self, event: events.Event) -> list[Command]:
        """Take note of an event; say what is to be done."""
        assert event.time_s >= self._now_s, (event, self._now_s)
        self._now_s = self.leasing.now_s = event.time_s
        if not self._asleep:
            return self._take_note(event)
        if not self._wakes_up(event):
            return [] if isinstance(event, events.Wake) else self._take_note(event)
        return [*self._woken(), *self._take_note(event)]

    def _take_note(self, event: events.Event) -> list[Command]:  # noqa: PLR0912  # one branch an event
        match event:
            case events.Wake():
                commands = self._wake()
            case events.Progress():
                commands = self._progress(event)
            case events.LeaseEnded():
                commands = self._lease_ended(event)
            case events.Resized():
                commands = self._resized(event)
            case events.Allocated():
                commands = self._allocated(event.allocation)
            case events.JobSubmitted():
                commands = self._submitted(event.job)
            case events.ArrivalsEnded():
                commands = self._look_again()
            case events.WorkerJoined():
                commands = self._worker_joined(event.server, event.epoch)
            case events.WorkerLost():
                commands = self._worker_lost(event)
            case events.WorkerDrained():
                commands = self._servers_changed(self.leasing.drain(event.server_id, event.epoch))
            case events.ServerOffers():
                commands = self._server_offers(event)
            case events.JobCancelled():
                commands = self._cancelled(event.job_id)
            case events.PriceChanged():
                commands = self._prices_changed(event.prices)
            case events.ThroughputsChanged():
                commands = self._throughputs_changed(event.throughputs)
            case events.PolicyChanged():
                self.opens = event.opens
                self._trigger.all_changed()
                commands = self._look_again()
            case _:
                raise AssertionError(event)
        return commands

    def _submitted(self, job: Job) -> list[Command]:
        """A job enters once, however often its submission is reported, and not again after it is done."""
        if job.id in self._known:
            return []
        self._known.add(job.id)
        self._arrived.append(job)
        self._trigger.job_came(job.owner)
        return self._look_again()

    def _cancelled(self, job_id: int) -> list[Command]:
        """A job leaves before it is done, whether it has been let in or not."""
        for job in [job for job in self._arrived if job.id == job_id]:
            self._arrived.remove(job)
            self._trigger.job_withdrawn(job.owner)
        j = self.live.index.get(job_id)
        if j is None or self.live.done[j]:
            return []
        return [*self._finished(j), *self._look_again()]

    def _worker_joined(self, server: Server, epoch: int) -> list[Command]:
        if server.accelerator not in self.hardware.accelerators:
            self.hardware.add_type(server.accelerator)
            self._speeds.clear()
            self.accounts.know_types(self.hardware.accelerators)
            jobs, added = self.live.jobs, [server.accelerator]
            apart_J, together_J = (self.throughputs.matrix(jobs, added, whole)[:, 0] for whole in (False, True))
            none_J = np.zeros(len(jobs))
            self.live.add_type(throughput=together_J, spread_throughput=apart_J, others=none_J, paid_others=none_J)
            self._leave_out_too_small(range(len(self.live)))
        if self.hardware.comes_anew(server.id, epoch):
            self.failures.forget_server(server.id)
        return self._servers_changed(self.leasing.join(server, epoch))

    def _server_offers(self, event: events.ServerOffers) -> list[Command]:
        """Devices are taken back or lent again; jobs shrink where the policy knows of sizes."""
        may_resize = "sizes" in self.opens
        return self._servers_changed(self.leasing.offer(event, self._lapse_s(), may_resize=may_resize))

    def _worker_lost(self, event: events.WorkerLost) -> list[Command]:
        """What ran there is paid for until it had ended by itself, however late that is noticed."""
        stops = self.leasing.lose(event.server_id, event.epoch)
        for stopped, seconds in self.leasing.lapsed(event):
            j = self.live.index.get(stopped.job_id)
            if j is not None and not self.live.done[j]:
                self._held_otherwise(j, stopped, seconds, received=True)
        return self._servers_changed(stops)

    def _servers_changed(self, stops: list[Command] | None) -> list[Command]:
        """Servers came or went, unless that was no news."""
        if stops is None:
            return []
        self._chosen = None
        if self.live.count:
            self._trigger.all_changed()
        return [*stops, *self._look_again()]

    def _prices_changed(self, prices: Prices) -> list[Command]:
        """What was held until now is paid at the old prices; the policy hears of new ones at the next round.

        Where nothing runs there may be none for long, or ever: then it begins now.
        """
        self.accounts.settle_all(self._now_s)
        self.accounts.reprice(self._now_s, prices)
        self._trigger.all_changed()
        return self._look_again() if self.live.count and not self.leasing.leases else []

    def know(self, throughputs: Throughputs) -> None:
        """The table says more than before: of types of jobs or devices that are not here yet."""
        self.throughputs = self.leasing.throughputs = throughputs
        self._speeds.clear()

    def _throughputs_changed(self, throughputs: Throughputs) -> list[Command]:
        """Live jobs are as fast from now on as this table says; the policy is asked about it.

        Where all that was known of a job were estimates, its steps may be of another size than was thought.
        """
        guessed, types, live = self._guessed(), self.hardware.accelerators, self.live
        before = live.best_speed(guessed)
        self.know(throughputs)
        jobs = self.live.jobs
        live.throughput[:] = throughputs.matrix(jobs, types)
        live.equal_share_speed[guessed] *= live.best_speed(guessed) / before
        live.spread_throughput[:] = throughputs.matrix(jobs, types, consolidated=False)
        self._leave_out_too_small(range(len(live)))
        self.leasing.believe(live.holders())
        if not live.count:
            return []
        self._trigger.all_changed()
        return self._look_again()

    def _guessed(self) -> Ints:
        """The rows of live jobs of which no speed was measured."""
        ranges, types = self.throughputs.ranges, self.hardware.accelerators
        if not ranges:
            return np.zeros(0, dtype=np.int64)
        kinds = {(job.job_type, job.scale_factor) for job in self.live.jobs}
        unsure = {
            kind
            for kind in kinds
            if all(
                (way := Setting(kind[0], a, kind[1])) in ranges or way not in self.throughputs.isolated
                for a in types
            )
        }
        return np.flatnonzero([(job.job_type, job.scale_factor) in unsure for job in self.live.jobs])

    def _progress(self, event: events.Progress) -> list[Command]:
        """What leases did so far. A worker goes on reporting one that is complete until it is stopped.

        The first report of a lease says from where it really began: what the last one did may have been lost.
        """
        live = self.live
        if not len(live):
            return []
        j_L = live.rows(event.job_id_L)
        holds_L = (j_L >= 0) & (live.lease[j_L] == event.lease_L) & (live.type[j_L] != WAITING)
        j_L, steps_L, saved_L = j_L[holds_L], event.steps_done_L[holds_L], event.saved_steps_L[holds_L]
        known_L = live.saved_steps[j_L]
        forward_L = j_L[saved_L > known_L]
        live.failures[forward_L], live.saves[forward_L] = 0, True
        for j in (forward_L if self.failures.any else forward_L[live.protected[forward_L]]).tolist():
            self._came_forward(j)
        steps_L = np.maximum(np.where(live.heard[j_L], live.steps_done[j_L], 0.0), steps_L)
        live.heard[j_L] = True
        if event.said_steps_L is not None:
            live.said_steps[j_L] = event.said_steps_L[holds_L]
        if event.training_L is not None:
            reports = (event.training_L[row] for row in np.flatnonzero(holds_L).tolist())
            for j, report, steps in zip(j_L.tolist(), reports, steps_L.tolist(), strict=True):
                self.lengths.heard(live.jobs[j], report, steps)
                live.saves[j] |= report.says  # our library does
        live.steps_done[j_L], live.saved_steps[j_L] = steps_L, np.maximum(known_L, saved_L)
        live.steps_at_s[j_L] = event.time_s
        complete_L = (steps_L >= live.total_steps[j_L]) & ~live.done[j_L]
        commands = [command for j in j_L[complete_L].tolist() for command in self._complete(j)]
        return [*commands, *self._look_again()] if commands else []

    def _lease_ended(self, event: events.LeaseEnded) -> list[Command]:
        """The last word on a lease. Where a later lease of the job has been given out, only its time counts."""
        live, j = self.live, self.live.index.get(event.job_id)
        if j is None or live.done[j]:
            return []
        is_last = live.lease[j] == event.lease_id
        holds = is_last and live.type[j] != WAITING
        if holds:
            self.accounts.ended(j, event.held_s, self._now_s)
        elif self._last_word(j, event.lease_id, event.held_s) is not None:
            self._lost(j, event.lost_s)
        if is_last:
            self._stands_at(j, event.steps_done)
            if event.failed and holds:
                self._failed(j, event)
        if event.complete or (is_last and event.steps_done >= live.total_steps[j]):
            return [*self._complete(j), *self._look_again()]
        if not is_last:
            self._restarts(j, event)
            return []
        return self._failed_or_stopped(j, event) if holds else []

    def _failed_or_stopped(self, j: int, event: events.LeaseEnded) -> list[Command]:
        """The job is given up, or waits again; servers on which it and others failed are put aside."""
        servers = servers_of(self.leasing.leases[event.job_id])
        bad = [server_id for server_id in servers if self._is_bad(server_id)]
        if event.failed and not bad and self._is_final(j, event):
            self.given_up.append(event.job_id)
            return [GiveUp(event.job_id), *self._finished(j), *self._look_again()]
        self.leasing.release(j)
        commands = [command for server_id in bad for command in self._put_aside(server_id)]
        times = [
            self.failures.until_s(event.job_id),
            *(self.failures.aside[server_id].until_s for server_id in bad),
        ]
        wakes = [WakeAt(time_s) for time_s in times if time_s > self._now_s]
        return [*commands, *wakes, *self._look_again()]

    def _is_final(self, j: int, event: events.LeaseEnded) -> bool:
        """Whether a failed job is not tried again."""
        live = self.live
        if event.too_small:
            return not (live.throughput[j] > 0).any()
        has_saved, count = bool(live.saved_steps[j] > 0), int(live.failures[j])
        return self.failures.is_final(live.jobs[j], count, event.held_s, event.exit_code, has_saved=has_saved)

    def _leave_out_too_small(self, rows: Sequence[int]) -> None:
        """Jobs run no more on types whose memory was too small for them."""
        live = self.live
        for j in rows:
            for name in self.failures.too_small.get(live.jobs[j].id, ()):
                if name in self.hardware.accelerators:
                    a = self.hardware.accelerators.index(name)
                    live.throughput[j, a] = live.spread_throughput[j, a] = 0.0
                    live.kind[j] = self._kinds.setdefault(("", live.jobs[j].id), len(self._kinds))  # its own

    def _failed(self, j: int, event: events.LeaseEnded) -> None:
        """One failure more; and the job runs no more where its memory was too small."""
        live, servers = self.live, servers_of(self.leasing.leases[event.job_id])
        live.failures[j] += not event.too_small  # that is the fault of the type
        elsewhere = any(
            server.device_count and live.throughput[j, self.hardware.accelerators.index(server.accelerator)] > 0
            for server in self.hardware.servers.values()
            if server.id not in servers
        )
        self.failures.does_not_fit(event.job_id, event.too_small)
        self._leave_out_too_small([j])
        if event.too_small:
            self._trigger.all_changed()
        count, held_s = max(1, int(live.failures[j])), event.held_s
        self.failures.failed(event.job_id, servers, count, self._now_s, held_s=held_s, elsewhere=elsewhere)

    def _is_bad(self, server_id: int) -> bool:
        return server_id in self.hardware.servers and self.failures.is_bad(server_id, self._now_s)

    def _put_aside(self, server_id: int) -> list[Command]:
        """A server gets no leases for a while; what began there just now is stopped, too, and goes elsewhere."""
        for job_id, times in self.failures.put_aside(server_id, self._now_s).items():
            if (j := self.live.index.get(job_id)) is not None:
                self.live.failures[j] = max(0, int(self.live.failures[j]) - times)
        self.hardware.put_aside(server_id)
        here = [self.live.index[i] for i, lease in self.leasing.leases.items() if server_id in servers_of(lease)]
        self._trigger.all_changed()
        self._chosen = None
        return self.leasing.stop_all(here)

    def _take_back_servers(self) -> None:
        """Servers whose time aside is over get leases again."""
        for server_id in self.failures.over(self._now_s):
            del self.failures.aside[server_id]
            self.hardware.take_back(server_id)
            self._trigger.all_changed()
            self._chosen = None

    def _restarts(self, j: int, ended: events.LeaseEnded) -> None:
        """If the job was to go over from this lease to its present one, it is launched in that instead."""
        live, lease = self.live, self.leasing.leases.get(ended.job_id)
        if lease is not None and lease.continues == ended.lease_id and live.resizing[j]:
            live.resizing[j] = False
            self._stands_at(j, ended.steps_done)
            live.launched_s[j], live.steps_at_s[j] = self._now_s, self._now_s + live.restart_s[j]

    def _last_word(self, j: int, lease_id: int, held_s: float) -> Stopped | None:
        """A lease that the job gave up says for how long it was held; None if that was said before."""
        if (word := self.leasing.last_word(lease_id, held_s)) is None:
            return None
        stopped, seconds = word
        if seconds:  # some, only if something had to be saved, or the job went over from it
            self._held_otherwise(j, stopped, seconds, received=self.execution.quota)
        return stopped

    def _held_otherwise(self, j: int, stopped: Stopped, seconds: float, *, received: bool) -> None:
        """A lease that the job gave up was held for so much longer than was known."""
        late = ConfigurationSet.alone(*(np.array([each]) for each in (j, stopped.type, stopped.devices)))
        late.batch[:], late.others = stopped.batch, np.array([stopped.others], dtype=np.int64)
        self.accounts.ended_late(late, stopped.until_s, seconds, price=stopped.price, received=received)

    def _resized(self, event: events.Resized) -> list[Command]:
        """The job has gone over to its present lease, whose time counts from now; or it is late news."""
        live, j = self.live, self.live.index.get(event.job_id)
        if j is None or live.done[j]:
            return []
        before = self._last_word(j, event.before_id, event.held_s)
        if before is None:
            return []
        if (after := self.leasing.stopped.get(event.lease_id)) is not None:  # it was taken back meanwhile
            self.accounts.got_ready(j, before.new_of(after.uses), event.warm_s)
        elif live.lease[j] == event.lease_id and live.resizing[j]:
            self.accounts.got_ready(j, before.new_of(live.uses_of(j)), event.warm_s)
            live.resizing[j], live.heard[j] = False, True
            live.steps_done[j] = max(event.steps_done, float(live.saved_steps[j]))
            live.steps_at_s[j] = self._now_s + live.resize_s[j]
        return []

    def _stands_at(self, j: int, steps: float) -> None:
        """So many steps of a job are done and safe."""
        if steps > self.live.saved_steps[j]:
            self._came_forward(j)
        self.live.steps_done[j] = self.live.saved_steps[j] = steps

    def _came_forward(self, j: int) -> None:
        """The job has saved more than it ever had: it needs no protection, unless its user wants it."""
        self.live.failures[j], self.live.saves[j] = 0, True
        lease = self.leasing.leases.get(self.live.jobs[j].id)
        self.failures.came_forward(self.live.jobs[j].id, () if lease is None else servers_of(lease))
        if self.live.protected[j]:
            self.live.protected[j] = self.live.jobs[j].preemptible == "no"

    def _lost(self, j: int, seconds: float) -> None:
        """A preemption has lost so much of a job's time: all that its lease did."""
        if not seconds:
            return
        self.lost_s += seconds
        self.live.lost_s[j] += seconds
        self.live.saves[j] = False
        if self.live.saved_steps[j] == 0.0:
            self.live.worked_s[j] = 0.0
        if self.live.jobs[j].preemptible == "auto":
            self.live.protected[j] = True

    def _complete(self, j: int) -> list[Command]:
        """The job has reached its end: others of its kind are believed to be as long."""
        live, job = self.live, self.live.jobs[j]
        if self.lengths.learns:
            told = job.has_length
            worked_s = job.total_steps / live.best_speed(np.array([j]))[0] if told else live.worked_s[j]
            self.lengths.ended(job, float(worked_s))
        self.lengths.gone(job, job.total_steps if job.has_length else float(live.steps_done[j]))
        return self._finished(j)

    def _finished(self, j: int) -> list[Command]:
        """The job is done: its devices are free."""
        self.live.done[j], self._chosen = True, None
        self.failures.forget(self.live.jobs[j].id)
        self.lengths.gone(self.live.jobs[j], None)
        self._trigger.job_went(self.live.jobs[j].owner)
        return self.leasing.stop_all([j]) if self.live.type[j] != WAITING else []

    def _look_again(self) -> list[Command]:
        """Devices or jobs changed: see at once what can be done."""
        return [WakeAt(self._now_s, report=self._trigger.is_worth_asking(self._now_s, self.live.count))]

    def _waiting(self) -> Bools:
        """Which jobs hold no devices, and could use some."""
        waits_J: Bools = ~(self.live.running() | self.live.done)
        waits_J[self._backing_off()] = False
        return waits_J

    def _backing_off(self) -> list[int]:
        """The rows of jobs that failed, and are not tried again yet on what is free."""
        live, rows = self.live, list[int]()
        for job_id in self.failures.waiting(self._now_s):
            j, avoid = live.index[job_id], self.failures.avoided(job_id)
            free = [one.besides(avoid) for one in self.hardware.free]
            fits = (live.throughput[j] > 0) & (live.least_devices[j] <= np.array(free))
            if live.type[j] == WAITING and not (self.failures.may_begin_elsewhere(job_id) and fits.any()):
                rows.append(j)
        return rows

    # -- rounds -----------------------------------------------------------------------------------------------

    def _wake(self) -> list[Command]:
        self.accounts.accrue(self._now_s)
        self._take_back_servers()
        return self._round() if self._now_s >= self._round_end_s else self._between_rounds()

    def _round(self) -> list[Command]:
        """Account, admit, solve, plan."""
        self.accounts.note_who_is_behind(self._now_s)
        self._let_go()
        self._admit()
        self._begin_round()
        return self._solve() if self._must_solve() else self._plan()

    def _between_rounds(self) -> list[Command]:
        """New jobs come in, and devices that fell free go to jobs that wait."""
        self._admit()
        if self._trigger.pending_since_s is not None:
            return []
        if self.execution.whole_devices and self._must_solve() and self._could_fill():
            self._let_go()
            return self._solve()  # a policy that hands out whole devices says which job is next
        commands = self._plan()
        if self._must_solve() and self._could_fill():
            self._let_go()
            return [*commands, *self._solve()]
        runs_on = self._trigger.dirty and self.leasing.leases
        return [*commands, WakeAt(self._round_end_s, self._wants_a_report())] if runs_on else commands

    def _begin_round(self) -> None:
        self._planned, self._chosen = False, None
        self._round_end_s = self._now_s + self.rules.round_s
        self._trigger.round_begins(self._now_s)

    def _let_go(self) -> None:
        """Jobs that are done leave; their rows are dropped when they are many, as that takes a look at all."""
        if ids := self.live.let_go():
            self._chosen = None
            self.leasing.stopped.forget(set(ids))
            self.accounts.let_go()
            if (len(self.live) - self.live.count) * GONE_AT_MOST > len(self.live):
                self._drop_rows()

    def _drop_rows(self) -> None:
        """The rows of jobs that have left are dropped: a policy is told of the others alone."""
        if len(self.live) > self.live.count:
            self._chosen = None
            self.accounts.ways.renumber(self.live.drop_gone())

    def _admit(self) -> None:
        if not self._arrived:
            return
        live, new_J = self.live, []
        last_s = live.arrival_s.max(initial=-np.inf)
        for job in self._arrived:
            kind = self._kinds.setdefault((job.job_type, job.scale_factor), len(self._kinds))
            if kind not in self._speeds:
                self._speeds[kind] = self._speed(job, True), self._speed(job, False)
            new_J.append(live.add(job, kind, *self._speeds[kind], self.rules.overheads.of(job.job_type)))
        live.show()
        if not self.expects_saves:
            live.saves[new_J] = [job.preemptible == "yes" for job in self._arrived]
        live.stopped_s[new_J] = self._now_s
        if self.execution.backfill and self._trigger.are_few(len(new_J), live.count):
            self._let_in(np.array(new_J))
        self._trigger.jobs_let_in(later=bool(min(job.arrival_s for job in self._arrived) > last_s))
        self._arrived.clear()

    def _let_in(self, new_J: Ints) -> None:
        """A few of very many jobs may run where they are fast, before the policy is asked about them."""
        speed_JA = self.live.speeds(self.hardware.devices(), new_J)
        part_JA = speed_JA / np.maximum(speed_JA.max(axis=1, keepdims=True, initial=0.0), 1e-300)
        n, types = np.nonzero(part_JA >= FAST_ENOUGH)
        ways = ConfigurationSet.alone(new_J[n], types, self.live.wanted_devices[new_J[n]])
        self.accounts.ways = self.accounts.ways.joined(Entitlements.of_shares(ways, part_JA[n, types]))
        self.live.allocated[new_J] = True

    def _speed(self, job: Job, consolidated: bool) -> Floats:
        speed_A: Floats = self.throughputs.matrix([job], self.hardware.accelerators, consolidated)[0]
        return speed_A

    def _must_solve(self) -> bool:
        """Whether the policy is to be asked now; never while it has not answered."""
        return self._trigger.pending_since_s is None and self._trigger.must_ask(self._now_s, self.live.count)

    def _could_fill(self) -> bool:
        """Whether a job waits while enough devices that it can use are free."""
        free_A = np.array(self.hardware.free_devices())
        if not np.count_nonzero(free_A):
            return False
        rows, live = self._waiting().nonzero()[0], self.live
        needed_J = (live.least_devices if "sizes" in self.opens else live.wanted_devices)[rows]
        return bool(((live.throughput[rows] > 0) & (needed_J[:, None] <= free_A)).any())

    def _solve(self) -> list[Command]:
        self._drop_rows()
        self._trigger.asked(self._now_s, self.live.count)
        if not self.live.count:
            return self._plan()
        if not self.leasing.leases:
            return [Solve(self._snapshot())]
        wake = WakeAt(self._round_end_s, report=True)
        return [*self.leasing.extend(self._lapse_s()), wake, Solve(self._snapshot())]

    def _allocated(self, allocation: Allocation) -> list[Command]:
        """Take over the policy's answer; jobs that came or went since it was asked do no harm."""
        if allocation.snapshot.time_s != self._trigger.pending_since_s:
            return []  # a doubled answer
        self.accounts.accrue(self._now_s)
        self._let_go()  # what ended while the policy thought
        self._drop_rows()
        if self._now_s >= self._round_end_s:  # the answer took longer than the round
            self._begin_round()
        self.accounts.settle_all(self._now_s)
        self._promises, self._memory = allocation.promises(rounded=True), allocation.memory
        new = entitlements(self.live, self._promises, self.hardware.accelerators)
        known_J = self.live.rows(allocation.snapshot.id_J)
        self.live.allocated[:] = False
        self.live.allocated[known_J[known_J >= 0]] = True
        self.accounts.allocate(new)
        self._chosen = None
        self.execution = allocation.execution
        self.leasing.may_move = self.execution.may_move
        self._trigger.answered(self._now_s, self.execution)
        commands = self._plan()
        changed = self._trigger.dirty  # in the meantime
        return [*commands, *self._look_again()] if changed else commands

    def _plan(self) -> list[Command]:
        """Give out devices: all of them once a round; after that the ones that fall free, to jobs that wait.

        A large plan is carried out in portions, at the same time, so that other events are heard in between.
        """
        self.leasing.unfinished = False
        commands = self._fill(self._waiting()) if self._planned else self._plan_all()
        return [*commands, WakeAt(self._now_s)] if self.leasing.unfinished else commands

    def _plan_all(self) -> list[Command]:
        """From now on those run that come first."""
        if self._chosen is None:
            self._let_go()  # what ended since a portion
            self._chosen = self._select(self.hardware.devices(), None)
        chosen = self._chosen
        commands = self.leasing.arrange(chosen, self._lapse_s())
        if self.leasing.unfinished:
            return commands
        self._planned, self._chosen = True, None
        if self.leasing.left_out:  # gangs that found no place: others may have the devices
            waits_J = self._waiting()
            waits_J[[way.job for way in self.leasing.left_out]] = False
            commands += self._fill(waits_J, behind=self.leasing.left_out)
        self.rounds += bool(self.leasing.leases)
        if not self.leasing.leases:
            self._round_end_s = self._now_s  # nothing runs: the next change begins a round
            commands += self._wait_for_a_job()
            if not self._trigger.dirty or self._trigger.pending_since_s is not None or self._must_solve():
                return commands
            may_ask_s = self._trigger.may_ask_s(self._now_s, self.live.count)
            return [*commands, WakeAt(max(self._now_s + SHORTEST_S, may_ask_s), report=True)]
        if self._nothing_can_change():
            return [*commands, *self._sleep()]
        return [*commands, WakeAt(self._round_end_s, self._wants_a_report())]

    def _wait_for_a_job(self) -> list[Command]:
        """Where no job runs yet: until the first is owed enough, or has waited for long enough to fill."""
        live, rules, now_s, wakes = self.live, self.rules, self._now_s, list[Command]()
        owed_s = until_owed_s(self.accounts.ways, live, rules, now_s) if self.execution.quota else NEVER
        filling_s = until_filling_s(live, rules, now_s) if self.execution.backfill else NEVER
        wakes += [WakeAt(now_s + max(SHORTEST_S, wait_s)) for wait_s in (owed_s, filling_s) if wait_s < NEVER]
        if self._trigger.refresh_at_s < NEVER and not self._trigger.dirty:
            wakes.append(WakeAt(max(now_s + SHORTEST_S, self._trigger.refresh_at_s), report=True))
        return wakes

    def _nothing_can_change(self) -> bool:
        """Whether every way to run that was promised is being run, so that rounds will pass as this one."""
        awake = self._trigger.dirty or self.execution.first_on or self.reserved is not None
        if self.rules.sleep_s < self.rules.round_s or awake:
            return False
        if self._arrived:  # a job that nobody has looked at
            return False
        ways = self.accounts.ways
        if len(self.leasing.leases) < len(ways) or self.leasing.waits_to_grow:  # some way is not being run
            return False
        runs_J = self.live.running()
        if (
            self.rules.backfill is not None
            and self.execution.backfill
            and len(self.leasing.leases) < self.live.count
        ):
            return False
        way_L = self.live.way[runs_J]
        paired = (self.live.partner[runs_J] != ALONE).sum() // 2
        if self.execution.quota and (ways.share < 1.0 - NEGLIGIBLE).any():
            return False
        runs_all = len(way_L) - paired == len(ways) and not (way_L == NO_WAY).any()
        return bool(runs_all and self._trigger.refresh_at_s == NEVER and not self.live.spread.any())

    def _sleep(self) -> list[Command]:
        """Let the rounds pass. A wake that an earlier sleep asked for serves this one too."""
        self._asleep = True
        wakes = list[Command]()
        if self._sleep_until_s < self._now_s + self.rules.round_s:
            self._sleep_until_s = self._now_s + self.rules.sleep_s
            wakes.append(WakeAt(self._sleep_until_s))
        return [*self.leasing.extend(self._sleep_until_s + self.rules.round_s), *wakes]

    def _wakes_up(self, event: events.Event) -> bool:
        """Whether an event can change the next rounds, so that it ends the sleep.

        Wakes from before the sleep cannot, and neither can the last word on a lease that was taken back.
        """
        match event:
            case events.Wake():
                return event.time_s >= self._sleep_until_s
            case events.LeaseEnded():
                live, j = self.live, self.live.index.get(event.job_id)
                if j is None or event.complete:
                    return event.complete
                holds = live.lease[j] == event.lease_id and live.type[j] != WAITING
                return bool(holds or event.steps_done >= live.total_steps[j])
        return True

    def _woken(self) -> list[Command]:
        """Something happened: the rounds until then have passed, and the present one ends when it would have."""
        self._asleep = False
        while self._round_end_s < self._now_s:
            self._round_end_s += self.rules.round_s
            self.rounds += 1
        return [*self.leasing.extend(self._lapse_s()), WakeAt(self._round_end_s)]

    def _wants_a_report(self) -> bool:
        """Whether it matters at the round's end how far jobs are: to a policy, or to the choice of victims."""
        end_s, trigger = self._round_end_s, self._trigger
        asks = trigger.dirty and trigger.is_worth_asking(end_s, self.live.count)
        if asks or trigger.is_to_be_renewed(end_s):
            return True
        return bool(np.count_nonzero(self.live.checkpoint_s) or np.count_nonzero(self.live.protected))

    def _fill(self, waits_J: Bools, behind: Sequence[Choice] = ()) -> list[Command]:
        """Leases for jobs that wait, on devices that are free; ``behind`` gangs for which there is no place."""
        free = self.hardware.free_devices()
        if not (any(free) and np.count_nonzero(waits_J)):
            return []
        return self.leasing.launch(self._select(free, waits_J, behind), self._lapse_s())

    def _lapse_s(self) -> float:
        """A lease outlives its round by one, so it lapses only if the scheduler falls silent."""
        return self._round_end_s + self.rules.round_s

    def _select(self, free: list[int], candidate_J: Bools | None, behind: Sequence[Choice] = ()) -> Choices:
        """Jobs and the types they are to run on, by priority; of all of them, or of these that wait."""
        protection = self.protection(behind)
        if candidate_J is None:
            self._renew_reservation()
            chosen, left = self._select_of_all(free, protection)
        else:
            begins_elsewhere = self.execution.first_on and not self.execution.quota
            fits = None if begins_elsewhere or protection is not None else free
            only = of_these(self.accounts.ways, candidate_J, fits)
            chosen, left = select(self._found(only=only, protection=protection), free, protection=protection)
        if self.rules.backfill is None or not self.execution.backfill or not any(left):
            return chosen
        more = self._fillers(chosen, left, candidate_J, protection)
        return chosen.joined(more) if len(more) else chosen

    def _may_run(self, ways: Choices) -> Bools:
        """Which of these ways are of no job that waits to be tried again, or does not fit there."""
        waits_J = np.zeros(len(self.live) + 1, dtype=bool)  # ALONE, the last, does not wait
        waits_J[self._backing_off()] = True
        may_V: Bools = ~(waits_J[ways.job] | waits_J[ways.partner])
        for job_id in self.failures.too_small:
            if (j := self.live.index.get(job_id)) is not None:
                mine_V = (ways.job == j) | (ways.partner == j)
                may_V[mine_V] &= self.live.throughput[j, ways.type[mine_V]] != 0.0
        return may_V

    def _select_of_all(self, free: list[int], protection: Protection | None) -> tuple[Choices, list[int]]:
        """Who runs in this round. Jobs that would lose work make way only for a job that has no other place."""
        stays_J = np.zeros(len(self.live), dtype=bool) if protection is None else protection.stays_J
        settled_J = settled(self.accounts, self.execution, self._now_s) & ~stays_J
        spares_J = self._spares()
        found = self._found(stays_J=stays_J | settled_J, spares_J=spares_J, protection=protection)
        chosen, left = select(found, free, protection=protection)
        if settled_J.any():
            chosen, left = self._make_way(chosen, left, settled_J, spares_J)
        if self.reserved is None and not self.execution.quota:
            found = furthest_behind(self.accounts, self._now_s)
            deserved, _ = select(found.only(self._may_run(found.ways)), free)
            self.reserved = reserve(deserved, chosen, self.live, self._now_s)
            if self.reserved is not None:  # devices that others were to begin on are held
                return self._select_of_all(free, None if protection is None else self.protection())
        return chosen, left

    def _make_way(
        self, chosen: Choices, left: list[int], settled_J: Bools, spares_J: Bools | None
    ) -> tuple[Choices, list[int]]:
        """Jobs that found no place compete with those that would lose their work by making way.

        Who makes way for another may go elsewhere; the others stay.
        """
        live, settled_V = self.live, settled_J[chosen.job]
        placed_J = np.zeros(len(live), dtype=bool)
        placed_J[chosen.members()] = True
        held_A = self._held_by(chosen.take(settled_V))
        if self.rules.backfill is not None and self.execution.backfill:  # a slow device is a place, too
            slow = self._where_they_fill(~placed_J & ~live.done, replace(self.rules, backfill=0.0), None)
            slow = self._without_held(slow.only(self._may_run(slow.ways)))
            fill, left = select(slow, left, protection=self.protection())
            placed_J[fill.members()] = True
            chosen, settled_V = chosen.joined(fill), np.append(settled_V, np.zeros(len(fill), dtype=bool))
        left = [free + held for free, held in zip(left, held_A, strict=True)]
        found = self._found(spares_J=spares_J)
        ways = found.ways
        waits_V = ~(placed_J[ways.job] | np.append(placed_J, False)[ways.partner])
        stays_V = settled_J[ways.job] & (ways.number == live.way[ways.job])
        if self.reserved is not None and self._reservation_is_due(2):
            stays_V &= ways.type != self.reserved.type
        claims = found.only(waits_V | stays_V)
        unclaimed = settled_J.copy()
        unclaimed[claims.ways.job] = False
        here = as_they_run(self.accounts, np.flatnonzero(unclaimed & live.running()))
        keys = [np.append(key, np.full(len(here), -np.inf)) for key in claims.keys]
        more, left = select(Candidates(claims.ways.joined(here), keys), left, protection=self.protection())
        chosen = chosen.take(~settled_V).joined(more)
        left_J = settled_J.copy()
        left_J[more.members()] = False
        elsewhere, left = select(found.only(left_J[ways.job]), left)
        return chosen.joined(elsewhere), left

    def _found(
        self,
        *,
        stays_J: Bools | None = None,
        only: Ints | None = None,
        spares_J: Bools | None = None,
        protection: Protection | None = None,
    ) -> Candidates:
        """The ways that may be chosen; first leases are where a speed is to be measured, none on held devices."""
        args = self.accounts, self.execution, self._now_s
        found = candidates(*args, stays_J=stays_J, only=only, spares_J=spares_J)
        found = found.only(self._may_run(found.ways))
        if self.execution.first_on and not self.execution.quota:  # another type may cost more
            found = first_on(found, self.live, self._first_on())
        if (held := self.reserved) is not None and self._reservation_is_due(1):
            mine_V = (self.live.id[found.ways.job] == held.job_id) & (found.ways.type == held.type)
            found.keys[0][mine_V] = FIRST
        return self._without_held(found, protection)

    def _held_by(self, chosen: Choices) -> list[int]:
        """Devices of each type that these ways take."""
        held_A = [0] * len(self.hardware.accelerators)
        for way in chosen.one_by_one():
            for a, devices in way.uses.items():
                held_A[a] += devices
        return held_A

    # -- a gang that waits for many devices ----------------------------------------------------------------------

    def _renew_reservation(self) -> None:
        """It is over once its job runs or is gone, or can have so many devices no more."""
        if (held := self.reserved) is None:
            return
        j = self.live.index.get(held.job_id)
        waits = j is not None and self.live.type[j] == WAITING and not self.live.done[j] and self.live.share[j] > 0
        if not waits or held.devices > self.hardware.devices()[held.type]:
            self.reserved = None

    def _reservation_is_due(self, rounds: int) -> bool:
        return self.reserved is not None and self.reserved.rounds(self._now_s, self.rules.round_s) >= rounds

    def _spares(self) -> Bools | None:
        """Jobs that are not preempted if they are nearly complete: none on a type that a gang has waited for."""
        if self.reserved is None or not self._reservation_is_due(1):
            return None
        return np.asarray(self.live.type != self.reserved.type)

    def _without_held(self, found: Candidates, protection: Protection | None = None) -> Candidates:
        """These ways, less those that would take a device that is held."""
        if self.reserved is None or not len(found.ways):
            return found
        devices = self.hardware.devices()[self.reserved.type]
        left_s = self._round_end_s - self._now_s
        if protection is not None:  # the gang cannot begin before the protected jobs end
            left_s = max(left_s, protection.until_s(self.reserved.type))
        return found.only(~self.reserved.held_back(found, self.live, devices, left_s))

    def _first_on(self) -> list[tuple[int, int]]:
        """Where jobs are to begin so that a speed is measured, if enough devices of the type are here."""
        types = {name: a for a, name in enumerate(self.hardware.accelerators)}
        return [(job_id, types[name]) for job_id, name in self.execution.first_on if name in types]

    def _fillers(
        self, chosen: Choices, free: list[int], candidate_J: Bools | None, protection: Protection | None
    ) -> Choices:
        """Of the other jobs, those that may fill the devices that are left."""
        left_J = np.ones(len(self.live), dtype=bool) if candidate_J is None else candidate_J.copy()
        left_J[chosen.members()] = False
        left_J[self._backing_off()] = False
        if not np.count_nonzero(left_J):
            return Choices()
        devices = self.hardware.devices()
        if protection is not None:  # types that are held for long are not waited for
            protection.filling = True
            devices = [count - held for count, held in zip(devices, protection.held_A, strict=True)]
        found = self._where_they_fill(left_J, self.rules, None if protection is not None else free, devices)
        return select(self._without_held(found, protection), free, protection=protection)[0]

    def _where_they_fill(
        self, left_J: Bools, rules: Rules, free: list[int] | None, devices: list[int] | None = None
    ) -> Candidates:
        """Where these jobs may fill idle devices."""
        settled_J = settled(self.accounts, self.execution, self._now_s)
        devices = self.hardware.devices() if devices is None else devices
        return fillers(self.live, rules, left_J, self._now_s, devices, free, settled_J=settled_J)

    # -- facts ------------------------------------------------------------------------------------------------

    def job(self, job_id: int, now_s: float = 0.0) -> JobView | None:
        """What is known of a job; None if it is not live, or waits to be let in by the next round.

        Time and money are those at ``now_s``, or at the last event if that is later: while nothing changes, no
        event comes for a round.
        """
        live, j = self.live, self.live.index.get(job_id)
        if j is None:
            return None
        now_s = max(now_s, self._now_s)
        received_s = float(live.held_s[j]) + (now_s - float(live.since_s[j])) * (live.type[j] != WAITING)
        return JobView(
            job=live.jobs[j],
            steps_done=float(live.steps_done[j]),
            saved_steps=float(live.saved_steps[j]),
            share=float(live.share[j]),
            promised_s=self.accounts.promised_s(j, now_s),
            received_s=float(received_s),
            lost_s=float(live.lost_s[j]),
            spent_usd=self.accounts.spent_usd(j, now_s),
            failures=int(live.failures[j]),
            protected=bool(live.protected[j]),
            done=bool(live.done[j]),
            lease=self.leasing.leases.get(job_id),
        )

    def servers(self) -> tuple[Server, ...]:
        """The servers that are here and offer their devices."""
        return tuple(self.hardware.servers.values())

    def devices(self) -> dict[str, int]:
        """Devices that are here, by accelerator type."""
        return dict(zip(self.hardware.accelerators, self.hardware.devices(), strict=True))

    def free(self) -> dict[str, int]:
        """Devices that no job holds, by accelerator type."""
        return dict(zip(self.hardware.accelerators, self.hardware.free_devices(), strict=True))

    def running(self) -> int:
        """How many jobs hold devices."""
        return int(self.live.running().sum())

    def validate(self) -> None:
        """Raises AssertionError, which says what is wrong, if the books of the mechanism do not agree."""
        validate(self.live, self.leasing, self.accounts.ways)

    def service(self) -> AttainedService:
        """What each live job was promised and has received, and how far behind any job has been."""
        live, most_s = self.live, self.accounts.most_behind_s
        here = np.flatnonzero(~live.gone)
        return AttainedService(
            tuple(live.id[here].tolist()), live.promised_s[here], self.received_s_J()[here], most_s
        )

    def protection(self, behind: Sequence[Choice] = ()) -> Protection | None:
        """Which jobs are not to be preempted now, if any. ``behind`` these gangs protected jobs begin."""
        live, rules = self.live, self.rules
        if not (rules.min_run_s or np.count_nonzero(live.protected)):
            return None
        may_J = may_stay(self.accounts, self.execution, self._now_s)
        ways, devices = self.accounts.ways, self.hardware.devices()
        protection = Protection(live, ways, devices, rules, now_s=self._now_s, may_J=may_J)
        for way in behind:
            protection.passed_over(way.job, way.uses)
        return protection

    def received_s_J(self) -> Floats:
        """What each live job has received, as of now."""
        return self.accounts.received_s_J(self._now_s)

    def _snapshot(self) -> Snapshot:
        """All that the policy may know now."""
        self.accounts.settle_all(self._now_s)
        live, cluster = self.live, self.hardware.cluster
        self.accounts.compare_with_equal_share(cluster.devices_A)
        left_J, left_range_JE = self._steps_left()
        return Snapshot(
            cluster=cluster,
            jobs=tuple(live.jobs),
            known=self._known_ways(),
            steps_left_J=left_J,
            left_range_JE=left_range_JE,
            elapsed_s_J=self._now_s - live.arrival_s,
            usd_per_hour_A=self.accounts.prices.array(cluster.accelerators),
            time_s=self._now_s,
            equal_share_s_J=live.equal_share_s.copy(),
            spent_usd_J=live.spent_usd.copy(),
            equal_share_usd_J=live.equal_share_usd.copy(),
            held_s_J=live.held_s.copy(),
            running_J=self._holding_J(),
            restart_s_J=np.where(np.isnan(live.resize_s), live.checkpoint_s + live.restart_s, live.resize_s),
            promised=self._promises,
            memory=self._memory,
        )

    def _steps_left(self) -> tuple[Floats, Floats | None]:
        """Of each job, as it was told or as is believed; the latter with an interval."""
        live = self.live
        left_J = np.maximum(0.0, live.total_steps - live.steps_done)
        if not len(rows := live.untold()):
            return left_J, None
        left, best_J = self.left(rows), live.best_speed(rows)
        left_J[rows] = left.middle * best_J
        left_range_JE = np.column_stack([left_J, left_J])
        left_range_JE[rows] = np.column_stack([left.lower * best_J, left.upper * best_J])
        return left_J, left_range_JE

    def left(self, rows: Ints) -> Left:
        """How much longer these jobs take, in seconds on the fastest type of each, as is believed."""
        live = self.live
        said_J, done_J = live.said_steps[rows], live.steps_done[rows]
        part_J = np.divide(done_J, said_J, out=np.full(len(rows), np.nan), where=said_J > done_J)
        return self.lengths.left([live.jobs[j] for j in rows.tolist()], self.worked_s(rows), part_J)

    def worked_s(self, rows: Ints) -> Floats:
        """For how long these jobs of unknown length have worked, in seconds on the fastest type of each."""
        live = self.live
        since_s_J = np.where(live.type[rows] != WAITING, self._now_s - live.since_s[rows], 0.0)
        worked_s_J: Floats = live.worked_s[rows] + since_s_J
        return worked_s_J

    def _known_ways(self) -> Configurations:
        live = self.live
        if self.opens or self.throughputs.ranges:
            types, kinds = self.hardware.accelerators, {kind: kind in self.opens for kind in get_args(Kind)}
            told: dict[str, Any] = {**kinds, "devices_A": tuple(self.hardware.devices())}
            return self._without_too_small(ways_to_run(live.jobs, types, self.throughputs, **told))
        kind_J = (np.cumsum(np.bincount(live.kind) > 0) - 1)[live.kind]  # numbered without gaps
        return Configurations.of_matrix(live.throughput, live.wanted_devices, kind_J=kind_J)

    def _without_too_small(self, ways: Configurations) -> Configurations:
        """These without the ways of a job on a type whose memory was too small for it."""
        too_small, types = self.failures.too_small, self.hardware.accelerators
        rows = [j for job_id in too_small if (j := self.live.index.get(job_id)) is not None]
        if not rows:
            return ways
        bad_JA = np.zeros((len(self.live), len(types)), dtype=bool)
        for j in rows:
            bad_JA[j] = [name in too_small[self.live.jobs[j].id] for name in types]
        keep_C, c_M = np.ones(len(ways), dtype=bool), ways.configuration_M
        keep_C[c_M[bad_JA[ways.job_M, ways.accelerator_C[c_M]]]] = False
        if ways.others_CA.size:
            keep_C[c_M[(bad_JA[ways.job_M] & (ways.others_CA[c_M] > 0)).any(axis=1)]] = False
        return replace(ways.where(keep_C), kind_J=None)

    def _holding_J(self) -> Ints:
        """The type that each job holds by promise; who only fills in holds nothing."""
        return np.where(self.live.way == NO_WAY, WAITING, self.live.type)
