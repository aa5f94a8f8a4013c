"""State, registry of agents and agents on virtual time: every message arrives at once, and jobs only sleep."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest import mock

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism.events import JobSubmitted
from gavelx.mechanism.history import History
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Entry
from gavelx.worker.agent import Agent
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import SleepRunner
from tests.service.desk import Desk

SHORTLY_S = 1e-6
BY_THE_CLOCK = ("registry", "completions", "resizes")
"""The modules of the service that look at the clock."""


class VirtualCluster(Desk):
    """A desk, and an agent for each server."""

    def __init__(self, made_with: Configuration, policy: str) -> None:
        self.made_with, self.policy = made_with, policy
        super().__init__()
        self._attending: list[tuple[Agent, SleepRunner, AgentSession, Stream]] = []

    def play(self, servers: Sequence[Server], jobs: Sequence[Job], within_s: float) -> tuple[State, History]:
        """Each job comes at its time, and all of them end; what their log says."""
        with self._clock():
            asyncio.run(self._play(servers, jobs, within_s))
        state, history = State(self.made_with), History()
        for entry in self.log:
            history.note(entry.event, state.apply(entry))
        return state, history

    async def _play(self, servers: Sequence[Server], jobs: Sequence[Job], within_s: float) -> None:
        for server in servers:
            await self._join(server)
        to_come = sorted(jobs, key=lambda job: job.arrival_s, reverse=True)
        while to_come or self.state.live:
            assert self.now_s < within_s, f"not over after {within_s:g} s: {sorted(self.state.live)}"
            while to_come and to_come[-1].arrival_s <= self.now_s:
                self._submit(to_come.pop())
            self.wake()
            self.here.tick()
            while any(self._carry(*attending) for attending in self._attending):
                pass
            self.now_s = self._next_s(to_come)

    def _next_s(self, to_come: Sequence[Job]) -> float:
        """When the next thing happens, by anyone's word."""
        due = [self.now_s + max(SHORTLY_S, agent.wait_s()) for agent, *_ in self._attending]
        return min([*due, *self.state.wakes, *(job.arrival_s for job in to_come[-1:])])

    def _submit(self, job: Job) -> None:
        environment = {} if job.checkpoints else {"CHECKPOINTS": "no"}
        self._apply([Entry(JobSubmitted(self.now_s, job), {"command": ["true"], "environment": environment})])

    async def _join(self, server: Server) -> None:
        runner = SleepRunner(clock=lambda: self.now_s)
        devices = Devices(server.accelerator, tuple(map(str, range(server.device_count))))
        agent, stream = Agent(f"server-{server.id}", "127.0.0.1", devices, runner), Stream()
        coming = asyncio.create_task(self.here.hello(agent.hello().hello, stream))
        await asyncio.sleep(0)
        self.settle()
        self._attending.append((agent, runner, await coming, stream))

    def _carry(self, agent: Agent, runner: SleepRunner, session: AgentSession, stream: Stream) -> bool:
        """What an agent and the registry have to say to each other now; whether that was anything."""
        runner.poll()
        said = agent.due()
        for message in said:
            self.here.receive(session, stream, message)
        self.settle()
        heard = stream._queue.qsize()
        for _ in range(heard):
            answer = stream._queue.get_nowait()
            assert answer is not None
            agent.receive(answer)
        return bool(said or heard)

    @contextmanager
    def _clock(self) -> Iterator[None]:
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        with ExitStack() as stack:
            for module in BY_THE_CLOCK:
                stack.enter_context(mock.patch(f"gavelx.service.agents.{module}.time", clock))
            yield
