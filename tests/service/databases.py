"""A PostgreSQL of our own, on loopback, which may be killed and started again."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gavelx.rpc.ports import free_port
from gavelx.worker.shim import descendants, kill
from tests.waiting import PATIENCE_S, wait_until

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def why_not() -> str | None:
    if not BINARIES:
        return "PostgreSQL is not installed"
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        return "PostgreSQL does not run as root, and there is no user postgres"
    return None


class Database:
    """One server at work, with an empty data folder; ``url`` names no database yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._as_other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._as_other:
            shutil.chown(folder, "postgres")
        text = ("--encoding=UTF8", "--locale=C")  # not as LC_ALL says, whose locale may not be installed
        self._run("initdb", "-D", self._data, "-U", "gavelx", "-A", "trust", "--no-sync", *text)
        self.port = free_port()
        self.start()
        self.url = f"postgresql://gavelx@127.0.0.1:{self.port}"

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_other, str(BINARIES[-1] / program), *arguments]
        done = subprocess.run(command, check=False, cwd=self.folder, capture_output=True, text=True)
        log = self.folder / "log"
        said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}\n{said}"

    def start(self) -> None:
        serve = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder}"
        self._control("-o", serve, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        self._control("-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", self._data, "-w", "-t", f"{PATIENCE_S:.0f}", *arguments)

    def kill(self) -> None:
        """All of its processes at once, as when the machine dies."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        kill(first, signal.SIGSTOP)  # it starts no more of them
        everybody = [first, *descendants(first)]
        for pid in everybody:
            kill(pid, signal.SIGKILL)
        left = lambda: [pid for pid in everybody if Path(f"/proc/{pid}").exists()]  # noqa: E731
        wait_until(lambda: not left(), "all of it is gone", left)  # zombies count as alive


@contextmanager
def database() -> Iterator[Database]:
    """A server at work; skips the test where none can be had."""
    pytest.importorskip("psycopg")
    if why := why_not():
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="gavelx-pg-", dir="/tmp"))  # a short path, which all users may enter
    try:
        server = Database(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
