"""The actor: one loop that stamps what happened, makes it durable, lets the state follow, and carries out
commands.

    take        all that is pending, and the wake-ups that are due
    stamp       with one time, which never goes back
    log         in one transaction, in another thread
    apply       the entries in order; commands come out
    carry out   launches and stops to the agents, questions to the solver, wake-ups to the timer
    answer      the callers that wait

While the log cannot be written callers are told so; what happened anyway (final reports, lost servers, answers of
solvers, wake-ups) stays pending and is tried again, and leases that stand are renewed as before.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import grpc

from gavelx.errors import GavelxError
from gavelx.mechanism.commands import Command, Solve
from gavelx.mechanism.events import Wake
from gavelx.mechanism.failures import Aside
from gavelx.rpc.refused import RefusedError
from gavelx.service.agents.registry import AgentRegistry
from gavelx.service.agents.timing import Timing
from gavelx.service.loop.metrics import Metrics
from gavelx.service.loop.policy_calls import PolicyCalls
from gavelx.service.state.plain import FORMAT, to_plain
from gavelx.service.state.snapshots import SnapshotMaker
from gavelx.service.state.state import ALIVE_PART, State
from gavelx.service.store.clock import Clock
from gavelx.service.store.database import LogUnavailableError
from gavelx.service.store.log import Log
from gavelx.service.store.marks import MarksOfLog
from gavelx.service.store.places import LogError
from gavelx.service.store.records import Alive, Answered, Entry, record_of
from gavelx.snapshot import Snapshot

Make = Callable[[float], list[Entry]]
BATCH = 5000
"""Entries in one transaction, at most (one item's more)."""
PORTION = 250
"""Entries that are acted on at a stretch; others have their turns in between."""
PENDING = 2000
"""Calls that may wait at once."""
SNAPSHOT_AFTER_S = 3.0
"""A snapshot is taken when applying the records since the last one took so long: a replay takes that long, too."""
SNAPSHOT_AFTER = 20_000
REPORT_S = 30.0
"""Progress is written at least so often while there is any."""
IDLE_S = 3600.0
"""Where nothing runs, something is written so often: a bill has the time for which servers were idle."""
TRY_AGAIN_S = (0.1, 5.0)
STOPPING = "the service is stopping"
WRONG = "the log is not what it was, and the scheduler stops"
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Item:
    """Something to be logged; ``make`` says what when the time is known. ``lasting``: kept until it is durable."""

    make: Make
    lasting: bool
    done: "asyncio.Future[None]"


class EventLoop:
    """Owns the state: everything else asks it, on the same loop. :meth:`run` runs until :meth:`close`."""

    def __init__(  # what it joins
        self,
        log: Log,
        state: State,
        solver: PolicyCalls,
        timing: Timing,
        metrics: Metrics,
        *,
        restored: bool = False,
    ) -> None:
        self.log, self.state, self.solver, self.timing, self.metrics = log, state, solver, timing, metrics
        self.clock = Clock(state.started, state.now_s)
        self.log_failures = 0
        self.failure: str = ""  # why the log cannot be written, while it cannot
        self._wrong: GavelxError | None = None  # why the service may not go on
        self._items: list[Item] = []
        self._news = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, "gavelx-log")
        self._unsure: tuple[list[Item], list[Entry]] | None = None
        self._reported_s = time.monotonic()
        self._since_snapshot = 0
        self._applied_s = 0.0
        self._snapshot_maker = SnapshotMaker(log.place)
        self._snapshotting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        marks = MarksOfLog(log, self._writer, self.fail)
        self.agents = AgentRegistry(state, timing, marks, self.post, restored=restored)
        started = replace(self.clock.started, valid_for_s=timing.valid_for_s)
        self.post(lambda now_s: [Entry(started, {"utc": self.clock.utc})])
        if state.asked is not None:
            self._solve(state.asked)

    # -- what others may do -----------------------------------------------------------------------------------

    def post(self, make: Make) -> "asyncio.Future[None]":
        """Something happened: it will be logged, however long that takes. The future: it is, and applied."""
        return self._put(make, lasting=True)

    async def ask(self, make: Make) -> None:
        """A caller wants something: returns when it is durable and applied.

        Raises what ``make`` raises, :class:`LogUnavailableError` while the log cannot be written, and
        :class:`RefusedError` when too much is pending.
        """
        if len(self._items) >= PENDING:
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, f"more than {PENDING} calls wait; try again")
        await self._put(make, lasting=False)

    def _put(self, make: Make, *, lasting: bool) -> "asyncio.Future[None]":
        item = Item(make, lasting, self._loop.create_future())
        if self._closing:
            _refuse([item], self._gone())
        else:
            self._items.append(item)
            self._news.set()
        return item.done

    @property
    def pending(self) -> int:
        """How much waits to be logged."""
        return len(self._items)

    async def run(self) -> None:
        """Serve until closed; afterwards everything is on disk, with a snapshot."""
        pause_s = TRY_AGAIN_S[0]
        ticking = asyncio.create_task(self._tick())
        try:
            while not self._closing:
                await self._until_something()
                if await self._batch():
                    pause_s = TRY_AGAIN_S[0]
                else:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, TRY_AGAIN_S[1])
            if self._wrong is not None:
                raise self._wrong
            if self._unsure is None:  # else numbers were given to jobs that may not be in the log
                await self._last_snapshot()
        finally:
            ticking.cancel()
            self._snapshot_maker.stop()
            for task in self._tasks:
                task.cancel()
            _refuse(self._items, self._gone())
            self._writer.shutdown()
            self.solver.stop()

    def fail(self, error: GavelxError) -> None:
        """Stop at once, and say nothing any more: the log is not what it was. :meth:`run` raises the error."""
        self._wrong = self._wrong or error
        self.close()

    def _gone(self) -> LogUnavailableError:
        """What callers are told once it stops."""
        return LogUnavailableError(WRONG if self._wrong else STOPPING)

    def close(self) -> None:
        """Stop after the present batch."""
        self._closing = True
        self._news.set()

    # -- the loop ---------------------------------------------------------------------------------------------

    async def _until_something(self) -> None:
        if not self._items:
            wait_s = max(0.0, min(self.state.wakes, default=float("inf")) - self.clock.now_s())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), wait_s if wait_s < 1e6 else None)
        self._news.clear()

    async def _batch(self) -> bool:
        """One round of the loop; False if the log cannot be written."""
        if self._unsure is not None and not await self._settled():
            self._refuse_callers()
            return False
        now_s = self.clock.now_s()
        items, entries = self._taken(now_s)
        due = [time_s for time_s in self.state.wakes if time_s <= now_s]
        if any(self.state.wakes[time_s] for time_s in due):
            entries += self.agents.progress.entries(now_s)
        if due:
            entries.append(Entry(Wake(now_s)))
        if (items or entries) and not await self._logged(items, entries):
            return False
        await self._follow(items, entries)
        if due:
            self.metrics.round_late.observe(self.clock.now_s() - min(due))
        if self._applied_s > SNAPSHOT_AFTER_S or self._since_snapshot > SNAPSHOT_AFTER:
            self._begin_snapshot()
        return True

    def _taken(self, now_s: float) -> tuple[list[Item], list[Entry]]:
        """The items of this batch and what they are at this time; a caller who cannot have it is told so."""
        taken, entries = list[Item](), list[Entry]()
        while self._items and len(entries) < BATCH:
            item = self._items.pop(0)
            if item.done.cancelled():
                continue
            try:
                entries += item.make(now_s)
                taken.append(item)
            except GavelxError as error:
                item.done.set_exception(error)
        if self._items:
            self._news.set()
        return taken, entries

    async def _logged(self, items: list[Item], entries: list[Entry]) -> bool:
        """Write a batch. If that fails, callers are told, and what has to be logged stays.

        Also where a caller is told of what was written before, the log has to be there.
        """
        try:
            with self.metrics.append.time():
                await self._loop.run_in_executor(self._writer, self._append, entries)
        except LogUnavailableError as error:
            self.log_failures += 1
            if not self.failure:
                _log.error("%s", error)
            self.failure = str(error)
            self._unsure = items, entries
            _refuse([item for item in items if not item.lasting], error)
            return False
        except LogError as error:
            self.fail(error)
            _refuse(items, self._gone())
            return False
        if entries:
            self.failure = ""
        return True

    def _append(self, entries: list[Entry]) -> None:
        if not entries:
            self.log.check_place()
            return
        first = self.log.last_sequence + 1
        self.log.append([record_of(first + n, entry) for n, entry in enumerate(entries)])

    async def _settled(self) -> bool:
        """What became of a write that failed: it is applied, or what must be logged is pending again."""
        assert self._unsure is not None
        items, entries = self._unsure
        try:
            written = await self._loop.run_in_executor(self._writer, self.log.settle)
        except LogUnavailableError:
            return False
        except LogError as error:
            self.fail(error)
            return False
        self._unsure = None
        if written:
            await self._follow(items, entries)
        else:
            self._items[:0] = [item for item in items if item.lasting]
            self.agents.progress.report_again()
            self.state.forget_unlogged()
        return True

    def _refuse_callers(self) -> None:
        """The log still cannot be written: who asks is told so, and what has to be logged waits."""
        _refuse([item for item in self._items if not item.lasting], LogUnavailableError(self.failure))
        self._items = [item for item in self._items if item.lasting]

    def _tell_of_servers(self, before: Mapping[int, Aside]) -> None:
        """Say in the log of the service which servers were put aside, and which are in service again."""
        after = self.state.mechanism.failures.aside
        for server_id in before.keys() - after.keys():
            _log.warning("server %s gets leases again", self.state.machines[server_id].name)
        for server_id, aside in after.items():
            if server_id not in before:
                name = self.state.machines[server_id].name
                _log.error(
                    "server %s is put aside: %s; when it is mended: gavelx drain --undo %s",
                    name,
                    aside.reason,
                    name,
                )

    async def _follow(self, items: list[Item], entries: list[Entry]) -> None:
        """Everything in the batch is durable: act on it, a portion at a time."""
        for n in range(0, len(entries), PORTION):
            if n:
                await asyncio.sleep(0)
            self._apply(entries[n : n + PORTION])
        for item in items:
            if not item.done.done():
                item.done.set_result(None)
        self._since_snapshot += len(entries)

    def _apply(self, entries: list[Entry]) -> None:
        started = time.perf_counter()
        commands = list[Command]()
        for entry in entries:
            plans = isinstance(entry.event, Wake | Answered)
            with self.metrics.plan.time() if plans else nullcontext():
                before = dict(self.state.mechanism.failures.aside)
                commands += self.state.apply(entry)
                self._tell_of_servers(before)
        for command in commands:
            if isinstance(command, Solve):
                self._solve(command.snapshot)
        self.agents.follow(entries, commands)
        seconds = time.perf_counter() - started
        self.metrics.apply.observe(seconds)
        self._applied_s += seconds

    def _solve(self, snapshot: Snapshot) -> None:
        self._begin(self._answer(snapshot))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work beside the loop, which ends with it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer(self, snapshot: Snapshot) -> None:
        answer = await self.solver.answer(self.state.policy, snapshot, self.state.allocation)
        await self.post(lambda now_s: [Entry(Answered(now_s, answer))])

    async def _tick(self) -> None:
        """Once a second: which agents are silent; and now and then, how far all jobs are, or that we are here."""
        while True:
            await asyncio.sleep(min(1.0, self.timing.heartbeat_s))
            self.agents.tick()
            if time.monotonic() - self._reported_s >= REPORT_S and self.agents.progress:
                self._reported_s = time.monotonic()
                self.post(self.agents.progress.entries)
            idle = not self._items and self._unsure is None
            quiet_s = self.clock.now_s() - self.state.now_s
            if idle and quiet_s >= (ALIVE_PART * self.timing.valid_for_s if self.state.runs else IDLE_S):
                self.post(lambda now_s: [Entry(Alive(now_s))])

    def _begin_snapshot(self) -> None:
        """Have a snapshot made elsewhere, one at a time."""
        self._since_snapshot, self._applied_s = 0, 0.0
        if self._snapshotting is None or self._snapshotting.done():
            self._snapshotting = self._begin(self._made_elsewhere())

    async def _made_elsewhere(self) -> None:
        """A snapshot; then the records before it are archived, some at a time, as others write in between."""
        made = await self._snapshot_maker.make()
        if made is not None:
            sequence, data = made
            await self._keep(self.log.save_snapshot, sequence, FORMAT, data)
            while not self._closing and await self._keep(self.log.archive, sequence):
                pass
        elif not self._closing:
            _log.warning("no snapshot: the process that was to make it ended")

    async def _last_snapshot(self) -> None:
        """Keep the state where the loop has ended, so that a restart need not begin at the beginning.

        While it runs, records may be on disk and not applied yet, and the state may change while it is packed.
        """
        data = await asyncio.to_thread(to_plain, self.state)
        await self._keep(self.log.save_snapshot, self.log.last_sequence, FORMAT, data)

    async def _keep(self, write: Callable[..., Any], *what: Any) -> Any:
        """Write what is no record. None if that failed, which is no harm."""
        try:
            return await self._loop.run_in_executor(self._writer, write, *what)
        except LogUnavailableError as error:
            _log.warning("no snapshot: %s", error)
        except LogError as error:
            self.fail(error)
        return None


def _refuse(items: list[Item], error: GavelxError) -> None:
    for item in items:
        if not item.done.done():
            item.done.set_exception(error)
            item.done.exception()  # no caller has to ask
