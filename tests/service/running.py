"""Asyncio tests without a plugin: one loop each, and a limit to how long they may take."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(main: Coroutine[Any, Any, None], within_s: float = 60.0) -> None:
    """Run to the end."""
    asyncio.run(asyncio.wait_for(main, within_s))
