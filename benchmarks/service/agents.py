"""Many emulated agents in a process of their own: real gRPC, one connection each, jobs that sleep.

    python -m benchmarks.service.agents 127.0.0.1:7070 --agents 200 --devices 8

It is told what to do line by line on its standard input, and answers each line with a line of JSON:

    report           latencies of heartbeats since the last report
    leave N          N agents leave: they stop what they run, and go
    join N           N agents that left come again
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.channels import Access, aio_channel
from gavelx.worker.agent import Agent
from gavelx.worker.connection import attend
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import SleepRunner

TYPES = ("v100", "p100", "k80")
LINE = b"epoch 1, step 1, loss 0.123456789\n"
PRINTED_BYTES = 32_000_000


class Printing(SleepRunner):
    """Jobs that sleep, and have all printed the same."""

    def __init__(self, printed: Path) -> None:
        super().__init__()
        self._printed = printed

    def leases_of(self, job_id: int) -> Sequence[Path]:
        return (self._printed,)


class Timed(Agent):
    """An agent that notes how long its heartbeats are under way."""

    latencies: list[float]
    answered_s = 0.0

    def receive(self, message: wire.ToAgent) -> None:
        match message.WhichOneof("message"):
            case "renewed":
                self.answered_s = self.runner.now_s()
                self.latencies.append(self.answered_s - message.renewed.sent_s)
        super().receive(message)


class Swarm:
    """All of them, on one loop; ``late``: by how much this loop itself was late, which is in the latencies."""

    def __init__(self, address: str, agents: int, devices: int, printed: Path) -> None:
        self._access = Access(address)
        self.latencies, self.late = list[float](), list[float]()
        self._here = list[tuple[Timed, asyncio.Event, asyncio.Task[None]]]()
        self._gone = list[Timed]()
        for n in range(agents):
            kind = TYPES[n % len(TYPES)]
            slots = Devices(kind, tuple(map(str, range(devices))))
            agent = Timed(f"{kind}-{n}", "127.0.0.1", slots, Printing(printed))
            agent.latencies = self.latencies
            self._gone.append(agent)

    def join(self, count: int) -> None:
        for agent in (self._gone.pop() for _ in range(count)):
            agent.leaving, agent.answered_s = False, 0.0
            leave = asyncio.Event()
            task = asyncio.create_task(attend(agent, lambda: aio_channel(self._access), leave))
            self._here.append((agent, leave, task))

    async def leave(self, count: int) -> None:
        going = [self._here.pop() for _ in range(count)]
        for _, leave, _ in going:
            leave.set()
        await asyncio.gather(*(task for _, _, task in going))
        self._gone += [agent for agent, _, _ in going]

    def report(self) -> dict[str, Any]:
        now_s, sorted_s = time.monotonic(), sorted(self.latencies)
        answered_s = [agent.answered_s for agent, _, _ in self._here]
        document = {
            "agents": len(self._here),
            "answered_once": sum(at_s > 0 for at_s in answered_s),
            "longest_unanswered_s": now_s - min(answered_s, default=now_s),
            "leases": sum(len(agent.runner.standing()) for agent, _, _ in self._here),
            "heartbeats": len(sorted_s),
            **{f"p{p:g}_s": quantile(sorted_s, p / 100) for p in (50, 99, 99.9, 100)},
            "own_loop_late_max_s": max(self.late, default=0.0),
        }
        self.latencies.clear()
        self.late.clear()
        return document

    async def measure_self(self) -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.02)
            self.late.append(time.perf_counter() - started - 0.02)


def quantile(sorted_values: Sequence[float], q: float) -> float:
    """The smallest value that so many of them do not exceed."""
    if not sorted_values:
        return float("nan")
    return sorted_values[min(len(sorted_values) - 1, int(q * len(sorted_values)))]


async def obey(swarm: Swarm, agents: int) -> None:
    """Do what standard input says, until it ends."""
    swarm.join(agents)
    measuring = asyncio.create_task(swarm.measure_self())
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, *rest = line.split()
        match what:
            case "leave":
                await swarm.leave(int(rest[0]))
            case "join":
                swarm.join(int(rest[0]))
        print(json.dumps(swarm.report()), flush=True)
    measuring.cancel()


class Agents:
    """The process, as whoever measures sees it."""

    def __init__(self, address: str, agents: int, devices: int, errors: Any) -> None:
        command = [sys.executable, "-m", "benchmarks.service.agents", address]
        command += ["--agents", str(agents), "--devices", str(devices)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )

    def tell(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        document: dict[str, Any] = json.loads(self.process.stdout.readline())
        return document

    def report(self) -> dict[str, Any]:
        return self.tell("report")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8)
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "1"
        printed.mkdir()
        (printed / "out.0.log").write_bytes(LINE * (PRINTED_BYTES // len(LINE)))
        asyncio.run(obey(Swarm(typed.address, typed.agents, typed.devices, printed), typed.agents))


if __name__ == "__main__":
    main()
