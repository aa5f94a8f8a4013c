"""The scheduler asks policies elsewhere, so that a slow or crashing one stops no lease.

The process is killed when it takes longer than it may, and another one is started. What it fails to answer, the
previous allocation carried over does (see `gavelx.fallback`). One thread asks it, one question after the other: a
caller who goes away before the answer is here leaves that to the thread, and the next question waits for it.
"""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from gavelx.allocation import Allocation
from gavelx.errors import GavelxError, PolicyError
from gavelx.fallback import carried_over
from gavelx.service.loop.policy_process import START_S, PolicyProcess, most_s
from gavelx.service.store.allocation_record import AllocationRecord, answer_of
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import Settings

_log = logging.getLogger(__name__)


@dataclass
class PolicyCalls:
    """Asks policies elsewhere. ``failures``, ``restarts``: what went wrong; ``seconds``: of the last answer.

    ``last_failure`` is why the last question was not answered; empty where it was.
    """

    settings: Settings = field(default_factory=Settings)
    answers: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_failure: str = ""
    _elsewhere: PolicyProcess = field(default_factory=PolicyProcess)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "gavelx-policy"))

    @property
    def restarts(self) -> int:
        """How often its process was started again."""
        return self._elsewhere.restarts

    async def load(self, policy: str) -> tuple[str, frozenset[Kind]]:
        """What a policy is called and which kinds of configuration it opens. Raises :class:`PolicyError`."""
        try:
            name, opens = await self._asked(("load", policy), START_S)
        except (EOFError, OSError, TimeoutError) as error:
            problem = f"loading it ended the process that did ({type(error).__name__})"
            raise PolicyError(problem, where=f"policy {policy}") from None
        return name, opens

    async def answer(self, policy: str, snapshot: Snapshot, previous: Allocation | None) -> AllocationRecord:
        """The policy's answer, or the previous allocation carried over; never an exception."""
        started, limit_s = time.perf_counter(), most_s(self.settings)
        try:
            answer = await self._asked(("ask", policy, snapshot, self.settings), limit_s)
            assert isinstance(answer, AllocationRecord)
            self.last_failure = ""
        except (GavelxError, EOFError, OSError, TimeoutError, AssertionError) as error:
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
        asking = self._elsewhere.asked
        return await asyncio.get_running_loop().run_in_executor(self._thread, asking, question, limit_s)

    def stop(self) -> None:
        """Kill the process, whatever it does; no question is asked any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._elsewhere.stop()


def _reason(error: BaseException, limit_s: float) -> str:
    match error:
        case TimeoutError():
            return f"the solver took longer than {limit_s:.0f} s and was stopped"
        case GavelxError():
            return str(error)
    return f"the solver's process ended ({type(error).__name__})"
