"""A PostgreSQL of our own, on loopback, for as long as the tests run."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def _why_not() -> str | None:
    if not BINARIES:
        return "PostgreSQL is not installed"
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        return "PostgreSQL does not run as root, and there is no user postgres"
    return None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of an empty server; each test makes a database of its own."""
    pytest.importorskip("psycopg")
    if why := _why_not():
        pytest.skip(why)
    as_other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="gavelx-pg-"))
    try:
        if as_other:
            shutil.chown(folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]

        def run(program: str, *arguments: str) -> None:
            command = [*as_other, str(BINARIES[-1] / program), *arguments]
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

        data = str(folder / "data")
        run("initdb", "-D", data, "-U", "gavelx", "-A", "trust", "--no-sync")
        serve = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder}"
        run("pg_ctl", "-D", data, "-w", "-o", serve, "-l", str(folder / "log"), "start")
        try:
            yield f"postgresql://gavelx@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a log may be: a folder, or a database of its own."""
    if request.param == "folder":
        return str(tmp_path / "state")
    server = request.getfixturevalue("postgres")
    import psycopg

    name = f"log_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}/{name}"
