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

from random import Random

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.configurations import Configurations
from gavelx.jobs import Job
from gavelx.mechanism import events
from gavelx.mechanism.accounts import account_equal_share, charge
from gavelx.mechanism.commands import Command, GiveUp, Solve, WakeAt
from gavelx.mechanism.leasing import Leasing
from gavelx.mechanism.live import LiveJobs
from gavelx.mechanism.promised import take_over, ways_to_serve
from gavelx.mechanism.rules import DEFAULT, Rules
from gavelx.mechanism.selection import Way, select
from gavelx.prices import Prices
from gavelx.promises import NOBODY, Promises
from gavelx.snapshot import WAITING, Kind, Snapshot
from gavelx.throughputs import Throughputs
from gavelx.ways_to_run import ways_to_run

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NEGLIGIBLE = 1e-9
"""A share of time below this is a solver's rounding, not a promise."""
NEVER = float("inf")


class Mechanism:
    """``handle(event)`` returns the commands that follow; everything else is how.

    ``opens`` names the kinds of configuration that the policy wants to be told of beyond the plain ones.
    """

    def __init__(
        self,
        throughputs: Throughputs,
        prices: Prices | None = None,
        rules: Rules = DEFAULT,
        opens: frozenset[Kind] = frozenset(),
    ) -> None:
        self.throughputs, self.prices, self.rules, self.opens = throughputs, prices or Prices({}), rules, opens
        self.live = LiveJobs()
        self.leasing = Leasing(self.live, throughputs, rules)
        self.rounds = 0
        self.given_up: list[int] = []  # ids of jobs that failed too often
        self._arrived: list[Job] = []
        self._known: set[int] = set()  # every job that was ever submitted
        self._kinds: dict[tuple[str, int], int] = {}
        self._promises = Promises()
        self._arrivals_ended = False
        self._stale = False  # jobs, devices or prices changed since the policy was last asked
        self._renew_s = NEVER  # when the policy wants to be asked again though nothing changed
        self._asked_s: float | None = None  # when the policy was asked what it has not answered yet
        self._strict = False  # the present allocation forbids to fill idle devices
        self._type_blind = False  # it does not tell types apart
        self._shuffler = Random(rules.seed + 5)
        self._planned = True  # the present round's devices are given out
        self._now_s = self._accounted_s = self._round_end_s = 0.0
        self._last_solve_s = 0.0

    # -- events -----------------------------------------------------------------------------------------------

    def handle(self, event: events.Event) -> list[Command]:
        """Take note of an event; say what is to be done."""
        assert event.time_s >= self._now_s, (event, self._now_s)
        self._now_s = self.leasing.now_s = event.time_s
        match event:
            case events.Wake():
                return self._wake()
            case events.Progress():
                return self._progress(event)
            case events.LeaseEnded():
                return self._lease_ended(event)
            case events.Allocated():
                return self._allocated(event.allocation)
            case events.JobSubmitted():
                return self._submitted(event.job)
            case events.ArrivalsEnded():
                self._arrivals_ended = True
                return self._look_again()
            case events.WorkerJoined():
                return self._worker_joined(event.server, event.epoch)
            case events.WorkerLost():
                return self._servers_changed(self.leasing.lose(event.server_id, event.epoch))
            case events.PriceChanged():
                self.prices, self._stale = event.prices, True
                return []
        raise AssertionError(event)

    def _submitted(self, job: Job) -> list[Command]:
        """A job enters once, however often its submission is reported, and not again after it is done."""
        if job.id in self._known:
            return []
        self._known.add(job.id)
        self._arrived.append(job)
        return self._look_again()

    def _worker_joined(self, server: Server, epoch: int) -> list[Command]:
        if server.accelerator not in self.leasing.accelerators:
            self.leasing.add_type(server.accelerator)
            jobs, added = self.live.jobs, [server.accelerator]
            self.live.add_type(*(self.throughputs.matrix(jobs, added, whole)[:, 0] for whole in (True, False)))
        return self._servers_changed(self.leasing.join(server, epoch))

    def _servers_changed(self, stops: list[Command] | None) -> list[Command]:
        """Servers came or went, unless that was no news."""
        if stops is None:
            return []
        self._stale = self._stale or len(self.live) > 0
        return [*stops, *self._look_again()]

    def _progress(self, event: events.Progress) -> list[Command]:
        """What leases did so far. A worker goes on reporting one that is complete until it is stopped."""
        live = self.live
        j_L = np.array([live.index.get(job_id, -1) for job_id in event.job_id_L.tolist()], dtype=np.int64)
        now_L = np.flatnonzero(j_L >= 0)
        now_L = now_L[(live["lease"][j_L[now_L]] == event.lease_L[now_L]) & live.running()[j_L[now_L]]]
        j_L, saved_L = j_L[now_L], event.saved_steps_L[now_L]
        live["failures"][j_L[saved_L > live["saved_steps"][j_L]]] = 0
        live["steps_done"][j_L] = np.maximum(live["steps_done"][j_L], event.steps_done_L[now_L])
        live["saved_steps"][j_L] = np.maximum(live["saved_steps"][j_L], saved_L)
        self._received(j_L, event.held_s_L[now_L])
        complete_L = self._complete(j_L) & ~live["done"][j_L]
        commands = [command for j in j_L[complete_L].tolist() for command in self._finished(j)]
        return [*commands, *self._look_again()] if commands else []

    def _lease_ended(self, event: events.LeaseEnded) -> list[Command]:
        """The last word on a lease. Where a later lease of the job has been given out, only its time counts."""
        live, j = self.live, self.live.index.get(event.job_id)
        if j is None or live["done"][j]:
            return []
        holds = live["lease"][j] == event.lease_id and bool(live.running()[j])
        if holds:
            self._received(np.array([j]), np.array([event.held_s]))
        else:
            self.leasing.settle(event.lease_id, event.held_s, self._charge)
        if live["lease"][j] != event.lease_id:
            return []
        if event.steps_done > live["saved_steps"][j]:
            live["failures"][j] = 0
        live["steps_done"][j] = live["saved_steps"][j] = event.steps_done
        live["failures"][j] += event.failed
        if self._complete(np.array([j]))[0]:
            return [*self._finished(j), *self._look_again()]
        if live["failures"][j] >= self.rules.max_failures:
            self.given_up.append(event.job_id)
            return [GiveUp(event.job_id), *self._finished(j), *self._look_again()]
        if holds and self.rules.whole_steps:
            live["busy_s"][j] = np.nan  # the round goes on without it
        elif holds:
            self.leasing.release(j)
        return self._look_again()

    def _complete(self, j_L: Ints) -> Bools:
        return np.asarray(self.live["steps_done"][j_L] >= self.live["total_steps"][j_L])

    def _finished(self, j: int) -> list[Command]:
        """The job is done: its devices are free, or idle until the round of whole steps is over."""
        self.live["done"][j] = self._stale = True
        runs = bool(self.live.running()[j]) and not self.rules.whole_steps
        return [self.leasing.stop(j)] if runs else []

    def _received(self, j_L: Ints, held_s_L: Floats) -> None:
        """These jobs say how long they have held their present devices."""
        live, priority = self.live, self.rules.priority
        seconds_L = np.maximum(0.0, held_s_L - live["lease_held_s"][j_L])
        live["lease_held_s"][j_L] += seconds_L
        live["held_s"][j_L] += seconds_L
        a_L, together_L = live["type"][j_L], live["partner"][j_L] != NOBODY
        price_L = np.where(together_L & self.rules.split_price, 0.5, 1.0)
        self._charge(j_L, a_L, seconds_L * price_L)
        alone, *pairs = live.blocks()
        priority.received(alone, (j_L[~together_L], a_L[~together_L]), seconds_L[~together_L])
        for n in np.flatnonzero(together_L).tolist() if pairs else ():
            j = int(j_L[n])
            if (p := live.pair_of(j, live.index[int(live["partner"][j])], int(a_L[n]))) is not None:
                priority.received(pairs[0], p, seconds_L[n] / 2)  # half from each of the two

    def _charge(self, j_L: Ints, a_L: Ints, seconds_L: Floats) -> None:
        charge(self.live, j_L, a_L, seconds_L, self.prices.array(tuple(self.leasing.accelerators)))

    def _look_again(self) -> list[Command]:
        """Devices or jobs changed: see at once what can be done, unless a round lasts as long as its leases."""
        return [] if self.rules.whole_steps and self.leasing.leases else [WakeAt(self._now_s)]

    # -- rounds -----------------------------------------------------------------------------------------------

    def _wake(self) -> list[Command]:
        if self.rules.whole_steps and self.leasing.leases and self._now_s < self._round_end_s:
            return []
        self._account()
        stopped = self._let_go()
        self._admit()
        begun = self._begin_round_if_due()
        if self._asked_s is not None:
            return [*stopped, *(self._plan() if begun else [])]
        if begun:
            return [*stopped, *(self._solve() if self._must_solve() else self._plan())]
        filled = self._plan()
        return [*stopped, *filled, *(self._solve() if self._must_solve() and self._could_fill() else [])]

    def _begin_round_if_due(self) -> bool:
        """A round begins when the last one is over, be it at a wake or at an answer that took longer than it."""
        due = self._now_s >= self._round_end_s
        if due:
            self._planned = False
            self._round_end_s = self._now_s + self.rules.round_s
            if self._now_s >= self._renew_s - self.rules.round_s / 2:  # of two rounds the nearer one
                self._stale = True
        return due

    def _account(self) -> None:
        """Promises accrue."""
        seconds = self._now_s - self._accounted_s
        for block in self.live.blocks():
            self.rules.priority.passed(block, seconds)
        self.live["promised_s"][:] += self.live.promised() * seconds
        self._accounted_s = self._now_s

    def _let_go(self) -> list[Command]:
        """Jobs that are done leave."""
        stopped = self.leasing.round_is_over() if self.rules.whole_steps else []
        done = np.flatnonzero(self.live["done"])
        self.leasing.forget({self.live.jobs[j].id for j in done.tolist()})
        self.live.drop_done()
        return stopped

    def _admit(self) -> None:
        for job in self._arrived:
            kind = self._kinds.setdefault((job.job_type, job.scale_factor), len(self._kinds))
            types = self.leasing.accelerators
            speeds = (self.throughputs.matrix([job], types, whole)[0] for whole in (True, False))
            j = self.live.add(job, kind, *speeds, self.rules.overheads.of(job.job_type))
            self.rules.priority.admitted(self.live, j, self.rules.round_s)
        self._stale = self._stale or bool(self._arrived)
        self._arrived.clear()

    def _must_solve(self) -> bool:
        """Whether to ask the policy now: something changed, and it was not asked just before."""
        never_asked = self._last_solve_s == 0.0  # the published system takes a call at time 0 for none at all
        return self._stale and (never_asked or self._now_s - self._last_solve_s >= self.rules.solve_interval_s)

    def _could_fill(self) -> bool:
        """Whether a job waits while enough devices that it can use are free."""
        free_A = self.leasing.free_A()
        fits_JA = (self.live["throughput"] > 0) & (self.live["scale_factor"][:, None] <= free_A)
        return bool((~self.live.running() & fits_JA.any(axis=1)).any())

    def _solve(self) -> list[Command]:
        self._stale, self._renew_s = False, NEVER
        if not len(self.live):
            self._last_solve_s = self._now_s  # the published system asks even then, which puts off the next time
            return self._plan()
        self._asked_s = self._now_s
        meanwhile = (
            [*self.leasing.extend(self._lapse_s()), WakeAt(self._round_end_s)] if self.leasing.leases else []
        )
        return [*meanwhile, Solve(self._snapshot())]

    def _allocated(self, allocation: Allocation) -> list[Command]:
        """Take over the policy's answer; jobs that came or went since it was asked do no harm."""
        if allocation.snapshot.time_s != self._asked_s:
            return []  # a doubled answer
        self._account()
        self._begin_round_if_due()
        self._promises = allocation.promises(above=0.0 if self.rules.interior else NEGLIGIBLE)
        known = [self.live.index.get(job.id, -1) for job in allocation.snapshot.jobs]
        since_s, types = self._now_s - self._last_solve_s, self.leasing.accelerators
        take_over(self.live, self._promises, known, types, self.rules, since_s)
        self._strict, self._type_blind = allocation.strict, allocation.type_blind
        self._asked_s, self._last_solve_s = None, self._now_s
        if allocation.ask_again_s is not None:
            self._renew_s = self._now_s + allocation.ask_again_s
        commands = self._plan()
        return [*commands, *self._look_again()] if self._stale else commands  # something changed in the meantime

    def _plan(self) -> list[Command]:
        """Give out devices: all of them once a round; after that the ones that fall free, to jobs that wait."""
        if self._planned:
            return self._fill(~self.live.running())
        self._planned = True
        chosen = self._select(self.leasing.cluster.devices_A, np.ones(len(self.live), dtype=bool))
        commands = self.leasing.arrange(chosen, self._lapse_s())
        if self.leasing.left_out:  # gangs that found no place: others may have the devices
            waits_J = ~self.live.running()
            waits_J[self.leasing.left_out] = False
            commands += self._fill(waits_J)
        self.rounds += bool(self.leasing.leases)
        if self.rules.whole_steps:
            return commands + self._end_with_the_work()
        if not self.leasing.leases:
            self._round_end_s = self._now_s  # nothing runs: the next change begins a round
            return commands
        return [*commands, WakeAt(self._round_end_s)]

    def _fill(self, waits_J: Bools) -> list[Command]:
        """Leases for jobs that wait, on devices that are free."""
        free_A = self.leasing.free_A()
        if not (free_A.any() and waits_J.any()):
            return []
        return self.leasing.launch(self._select(free_A, waits_J), self._lapse_s())

    def _end_with_the_work(self) -> list[Command]:
        """A round of whole steps ends with them; without any, it takes an arrival, or the end of all arrivals."""
        self._round_end_s = self._now_s
        if self.leasing.leases:
            self._round_end_s += self.leasing.longest_s()
            return [WakeAt(self._round_end_s)]
        if self._asked_s is not None or not (self._arrivals_ended and self._stale and len(self.live)):
            return []
        self._last_solve_s = 0.0
        return [WakeAt(self._now_s)]

    def _lapse_s(self) -> float:
        """A lease outlives its round by one, so it lapses only if the scheduler falls silent."""
        return NEVER if self.rules.whole_steps else self._round_end_s + self.rules.round_s

    def _select(self, free_A: Ints, candidate_J: Bools) -> list[Way]:
        """Jobs and the types they are to run on, by priority."""
        ways = ways_to_serve(self.live, candidate_J, self.rules, self._now_s, strict=self._strict)
        chosen = select(ways, self.live["scale_factor"], free_A, self._order_of_types())
        allocated_J = self.live["allocated"]
        return [way for way in chosen if allocated_J[way.job]] if self.rules.reserve_unallocated else chosen

    def _order_of_types(self) -> list[int] | None:
        if not self.rules.by_type:
            return None
        order = list(range(len(self.leasing.accelerators)))
        if self._type_blind:
            self._shuffler.shuffle(order)
        return order

    # -- facts ------------------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        """All that the policy may know now."""
        live, cluster = self.live, self.leasing.cluster
        usd_per_hour_A = self.prices.array(cluster.accelerators)
        account_equal_share(live, cluster.devices_A, usd_per_hour_A)
        return Snapshot(
            cluster=cluster,
            jobs=tuple(live.jobs),
            known=self._known_ways(),
            steps_left_J=np.maximum(0.0, live["total_steps"] - live["steps_done"]),
            elapsed_s_J=self._now_s - live["arrival_s"],
            usd_per_hour_A=usd_per_hour_A,
            time_s=self._now_s,
            equal_share_s_J=live["equal_share_s"].copy(),
            spent_usd_J=live["spent_usd"].copy(),
            equal_share_usd_J=live["equal_share_usd"].copy(),
            held_s_J=live["held_s"].copy(),
            running_J=self._holding_J(),
            promised=self._promises,
        )

    def _known_ways(self) -> Configurations:
        live = self.live
        if self.opens:
            pairs, placements = "pairs" in self.opens, "placements" in self.opens
            types = self.leasing.accelerators
            return ways_to_run(live.jobs, types, self.throughputs, pairs=pairs, placements=placements)
        kind_J = np.unique(live["kind"], return_inverse=True)[1]
        return Configurations.of_matrix(live["throughput"].copy(), live["scale_factor"], kind_J=kind_J)

    def _holding_J(self) -> Ints:
        """The type that each job holds. With whole steps leases end with the round: who has all its time goes on."""
        if not self.rules.whole_steps:
            return self.live["type"].copy()
        whole_JA = self.live["share"] == 1.0
        return np.where(whole_JA.any(axis=1), whole_JA.argmax(axis=1), WAITING)
