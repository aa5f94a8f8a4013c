"""Waiting for conditions, never for a time."""

import asyncio
import time
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str, timeout_s: float = 20.0) -> None:
    """Wait until something is so. Raises AssertionError that says what never was."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"waited {timeout_s} s, and never: {what}"
        await asyncio.sleep(0.01)
