"""What agents know of the log: a service whose log lacks a record that an agent was told of does not serve.

It would give out numbers of leases again that agents know as other jobs', and its jobs may run already. So it
stops, and says that its log is an older copy (`gavelx serve --restored`).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

import grpc

from gavelx.errors import GavelxError
from gavelx.rpc.refused import RefusedError
from gavelx.service.store.database import LogUnavailableError
from gavelx.service.store.log import Log
from gavelx.service.store.places import LogError

PATIENCE_S = 2.0
"""How long an agent waits for a log that is slow; what is found out later is found out."""

LACKING = "the log lacks what this server was told; the scheduler stops"


class Marks(Protocol):
    """Which log agents belong to, and what they are given to remember of it."""

    @property
    def log_id(self) -> str: ...

    @property
    def last(self) -> str:
        """The mark of the last record."""

    async def check(self, mark: str, who: str) -> bool:
        """Whether the agent's mark is not of another log, as far as can be told now.

        Raises :class:`RefusedError` if the log lacks the record that the agent was told of.
        """


class MarksOfLog:
    """Those of a log, which is asked in the thread that writes it; ``fail`` is told that it is not the newest."""

    def __init__(self, log: Log, writer: Executor, fail: Callable[[GavelxError], None]) -> None:
        self._log, self._writer, self._fail = log, writer, fail
        self._know_more = set[str]()

    @property
    def log_id(self) -> str:
        return self._log.id

    @property
    def last(self) -> str:
        return self._log.mark

    async def check(self, mark: str, who: str) -> bool:
        if not mark:
            return True
        looking = asyncio.ensure_future(self._look(mark, who))
        done, _ = await asyncio.wait({looking}, timeout=PATIENCE_S)
        return all(each.result() for each in done)

    async def _look(self, mark: str, who: str) -> bool:
        loop = asyncio.get_running_loop()
        try:
            checking = loop.run_in_executor(self._writer, self._log.check_mark, mark, who)
        except RuntimeError:  # the writer has ended
            problem = LACKING if who in self._know_more else "the scheduler is stopping"
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, problem) from None
        try:
            return await checking
        except LogUnavailableError:
            return True  # what stands is renewed, whether the log can be read or not
        except LogError as error:
            self._know_more.add(who)
            self._fail(error)
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, LACKING) from None
