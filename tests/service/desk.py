"""The registry of agents without a network: events go into the state at once, as if the log had them."""

import asyncio
from typing import Any

from gavelx.jobs import Job
from gavelx.mechanism.commands import Command, Solve
from gavelx.mechanism.events import JobSubmitted, Wake
from gavelx.policies import load_policy
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.registry import AgentRegistry, Make
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.service.state.state import State
from gavelx.service.store.allocation_record import answer_of
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Answered, Entry
from tests.service.agents import QUICK, configuration
from tests.service.billed import Billed


class Remembered:
    """The marks of a log that is a list of entries: how long it was."""

    def __init__(self, log: list[Entry], log_id: str = "log") -> None:
        self.log, self.log_id = log, log_id

    @property
    def last(self) -> str:
        return str(len(self.log))

    async def check(self, mark: str, who: str) -> bool:
        assert int(mark or 0) <= len(self.log), f"{who} knows more than the log"
        return True


class Desk:
    """One state, one registry of agents, time by hand."""

    policy = "max_min_fairness"
    made_with: Configuration = configuration()
    timing = QUICK  # by the real clock

    def __init__(self, log_id: str = "log") -> None:
        self.state = State(self.made_with)
        self.now_s = 0.0
        self.log: list[Entry] = []
        self._billed = Billed(self.made_with)
        self._waiting: list[tuple[Make, asyncio.Future[Any]]] = []
        self.here = AgentRegistry(self.state, self.timing, Remembered(self.log, log_id), self._post)

    def _post(self, make: Make) -> "asyncio.Future[Any]":
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((make, done))
        return done

    def settle(self) -> None:
        """All that is pending happens."""
        while self._waiting:
            make, done = self._waiting.pop(0)
            self._apply(make(self.now_s))
            done.set_result(None)

    def _apply(self, entries: list[Entry]) -> None:
        commands: list[Command] = []
        self.log += entries
        for entry in entries:
            commands += self.state.apply(entry)
            self._billed.follow(entry)
        self.here.follow(entries, commands)
        for command in commands:
            if isinstance(command, Solve):
                answer = answer_of(load_policy(self.policy).allocate(command.snapshot))
                self._apply([Entry(Answered(self.now_s, answer))])

    async def agent(
        self, name: str, devices: int, first: wire.FromAgent | None = None, accelerator: str = "v100"
    ) -> tuple[AgentSession, Stream]:
        """An agent that said hello and one heartbeat."""
        stream = Stream()
        hello = wire.Hello(version=1, name=name, accelerator=accelerator, devices=devices, boot_id="boot")
        coming = asyncio.create_task(self.here.hello(hello, stream))
        await asyncio.sleep(0)
        self.settle()
        session = await coming
        beat = first or wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=1.0))
        self.here.receive(session, stream, beat)
        return session, stream

    def submit(self, *steps: float) -> None:
        for total_steps in steps:
            job = Job(self.state.next_job_id, "net", total_steps, arrival_s=self.now_s)
            self._apply([Entry(JobSubmitted(self.now_s, job), {"command": ["true"]})])

    def submit_gang(self, workers: int, total_steps: float) -> None:
        job = Job(self.state.next_job_id, "net", total_steps, workers, arrival_s=self.now_s)
        self._apply([Entry(JobSubmitted(self.now_s, job), {"command": ["true"]})])

    def wake(self) -> None:
        """Until nothing is due any more."""
        while any(time_s <= self.now_s for time_s in self.state.wakes):
            self._apply([Entry(Wake(self.now_s))])
