"""How each fault of a plan strikes, and how it heals."""

import asyncio
import contextlib
import random
import signal
import time
from pathlib import Path

from gavelx.worker.shim import kill, read_json, start_ticks
from tests.faults.cluster import Cluster, Daemon
from tests.faults.plan import SAVED, Fault
from tests.faults.proxy import DOWN, UP, Proxy
from tests.worker.machines import pids_of

LOOK_S = 0.005
Target = tuple[str, Path | None]


async def strike_lane(cluster: Cluster, lane: tuple[Fault, ...], chance: random.Random) -> None:
    """One fault after the other."""
    for fault in lane:
        await asyncio.sleep(fault.wait_s)
        name, lease = await _sighting(cluster, fault, chance)
        cluster.note(f"{fault.kind} {name} {lease and lease.name}")
        await strike(cluster, fault, name, lease)
        cluster.note(f"{fault.kind} {name}: over")


async def _sighting(cluster: Cluster, fault: Fault, chance: random.Random) -> Target:
    """Wait for the stage; the agent and the lease that are in it."""
    seen, end_s = set[Path](), time.monotonic() + fault.patience_s
    any_agent: Target = chance.choice(list(cluster.agents)), None
    while fault.stage != "waiting" and time.monotonic() < end_s:
        for stage, name, lease in cluster.live_leases():
            if fault.stage == stage or (fault.stage == SAVED and has_saved(lease)):
                seen.add(lease)
                if len(seen) >= fault.sightings:
                    return name, lease
        await asyncio.sleep(LOOK_S)
    return any_agent


def has_saved(lease: Path) -> bool:
    return bool((read_json(lease / "report.json") or {}).get("saved_steps"))


async def strike(cluster: Cluster, fault: Fault, name: str, lease: Path | None) -> None:
    """Do it, wait, and put right what can be put right."""
    service, agent, link = cluster.service, cluster.agents[name], cluster.links[name]
    match fault.kind.split():
        case ["kill", "the", "service"]:
            await _kill_service(cluster, fault.for_s)
        case ["kill", "the", "agent", *rest]:
            await _kill_agent(cluster, name, fault.for_s, for_ever=bool(rest))
        case ["kill" | "freeze" as how, "the", "job" | "shim" as whom] if lease is not None:
            await _to_lease(lease, whom, how, fault.for_s)
        case ["kill", "a", whom, *_] if lease is not None:
            _kill_one(lease, joins=whom == "joiner")
        case ["freeze", "the", "service"]:
            await _freeze(service, fault.for_s)
        case ["freeze", "the", "agent"]:
            await _freeze(agent, fault.for_s)
        case ["fill", "the", "service's", "disk"]:
            await _fill(cluster, Path(cluster.state), service, fault.for_s)
        case ["fill", "the", "agent's", "disk"]:
            await _fill(cluster, cluster.folder / "agents" / name, agent, fault.for_s)
        case ["slow", "the", whose, "disk"]:
            await _slow(service if whose.startswith("service") else agent, fault.for_s)
        case [*_, "link"] | ["stall", "what", *_]:
            await _link(link, fault.kind, fault.for_s)


async def _kill_service(cluster: Cluster, for_s: float) -> None:
    async with cluster.service.busy:
        await asyncio.to_thread(cluster.service.kill)
        await asyncio.sleep(for_s)
        await cluster.serve()


async def _kill_agent(cluster: Cluster, name: str, for_s: float, *, for_ever: bool) -> None:
    agent = cluster.agents[name]
    async with agent.busy:
        if name in cluster.gone_for_ever:
            return
        await asyncio.to_thread(agent.kill)
        if for_ever and cluster.may_lose(name):
            cluster.gone_for_ever.add(name)
            return
        await asyncio.sleep(for_s)
        agent.start()


async def _freeze(daemon: Daemon, for_s: float) -> None:
    """For longer than a lease, this is how a machine feels whose clock jumps."""
    async with daemon.busy:
        daemon.signal(signal.SIGSTOP)
        await asyncio.sleep(for_s)
        daemon.signal(signal.SIGCONT)


async def _to_lease(lease: Path, whom: str, how: str, for_s: float) -> None:
    pids = _shim_of(lease) if whom == "shim" else pids_of(lease)
    for pid in pids:
        kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    if how == "freeze":
        await asyncio.sleep(for_s)
        for pid in pids:
            kill(pid, signal.SIGCONT)


def _kill_one(lease: Path, *, joins: bool) -> None:
    """One process of a job that is resized: one that joins, or another."""
    mark = b'"joins": true'
    for pid in pids_of(lease):
        with contextlib.suppress(OSError):
            if (mark in Path(f"/proc/{pid}/environ").read_bytes()) == joins:
                kill(pid)
                return


def _shim_of(lease: Path) -> list[int]:
    """The lease's shim, if it lives; its pid alone may be somebody else's by now."""
    said = read_json(lease / "shim.json")
    return [said["pid"]] if said and start_ticks(said["pid"]) == said["start_ticks"] else []


async def _fill(cluster: Cluster, place: Path, daemon: Daemon, for_s: float) -> None:
    async with daemon.busy:
        if cluster.fill(place, daemon):
            await asyncio.sleep(for_s)
            cluster.empty(place, daemon)
            if daemon is not cluster.service and not daemon.lives and daemon.name not in cluster.gone_for_ever:
                daemon.start()  # it could not begin without a disk; whoever keeps it alive tries again


async def _slow(daemon: Daemon, for_s: float) -> None:
    slow = daemon.control / "slow"
    slow.write_text("0.3")
    await asyncio.sleep(for_s)
    slow.unlink(missing_ok=True)


async def _link(link: Proxy, kind: str, for_s: float) -> None:
    match kind:
        case "cut the link":
            link.cut()
        case "stall the link":
            link.stall(UP, DOWN)
        case "stall what the agent hears":
            link.stall(DOWN)
        case "stall what the agent says":
            link.stall(UP)
        case "delay the link":
            link.delay_s = 0.2
        case "half-close the link":
            link.half_close()
    await asyncio.sleep(for_s)
    link.heal()
