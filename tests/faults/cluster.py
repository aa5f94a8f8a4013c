"""One service and its agents as processes of their own, each behind a link that can be cut.

FOLDER/service/          the service's state, on a small disk of its own where one can be mounted
FOLDER/agents/NAME/      an agent's folder, likewise
FOLDER/shared/jobs/ID-*/ checkpoints and diaries
FOLDER/*.log             what the daemons said, and when which fault struck
"""

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import gavelx
from gavelx.rpc.ports import free_port
from gavelx.worker.shim import kill, marked, read_json
from tests.faults.namespace import Wire
from tests.faults.plan import PAUSING, RESIZING, AgentPlan, Plan
from tests.faults.proxy import Proxy
from tests.service.agents import User
from tests.waiting import PATIENCE_S, until

ROOT = Path(gavelx.__file__).parents[1]
HEARTBEAT_S, VALID_FOR_S, GRACE_S, ROUND_S = 0.2, 1.5, 0.5, 1.0
MAX_FAILURES = 8
USD_PER_HOUR = {"v100": 3600.0, "k80": 360.0}
TABLE = """job_type,scale_factor,accelerator,steps_per_second
net,1,v100,50
net,2,v100,50
net,3,v100,50
net,1,k80,20
"""
ELASTIC_TABLE = """job_type,scale_factor,accelerator,steps_per_second
net,1,v100,50
net,2,v100,90
net,3,v100,120
"""
DISK_BYTES = 16 << 20
LOOK_S = 0.05


class Daemon:
    """One of ours as a process; ``errors`` is what it said."""

    def __init__(  # noqa: PLR0917
        self,
        name: str,
        folder: Path,
        plan: Plan,
        words: list[str],
        garbles: float = 0.0,
        prefix: Sequence[str] = (),
    ) -> None:
        self.name, self.errors = name, folder / f"{name}.log"
        self.control = folder / f"{name}.control"
        self.control.mkdir()
        self.command = [
            *prefix,
            *(sys.executable, "-m", "tests.faults.patched", str(self.control), str(garbles), plan.plant),
            *words,
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.busy = asyncio.Lock()
        """One fault at a time."""

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        if self.process is not None and self.lives:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._gone()

    def stop(self) -> int:
        """Ask it to leave, once, and wait; its exit code."""
        self.signal(signal.SIGTERM)
        return self._gone()

    def _gone(self) -> int:
        assert self.process is not None
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = -signal.SIGKILL
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def tail(self) -> str:
        return self.errors.read_text(errors="replace")[-3000:] if self.errors.exists() else ""


class Cluster:
    """All of it. ``address`` is the service's own, beside which agents come in through links."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.shared, self.devices = folder / "shared", folder / "devices"
        self.agents: dict[str, Daemon] = {}
        self.links: dict[str, Proxy] = {}
        self.gone_for_ever: set[str] = set()
        self.address = f"127.0.0.1:{free_port()}"
        self.late_s = 0.0
        """By how much looks at the clock were late, in all, as this machine has other things to do."""

    @property
    def state(self) -> str:
        return str(self.folder / "service")

    def leases(self, name: str) -> Path:
        return self.folder / "agents" / name / "leases"

    # -- starting --

    async def serve(self) -> None:
        """Start the service, and wait until it serves; always at the same address."""
        await asyncio.to_thread(self._serve)

    def _serve(self) -> None:
        self.service.start()
        process = self.service.process
        assert process is not None and process.stdout is not None
        text = b""
        while not text.endswith(b"}\n"):
            line = process.stdout.readline()
            assert line, f"the service did not start:\n{self.service.tail()}"
            text += line
        self.address = json.loads(text)["listening"]
        at = self.service.command.index("--listen") + 1
        self.service.command[at] = self.address

    def _make_service(self) -> None:
        elastic = self.plan.policy.startswith("elastic")
        (self.folder / "table.csv").write_text(ELASTIC_TABLE if elastic else TABLE)
        times = {"heartbeat": HEARTBEAT_S, "valid-for": VALID_FOR_S, "grace": GRACE_S, "round": ROUND_S}
        prices = ",".join(f"{name}={usd}" for name, usd in USD_PER_HOUR.items())
        words = ["serve", "--state", self.state, "--listen", self.address, "--json", "--prices", prices]
        words += ["--policy", self.plan.policy]
        words += [
            "--table",
            str(self.folder / "table.csv"),
            "--max-failures",
            str(MAX_FAILURES),
            "--retry-after",
            "0",
        ]
        words += [word for name, value in times.items() for word in (f"--{name}", str(value))]
        self.service = Daemon("service", self.folder, self.plan, words)

    def _make_agent(self, agent: AgentPlan) -> None:
        link = self.links[agent.name]
        words = ["worker", "--scheduler", link.address, "--name", agent.name, "--address", "127.0.0.1"]
        words += ["--devices", f"{agent.accelerator}={agent.devices}", "--shared", str(self.shared)]
        words += ["--folder", str(self.folder / "agents" / agent.name)]
        self.agents[agent.name] = Daemon(agent.name, self.folder, self.plan, words, agent.garbles, link.prefix)

    # -- what is going on --

    def note(self, what: str) -> None:
        """For whoever looks into a run that failed."""
        with (self.folder / "faults.log").open("a") as file:
            file.write(f"{time.monotonic():.3f} {what}\n")

    def live_leases(self) -> Iterator[tuple[str, str, Path]]:
        """Stage, agent and folder of every lease whose end the service has not acknowledged."""
        for name in self.agents:
            with suppress(FileNotFoundError):
                for lease in self.leases(name).iterdir():
                    if stage := stage_of(lease):
                        yield self._stage_of_resize(lease) or stage, name, lease

    def _stage_of_resize(self, lease: Path) -> str:
        """Where the resize is that goes on here; nothing, if none does."""
        if (read_json(lease / "sizes.json") or {}).get("next") is None:
            return ""
        to = (read_json(lease / "lease.json") or {}).get("lease_id")
        jobs = self.shared / "jobs"
        return PAUSING if any(jobs.glob(f"*/go.{to}")) and not any(jobs.glob(f"*/met.{to}")) else RESIZING

    def left(self) -> list[int]:
        """Processes of jobs that live."""
        return [pid for pid, _ in marked(f"GAVELX_LEASE_FILE={self.folder}/".encode())]

    def may_lose(self, name: str) -> bool:
        """Whether the others can run every job without this one."""
        stay = [
            a for a in self.plan.agents if a.name not in self.gone_for_ever | {name} and a.accelerator == "v100"
        ]
        return sum(agent.devices for agent in stay) >= max(job.workers for job in self.plan.jobs)

    # -- disks --

    def fill(self, place: Path, daemon: Daemon) -> bool:
        """No byte fits on its disk any more; False where that cannot be done."""
        if place.is_mount():
            with suppress(OSError), (place / "ballast").open("ab", buffering=0) as ballast:
                while ballast.write(b"x" * 4096):
                    pass
            return True
        if daemon is self.service and daemon.process is not None and daemon.lives:
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            return True
        return False  # what it starts would inherit the limit

    def empty(self, place: Path, daemon: Daemon) -> None:
        if place.is_mount():
            (place / "ballast").unlink(missing_ok=True)
        elif daemon.process is not None and daemon.lives:
            no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, no_limit)

    # -- the end --

    async def end(self) -> None:
        """Everybody leaves softly, and nothing runs any more. Raises AssertionError where that is not so."""
        agents = [daemon for name, daemon in self.agents.items() if name not in self.gone_for_ever]
        codes = await asyncio.gather(*(asyncio.to_thread(daemon.stop) for daemon in agents))
        codes.append(await asyncio.to_thread(self.service.stop))
        for daemon, code in zip([*agents, self.service], codes, strict=True):
            early = code == -signal.SIGTERM and daemon is not self.service  # it had hardly begun
            assert code == 0 or early, f"{daemon.name} ended with {code}:\n{daemon.tail()}"
        await until(lambda: not self.left(), "no process outlives its lease", self.left)

    async def look_at_the_clock(self) -> None:
        while True:
            due_s = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.late_s += time.monotonic() - due_s


def stage_of(lease: Path) -> str:
    """Where a lease is; nothing, once its end was acknowledged."""
    if (lease / "acknowledged.json").exists():
        return ""
    if (lease / "ended.json").exists():
        return "reporting"
    if (lease / "exit.json").exists():
        return "ending"
    if (read_json(lease / "lease.json") or {}).get("stop"):
        return "stopping"
    return "running" if (lease / "shim.json").exists() else "launching"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A folder on a disk of its own, where we may mount one."""
    folder.mkdir(parents=True, mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "gavelx-test", str(folder)]
    with suppress(FileNotFoundError):
        subprocess.run(mount, capture_output=True, check=False)
    try:
        yield
    finally:
        if folder.is_mount():
            kept = folder.with_name(f"{folder.name}.kept")
            shutil.copytree(folder, kept, symlinks=True, ignore=shutil.ignore_patterns("ballast"))
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
            folder.rmdir()
            kept.rename(folder)


@asynccontextmanager
async def cluster_of(plan: Plan, folder: Path) -> AsyncIterator[Cluster]:
    """The plan's cluster, serving. Whatever happens, nothing of it is left in the end."""
    cluster = Cluster(plan, folder.absolute())
    async with AsyncExitStack() as stack:
        cluster.devices.mkdir(parents=True)
        stack.enter_context(small_disk(cluster.folder / "service"))
        cluster._make_service()
        stack.callback(_kill_all, cluster)
        await cluster.serve()
        for agent in plan.agents:
            stack.enter_context(small_disk(cluster.folder / "agents" / agent.name))
            link = Wire(cluster.address) if agent.wired else Proxy(cluster.address)
            cluster.links[agent.name] = await stack.enter_async_context(link)
            cluster._make_agent(agent)
        stack.callback(_kill_all, cluster)  # before the disks go
        for daemon in cluster.agents.values():
            daemon.start()
        stack.callback(asyncio.create_task(cluster.look_at_the_clock()).cancel)
        yield cluster


def _kill_all(cluster: Cluster) -> None:
    for daemon in (cluster.service, *cluster.agents.values()):
        if daemon.lives:
            daemon.kill()
    while left := cluster.left():
        for pid in left:
            kill(pid)
        time.sleep(0.02)


@asynccontextmanager
async def user_at(address: str) -> AsyncIterator[User]:
    user = User(address)
    try:
        yield user
    finally:
        await user.close()
