"""The service under load: submissions per second, and how long a restart takes.

    python -m benchmarks.service --jobs 10000 --batch 200

One service in a process of its own (SQLite, synchronous FULL), one client. Submissions are answered when they are
on disk. Afterwards the service is killed and started again on its log, with its snapshots and without.
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc import wire_pb2_grpc
from gavelx.rpc.channels import Access, aio_channel

JOB_TYPE = "ResNet-18 (batch size 32)"
READY_S = 120.0


class Daemon:
    """``gavelx serve`` as a process."""

    def __init__(self, state: Path) -> None:
        started = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "gavelx",
            "serve",
            "--state",
            str(state),
            "--listen",
            "127.0.0.1:0",
            "--json",
        ]
        self._errors = (state.parent / "errors.txt").open("a")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        assert self.process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = self.process.stdout.readline()
            assert line, (state.parent / "errors.txt").read_text()
            text += line
        self.said: dict[str, Any] = json.loads(text)
        self.ready_seconds = time.perf_counter() - started

    def memory_mb(self) -> float:
        """Resident memory of the service, without its solver."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


async def submit(address: str, jobs: int, batch: int, callers: int) -> list[float]:
    """Submit all jobs in batches, from several callers at once; how long each call took."""
    access, seconds = Access(address), list[float]()
    sizes = [min(batch, jobs - first) for first in range(0, jobs, batch)]
    async with aio_channel(access) as channel:
        stub = wire_pb2_grpc.SchedulerStub(channel)

        async def caller() -> None:
            while sizes:
                size, started = sizes.pop(), time.perf_counter()
                spec = wire.JobSpec(
                    job_type=JOB_TYPE, total_steps=1e6, command=["python", "train.py", "--epochs", "9"]
                )
                await stub.Submit(wire.SubmitRequest(version=1, jobs=[spec] * size), timeout=120.0)
                seconds.append(time.perf_counter() - started)

        await asyncio.gather(*(caller() for _ in range(callers)))
    return seconds


def measure(jobs: int, batch: int, callers: int) -> dict[str, Any]:
    """All figures of one run."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        daemon = Daemon(state)
        address = daemon.said["listening"]
        asyncio.run(submit(address, jobs, batch, callers))  # now so many live jobs
        started = time.perf_counter()
        calls = sorted(asyncio.run(submit(address, jobs, batch, callers)))
        elapsed = time.perf_counter() - started
        memory_mb = daemon.memory_mb()
        daemon.kill()
        again = Daemon(state)
        again.kill()
        with sqlite3.connect(state / "log.sqlite") as log:
            log.execute("delete from snapshots")
            records = log.execute("select count(*) from events").fetchone()[0]
        fresh = Daemon(state)
        fresh.kill()
    return {
        "jobs_live_before": jobs,
        "jobs": jobs,
        "batch": batch,
        "callers": callers,
        "submissions_per_s": jobs / elapsed,
        "call_seconds_p50": calls[len(calls) // 2],
        "call_seconds_max": calls[-1],
        "records": records,
        "restart_with_snapshot_seconds": again.ready_seconds,
        "records_replayed_with_snapshot": again.said["records_replayed"],
        "restart_without_snapshot_seconds": fresh.ready_seconds,
        "jobs_after_restart": fresh.said["jobs_live"],
        "memory_mb": memory_mb,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--callers", type=int, default=4)
    typed = parser.parse_args()
    print(json.dumps(measure(typed.jobs, typed.batch, typed.callers), indent=1))


if __name__ == "__main__":
    main()
