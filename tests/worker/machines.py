"""An agent with real processes, in this process, joined to a `Scheduler` over loopback."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavelx.rpc.channels import Access, aio_channel
from gavelx.worker.agent import Agent
from gavelx.worker.connection import attend
from gavelx.worker.devices import Devices
from gavelx.worker.runner import ProcessRunner
from gavelx.worker.shim import kill, marked
from gavelx.worker.state import Folder
from tests.worker.scheduler import Scheduler


@dataclass
class Machine:
    """What a test may look at."""

    scheduler: Scheduler
    agent: Agent
    runner: ProcessRunner
    folder: Path
    attending: asyncio.Task[None]
    leave: asyncio.Event

    def lease(self, lease_id: int) -> Path:
        return self.folder / "leases" / str(lease_id)

    def lease_file(self, lease_id: int) -> dict[str, Any]:
        text = (self.lease(lease_id) / "lease.json").read_text()
        return dict(json.loads(text))

    async def lapse(self, lease_id: int, in_s: float) -> None:
        """The scheduler falls silent, and what it said last lets the lease run so long."""
        await self.scheduler.fall_silent()
        running = self.runner._running[lease_id]
        running.until_s = time.monotonic() + in_s
        running.folder.write_lease(running.lease())

    def output(self, lease_id: int, rank: int = 0) -> str:
        path = self.lease(lease_id) / f"out.{rank}.log"
        return path.read_text() if path.exists() else ""

    def pids(self, lease_id: int) -> list[int]:
        """The processes of a lease, by their environment."""
        return pids_of(self.lease(lease_id))


def pids_of(lease: Path) -> list[int]:
    return [pid for pid, _ in marked(f"GAVELX_LEASE_FILE={lease}/lease.json".encode())]


@contextlib.asynccontextmanager
async def machine(folder: Path, scheduler: Scheduler) -> AsyncIterator[Machine]:
    """An agent at work; when it goes, its jobs go on, until `no_jobs_left` kills them."""
    devices = Devices("cpu", ("", "", "", ""))
    with contextlib.ExitStack() as stack:
        state = Folder(folder)
        runner = ProcessRunner(state, folder / "shared", devices)
        stack.callback(runner.close)
        agent = Agent("server", "127.0.0.1", devices, runner)
        address, leave = scheduler.address, asyncio.Event()
        attending = asyncio.create_task(attend(agent, lambda: aio_channel(Access(address)), leave))
        try:
            yield Machine(scheduler, agent, runner, folder.absolute(), attending, leave)
        finally:
            attending.cancel()
            await asyncio.gather(attending, return_exceptions=True)


def kill_all(folder: Path) -> None:
    """Kill every process that belongs to a lease of this folder; their shims then end by themselves."""
    for pid, _ in marked(f"GAVELX_LEASE_FILE={folder.absolute()}/".encode()):
        kill(pid)
