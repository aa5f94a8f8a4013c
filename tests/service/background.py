"""A service on a loop in another thread, for tests that call it as a program does, one call after another."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gavelx.service.api.server import Service
from tests.service.agents import FakeAgent, serving
from tests.waiting import PATIENCE_S


class Background:
    """A service and, unless ``devices`` is 0, an agent called ``one``; until :meth:`close`."""

    def __init__(self, folder: Path, devices: int = 1, **options: Any) -> None:
        self.service: Service
        self.agent: FakeAgent
        self._failed: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(folder, devices, options))
        self._thread.start()
        assert self._ready.wait(PATIENCE_S) and self._failed is None, self._failed

    @property
    def address(self) -> str:
        return self.service.address

    def _run(self, folder: Path, devices: int, options: dict[str, Any]) -> None:
        try:
            asyncio.run(self._serve(folder, devices, options))
        except BaseException as error:
            self._failed = error
            self._ready.set()
            raise

    async def _serve(self, folder: Path, devices: int, options: dict[str, Any]) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with serving(folder, **options) as self.service:
            if devices:
                async with FakeAgent(self.address, devices=devices) as self.agent:
                    await self.agent.until_renewed()
                    self._ready.set()
                    await self._over.wait()
            else:
                self._ready.set()
                await self._over.wait()

    def do(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Something that has to be done on the service's loop."""

        async def main() -> Any:
            return await work()

        return asyncio.run_coroutine_threadsafe(main(), self._loop).result(PATIENCE_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)
