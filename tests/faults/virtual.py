"""AgentRegistry and agents on virtual time, with every message at the mercy of a seed: thousands of runs an hour.

What is real: the state and registry of agents of the service, the decisions of agents, the messages. What is
played: time, streams (messages late, lost with their stream, doubled, overtaken), the log (what was not written
when the service is killed is gone), jobs (they sleep, and use every second that their lease allows).
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from gavelx.elastic import Elastic
from gavelx.estimator.active import first_leases
from gavelx.jobs import Job
from gavelx.mechanism.commands import Command, Resize, Solve
from gavelx.mechanism.events import JobCancelled, JobSubmitted, LeaseEnded, PolicyChanged, Resized, Wake
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.rpc.refused import RefusedError
from gavelx.service.agents.registry import AgentRegistry, Make
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.service.agents.timing import Timing
from gavelx.service.state.state import State
from gavelx.service.store.allocation_record import answer_of
from gavelx.service.store.records import Answered, Entry, Started
from gavelx.worker.agent import Agent
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import Sleep, SleepRunner
from tests.service.agents import configuration
from tests.service.desk import Remembered

TIMING = Timing(heartbeat_s=0.3, valid_for_s=4.0, grace_s=1.0, measured_s=2.0, measured_again_s=5.0)
"""An agent is silent long before its leases have run out."""
TICK_S = 0.1
TROUBLE_S, PEACE_S = 60.0, 120.0
POLICY = load_policy("elastic(max_min_fairness)")
RESIZES = Overheads(Overhead(resize_s=0.0))


class Stubborn(SleepRunner):
    """Jobs that heed nothing: they run until they are killed, at the last moment that is allowed."""

    def stop(self, lease_id: int, reason: str) -> None:
        sleep = self._running[self._running[lease_id].next_id or lease_id]
        sleep.until_s = min(sleep.until_s, self.now_s() + self.grace_s)

    def renew(self, lease_id: int, until_s: float) -> None:
        if self.now_s() + self.grace_s < self._running[lease_id].until_s:  # else it was stopped, or lapses
            super().renew(lease_id, until_s)

    def _end_of(self, sleep: Sleep) -> float:
        return inf if sleep.next_id is not None else min(sleep.complete_s, sleep.fails_s, sleep.until_s)


@dataclass
class Way:
    """One direction of a stream: what is on its way, and when it arrives; not before ``open_s``."""

    messages: list[tuple[float, Any]] = field(default_factory=list)
    open_s: float = 0.0

    def arrived(self, now_s: float) -> list[Any]:
        now = sorted((each for each in self.messages if each[0] <= now_s), key=lambda each: each[0])
        self.messages = [each for each in self.messages if each[0] > now_s]
        return [message for _, message in now]


@dataclass
class Link:
    """One stream of an agent."""

    stream: Stream
    coming: "asyncio.Task[AgentSession]"
    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)


class World:
    """A service and three servers; ``problems`` is what must never be and was."""

    def __init__(self, seed: int) -> None:
        self.chance, self.now_s = Random(f"virtual {seed}"), 0.0
        self.log: list[Entry] = []
        self.problems: list[str] = []
        self.garbles = self.chance.choice((0.0, 0.05, 0.3))
        self.late_s = self.chance.choice((0.0, 0.1, 0.5))
        self.elastic = Random(f"elastic {seed}").random() < 0.5
        """Whether jobs change their size: while they run, where they can."""
        self.resized = 0
        self.before: dict[int, int] = {}
        """The lease that each continues."""
        self.names = ("one", "two", "three")
        self.runners = {name: self._runner() for name in self.names}
        self.agents = {name: self._agent(name) for name in self.names}
        self.links: dict[str, Link] = {}
        self.next_link_s = dict.fromkeys(self.names, 0.0)
        self.serve()

    # -- the service --

    def serve(self) -> None:
        """A service begins, on what is in the log."""
        self.state = self._state()
        for entry in self.log:
            self.state.apply(entry)
        self.pending: deque[tuple[Make, asyncio.Future[Any]]] = deque()
        self.here = AgentRegistry(self.state, TIMING, Remembered(self.log), self._post)
        self.writes_s = self.now_s
        self.serves = True
        self._post(
            lambda now_s: [
                Entry(Started(now_s, "boot", now_s, TIMING.valid_for_s)),
                *([Entry(PolicyChanged(now_s, POLICY.opens), {"policy": POLICY.name})] if self.elastic else ()),
            ]
        )
        if self.state.asked is not None:
            self._answer(self.state.asked)

    def _state(self) -> State:
        made_with = configuration()
        rules = replace(made_with.rules, overheads=RESIZES)
        return State(replace(made_with, rules=rules) if self.elastic else made_with)

    def _post(self, make: Make) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.pending.append((make, done))
        return done

    def _answer(self, snapshot: Any) -> None:
        answer = answer_of(POLICY.allocate(snapshot).with_execution(first_on=first_leases(POLICY, snapshot, 0)))
        self._post(lambda now_s: [Entry(Answered(now_s, answer))])

    def _write(self) -> None:
        """All that is pending becomes durable, if the disk has time; then it is acted on."""
        if self.now_s < self.writes_s:
            return
        batch, entries = [item for item in self.pending if not item[1].cancelled()], list[Entry]()
        self.pending.clear()
        for make, _ in batch:
            entries += make(self.now_s)
        due = [time_s for time_s in self.state.wakes if time_s <= self.now_s]
        entries += [
            *(self.here.progress.entries(self.now_s) if due else []),
            *([Entry(Wake(self.now_s))] if due else []),
        ]
        self.log += entries
        commands = list[Command]()
        for entry in entries:
            commands += self.state.apply(entry)
        for command in commands:
            if isinstance(command, Solve):
                self._answer(command.snapshot)
            if isinstance(command, Resize) and (before_id := command.lease.continues) is not None:
                self.before[command.lease.id] = before_id
        self.resized += sum(isinstance(entry.event, Resized) for entry in entries)
        self.here.follow(entries, commands)
        for _, done in batch:
            if not done.done():
                done.set_result(None)

    def submit(self, job_type: str, steps: float, workers: int) -> None:
        def make(now_s: float) -> list[Entry]:
            elastic = Elastic("workers", 1, 3, parts=6) if self.elastic else None
            job = Job(self.state.next_job_id, job_type, steps, workers, arrival_s=now_s, elastic=elastic)
            self.state.next_job_id += 1
            return [Entry(JobSubmitted(now_s, job), {"command": ["true"], "type": job_type, "untold": True})]

        self._post(make)

    def kill_service(self) -> None:
        """What is not in the log is forgotten, and all streams break."""
        self.serves = False
        for name in list(self.links):
            self.cut(name)
        self.pending.clear()

    # -- the servers --

    def _runner(self) -> Stubborn:
        return Stubborn(grace_s=TIMING.grace_s, clock=lambda: self.now_s)

    def _agent(self, name: str) -> Agent:
        return Agent(name, "127.0.0.1", Devices("v100", ("0",)), self.runners[name])

    def cut(self, name: str, for_s: float = 0.0) -> None:
        """Its stream breaks, with all that was on its way."""
        self.next_link_s[name] = max(
            self.next_link_s[name], self.now_s + max(for_s, self.chance.uniform(0.0, 0.5))
        )
        if (link := self.links.pop(name, None)) is not None:
            link.coming.cancel()
            if (
                link.coming.done()
                and not link.coming.cancelled()
                and link.coming.exception() is None
                and self.serves
            ):
                self.here.left(link.coming.result(), link.stream)

    def _connect(self, name: str) -> None:
        stream, hello = Stream(), self.agents[name].hello().hello
        self.links[name] = Link(stream, asyncio.create_task(self.here.hello(hello, stream)))

    async def _carry(self, name: str) -> None:
        """What arrives now is heard; what is said now is on its way."""
        link, agent = self.links[name], self.agents[name]
        if not link.coming.done():
            return
        if link.coming.cancelled() or link.coming.exception() is not None:
            problem = link.coming.exception()
            assert isinstance(problem, RefusedError), problem
            self.cut(name)
            return
        session = link.coming.result()
        for message in link.up.arrived(self.now_s):
            self.here.receive(session, link.stream, message)
        while not link.stream._queue.empty():
            if (said := link.stream._queue.get_nowait()) is not None:
                self._send(link.down, said)
        for message in link.down.arrived(self.now_s):
            agent.receive(message)
        for message in agent.due():
            self._send(link.up, message)
        if link.stream.closed or agent.silent:
            self.cut(name)

    def _send(self, way: Way, message: Any) -> None:
        """In order, but for those that are overtaken, or come twice; a welcome is the first."""
        way.open_s = max(way.open_s, self.now_s + self.chance.uniform(0.0, self.late_s))
        times = [way.open_s]
        steady = message.WhichOneof("message") == "welcome" or self.now_s >= TROUBLE_S
        if not steady and self.chance.random() < self.garbles:
            times = [*self.chance.choice(([], times)), way.open_s + self.chance.uniform(0.0, 1.0)]
        way.messages += [(time_s, message) for time_s in times]

    # -- what goes on --

    async def tick(self) -> None:
        self.now_s += TICK_S
        for name in self.names:
            self.runners[name].poll()
            if self.serves and name not in self.links and self.now_s >= self.next_link_s[name]:
                self._connect(name)
            if name in self.links:
                await self._carry(name)
        if self.serves:
            self.here.tick()
            self._write()
        for _ in range(3):
            await asyncio.sleep(0)
        self._check()

    def _check(self) -> None:
        leases: dict[int, set[int]] = {}
        for name, runner in self.runners.items():
            slots: set[int] = set()
            for lease_id, sleep in runner._running.items():
                if sleep.next_id is not None:
                    continue  # the same processes are in another lease too
                first = lease_id  # under which the processes were launched
                for _ in range(sleep.launch.size.generation):
                    first = self.before[first]
                leases.setdefault(sleep.launch.job_id, set()).add(first)
                if slots & set(sleep.launch.slots):
                    self.problems.append(f"{self.now_s:.2f} s: two jobs on one device of {name}")
                slots |= set(sleep.launch.slots)
        twice = {job_id: ids for job_id, ids in leases.items() if len(ids) > 1}
        if twice:
            self.problems.append(f"{self.now_s:.2f} s: run twice at once: {twice}")

    def trouble(self) -> None:
        """Something goes wrong, perhaps."""
        name, chance = self.chance.choice(self.names), self.chance
        match chance.randrange(300):
            case 0 | 1:
                self.kill_service()
            case 2 | 3 | 4 | 5:
                self.cut(name, chance.choice((0.0, 1.0, 8.0)))
            case 6 | 7:  # the agent is killed; what it runs goes on without it
                self.cut(name, chance.choice((0.0, 1.0, 8.0)))
                self.agents[name] = self._agent(name)
            case 8:  # the machine is
                self.cut(name, chance.choice((0.0, 1.0, 8.0)))
                self.runners[name] = self._runner()
                self.agents[name] = self._agent(name)
            case 9:
                self.writes_s = self.now_s + chance.uniform(0.0, 2.0)  # a slow disk
            case 10 | 11 if name in self.links:  # one direction is stalled
                way = chance.choice((self.links[name].up, self.links[name].down))
                way.open_s = self.now_s + chance.uniform(0.0, 6.0)
            case 12 if self.serves and self.state.live:
                job_id = chance.choice(sorted(self.state.live))
                self._post(
                    lambda now_s: [] if self.state.jobs[job_id].ended else [Entry(JobCancelled(now_s, job_id))]
                )


def play(seed: int) -> list[str]:
    """What is wrong with a run."""
    world = None

    async def run() -> list[str]:
        nonlocal world
        world = World(seed)
        with clock(world):
            await _run(world)
        return world.problems

    return asyncio.run(run())


@contextmanager
def clock(world: World) -> Iterator[None]:
    """The registry goes by the world's time."""
    fake = SimpleNamespace(monotonic=lambda: world.now_s)
    with (
        mock.patch("gavelx.service.agents.registry.time", fake),
        mock.patch("gavelx.service.agents.completions.time", fake),
        mock.patch("gavelx.service.agents.resizes.time", fake),
    ):
        yield


def _job(chance: Random) -> tuple[str, float]:
    """A type and a number of steps: of some jobs the speed is not known, of some of them not the length either."""
    kinds = ("net", chance.uniform(20.0, 2000.0)), ("new", chance.uniform(2.0, 15.0)), ("anything", inf)
    return chance.choices(kinds, (4, 1, 1))[0]


async def _run(world: World) -> None:
    chance, down_until_s = world.chance, 0.0
    to_come = [(chance.uniform(0.0, 30.0), *_job(chance), chance.choice((1, 1, 1, 2))) for _ in range(8)]
    while world.now_s < TROUBLE_S + PEACE_S:
        await world.tick()
        if world.serves and to_come and world.now_s >= min(to_come)[0]:
            _, *job = to_come.pop(to_come.index(min(to_come)))
            world.submit(*job)
        if not world.serves and world.now_s >= down_until_s:
            world.serve()
        if world.now_s < TROUBLE_S:
            was = world.serves
            world.trouble()
            if was and not world.serves:
                down_until_s = world.now_s + chance.choice((0.0, 0.5, 6.0))
        elif not to_come and world.state.jobs and not world.state.live and not world.state.runs:
            break
    judge(world)


def judge(world: World) -> None:
    """When there is peace again every job has ended, and the books are right."""
    state = world.state
    for job_id in state.live:
        known = state.jobs[job_id]
        world.problems.append(
            f"job {job_id} never ended: {known.reason} {[run.lease.id for run in state.runs.values()]}"
        )
    events = [entry.event for entry in world.log]
    ends = [event.lease_id for event in events if isinstance(event, LeaseEnded)]
    ends += [event.before_id for event in events if isinstance(event, Resized)]
    if len(ends) != len(set(ends)):
        world.problems.append(f"leases ended twice: {sorted(i for i in set(ends) if ends.count(i) > 1)}")
    again = world._state()
    for entry in world.log:
        again.apply(entry)
    if again.jobs != state.jobs:
        world.problems.append("the log says something else when it is read again")
