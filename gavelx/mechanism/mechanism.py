"""The mechanism: turns allocations into leases, round by round. Events in, commands out.

It does no I/O and knows no clock: time is what events say. A round reads like this::

    account     credit every running job with the time that it held its devices
    admit       let new jobs in
    solve       ask the policy, if jobs or devices came or went since it was last asked
    plan        order jobs by what they were promised and have not received; stop, extend, launch

Always true: a device is in one lease at most, a gang is launched whole or not at all, and nothing is launched on
a server that is gone. A policy that answers late blocks nothing: leases run on. The rules that may differ from
run to run are in `rules`.

Legend: J live jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster, Server
from gavelx.configurations import Configurations
from gavelx.jobs import Job
from gavelx.mechanism import events
from gavelx.mechanism.accounts import account_equal_share, charge
from gavelx.mechanism.commands import Command, Extend, Launch, Lease, Solve, Stop, WakeAt
from gavelx.mechanism.live import LiveJobs
from gavelx.mechanism.placement import FreeDevices
from gavelx.mechanism.rules import DEFAULT, Rules
from gavelx.mechanism.selection import select
from gavelx.prices import Prices
from gavelx.snapshot import WAITING, Snapshot
from gavelx.throughputs import Throughputs

NEGLIGIBLE = 1e-9
"""A share of time below this is a solver's rounding, not a promise."""


class Mechanism:
    """``handle(event)`` returns the commands that follow; everything else is how."""

    def __init__(self, throughputs: Throughputs, prices: Prices | None = None, rules: Rules = DEFAULT) -> None:
        self.throughputs, self.prices, self.rules = throughputs, prices or Prices({}), rules
        self.live = LiveJobs()
        self.leases: dict[int, Lease] = {}  # by job id
        self.rounds = 0
        self._servers: dict[int, Server] = {}
        self._accelerators: list[str] = []
        self._free: list[FreeDevices] = []  # by accelerator type
        self._priority = rules.priority(rules.round_s)
        self._arrived: list[Job] = []
        self._known: set[int] = set()  # every job that was ever submitted
        self._arrivals_ended = False
        self._stale = False  # jobs or devices changed since the policy was last asked
        self._asked_s: float | None = None  # when the policy was asked what it has not answered yet
        self._strict = False  # the present allocation forbids to fill idle devices
        self._planned = True  # the present round's devices are given out
        self._now_s = self._accounted_s = self._round_end_s = 0.0
        self._last_solve_s = self._last_end_s = 0.0
        self._last_lease_id = 0

    # -- events -----------------------------------------------------------------------------------------------

    def handle(self, event: events.Event) -> list[Command]:
        """Take note of an event; say what is to be done."""
        assert event.time_s >= self._now_s, (event, self._now_s)
        self._now_s = event.time_s
        commands: list[Command] = []
        match event:
            case events.Wake():
                commands = self._wake()
            case events.Allocated():
                commands = self._allocated(event.allocation)
            case events.LeaseEnded():
                commands = self._lease_ended(event)
            case events.Progress():
                for job_id, steps_done in event.steps_done.items():
                    self._credit_steps(job_id, steps_done)
            case events.JobSubmitted():
                commands = self._submitted(event.job)
            case events.ArrivalsEnded():
                self._arrivals_ended = True
                commands = self._look_again()
            case events.WorkerJoined():
                commands = self._worker_joined(event.server)
            case events.WorkerLost():
                commands = self._worker_lost(event.server_id)
            case _:
                raise AssertionError(event)
        return commands

    def _submitted(self, job: Job) -> list[Command]:
        """A job enters once, however often its submission is reported, and not again after it is done."""
        if job.id in self._known:
            return []
        self._known.add(job.id)
        self._arrived.append(job)
        return self._look_again()

    def _worker_joined(self, server: Server) -> list[Command]:
        if server.id in self._servers:
            return []
        if server.accelerator not in self._accelerators:
            self._accelerators.append(server.accelerator)
            self._free.append(FreeDevices())
            self.live.add_type(self.throughputs.matrix(self.live.jobs, [server.accelerator])[:, 0])
            self._priority.add_type()
        self._servers[server.id] = server
        self._free_of(server.accelerator).join(server)
        self._stale = self._stale or len(self.live) > 0
        return self._look_again()

    def _worker_lost(self, server_id: int) -> list[Command]:
        """Gangs that had a device there are stopped; they go on from what was last reported of them."""
        server = self._servers.pop(server_id, None)
        if server is None:
            return []
        self._free_of(server.accelerator).lose(server_id)
        self._stale = True
        hit = [lease for lease in self.leases.values() if any(d.server_id == server_id for d in lease.devices)]
        return [*(self._stop(lease) for lease in hit), *self._look_again()]

    def _lease_ended(self, event: events.LeaseEnded) -> list[Command]:
        self._credit_steps(event.job_id, event.steps_done)
        lease = self.leases.get(event.job_id)
        commands: list[Command] = []
        if lease is not None and lease.id == event.lease_id:
            self._release(lease)
        if self._finished(event.job_id) and event.job_id in self.leases:
            commands.append(self._stop(self.leases[event.job_id]))  # it was done before its last move
        return [*commands, *self._look_again()]

    def _credit_steps(self, job_id: int, steps_done: float) -> None:
        """Reports are totals, so the largest counts; a job that is gone does not care."""
        if (j := self.live.index.get(job_id)) is not None:
            self.live.rows["steps_done"][j] = max(self.live.rows["steps_done"][j], steps_done)

    def _finished(self, job_id: int) -> bool:
        """Whether the job has done all its steps; takes note of it."""
        j = self.live.index.get(job_id)
        if j is None or self.live.rows["steps_done"][j] < self.live.jobs[j].total_steps:
            return False
        self.live.rows["done"][j] = self._stale = True
        return True

    def _look_again(self) -> list[Command]:
        """Devices or jobs changed: see at once what can be done, unless a round lasts as long as its leases."""
        return [] if self.rules.whole_steps and self.leases else [WakeAt(self._now_s)]

    # -- rounds -----------------------------------------------------------------------------------------------

    def _wake(self) -> list[Command]:
        if self.rules.whole_steps and self.leases:
            return []
        self._account()
        self._admit()
        begun = self._begin_round_if_due()
        if self._asked_s is not None:
            return self._plan() if begun else []
        return self._solve() if self._must_solve() else self._plan()

    def _begin_round_if_due(self) -> bool:
        """A round begins when the last one is over, be it at a wake or at an answer that took longer than it."""
        due = not self.leases if self.rules.whole_steps else self._now_s >= self._round_end_s
        if due:
            self._planned = False
            self._round_end_s = self._now_s + self.rules.round_s
        return due

    def _account(self) -> None:
        """Credit every job with what it was promised and what it received since the last time."""
        rows = self.live.rows
        self._priority.passed(self.live, self._now_s - self._accounted_s)
        self._accounted_s = self._now_s
        running = np.flatnonzero(rows["type"] != WAITING)
        self._received(running)
        rows["since_s"][running] = self._now_s
        self.live.drop_done()

    def _admit(self) -> None:
        for job in self._arrived:
            self.live.add(job, self.throughputs.matrix([job], self._accelerators)[0])
            self._priority.admitted(self.live, len(self.live) - 1)
        self._stale = self._stale or bool(self._arrived)
        self._arrived.clear()

    def _must_solve(self) -> bool:
        """Whether to ask the policy now: something changed, and its answer could be used before the round ends."""
        if not self._stale:
            return False
        never_asked = self._last_solve_s == 0.0  # the published system takes a call at time 0 for none at all
        if not never_asked and self._now_s - self._last_solve_s < self.rules.solve_interval_s:
            return False
        return not self._planned or self._could_fill()

    def _could_fill(self) -> bool:
        """Whether a job waits while enough devices that it can use are free."""
        rows = self.live.rows
        fits_JA = (rows["throughput"] > 0) & (rows["scale_factor"][:, None] <= self._free_A())
        return bool(((rows["type"] == WAITING) & fits_JA.any(axis=1)).any())

    def _solve(self) -> list[Command]:
        self._stale = False
        if not len(self.live):
            self._last_solve_s = self._now_s  # the published system asks even then, which puts off the next time
            return self._plan()
        self._asked_s = self._now_s
        meanwhile = [*self._extend(), WakeAt(self._round_end_s)] if self.leases else []
        return [*meanwhile, Solve(self._snapshot())]

    def _allocated(self, allocation: Allocation) -> list[Command]:
        """Take over the policy's answer; jobs that came or went since it was asked do no harm."""
        if allocation.snapshot.time_s != self._asked_s:
            return []  # a doubled answer
        self._account()
        self._begin_round_if_due()
        rows = self.live.rows
        share_JA, known_J = np.zeros_like(rows["share"]), np.zeros(len(rows), dtype=bool)
        types = [self._accelerators.index(name) for name in allocation.snapshot.accelerators]
        for job, share_A in zip(allocation.snapshot.jobs, allocation.share_JA, strict=True):
            if (j := self.live.index.get(job.id)) is not None:
                share_JA[j, types] = np.where(share_A > NEGLIGIBLE, share_A, 0.0)
                known_J[j] = True
        self._priority.allocated(self.live, share_JA, known_J, self._now_s - self._last_solve_s)
        rows["share"], rows["allocated"] = share_JA, known_J
        self._strict, self._asked_s, self._last_solve_s = allocation.strict, None, self._now_s
        commands = self._plan()
        return commands + self._look_again() if self._stale else commands  # something changed in the meantime

    def _plan(self) -> list[Command]:
        """Give out devices: all of them once a round; after that the ones that fall free, to jobs that wait."""
        waiting_J = self.live.rows["type"] == WAITING
        if self._planned:
            return self._launch(self._select(self._free_A(), waiting_J))
        self._planned = True
        chosen = self._select(self.cluster.devices_A, np.ones(len(waiting_J), dtype=bool))
        commands = self._stop_or_extend(dict(chosen)) + self._launch(chosen)
        self.rounds += bool(self.leases)
        if self.rules.whole_steps:
            return commands + self._wait_for_work()
        if not self.leases:
            self._round_end_s = self._now_s  # nothing runs: the next change begins a round
            return commands
        return [*commands, WakeAt(self._round_end_s)]

    def _wait_for_work(self) -> list[Command]:
        """A round of whole leases ends with them; without any, it takes an arrival, or the end of all arrivals."""
        if self.leases or self._asked_s is not None:
            return []
        if not (self._arrivals_ended and self._stale and len(self.live)):
            return []
        self._last_solve_s = 0.0
        return [WakeAt(self._now_s)]

    def _select(self, free_A: NDArray[np.int64], candidate_J: NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Jobs and the types they are to run on, by priority."""
        rows = self.live.rows
        eligible_JA = candidate_J[:, None] & (rows["throughput"] > 0)
        if self._strict or not self.rules.backfill:
            eligible_JA &= rows["share"] > 0
        if not self.rules.reserve_unallocated:
            eligible_JA &= rows["allocated"][:, None]
        keys = self._priority.keys(self.live)
        chosen = select(keys, eligible_JA, rows["scale_factor"], free_A, by_type=self.rules.by_type)
        return [(j, a) for j, a in chosen if rows["allocated"][j]]

    # -- leases -----------------------------------------------------------------------------------------------

    def _stop_or_extend(self, type_of: dict[int, int]) -> list[Command]:
        """Jobs that are to stay on their type keep their devices; the others give them up."""
        rows, index = self.live.rows, self.live.index
        stays = {
            lease.id: rows["type"][index[job_id]] == type_of.get(index[job_id])
            for job_id, lease in self.leases.items()
        }
        stopped: list[Command] = [self._stop(lease) for lease in list(self.leases.values()) if not stays[lease.id]]
        return [*stopped, *self._extend()]

    def _extend(self) -> list[Command]:
        """All leases run on, past the end of the round."""
        if not self.leases:
            return []
        return [Extend(tuple(lease.id for lease in self.leases.values()), self._lapse_s())]

    def _launch(self, chosen: list[tuple[int, int]]) -> list[Command]:
        """Leases for the chosen jobs that do not run yet; the largest gangs first, to find whole servers."""
        rows = self.live.rows
        new = [(j, a) for j, a in chosen if rows["type"][j] == WAITING]
        new.sort(key=lambda pair: -rows["scale_factor"][pair[0]])
        return [Launch(self._new_lease(j, a)) for j, a in new]

    def _new_lease(self, j: int, a: int) -> Lease:
        job, row = self.live.jobs[j], self.live.rows[j]
        until_step = job.total_steps
        if self.rules.whole_steps:
            steps = max(1, int(row["throughput"][a] * self.rules.round_s))
            until_step = min(until_step, float(row["steps_done"]) + steps)
        self._last_lease_id += 1
        lease = Lease(
            id=self._last_lease_id,
            job_id=job.id,
            accelerator=self._accelerators[a],
            devices=self._free[a].take(job.scale_factor),
            until_s=self._lapse_s(),
            until_step=until_step,
            charged_from_s=self._last_end_s if self.rules.charge_gaps else self._now_s,
        )
        self.leases[job.id] = lease
        row["type"], row["since_s"] = a, lease.charged_from_s
        return lease

    def _lapse_s(self) -> float:
        """A lease outlives its round by one, so it lapses only if the scheduler falls silent."""
        return float("inf") if self.rules.whole_steps else self._round_end_s + self.rules.round_s

    def _stop(self, lease: Lease) -> Stop:
        self._release(lease)
        return Stop(lease.id)

    def _release(self, lease: Lease) -> None:
        """The job waits again and its devices are free."""
        del self.leases[lease.job_id]
        self._last_end_s = self._now_s
        self._free_of(lease.accelerator).give_back(lease.devices)
        j = np.array([self.live.index[lease.job_id]])
        self._received(j)
        self.live.rows["type"][j] = WAITING

    def _received(self, j: NDArray[np.int64]) -> None:
        """These jobs held their devices until now."""
        a, seconds = self.live.rows["type"][j], self._now_s - self.live.rows["since_s"][j]
        self._priority.received(self.live, j, a, seconds)
        charge(self.live, j, a, seconds, self.prices.array(tuple(self._accelerators)))

    # -- facts ------------------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        """All that the policy may know now."""
        rows, cluster = self.live.rows, self.cluster
        usd_per_hour_A = self.prices.array(cluster.accelerators)
        account_equal_share(self.live, cluster.devices_A, usd_per_hour_A)
        total_J = np.array([job.total_steps for job in self.live.jobs])
        arrival_s_J = np.array([job.arrival_s for job in self.live.jobs])
        return Snapshot(
            cluster=cluster,
            jobs=tuple(self.live.jobs),
            known=Configurations.of_matrix(rows["throughput"], rows["scale_factor"]),
            steps_left_J=np.maximum(0.0, total_J - rows["steps_done"]),
            elapsed_s_J=self._now_s - arrival_s_J,
            usd_per_hour_A=usd_per_hour_A,
            time_s=self._now_s,
            equal_share_s_J=rows["equal_share_s"].copy(),
            spent_usd_J=rows["spent_usd"].copy(),
            equal_share_usd_J=rows["equal_share_usd"].copy(),
            running_J=self._holding_J(),
        )

    def _holding_J(self) -> NDArray[np.int64]:
        """The type that each job holds. Leases of whole steps end with the round: who has all its time goes on."""
        if not self.rules.whole_steps:
            return np.array(self.live.rows["type"], dtype=np.int64)
        whole_JA = self.live.rows["share"] == 1.0
        return np.where(whole_JA.any(axis=1), whole_JA.argmax(axis=1), WAITING)

    @property
    def cluster(self) -> Cluster:
        """The servers that are here now."""
        return Cluster(tuple(self._servers.values()), tuple(self._accelerators))

    def _free_of(self, accelerator: str) -> FreeDevices:
        return self._free[self._accelerators.index(accelerator)]

    def _free_A(self) -> NDArray[np.int64]:
        return np.array([len(free) for free in self._free], dtype=np.int64)
