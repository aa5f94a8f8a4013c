"""The agent as a program of its own, that a test may kill."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import gavelx
from tests.waiting import PATIENCE_S
from tests.worker.scheduler import Scheduler

ROOT = Path(gavelx.__file__).parents[1]


class Program:
    """``gavelx worker`` in a folder, started again and again."""

    def __init__(self, folder: Path, scheduler: Scheduler) -> None:
        self.folder, self.scheduler = folder, scheduler
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and wait until it has introduced itself."""
        hellos = len(self.scheduler.hellos)
        command = [
            *(sys.executable, "-m", "gavelx", "worker", "--scheduler", self.scheduler.address),
            *("--devices", "cpu=4", "--name", "server", "--folder", str(self.folder)),
        ]
        with (self.folder.parent / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
        await self.scheduler.connected(hellos + 1)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def gone(self) -> int:
        """Wait for its end, and return its exit code."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.gone()


@contextlib.asynccontextmanager
async def program(folder: Path, scheduler: Scheduler) -> AsyncIterator[Program]:
    """An agent that has introduced itself; it is killed in the end."""
    agent = Program(folder / "agent", scheduler)
    agent.folder.mkdir()
    try:
        await agent.start()
        yield agent
    finally:
        if agent.process is not None and agent.process.poll() is None:
            await agent.kill()
