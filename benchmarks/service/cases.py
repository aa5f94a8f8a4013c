"""The cases, each a row of figures after the other."""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.service import users
from benchmarks.service.agents import Agents
from benchmarks.service.daemon import Daemon
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.ports import free_port

Row = dict[str, Any]
BATCH, CALLERS = 200, 4
LEAVING = 20
SETTLE_S = 600.0


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    agents: int
    devices: int
    jobs: int
    round_s: float
    heartbeat_s: float
    seconds: float


@dataclass
class Running:
    """A service with its agents."""

    size: Size
    folder: Path
    daemon: Daemon = field(init=False)
    agents: Agents = field(init=False)

    @property
    def options(self) -> tuple[str, ...]:
        """Of the service."""
        return ("--round", str(self.size.round_s), "--heartbeat", str(self.size.heartbeat_s))

    def when(self, **reached: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        """Seconds until the metrics said each of these; they are made once a second."""
        started, seconds = time.perf_counter(), dict[str, float]()
        while len(seconds) < len(reached):
            figures, passed_s = self.daemon.figures(), time.perf_counter() - started
            assert passed_s < SETTLE_S, figures
            seconds |= {name: passed_s for name, test in reached.items() if name not in seconds and test(figures)}
            time.sleep(0.1)
        return seconds

    def during(self, what: str, work: Callable[[], Row]) -> Row:
        """What the agents and the service say of the time that some work takes."""
        self.agents.report()
        before, cpu_s, started = self.daemon.figures(), self.daemon.cpu_seconds(), time.perf_counter()
        row = work()
        seconds = time.perf_counter() - started
        until_s = time.perf_counter() + SETTLE_S
        while not (beats := self.agents.report())["heartbeats"]:  # on a busy machine all of them may be late
            assert time.perf_counter() < until_s, beats
            time.sleep(0.1)
        after = self.daemon.figures()
        return {
            "what": what,
            **row,
            "seconds": seconds,
            "heartbeats_per_s": beats["heartbeats"] / seconds,
            **{f"heartbeat_{key}": beats[key] for key in ("p50_s", "p99_s", "p99.9_s", "p100_s")},
            "agents_loop_late_max_s": beats["own_loop_late_max_s"],
            "rounds": int(after["rounds"] - before["rounds"]),
            "service_cpu": (self.daemon.cpu_seconds() - cpu_s) / seconds,
            "jobs_live": int(after["jobs_waiting"] + after["jobs_running"]),
        }


@contextmanager
def running(size: Size) -> Iterator[Running]:
    """A service, its agents, and as many live jobs; devices are given out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = Running(size, folder)
        run.daemon = Daemon(folder / "state", *run.options, listen=f"127.0.0.1:{free_port()}")
        with (folder / "agents.txt").open("w") as errors:
            run.agents = Agents(run.daemon.address, size.agents, size.devices, errors)
        try:
            run.when(here_s=lambda figures: figures["servers_here"] == size.agents)
            asyncio.run(users.submit(run.daemon.address, users.specs(size.jobs, seed=1), BATCH, CALLERS))
            run.when(begun_s=lambda figures: figures["rounds"] >= 1)
            time.sleep(size.round_s)
            yield run
        finally:
            run.agents.kill()
            run.daemon.kill()


def submissions(size: Size) -> Iterator[Row]:
    """Without agents: batches to a service that has so many jobs; then a restart with its snapshot and without."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        daemon = Daemon(state)
        asyncio.run(users.submit(daemon.address, users.specs(size.jobs, seed=1), BATCH, CALLERS))
        more = users.specs(size.jobs, seed=2)
        yield {"what": "submit", **asyncio.run(users.submit(daemon.address, more, BATCH, CALLERS))}
        daemon.kill()
        for what in ("restart", "restart without snapshots"):
            if what != "restart":
                with sqlite3.connect(state / "log.sqlite") as log:
                    log.execute("delete from snapshots")
            daemon = Daemon(state)
            yield {
                "what": what,
                "ready_s": daemon.ready_seconds,
                "records_replayed": daemon.said["records_replayed"],
                "jobs_live": daemon.said["jobs_live"],
            }
            daemon.kill()


def load(size: Size) -> Iterator[Row]:
    """With agents and live jobs: rounds as they pass, submissions, agents that leave and join, a restart."""
    with running(size) as run:

        def wait() -> Row:
            time.sleep(size.seconds)
            return {}

        def submit() -> Row:
            more = users.specs(size.jobs // 2, seed=2)
            figures = asyncio.run(users.submit(run.daemon.address, more, BATCH, CALLERS))
            time.sleep(size.heartbeat_s)
            return figures

        yield run.during("rounds", wait)
        yield run.during("submit", submit)
        yield from _coming_and_going(run)
        yield {"what": "service", **_service(run)}
        yield _restart(run)
        yield run.during("after restart", wait)
        yield {"what": "service after restart", **_service(run)}


def _service(run: Running) -> Row:
    """What the service says of itself, since it began."""
    figures = run.daemon.figures()
    memory_mb, memory_max_mb = run.daemon.memory_mb()
    names = [name for name in figures if name.endswith(("_seconds", "_max_seconds"))]
    return {name: figures[name] for name in names} | {"memory_mb": memory_mb, "memory_max_mb": memory_max_mb}


def _coming_and_going(run: Running) -> Iterator[Row]:
    """Some agents leave and come again: how long until all they bring is leased, and the policy has answered."""
    count = min(LEAVING, run.size.agents // 2)
    for what, servers in (("leave", run.size.agents - count), ("join", run.size.agents)):

        def work(what: str = what, servers: int = servers) -> Row:
            answers = run.daemon.figures()["solver_answers"]
            run.agents.tell(f"{what} {count}")
            return run.when(
                all_seen_s=lambda figures: figures["servers_here"] == servers,
                leased_s=lambda figures: (
                    figures["devices"] == servers * run.size.devices
                    and figures["devices_leased"] >= 0.99 * figures["devices"]
                ),
                replanned_s=lambda figures: figures["solver_answers"] > answers,
            )

        yield run.during(f"{count} {what}", work)


def _restart(run: Running) -> Row:
    """Killed and started again at the same address, while all agents try to come back."""
    run.daemon.kill()
    run.agents.report()
    started = time.perf_counter()
    run.daemon = Daemon(run.folder / "state", *run.options, listen=run.daemon.address)
    while (beats := run.agents.report())["longest_unanswered_s"] > time.perf_counter() - started:
        time.sleep(0.1)
    assert beats["agents"] == run.size.agents
    return {
        "what": "restart",
        "ready_s": run.daemon.ready_seconds,
        "all_agents_answered_s": time.perf_counter() - started,
        "records_replayed": run.daemon.said["records_replayed"],
        "jobs_live": run.daemon.said["jobs_live"],
        "leases_after": beats["leases"],
    }


def flood(size: Size) -> Iterator[Row]:
    """Users that want too much, one kind after the other; heartbeats are not to be late for that."""
    with running(size) as run:
        address = run.daemon.address
        one = wire.SubmitRequest(version=1, jobs=users.specs(1, seed=3))
        huge = wire.SubmitRequest(version=1, jobs=users.specs(10_000, seed=4))
        leased = [job.job_id for job in asyncio.run(users.status(address, limit=5000)).jobs if job.servers]
        works: dict[str, Callable[[], Any]] = {
            "one job a call, as fast as it goes": lambda: users.flood(address, lambda s: s.Submit(one), 20.0, 50),
            "500 status calls a second": lambda: users.flood(
                address, lambda s: s.Status(wire.StatusRequest(version=1, limit=20)), 20.0, 20, per_s=500
            ),
            "status of 1,000 jobs, as fast as it goes": lambda: users.flood(
                address, lambda s: s.Status(wire.StatusRequest(version=1)), 20.0, 4
            ),
            "readers of logs that stall": lambda: users.stall(address, leased[:50], 20.0),
            "10,000 jobs a call": lambda: users.flood(address, lambda s: s.Submit(huge), 20.0, 2),
        }
        for what, work in works.items():
            yield run.during(what, lambda work=work: asyncio.run(work()))  # type: ignore[misc]
        yield {"what": "service", **_service(run)}


CASES: dict[str, Callable[[Size], Iterator[Row]]] = {"submissions": submissions, "load": load, "flood": flood}
