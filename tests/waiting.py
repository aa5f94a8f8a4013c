"""Waiting for facts, never for a time; the one way in which tests wait.

``PATIENCE_S`` is no limit to keep to, so no test fails as the machine is busy: it ends what would hang for ever.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from time import monotonic  # as it is: tests put on the clock that others look at
from typing import Any

PATIENCE_S = 300.0
LOOK_S = 0.03
Fact = Callable[[], Any]


def wait_until(fact: Fact, what: str, seen: Fact | None = None) -> Any:
    """Wait until something is so; what it gave. Raises AssertionError that says what was seen instead."""
    patience = _Patience(what, seen)
    while not (found := fact()):
        patience.check(found)
        time.sleep(LOOK_S)
    return found


async def until(fact: Fact, what: str, seen: Fact | None = None) -> Any:
    """The same on an event loop; the fact may be a coroutine."""
    patience = _Patience(what, seen)
    while not (found := await _told(fact)):
        patience.check(found)
        await asyncio.sleep(LOOK_S)
    return found


async def _told(fact: Fact) -> Any:
    found = fact()
    return await found if inspect.isawaitable(found) else found


class _Patience:
    def __init__(self, what: str, seen: Fact | None) -> None:
        self.what, self.seen, self.end_s = what, seen, monotonic() + PATIENCE_S

    def check(self, found: Any) -> None:
        if monotonic() >= self.end_s:
            seen = self.seen() if self.seen else found
            raise AssertionError(f"waited {PATIENCE_S:g} s, and never: {self.what}; seen: {seen}")
