"""Asyncio tests without a plugin: one loop each, and an end to what would hang for ever."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.waiting import PATIENCE_S


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end; time that a `tests.clocks.Clock` was put on by counts as well."""
    asyncio.run(asyncio.wait_for(main, 4 * PATIENCE_S))
