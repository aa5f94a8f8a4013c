"""Policies are asked in a process of their own, so that a slow or crashing solver stops no lease.

The process is started anew (never forked) and warmed up; it is killed when it takes longer than it may, and
another one is started. What it fails to answer, the previous allocation carried over does (see `gavelx.fallback`).
"""

import asyncio
import logging
import multiprocessing
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.errors import GavelxError, PolicyError
from gavelx.fallback import carried_over
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.service.answers import Answer, allocation_of, answer_of
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import Settings, using
from gavelx.throughputs import Setting, Throughputs

START_S = 60.0
"""How long the process may take to start and to load a policy."""
SLACK_S = 5.0
"""A solver that keeps to its budget needs some time besides."""
_log = logging.getLogger(__name__)


@dataclass
class Solver:
    """Asks policies elsewhere. ``failures``, ``restarts``: what went wrong; ``seconds``: of the last answer.

    ``last_failure`` is why the last question was not answered; empty where it was.
    """

    settings: Settings = field(default_factory=Settings)
    answers: int = 0
    failures: int = 0
    restarts: int = -1
    seconds: float = 0.0
    last_failure: str = ""
    _process: SpawnProcess | None = None
    _pipe: Connection | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load(self, policy: str) -> tuple[str, frozenset[Kind]]:
        """What a policy is called and which kinds of configuration it opens. Raises :class:`PolicyError`."""
        async with self._turn:
            try:
                name, opens = await self._asked(("load", policy), START_S)
                return name, opens
            except (EOFError, OSError, TimeoutError) as error:
                self.stop()
                problem = f"loading it ended the process that did ({type(error).__name__})"
                raise PolicyError(problem, where=f"policy {policy}") from None

    async def answer(self, policy: str, snapshot: Snapshot, previous: Allocation | None) -> Answer:
        """The policy's answer, or the previous allocation carried over; never an exception."""
        started = time.perf_counter()
        async with self._turn:
            limit_s = self.settings.budget_s * 1.1 + SLACK_S
            try:
                answer = await self._asked(("ask", policy, snapshot, self.settings), limit_s)
                assert isinstance(answer, Answer)
                self.last_failure = ""
            except (GavelxError, EOFError, OSError, TimeoutError, AssertionError) as error:
                if not isinstance(error, GavelxError):
                    self.stop()
                reason = _reason(error, limit_s)
                if reason != self.last_failure:
                    _log.warning("%s did not answer, and the allocation before stands in: %s", policy, reason)
                self.failures, self.last_failure = self.failures + 1, reason
                carried = await asyncio.to_thread(carried_over, previous, snapshot, reason)
                answer = answer_of(carried)
        self.answers, self.seconds = self.answers + 1, time.perf_counter() - started
        return answer

    async def _asked(self, question: tuple[Any, ...], limit_s: float) -> Any:
        """Send a question, wait for its answer, raise what it raised."""
        await asyncio.to_thread(self._start)
        assert self._pipe is not None
        answer = await asyncio.to_thread(_exchange, self._pipe, question, limit_s)
        if isinstance(answer, GavelxError):
            raise answer
        return answer

    def _start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        self.stop()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True, name="gavelx-solver")
        self._process.start()
        theirs.close()
        self.restarts += 1
        _exchange(self._pipe, ("warm up",), START_S)

    def stop(self) -> None:
        """Kill the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _exchange(pipe: Connection, question: tuple[Any, ...], limit_s: float) -> Any:
    pipe.send(question)
    if not pipe.poll(limit_s):
        raise TimeoutError
    return pipe.recv()


def _reason(error: BaseException, limit_s: float) -> str:
    match error:
        case TimeoutError():
            return f"the solver took longer than {limit_s:.0f} s and was stopped"
        case GavelxError():
            return str(error)
    return f"the solver's process ended ({type(error).__name__})"


# -- in the other process -------------------------------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    """Answer until nobody asks any more."""
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            question = pipe.recv()
            try:
                answer = _answer(*question)
            except GavelxError as error:
                answer = _plain(error)
            except Exception as error:
                answer = GavelxError(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
            pipe.send(answer)


def _plain(error: GavelxError) -> GavelxError:
    """The same message; errors with named arguments do not cross a pipe."""
    return PolicyError(str(error)) if isinstance(error, PolicyError) else GavelxError(str(error))


def _answer(what: str, *rest: Any) -> Any:
    match what:
        case "warm up":
            policy, snapshot = load_policy("max_min_fairness"), _smallest()
            return answer_of(ask(policy, snapshot))
        case "load":
            policy = load_policy(rest[0])
            return str(policy), getattr(policy, "opens", frozenset())
    text, snapshot, settings = rest
    with using(settings):
        answer = answer_of(ask(load_policy(text), snapshot))
    allocation_of(answer, snapshot)  # whoever asked must be able to read it
    return answer


def _smallest() -> Snapshot:
    """One job, one device: enough to load what a solve needs."""
    table = Throughputs({Setting("job", "device"): 1.0})
    return Snapshot.of([Job(0, "job", 1.0)], Cluster.of({"device": 1}), table)
