"""Where a log may be, and a clock to turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clocks import Clock
from tests.service.databases import database


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of this process, which only this test turns."""
    return Clock(monkeypatch)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of an empty server; each test makes a database of its own."""
    with database() as server:
        yield server.url


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
