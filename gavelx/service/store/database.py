"""The one connection to the database of a log: transactions, questions, and what may be wrong with either.

It may be away for a while (a full disk, a lost network): :class:`LogUnavailableError`. What it holds may be
broken, or another log than it was: :class:`LogError`.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from gavelx.errors import GavelxError
from gavelx.service.store.places import Files, Place

ADVISORY_LOCK = 0x676176656C78  # "gavelx"
LOCK_WAIT_S = 5
"""What a PostgreSQL server may take to see that the service before us is gone."""
LOCK_NOT_AVAILABLE = "55P03"
AROUND = {
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_ABORT, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_AUTH),
}
"""What goes wrong around a file, and not in it."""
CORRUPTED, NO_SUCH_TABLE = "XX", "42"
"""Classes of PostgreSQL's errors."""
METADATA = sa.MetaData()
"""The tables of a log, which are defined where they are used."""
Answer = TypeVar("Answer")


class LogUnavailableError(GavelxError):
    """The log cannot be written or read now: the disk is full, the database is away. It may work again later."""


class Store:
    """A place that is in use by us alone, unless it is only read.

    ``look`` is called on each new connection after the first: it raises where the database is not as it was.
    """

    def __init__(self, place: Place, *, read_only: bool, look: Callable[[], None]) -> None:
        self.place, self.read_only, self._look = place, read_only, look
        self.files: Files | None = None
        self._connection: sa.Connection | None = None
        self._was_connected = False
        self._engine = place.engine()
        if place.file is not None and not read_only:
            self.files = Files(place)

    def write(self, statements: Callable[[sa.Connection], Any]) -> None:
        """One transaction, on disk when this returns. Raises :class:`LogError` if no one would find it there."""
        try:
            connection = self.connection()
            with connection.begin():
                statements(connection)
        except IntegrityError as error:
            said = self.place.said(error)
            raise self.place.damaged(f"another service has written to it, or it is broken ({said})") from None
        except (SQLAlchemyError, OSError) as error:
            self.disconnect()
            raise self._unavailable(error) from error
        self.check_files()

    def ask(self, question: Callable[[sa.Connection], Answer]) -> Answer:
        """Read something."""
        try:
            connection = self.connection()
            answer = question(connection)
            connection.rollback()
        except (TypeError, ValueError) as error:
            raise self.place.damaged(f"{type(error).__name__}: {error}") from None
        except (SQLAlchemyError, OSError) as error:
            self.disconnect()
            if _is_damage(error):
                raise self.place.damaged(self.place.said(error)) from None
            raise self._unavailable(error) from error
        return answer

    def all(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        """Every row of a query."""
        return self.ask(lambda connection: connection.execute(query).all())

    def shrink(self) -> None:
        """Give the room of deleted rows back to the disk; PostgreSQL does so by itself."""
        if self.place.file is None:
            return
        try:
            connection = self.connection().execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        except (SQLAlchemyError, OSError) as error:
            raise self._unavailable(error) from error
        finally:
            self.disconnect()

    def has_table(self, name: str) -> bool:
        return self.ask(lambda connection: sa.inspect(connection).has_table(name))

    def connection(self) -> sa.Connection:
        """The one connection, which holds the lock where that is the database's."""
        if self._connection is None:
            self.check_files()  # before SQLite makes one that is missing
            self._connection = self._engine.connect()
            if self.files is not None:
                self.files.reconnected()
            if self._engine.dialect.name == "postgresql" and not self.read_only:
                self._lock(self._connection)
            if self._was_connected:
                self._look()
            self._was_connected = True
        return self._connection

    def disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except SQLAlchemyError:
                connection.invalidate()

    def give_up(self) -> None:
        """It cannot be opened."""
        if self.files is not None:
            self.files.give_up()
        self.close()

    def close(self) -> None:
        """Let go of it; another service may have it."""
        self.disconnect()
        self._engine.dispose()
        if self.files is not None:
            self.files.close()
            self.files = None

    def _lock(self, connection: sa.Connection) -> None:
        """Keep others out. The server holds the lock of a service that has ended until it sees that it is gone."""
        try:
            connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
            connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'"))
            connection.execute(sa.select(sa.func.pg_advisory_lock(ADVISORY_LOCK)))
            connection.commit()
        except OperationalError as error:
            self.disconnect()
            if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                raise
            raise self.place.in_use() from None

    def check_files(self) -> None:
        """Raises :class:`LogError` where the files are not those that we write to.

        Raises :class:`LogUnavailableError` where that cannot be seen now, as on a file server that is away.
        """
        try:
            path = None if self.files is None else self.files.missing()
        except OSError as error:
            raise self._unavailable(error) from error
        if path is not None:
            raise self.place.lost(f"{path} was removed or replaced while the service wrote to it")

    def _unavailable(self, error: BaseException) -> LogUnavailableError:
        return LogUnavailableError(f"the log cannot be written now: {self.place.said(error)}")


def _is_damage(error: BaseException) -> bool:
    """Whether a database says that what it holds is broken, not that it cannot be asked now."""
    match getattr(error, "orig", None):
        case sqlite3.ProgrammingError():
            return False
        case sqlite3.Error() as said:
            return getattr(said, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in AROUND
        case said:
            return str(getattr(said, "sqlstate", None))[:2] in (CORRUPTED, NO_SUCH_TABLE)
