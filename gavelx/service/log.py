"""The durable log: append-only, one writer, on SQLite or PostgreSQL by the same code.

A batch is written in one transaction, and nobody acts on an event before its transaction is on disk. SQLite runs
in WAL mode with ``synchronous=FULL``: ``NORMAL`` may lose the last commits when the power fails.

====================  ==================================================================================
``events``            every record, in order; never changed
``snapshots``         the state after some record, made by some version of the code; may be thrown away
``facts``             what a log is made with: its format, an id, and the configuration of the mechanism
====================  ==================================================================================

When a write fails nobody knows at once whether it was committed (the answer may have been lost):
:meth:`Log.settle` looks, before anything else is written.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from gavelx.errors import GavelxError, InputFileError, OptionError
from gavelx.service.records import Record

FORMAT = "gavelx-log-1"
FILE = "log.sqlite"
KEPT_SNAPSHOTS = 2
ADVISORY_LOCK = 0x676176656C78  # "gavelx"
CHUNK = 2000

_metadata = sa.MetaData()
_events = sa.Table(
    "events",
    _metadata,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time_s", sa.Double, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)
_snapshots = sa.Table(
    "snapshots",
    _metadata,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("code", sa.String(64), nullable=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
)
_facts = sa.Table(
    "facts",
    _metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)


class LogUnavailableError(GavelxError):
    """The log cannot be written or read now: the disk is full, the database is away. It may work again later."""


class Log:
    """One log, open for writing (``read_only``: for reading, beside a service that writes).

    Raises :class:`OptionError` for a place that cannot be a log or is in use by another service, and
    :class:`InputFileError` for a log that this version cannot read.
    """

    def __init__(self, place: str, *, read_only: bool = False) -> None:
        self.place, self.read_only = place, read_only
        self._lock_file: IO[str] | None = None
        self._connection: sa.Connection | None = None
        self._unsure: tuple[int, int] | None = None  # last sequence before a write of unknown fate, and after it
        url = _url(place, read_only=read_only)
        self.file = Path(url.database) if url.drivername == "sqlite" and url.database else None
        try:
            self._engine = _engine(url)
            if self.file is not None and not read_only:
                self._lock_file = _locked(self.file, place)
            if not read_only:
                _metadata.create_all(self._connected())
                self._connected().commit()
            self._check_format()
            self.last_sequence = self._last_sequence()
            self.id = self._fact("id") or ""
        except (SQLAlchemyError, ImportError, OSError) as error:
            self.close()
            raise OptionError(
                f"it cannot be opened ({_said(error)})",
                where=f"log {place}",
                expected="a folder, or the URL of a database",
            ) from None
        except GavelxError:
            self.close()
            raise

    # -- records ----------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        """Write a batch: all of it is on disk when this returns, or none is known to be.

        Raises :class:`LogUnavailableError`; then :meth:`settle` has to say what became of it.
        """
        assert self._unsure is None, "settle() first"
        first, last = self.last_sequence, records[-1].sequence
        assert records[0].sequence == first + 1, (records[0].sequence, first)
        rows = [
            {"sequence": r.sequence, "time_s": r.time_s, "version": r.version, "kind": r.kind, "body": r.body}
            for r in records
        ]
        self._unsure = first, last
        self._write(lambda connection: connection.execute(sa.insert(_events), rows))
        self.last_sequence, self._unsure = last, None

    def settle(self) -> bool:
        """After a failed :meth:`append`: whether it was written after all. Raises while nobody knows."""
        if self._unsure is None:
            return False
        before, after = self._unsure
        try:
            last = self._last_sequence()
        except SQLAlchemyError as error:
            self._disconnect()
            raise _unavailable(error) from None
        assert last in (before, after), "another service has written to this log"
        self.last_sequence, self._unsure = last, None
        return last == after

    def read(self, after: int = 0) -> Iterator[Record]:
        """All records after this one, in order."""
        columns = (_events.c.sequence, _events.c.time_s, _events.c.kind, _events.c.body, _events.c.version)
        while True:
            chunk = sa.select(*columns).where(_events.c.sequence > after).order_by(_events.c.sequence).limit(CHUNK)
            rows = self._connected().execute(chunk).all()
            self._connected().rollback()
            yield from (Record(*row) for row in rows)
            if len(rows) < CHUNK:
                return
            after = rows[-1].sequence

    # -- snapshots and facts ----------------------------------------------------------------------------------

    def save_snapshot(self, sequence: int, code: str, state: bytes) -> None:
        """Keep the state after a record, and the one before it."""

        def write(connection: sa.Connection) -> None:
            connection.execute(sa.delete(_snapshots).where(_snapshots.c.sequence == sequence))
            connection.execute(sa.insert(_snapshots).values(sequence=sequence, code=code, state=state))
            kept = sa.select(_snapshots.c.sequence).order_by(_snapshots.c.sequence.desc()).limit(KEPT_SNAPSHOTS)
            numbers = connection.execute(kept).scalars().all()
            connection.execute(sa.delete(_snapshots).where(_snapshots.c.sequence.not_in(numbers)))

        self._write(write)

    def snapshot(self, code: str) -> tuple[int, bytes] | None:
        """The latest state that this code made, and the record after which it was."""
        usable = (_snapshots.c.code == code) & (_snapshots.c.sequence <= self.last_sequence)
        latest = sa.select(_snapshots.c.sequence, _snapshots.c.state).where(usable)
        row = self._connected().execute(latest.order_by(_snapshots.c.sequence.desc()).limit(1)).first()
        self._connected().rollback()
        return None if row is None else (row.sequence, row.state)

    @property
    def configuration(self) -> dict[str, Any] | None:
        """What the mechanism of this log is made with; None in a new log."""
        text = self._fact("configuration")
        return None if text is None else json.loads(text)

    def configure(self, configuration: dict[str, Any]) -> None:
        """Say once what the mechanism is made with."""
        row = {"name": "configuration", "value": json.dumps(configuration)}
        self._write(lambda connection: connection.execute(sa.insert(_facts), row))

    def renew_id(self) -> None:
        """Be another log to the agents: they stop what runs for the old one, and forget it."""
        self.id = uuid4().hex
        statement = sa.update(_facts).where(_facts.c.name == "id").values(value=self.id)
        self._write(lambda connection: connection.execute(statement))

    def close(self) -> None:
        """Let go of the log; another service may have it."""
        self._disconnect()
        if (engine := getattr(self, "_engine", None)) is not None:
            engine.dispose()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    # -- how --------------------------------------------------------------------------------------------------

    def _write(self, statements: Any) -> None:
        """One transaction, or :class:`LogUnavailableError`."""
        try:
            connection = self._connected()
            with connection.begin():
                statements(connection)
        except IntegrityError as error:
            raise AssertionError("another service has written to this log") from error
        except (SQLAlchemyError, OSError) as error:
            self._disconnect()
            raise _unavailable(error) from None

    def _connected(self) -> sa.Connection:
        """The one connection, which holds the lock where that is the database's."""
        if self._connection is None:
            self._connection = self._engine.connect()
            if self._engine.dialect.name == "postgresql" and not self.read_only:
                mine = self._connection.execute(sa.select(sa.func.pg_try_advisory_lock(ADVISORY_LOCK))).scalar()
                self._connection.commit()
                if not mine:
                    self._disconnect()
                    raise _in_use(self.place)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except SQLAlchemyError:
                connection.invalidate()

    def _last_sequence(self) -> int:
        last = self._connected().execute(sa.select(sa.func.max(_events.c.sequence))).scalar()
        self._connected().rollback()
        return int(last or 0)

    def _check_format(self) -> None:
        found = self._fact("format")
        if found is None and not self.read_only:
            facts = {"format": FORMAT, "id": uuid4().hex}
            rows = [{"name": name, "value": value} for name, value in facts.items()]
            self._write(lambda connection: connection.execute(sa.insert(_facts), rows))
        elif found != FORMAT:
            problem = f"it has the format {found!r}" if found else "it is no log of gavelx"
            raise InputFileError(problem, where=f"log {self.place}", expected=FORMAT, hint="another folder or URL")

    def _fact(self, name: str) -> str | None:
        value = self._connected().execute(sa.select(_facts.c.value).where(_facts.c.name == name)).scalar()
        self._connected().rollback()
        return None if value is None else str(value)


def _url(place: str, *, read_only: bool) -> sa.URL:
    """The database of a place: a URL as it is, a folder's file (the folder is made, closed to others)."""
    if "://" in place:
        try:
            url = sa.make_url(place)
        except ArgumentError as error:
            raise OptionError(f"it is no URL ({_said(error)})", where=f"log {place}") from None
        return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
    path = Path(place)
    file = path if path.is_file() else path / FILE
    try:
        if read_only:
            if not file.is_file():
                raise OptionError("there is no log", where=f"log {place}", expected="the state of a service")
        else:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    except (OSError, ValueError) as error:
        raise OptionError(
            f"it cannot be made ({_said(error)})", where=f"log {place}", expected="a folder"
        ) from None
    return sa.URL.create("sqlite", database=str(file))


def _engine(url: sa.URL) -> sa.Engine:
    try:
        if url.get_backend_name() != "sqlite":
            return sa.create_engine(url, pool_pre_ping=True)
        engine = sa.create_engine(url, connect_args={"check_same_thread": False, "timeout": 5.0})
    except (NoSuchModuleError, ImportError) as error:
        problem, hint = f"no driver for {url.drivername} is installed ({error})", "pip install 'gavelx[postgres]'"
        raise OptionError(problem, where="--state", expected="a folder, or postgresql://...", hint=hint) from None
    sa.event.listen(engine, "connect", _durably)
    return engine


def _durably(connection: Any, _: Any) -> None:
    """Every commit is on disk before it returns."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _locked(file: Path, place: str) -> IO[str]:
    """The lock of a log in a file; it falls when the process ends, however it does."""
    lock = file.with_name(file.name + ".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise _in_use(place) from None
    return lock


def _in_use(place: str) -> OptionError:
    expected = "one service for each log"
    return OptionError(
        "another service is using it", where=f"log {place}", expected=expected, hint="stop the other one"
    )


def _unavailable(error: Exception) -> LogUnavailableError:
    return LogUnavailableError(f"the log cannot be written now: {_said(error)}")


def _said(error: BaseException) -> str:
    """The first line of what went wrong, without the statement and its values."""
    text = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
