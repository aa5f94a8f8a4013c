"""The durable log, in a folder and on PostgreSQL."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gavelx.errors import InputFileError, OptionError
from gavelx.mechanism.events import Wake
from gavelx.service.store import database, places
from gavelx.service.store.database import LogUnavailableError
from gavelx.service.store.log import Log
from gavelx.service.store.places import FILE, LogError
from gavelx.service.store.records import Entry, Record, record_of
from tests.waiting import PATIENCE_S, wait_until


def wakes(first: int, count: int) -> list[Record]:
    return [record_of(n, Entry(Wake(float(n)), {"n": n})) for n in range(first, first + count)]


def test_what_was_appended_is_there_in_order_after_opening_again(place: str) -> None:
    log = Log(place)
    log.append(wakes(1, 3))
    log.append(wakes(4, 2500))
    log.close()
    again = Log(place)
    assert again.last_sequence == 2503
    assert list(again.read()) == wakes(1, 2503)
    assert list(again.read(after=2500)) == wakes(2501, 3)
    again.close()


def test_one_service_at_a_time(place: str) -> None:
    log = Log(place)
    with pytest.raises(OptionError, match="another service is using it"):
        Log(place)
    reader = Log(place, read_only=True)
    log.append(wakes(1, 1))
    assert list(reader.read()) == wakes(1, 1)
    reader.close()
    log.close()
    Log(place).close()


def test_a_service_that_is_about_to_be_gone_is_waited_for(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lets go of its lock when it has seen that the connection is closed, and not when it is."""
    monkeypatch.setattr(database, "LOCK_WAIT_S", int(PATIENCE_S))
    log = Log(f"{postgres}/postgres")
    with ThreadPoolExecutor(1) as other:
        opening = other.submit(Log, f"{postgres}/postgres")
        import psycopg

        with psycopg.connect(f"{postgres}/postgres", autocommit=True) as looking:
            waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            wait_until(lambda: looking.execute(waits).fetchone() == (1,), "it waits for the lock")
        log.close()
        opening.result().close()


def test_the_last_two_snapshots_are_kept_and_only_those_of_the_same_code_are_used(place: str) -> None:
    log = Log(place)
    log.append(wakes(1, 9))
    for sequence, code, state in ((3, "a", b"three"), (5, "a", b"five"), (7, "b", b"\0seven")):
        log.save_snapshot(sequence, code, state)
    assert log.snapshot("a") == (5, b"five")
    assert log.snapshot("b") == (7, b"\0seven")
    assert log.snapshot("c") is None
    log.save_snapshot(9, "a", b"nine")
    assert log.snapshot("a") == (9, b"nine")
    log.close()


def test_the_configuration_is_said_once(place: str) -> None:
    log = Log(place)
    assert log.configuration is None
    log.configure({"round_s": 0.1, "name": "ü"})
    assert log.configuration == {"round_s": 0.1, "name": "ü"}
    log.close()


@pytest.mark.parametrize("written", [False, True])
def test_a_write_of_unknown_fate_is_settled_by_looking(
    place: str, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(place)
    log.append(wakes(1, 2))

    def answer_is_lost(statements: Any, write: Any = log._store.write) -> None:
        if written:
            write(statements)
        raise LogUnavailableError("the log cannot be written now: the network is gone")

    with monkeypatch.context() as patch, pytest.raises(LogUnavailableError):
        patch.setattr(log._store, "write", answer_is_lost)
        log.append(wakes(3, 2))
    assert log.settle() is written
    log.append(wakes(5 if written else 3, 2))
    assert log.last_sequence == len(list(log.read())) == (6 if written else 4)
    log.close()


def test_two_writers_are_noticed_even_without_the_lock(place: str) -> None:
    log = Log(place)
    log.append(wakes(1, 1))
    log.last_sequence = 0
    with pytest.raises(LogError, match="another service has written to it"):
        log.append(wakes(1, 1))
    log.close()


def test_a_database_that_goes_away_is_unavailable_and_comes_back(postgres: str) -> None:
    place = f"{postgres}/postgres"
    log = Log(place)
    log.append(wakes(1, 1))
    import psycopg

    with psycopg.connect(place) as other:
        others = "pid <> pg_backend_pid() and datname = 'postgres'"
        other.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {others}")
    with pytest.raises(LogUnavailableError, match="cannot be written now"):
        log.append(wakes(2, 1))
    assert log.settle() is False
    log.append(wakes(2, 1))
    assert list(log.read()) == wakes(1, 2)
    log.close()


def test_a_full_disk_is_unavailable_and_nothing_of_the_batch_is_there(tmp_path: Path) -> None:
    log = Log(str(tmp_path))
    log.append(wakes(1, 10))
    log._store.connection().exec_driver_sql("PRAGMA max_page_count = 20")
    log._store.connection().rollback()
    with pytest.raises(LogUnavailableError, match="full"):
        log.append(wakes(11, 5000))
    assert log.settle() is False
    assert list(log.read()) == wakes(1, 10)
    log._store.connection().exec_driver_sql("PRAGMA max_page_count = 100000")
    log._store.connection().rollback()
    log.append(wakes(11, 5000))
    assert log.last_sequence == 5010
    log.close()


def test_a_file_server_that_is_away_is_unavailable_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the log's files are still there cannot be seen then, which says nothing about them."""

    def away(path: str) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)

    log = Log(str(tmp_path))
    log.append(wakes(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(places, "_identity", away)
        with pytest.raises(LogUnavailableError, match="Stale file handle"):
            log.check_place()
        with pytest.raises(LogUnavailableError, match="Stale file handle"):
            log.append(wakes(3, 2))
    assert log.settle() is True  # it was written, and only the look after it failed
    log.append(wakes(5, 1))
    assert list(log.read()) == wakes(1, 5)
    log.close()


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_unavailable_too(tmp_path: Path) -> None:
    code = f"""
import resource, signal
from tests.service.test_log import wakes
from gavelx.service.store.log import Log, LogUnavailableError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = Log({str(tmp_path)!r})
log.append(wakes(1, 10))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    log.append(wakes(11, 50_000))
except LogUnavailableError as error:
    print(error)
print(log.settle())
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append(wakes(11, 5))
print(len(list(log.read())))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    error, settled, count = run.stdout.splitlines()
    assert "cannot be written now" in error
    assert (settled, count) == ("False", "15")


def test_sqlite_is_durable_and_private(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "state"))
    connection = log._store.connection()
    assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state" / FILE).stat().st_mode) == 0o600
    log.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "nonsense://x",
            "not kept in such a database; expected postgresql://USER@HOST",
        ),
        ("sqlite:///x", "not kept in such a database"),
        ("postgresql://127.0.0.1:1/x?connect_timeout=1", "opened"),
        ("/proc/x", "made"),
    ],
)
def test_a_place_that_cannot_be_a_log_is_said_so(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Log(text)


def test_a_database_that_lets_nobody_in_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host takes connections, and says nothing: as a server that hangs does."""
    pytest.importorskip("psycopg")
    monkeypatch.setattr(places, "ANSWERS_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        gives_up = threading.Timer(PATIENCE_S, deaf.shutdown, [socket.SHUT_RDWR])
        gives_up.start()
        try:
            with pytest.raises(OptionError, match="timeout"):
                Log(f"postgresql://127.0.0.1:{port}/x")
        finally:
            gives_up.cancel()


def test_a_database_whose_tables_an_operator_has_locked_is_away(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(places, "ANSWERS_S", 1)
    with psycopg.connect(f"{postgres}/postgres", autocommit=True) as operator:
        operator.execute("CREATE DATABASE locked")
    log = Log(f"{postgres}/locked?connect_timeout=300")
    log.append(wakes(1, 10))
    with psycopg.connect(f"{postgres}/locked") as operator:
        operator.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(LogUnavailableError, match="lock timeout"):
            log.append(wakes(11, 5))
        with pytest.raises(LogUnavailableError, match="lock timeout"):
            log.settle()
    assert not log.settle()
    log.append(wakes(11, 5))
    assert len(list(log.read())) == 15
    log.close()


def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("hello, I am a letter" * 100)
    with pytest.raises(LogError, match="not a database"):
        Log(str(tmp_path))
    with pytest.raises(OptionError, match="there is no log"):
        Log(str(tmp_path / "nowhere"), read_only=True)
    other = sa.create_engine(f"sqlite:///{tmp_path}/other.sqlite")
    with other.connect() as connection:
        connection.exec_driver_sql("create table facts (name text, value text)")
        connection.exec_driver_sql("insert into facts values ('format', 'gavelx-log-99'), ('new', 'thing')")
        connection.commit()
    other.dispose()
    with pytest.raises(InputFileError, match="gavelx-log-99"):
        Log(str(tmp_path / "other.sqlite"))
