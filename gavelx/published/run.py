"""The published simulator: one loop over rounds of whole steps.

A round is as many whole steps of each job as fit into its length; it ends when the last of them is done, and
devices whose jobs are done idle until then. Between two rounds jobs leave, those that arrived join, the policy is
asked if it was not asked just before, and every job's devices are given out anew. So the idle gap before a round
counts as time of its jobs, and the devices of a job that the policy has not seen yet stay idle (slips, kept).

Beyond what was published, checkpoints take time, servers and jobs fail, and speeds and prices are not what they
were, as in the other simulator. Source: D. Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for
Deep Learning Workloads (OSDI 2020), section 5, and the simulator published with it.

Legend: J jobs, A accelerator types, V ways to run, L leases.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster, Server
from gavelx.configuration import ALONE, Configuration
from gavelx.configurations import Configurations
from gavelx.errors import OptionError
from gavelx.execution import Execution
from gavelx.jobs import Job
from gavelx.mechanism.commands import Device, Lease
from gavelx.mechanism.placement import FreeDevices
from gavelx.overheads import Overhead
from gavelx.prices import Prices
from gavelx.promises import Promises
from gavelx.published.jobs import Jobs
from gavelx.published.lease import Chosen, RoundRun
from gavelx.published.priority import Priority, promised_ways
from gavelx.published.rules import PublishedRules
from gavelx.published.solver import solve_interior
from gavelx.published.types import OrderOfTypes
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.faults import Chance, Faults
from gavelx.simulator.learning import Lessons
from gavelx.simulator.ledger import Ledger
from gavelx.simulator.recorder import Known, Recorder
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import using
from gavelx.throughputs import Pairing, Setting, Throughputs
from gavelx.ways_to_run import ways_to_run

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
FREED, HAPPENS = range(2)
"""What comes first among things at the same time."""
NEVER_S = 1e15
"""Between two checkpoints of a job that writes none; and when a policy wants to be asked again that does not."""
SHORTEST_S = 1e-3
"""No round is shorter: where a job is slower than its table says, its last one would be."""
IN_VAIN = 2000
"""After so many leases in a row with which no job got any further the run ends."""
CHUNK = 64
"""Ways looked at together, beyond twice as many as there are devices."""


def refuse(  # noqa: PLR0917
    rules: PublishedRules,
    faults: Faults,
    capacities: Sequence[Capacity],
    watch: object,
    lengths: str,
    opens: frozenset[Kind],
) -> None:
    """Raises :class:`OptionError` for what these rules know nothing of: they have no messages and no mechanism."""
    asked = {"lost": faults.lost, "late": faults.late, "doubled": faults.doubled}
    asked |= {"slow_solves": faults.slow_solves, "capacities": len(capacities), "watch": watch is not None}
    asked |= {"lengths": lengths != "told", "elastic(...)": "sizes" in opens}
    for name, wanted in asked.items():
        if wanted:
            problem = f"the rules {rules.name!r} do not support it"
            raise OptionError(problem, where=name, expected="the rules 'default'")


class PublishedRun:
    """A run from the first job to the last, or to the end of the round in which the ``measured`` are complete.

    Jobs run at the speeds of ``throughputs``; policy and rounds go by those that are ``told``.
    """

    def __init__(  # noqa: PLR0917
        self,
        jobs: Iterable[Job],
        cluster: Cluster,
        throughputs: Throughputs,
        rules: PublishedRules,
        measured: range | None,
        faults: Faults,
        price_changes: Sequence[tuple[float, Prices]],
        ledger: Ledger,
        told: Throughputs,
        prices: Prices,
        opens: frozenset[Kind],
        lessons: Lessons | None,
    ) -> None:
        self.cluster, self.throughputs, self.rules, self.ledger = cluster, throughputs, rules, ledger
        self.told, self.prices, self.price_changes, self.measured = told, prices, price_changes, measured
        self.now_s, self.rounds, self.most_behind_s = 0.0, 0, 0.0
        self.given_up: list[int] = []
        self.recorder = Recorder()
        self._types = list(dict.fromkeys(server.accelerator for server in cluster.servers))
        self._table = Jobs(len(self._types))
        self._priority = Priority(rules.round_s, len(self._types))
        self._order, self._faults, self._chance = OrderOfTypes(self._types, rules.seed), faults, Chance(faults)
        self._overheads = faults.overheads or rules.overheads
        self._opens, self._lessons = opens, lessons
        self._arrivals: Iterator[Job] | None = iter(jobs)
        self._total = len(jobs) if isinstance(jobs, Sequence) else 0
        self._missing = len(measured) if measured is not None else -1
        self._arrived: list[int] = []  # rows that are not let in yet
        self._live = np.zeros(0, dtype=np.int64)  # rows that are
        self._some_are_gone = False  # of those
        self._usd_per_s_A: list[float] = (prices.array(self._types) / 3600.0).tolist()
        self._left = 0  # jobs that are neither complete nor given up
        self._servers: dict[int, Server] = {}
        self._free = {name: FreeDevices() for name in self._types}
        self._held: dict[int, RoundRun] = {}  # by row
        self._closing: dict[int, RoundRun] = {}  # by lease id: they write a checkpoint
        self._ready_s: dict[object, float] = {}  # when they have, by device and by job id
        self._sharers: dict[tuple[Device, ...], int] = {}  # leases that hold these
        self._devices_A = dict.fromkeys(self._types, 0)
        self._round: list[tuple[RoundRun, Chosen]] = []  # leases of the present round
        self._settled = False  # as long as that is so, every round gives out what the present one does
        self._in_order: list[tuple[RoundRun, Chosen]] = []  # its leases by row, then
        self._last_end_s = 0.0  # of the last round in which something ran
        self._stale = False  # something changed since the policy was asked
        self._asked_s = 0.0  # when that was; 0.0 counts as never, a slip that is kept
        self._ask_again_s = NEVER_S
        self._promised = Promises()
        self._execution = Execution()
        self._in_vain = 0  # leases in a row that ended with no more saved than before
        self._accrued_s = 0.0  # promises have accrued until then
        self._woken = False  # something happened for which a round may begin
        self._queue: list[tuple[float, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence, self._lease_ids = count(), count(1)
        for server in cluster.servers:
            self._join(server)
        for time_s, changed in price_changes:
            self._push(time_s, HAPPENS, self._prices_change, changed)
        self._next_arrival()

    @property
    def submitted(self) -> list[Job]:
        return self._table.jobs

    def progress(self) -> tuple[int, int]:
        """How many of the jobs that count are complete, and how many they are."""
        if self.measured is not None:
            return len(self.measured) - self._missing, len(self.measured)
        return len(self.recorder.completion_s), self._total

    # -- rounds -----------------------------------------------------------------------------------------------

    def run(self, allocate: Callable[[Snapshot], Allocation]) -> Known:
        """Round by round, to the end."""
        with using(first=solve_interior):
            self._rounds(allocate)
        for run in [*self._held.values(), *self._closing.values()]:
            self._end(run)
        credited = dict(zip(self._table.row, self._table.steps_done.tolist(), strict=True))
        return Known(self.rounds, tuple(self.given_up), self.most_behind_s, credited)

    def _rounds(self, allocate: Callable[[Snapshot], Allocation]) -> None:
        self._wait()
        going_on = True
        while going_on and not self._is_over():
            self._hear()
            self._let_go()
            self._admit()
            if self.now_s >= self._ask_again_s - self.rules.round_s / 2:
                self._stale = True
            if self._stale and (self._asked_s == 0.0 or self.now_s - self._asked_s >= self.rules.solve_interval_s):
                self._ask(allocate)
            going_on = self._pass_round(self._give_out())

    def _is_over(self) -> bool:
        if self._missing == 0:
            return True
        return self._arrivals is None and (not self._left or self._in_vain >= IN_VAIN)

    def _hear(self) -> None:
        """What leases have taught, and which job is furthest behind what it was promised."""
        if self._lessons is not None and (told := self._lessons.news(self.now_s)) is not None:
            self.told, self._stale = told, True
            self._table.throughput[:] = told.matrix(self.submitted, self._types)
        table = self._table
        table.promised_s += table.share * (self.now_s - self._accrued_s)
        self._accrued_s = self.now_s
        behind_s_J = (table.promised_s - table.held_s)[self._live]
        self.most_behind_s = max(self.most_behind_s, float(behind_s_J.max(initial=0.0)))

    def _let_go(self) -> None:
        """Jobs that are done leave."""
        if self._some_are_gone:
            gone_J, self._some_are_gone = self._table.gone, False
            self._live = self._live[~gone_J[self._live]]
            self._priority.forget(gone_J)
            self._table.share[:] = self._priority.ways.share_J(len(gone_J))

    def _admit(self) -> None:
        """Jobs that arrived join; they may run on every type on which they can, and have no share yet."""
        if not self._arrived:
            return
        new = np.array([j for j in self._arrived if not self._table.gone[j]], dtype=np.int64)
        self._arrived.clear()
        if len(new):
            n, type_ = np.nonzero(self._table.throughput[new] > 0)
            self._priority.admit(new[n], type_, self._table.scale_factor[new[n]])
            self._live = np.concatenate([self._live, new])
            self._stale, self._settled = True, False

    def _ask(self, allocate: Callable[[Snapshot], Allocation]) -> None:
        """The policy promises anew; where there are no jobs that only takes up its turn (a slip, kept)."""
        self._stale, self._ask_again_s = False, NEVER_S
        if len(self._live):
            allocation, table = allocate(self._snapshot()), self._table
            self._promised = allocation.promises()
            table.allocated[self._live] = True
            ways = promised_ways(self._promised, table.row, table.throughput, self._types, self.rules.round_s / 2)
            self._priority.restart(ways, len(self._live), self.now_s - self._asked_s)
            table.share[:] = self._priority.ways.share_J(len(self.submitted))
            self._execution, self._settled = allocation.execution, False
            if self._execution.refresh_s is not None:
                self._ask_again_s = self.now_s + self._execution.refresh_s
        self._asked_s = self.now_s

    def _pass_round(self, seconds: float) -> bool:
        """What happens until the round ends; without one, until the next round may begin. False if none will."""
        if not self._held:
            return self._wait()
        end_s = self.now_s + max(SHORTEST_S, seconds)
        while self._queue and self._queue[0][0] <= end_s:
            self._happen()
        self.now_s = self._last_end_s = end_s
        self._account()
        return True

    def _wait(self) -> bool:
        """Nothing runs: until something happens for which a round may begin. False if nothing will."""
        if self._arrivals is None and self._stale and len(self._live):
            self._asked_s = 0.0  # nothing else would move the clock
            return True
        self._woken = False
        while self._queue and not (self._woken and self._queue[0][0] > self.now_s):
            if not self._woken and self._is_at_rest():
                return False
            self._happen()
        return self._woken

    def _is_at_rest(self) -> bool:
        """Whether nothing is to come but that servers, which are all there, go and come back."""
        return self._arrivals is None and all(do == self._lose for _, _, _, do, _ in self._queue)

    def _account(self) -> None:
        """The time that each lease of the round took is received, and paid."""
        table, now_s, received = self._table, self.now_s, list[tuple[int, int, float, float, float]]()
        for run, chosen in self._round:
            if not run.began:
                continue
            j, seconds = run.row, min(now_s, run.end_s) - run.since_s
            run.since_s = now_s
            if self._held.get(j) is run:
                table.steps_done[j] = run.steps_at(now_s)
                self._save(j, run.saved_at(now_s))
            part = self._price_part(chosen)
            usd = seconds * part * self._usd_per_s_A[run.type] * run.job.scale_factor if seconds else 0.0
            received.append(
                (j, chosen.number, seconds, seconds if chosen.partner == ALONE else seconds * 0.5, usd)
            )
        if received:
            j_L, way_L, seconds_L, part_s_L, usd_L = map(np.array, zip(*received, strict=True))
            table.held_s[j_L] += seconds_L
            table.spent_usd[j_L] += usd_L
            self._priority.receive(way_L, part_s_L)

    def _save(self, j: int, steps: float) -> None:
        if steps > self._table.saved_steps[j]:
            self._table.saved_steps[j], self._table.failures[j] = steps, 0

    # -- who runs ---------------------------------------------------------------------------------------------

    def _give_out(self) -> float:
        """Devices to the jobs that come first on each type; how many seconds their steps of the round take."""
        if self._settled:
            self.rounds += 1
            self._order.next(shuffled=not self._execution.knows_types)  # it draws as in any round
            return max(0.0, *[self._goes_on(run, way) for run, way in self._in_order])
        found = self._chosen()
        chosen = [way for way in found if self._table.allocated[way.job]]
        way_of = {member: way for way in chosen for member in way.members}
        stays = self._stays(chosen)
        for run in [run for j, run in self._held.items() if j not in stays]:
            self._stop(run)
        longest_s, width_J = 0.0, self._table.scale_factor
        for j in sorted(stays):
            longest_s = max(longest_s, self._goes_on(self._held[j], way_of[j]))
        begin = [way for way in chosen if not stays.issuperset(way.members)]
        for way in sorted(begin, key=lambda way: -int(width_J[way.job])):
            beside = next((self._held[m].lease.devices for m in way.members if m in self._held), None)
            devices = beside or self._free[self._types[way.type]].take(int(width_J[way.job]))
            for m in way.members:
                if m not in self._held:
                    longest_s = max(longest_s, self._launch(m, way, devices))
        self._round = [(run, way_of[j]) for j, run in self._held.items()]
        settled = self._all_find_room(found) if self._may_fill() else self._all_run(chosen)
        self._settled = bool(self._held) and settled
        self._in_order = sorted(self._round, key=lambda lease: lease[0].row) if self._settled else []
        self.rounds += bool(self._held)
        return longest_s

    def _all_run(self, chosen: Sequence[Chosen]) -> bool:
        """Whether every way with a share is chosen, where no other may be, so that the order does not matter."""
        ways = self._priority.ways
        return len(chosen) == np.count_nonzero(self._table.allocated[ways.job] & (ways.share > 0))

    def _all_find_room(self, found: Sequence[Chosen]) -> bool:
        """Whether every job is on the first type on which it can run, so that the order does not matter."""
        ways = self._priority.ways
        if not self._execution.knows_types or len(found) < len(self._live) or (ways.partner != ALONE).any():
            return False
        place_A = np.argsort(self._order.next(shuffled=False))
        first_J = np.full(len(self.submitted), len(place_A))
        np.minimum.at(first_J, ways.job, place_A[ways.type])
        return all(place_A[way.type] == first_J[way.job] for way in found)

    def _may_fill(self) -> bool:
        """Whether ways without a share take part."""
        return self._execution.backfill and self.rules.backfill is not None

    def _chosen(self) -> list[Chosen]:
        """Ways to run, type by type, each as many as find room; a job is taken once."""
        ways, order = self._priority.ways, self._priority.order(self._table.allocated)
        if not self._may_fill():
            order = order[ways.share[order] > 0]
        start_A = np.searchsorted(ways.type[order], np.arange(len(self._types) + 1)).tolist()
        chosen, taken = list[Chosen](), set[int]()
        for a in self._order.next(shuffled=not self._execution.knows_types):
            self._fill(a, order[start_A[a] : start_A[a + 1]], chosen, taken)
        return chosen

    def _fill(self, a: int, order: Ints, chosen: list[Chosen], taken: set[int]) -> None:
        """Take ways of a type in this order until no device is left; seldom many more than there are devices."""
        ways, left = self._priority.ways, self._devices_A[self._types[a]]
        size = 2 * left + CHUNK
        for start in range(0, len(order) if left else 0, size):
            part = order[start : start + size]
            columns = (ways.job[part], ways.partner[part], part, ways.devices[part])
            for j, k, v, width in zip(*(column.tolist() for column in columns), strict=True):
                if width <= left and j not in taken and k not in taken:
                    chosen.append(Chosen(j, k, a, v))
                    taken.update(chosen[-1].members)
                    left -= width
                    if not left:
                        return

    def _stays(self, chosen: Sequence[Chosen]) -> set[int]:
        """Rows that keep their devices. Of a pair that ran apart, one member stays and the other comes to it."""
        held, claimed, stays = self._held, set[tuple[Device, ...]](), set[int]()
        for way in chosen:
            host: tuple[Device, ...] | None = None
            for m in way.members:
                run = held.get(m)
                if run is None or run.type != way.type:
                    continue
                devices = run.lease.devices
                if host is None and devices not in claimed:
                    host = devices
                    claimed.add(host)
                if devices == host:
                    stays.add(m)
        return stays

    def _goes_on(self, run: RoundRun, way: Chosen) -> float:
        """Another round on the same devices: the seconds that its steps should take."""
        part = self._price_part(way)
        if run.began:
            run.turn(self.now_s)
            if part != run.price_part and self.now_s > run.logged[0]:
                self._log(run)
        run.price_part = part
        until_step, seconds = self._whole_steps(run.row, way, 0.0)
        run.until_step = max(until_step, run.from_steps)
        if way.partner != run.partner or way.job != run.row:
            run.steps_per_s = self._speed(run, way)
        if run.began:
            self._set_pace(run)
            pace = run.steps_per_s if run.from_s == self.now_s else 0.0
            self.ledger.goes_on(self.now_s, run.lease.id, pace, run.until_step)
        return seconds

    def _launch(self, j: int, way: Chosen, devices: tuple[Device, ...]) -> float:
        """A job gets devices, as soon as its own last checkpoint and that of the job before it are written."""
        table, job = self._table, self.submitted[j]
        has_run = table.held_s[j] > 0
        restart_s = self._overhead(job).restart_s if has_run else 0.0
        until_step, seconds = self._whole_steps(j, way, restart_s)
        since_s = self._last_end_s if self.rules.charge_gaps else self.now_s
        members = tuple(sorted(self.submitted[m].id for m in way.members))
        how, ids = Configuration(members, self._types[way.type], len(devices)), self._lease_ids
        lease = Lease(next(ids), job.id, how, devices, NEVER_S, until_step, since_s)
        steps = float(table.steps_done[j])
        run = RoundRun(
            lease=lease,
            job=job,
            start_s=self.now_s,
            begin_s=self.now_s,
            from_s=self.now_s,
            from_steps=steps,
            until_step=max(until_step, steps),
            steps_per_s=1.0,
            saved_steps=steps,
            checkpoint_every_s=self._faults.checkpoint_every_s if job.checkpoints else NEVER_S,
            price_part=self._price_part(way),
            row=j,
            type=way.type,
            since_s=since_s,
        )
        run.steps_per_s = self._speed(run, way)
        self._held[j] = run
        self._sharers[devices] = self._sharers.get(devices, 0) + 1
        start_s = max((self._ready_s.get(what, 0.0) for what in (*devices, job.id)), default=0.0)
        if start_s > self.now_s:
            self._push(start_s, FREED, self._begin, run, restart_s)
        else:
            self._begin(run, restart_s)
        return seconds

    def _whole_steps(self, j: int, way: Chosen, restart_s: float) -> tuple[float, float]:
        """Up to which step a job comes in a round, and how many seconds that should take.

        A job that restarts has as many steps less as that takes, but always one, so that it gets further.
        """
        table, job = self._table, self.submitted[j]
        speed = float(table.throughput[j, way.type])
        if way.partner != ALONE:
            partner = self.submitted[way.partner if j == way.job else way.job]
            speed = self.told.colocated[Pairing(job.job_type, partner.job_type, self._types[way.type])]
        done = float(table.steps_done[j])
        steps = max(1, math.floor(speed * (self.rules.round_s - restart_s)))
        until_step = min(job.total_steps, done + steps)
        return until_step, restart_s + (until_step - done) / speed

    def _price_part(self, way: Chosen) -> float:
        return 0.5 if way.partner != ALONE and self.rules.split_price else 1.0

    # -- what happens -----------------------------------------------------------------------------------------

    def _push(self, time_s: float, order: int, do: Callable[..., None], *what: Any) -> None:
        heapq.heappush(self._queue, (time_s, order, next(self._sequence), do, what))

    def _happen(self) -> None:
        """The next thing happens."""
        time_s, _, _, do, what = heapq.heappop(self._queue)
        assert time_s >= self.now_s, (time_s, self.now_s, do)
        self.now_s = time_s
        do(*what)

    def _next_arrival(self) -> None:
        assert self._arrivals is not None
        if (job := next(self._arrivals, None)) is None:
            self._arrivals = None
        else:
            assert not self.submitted or job.arrival_s >= self.submitted[-1].arrival_s, "jobs out of order"
            self._push(job.arrival_s, HAPPENS, self._submit, job)

    def _submit(self, job: Job) -> None:
        self._arrived.append(self._table.add(job, self.told.matrix([job], self._types)[0]))
        self._left, self._in_vain, self._woken = self._left + 1, 0, True
        self._next_arrival()

    def _prices_change(self, prices: Prices) -> None:
        """What is held now is in the log at the prices that it had."""
        for run in [*self._held.values(), *self._closing.values()]:
            if run.began:
                run.turn(self.now_s)
                self._log(run)
                if self._held.get(run.row) is run:
                    self._set_pace(run)
        self.prices, self._stale = prices, True
        self._usd_per_s_A = (prices.array(self._types) / 3600.0).tolist()
        self._woken |= len(self._live) > 0

    def _join(self, server: Server) -> None:
        self._servers[server.id] = server
        self._devices_A[server.accelerator] += server.device_count
        self._free[server.accelerator].join(server)
        self.ledger.joined(server, self.now_s)
        self._servers_changed()
        if (after_s := self._chance.failure_of_server_s(self.now_s)) is not None:
            self._push(self.now_s + after_s, HAPPENS, self._lose, server)

    def _lose(self, server: Server) -> None:
        """A server dies, with every gang that had a device there, and comes back later."""
        del self._servers[server.id]
        self._devices_A[server.accelerator] -= server.device_count
        for run in [*self._held.values(), *self._closing.values()]:
            if any(device.server_id == server.id for device in run.lease.devices):
                self._end(run, safe_steps=run.saved_at(self.now_s))
        self._free[server.accelerator].lose(server)
        self.ledger.lost(server.id, self.now_s)
        self._servers_changed()
        self._push(self.now_s + self._chance.outage_s(), HAPPENS, self._join, server)

    def _servers_changed(self) -> None:
        self._settled = False
        self._stale |= len(self._live) > 0
        self._woken = True

    def _begin(self, run: RoundRun, restart_s: float) -> None:
        """The devices of a lease are free: the job loads its checkpoint, and works."""
        if self._held.get(run.row) is not run:
            return  # it was stopped before that
        now_s, job = self.now_s, run.job
        run.began, run.start_s, run.begin_s = True, now_s, now_s + restart_s
        run.from_s, run.logged = run.begin_s, (now_s, 0.0, 0.0)
        run.from_steps = run.saved_steps = float(self._table.steps_done[run.row])
        run.until_step = max(run.until_step, run.from_steps)
        run.held_s = run.billed_s = run.begin_s - run.lease.charged_from_s  # the gap before, and loading
        self._set_pace(run)
        self.ledger.started(now_s, run.lease, job, 0.0 if restart_s else run.steps_per_s)
        if (after_s := self._chance.failure_of_job_s(now_s)) is not None:
            self._push(run.begin_s + after_s, HAPPENS, self._fail, run)

    def _set_pace(self, run: RoundRun) -> None:
        """When the run will have loaded its checkpoint, and have done its job."""
        if run.from_s > self.now_s:
            self._push(run.from_s, FREED, self._works, run, run.version)
        if run.until_step >= run.job.total_steps:
            self._push(run.end_s, FREED, self._complete, run, run.version)

    def _works(self, run: RoundRun, version: int) -> None:
        if self._held.get(run.row) is run and run.version == version:
            self.ledger.goes_on(self.now_s, run.lease.id, run.steps_per_s, run.until_step)

    def _complete(self, run: RoundRun, version: int) -> None:
        if self._held.get(run.row) is run and run.version == version:
            self._end(run, safe_steps=run.until_step)  # by its own clock it may be a rounding short of that

    def _fail(self, run: RoundRun) -> None:
        if self._held.get(run.row) is not run:
            return
        self._end(run, safe_steps=run.saved_at(self.now_s), failed=True)
        self._table.failures[run.row] += 1
        if self._table.failures[run.row] >= self.rules.max_failures and not self._table.gone[run.row]:
            self.given_up.append(run.job.id)
            self._leave(run.row)

    def _stop(self, run: RoundRun) -> None:
        """The job writes a checkpoint, if it did anything since the last one, and ends."""
        checkpoint_s = self._overhead(run.job).checkpoint_s if run.job.checkpoints else 0.0
        if not run.began or checkpoint_s == 0.0 or run.steps_at(self.now_s) == run.saved_steps:
            self._end(run)
            return
        run.turn(self.now_s)
        run.until_step = run.from_steps
        self.ledger.goes_on(self.now_s, run.lease.id, 0.0, run.from_steps)
        self._release(run)
        self._closing[run.lease.id] = run
        ready_s = self.now_s + checkpoint_s
        self._ready_s |= dict.fromkeys((*run.lease.devices, run.job.id), ready_s)
        self._push(ready_s, FREED, self._closed, run)

    def _closed(self, run: RoundRun) -> None:
        if run.lease.id in self._closing:
            self._end(run)

    def _end(self, run: RoundRun, *, safe_steps: float | None = None, failed: bool = False) -> None:
        """A lease is over; what the job did up to its last checkpoint is safe."""
        if self._closing.pop(run.lease.id, None) is None:
            self._release(run)
        if not run.began:
            return
        j, job = run.row, run.job
        if self._lessons is not None:
            self._measure(run)
        run.turn(self.now_s)
        if safe_steps is None:
            safe_steps = run.from_steps if job.checkpoints else run.saved_steps
        self._in_vain = 0 if safe_steps > self._table.saved_steps[j] else self._in_vain + 1
        self._save(j, safe_steps)
        self._table.steps_done[j] = self._table.saved_steps[j] = safe_steps
        self._log(run)
        self.ledger.ended(self.now_s, run.lease.id, run.worked_s, safe_steps, failed=failed)
        run.until_step = run.from_steps  # it gets no further
        if safe_steps >= job.total_steps:
            self.recorder.completion_s[job.id] = self.now_s
            self._leave(j)

    def _release(self, run: RoundRun) -> None:
        """The devices of a lease are free, unless they are shared."""
        del self._held[run.row]
        self._settled = False
        devices = run.lease.devices
        self._sharers[devices] -= 1
        if not self._sharers[devices]:
            del self._sharers[devices]
            self._free[run.lease.accelerator].give_back(devices)

    def _leave(self, j: int) -> None:
        """The job is complete, or given up."""
        self._table.gone[j] = self._stale = self._some_are_gone = True
        self._left -= 1
        if self.measured is not None and j in self.measured:
            self._missing -= 1

    def _log(self, run: RoundRun) -> None:
        """What the log does not have yet of a lease."""
        since_s, billed_s, worked_s = run.logged
        self.recorder.lease(run.lease, since_s, self.now_s, run.billed_s - billed_s, run.worked_s - worked_s)
        run.logged = self.now_s, run.billed_s, run.worked_s

    def _speed(self, run: RoundRun, way: Chosen) -> float:
        """Steps/s as things are; servers make no difference."""
        how = self._how(run, way)
        speed = self.throughputs.isolated.get(how) if isinstance(how, Setting) else self.throughputs.colocated[how]
        assert speed, f"job {run.job.id} cannot run in {run.lease}"
        run.how, run.partner = how, way.partner
        return speed * self._chance.speed(run.job.id)

    def _how(self, run: RoundRun, way: Chosen) -> Setting | Pairing:
        if way.partner == ALONE:
            return Setting(run.job.job_type, run.lease.accelerator, run.job.scale_factor)
        partner = self.submitted[way.partner if run.row == way.job else way.job]
        return Pairing(run.job.job_type, partner.job_type, run.lease.accelerator)

    def _measure(self, run: RoundRun) -> None:
        """The lease says how fast it was in its last round."""
        assert self._lessons is not None and run.how is not None
        measured = run.steps_per_s * self._chance.measured(run.lease.id)
        self._lessons.ran(run.how, measured, self.now_s - run.from_s)

    def _overhead(self, job: Job) -> Overhead:
        return self._overheads.of(job.job_type)

    # -- what the policy is told ----------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        table, live = self._table, self._live
        cluster = Cluster(tuple(self._servers.values()), tuple(self._types))
        usd_per_hour_A = self.prices.array(cluster.accelerators)
        table.compare_with_equal_share(live, cluster.devices_A, usd_per_hour_A / 3600.0)
        jobs = tuple(self.submitted[j] for j in live.tolist())
        return Snapshot(
            cluster=cluster,
            jobs=jobs,
            known=self._known_ways(jobs, live),
            steps_left_J=np.maximum(0.0, (table.total_steps - table.steps_done)[live]),
            elapsed_s_J=self.now_s - table.arrival_s[live],
            usd_per_hour_A=usd_per_hour_A,
            time_s=self.now_s,
            equal_share_s_J=table.equal_share_s[live],
            spent_usd_J=table.spent_usd[live],
            equal_share_usd_J=table.equal_share_usd[live],
            held_s_J=table.held_s[live],
            running_J=self._priority.staying_J(len(self.submitted))[live],
            promised=self._promised,
        )

    def _known_ways(self, jobs: Sequence[Job], live: Ints) -> Configurations:
        if self._opens or self.told.ranges:
            pairs, placements = "pairs" in self._opens, "placements" in self._opens
            return ways_to_run(jobs, self._types, self.told, pairs=pairs, placements=placements)
        table = self._table
        kind_J = np.unique(table.kind[live], return_inverse=True)[1]
        return Configurations.of_matrix(table.throughput[live], table.scale_factor[live], kind_J=kind_J)
