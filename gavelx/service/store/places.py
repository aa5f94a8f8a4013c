"""Where a log lies: a folder with a file in it, or a database; and what may be said of it.

In a folder lie ``log.sqlite``, what SQLite keeps beside it, and ``log.sqlite.lock``: held by the one service that
writes the log, and with the mark of its last record (`chain`). So a log that was emptied, removed or replaced by
an older copy is noticed, also while a service writes it.
"""

import contextlib
import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from gavelx.errors import InputFileError, OptionError

FILE = "log.sqlite"
LOCK, WAL, SHARED = ".lock", "-wal", "-shm"
"""What lies beside it: ours, and what SQLite has not yet put into the file."""
BUSY_S = 5.0
ANSWERS_S = 10
"""A PostgreSQL server that takes longer to let us in, to hear what we send, or to let us have a table that an
operator has locked is away; the URL may say more."""
_PASSWORD = re.compile(r"(?<=://)([^:/@?]*):(.*)@")
_PARAMETER = re.compile(r"([?&][^=&]*password[^=&]*=)([^&]*)", re.IGNORECASE)


class LogError(InputFileError):
    """The log is damaged, or lacks what was in it: no service may go on with it as if nothing had happened."""


@dataclass(frozen=True)
class Place:
    """One place; ``file`` where it is a folder's."""

    text: str
    url: sa.URL
    file: Path | None

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"log {without_password(self.text)}"

    def engine(self) -> sa.Engine:
        """A way in. Raises :class:`OptionError` where its driver is not installed."""
        try:
            if self.file is None:
                waits: dict[str, Any] = {"connect_timeout": ANSWERS_S, "tcp_user_timeout": 1000 * ANSWERS_S}
                waits["options"] = f"-c lock_timeout={ANSWERS_S}s"
                waits = {name: time for name, time in waits.items() if name not in self.url.query}
                return sa.create_engine(self.url, pool_pre_ping=True, connect_args=waits)
            engine = sa.create_engine(self.url, connect_args={"check_same_thread": False, "timeout": BUSY_S})
        except (NoSuchModuleError, ImportError) as error:
            problem, hint = f"no driver for {self.url.drivername} is installed ({error})", "gavelx[postgres]"
            expected = "a folder, or postgresql://..."
            raise OptionError(problem, where="--state", expected=expected, hint=f"pip install '{hint}'") from None
        sa.event.listen(engine, "connect", _durably)
        return engine

    def said(self, error: BaseException) -> str:
        """The first line of what went wrong, without the statement, its values, what was read, and passwords."""
        text = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
        text = text.splitlines()[0].partition(" with text '")[0]
        for secret in _secrets(self.text):
            text = text.replace(secret, "***")
        return text[:200]

    def damaged(self, problem: str, sequence: int | None = None) -> LogError:
        """What is there, at a record or anywhere, is not what was written."""
        problem = (
            f"it is damaged: {problem}" if sequence is None else f"it is damaged at record {sequence}: {problem}"
        )
        hint = "restore a backup (gavelx serve --restored)"
        return LogError(problem, where=self.name, expected="what gavelx wrote", hint=hint)

    def lost(self, problem: str, *, empty: bool = False) -> LogError:
        """What was written is not there; ``empty``: none of it is."""
        hint = "put its newest copy there (gavelx serve --restored, if that is a backup)"
        hint += "; gavelx serve --new begins another log" if empty else ""
        return LogError(problem, where=self.name, expected="all that was written to it", hint=hint)

    def in_use(self) -> OptionError:
        problem, expected = "another service is using it", "one service for each log"
        return OptionError(problem, where=self.name, expected=expected, hint="stop the other one")


def place_of(text: str, *, read_only: bool) -> Place:
    """A URL as it is, a folder's file (the folder is made, closed to others). Raises :class:`OptionError`."""
    if "://" in text:
        return Place(text, _database(text), None)
    path = Path(text)
    file = path if path.is_file() else path / FILE
    place = Place(text, sa.URL.create("sqlite", database=str(file)), file)
    try:
        if not read_only:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not file.is_file():
            raise OptionError("there is no log", where=place.name, expected="the state of a service")
    except (OSError, ValueError) as error:
        problem = f"it cannot be made ({place.said(error)})"
        raise OptionError(problem, where=place.name, expected="a folder") from None
    return place


def _database(text: str) -> sa.URL:
    where, expected = f"log {text.partition('://')[0]}://...", "postgresql://USER@HOST:PORT/DATABASE, or a folder"
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise OptionError("it is no URL of a database", where=where, expected=expected) from None
    if not url.drivername.startswith("postgresql"):
        raise OptionError("a log is not kept in such a database", where=where, expected=expected)
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def without_password(text: str) -> str:
    """A place as others may read it.

    >>> without_password("postgresql://ada:s3cret@db/gavelx?sslpassword=x&connect_timeout=1")
    'postgresql://ada:***@db/gavelx?sslpassword=***&connect_timeout=1'
    """
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text)) if "://" in text else text


def has_password(text: str) -> bool:
    """Whether a place holds a password."""
    return bool(_secrets(text))


def _secrets(text: str) -> set[str]:
    if "://" not in text:
        return set()
    found = {match[2] for pattern in (_PASSWORD, _PARAMETER) for match in pattern.finditer(text)}
    return {form for secret in found for form in (secret, unquote(secret)) if form}


def _durably(connection: Any, _: Any) -> None:
    """Every commit is on disk before it returns."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


# -- a folder's files ------------------------------------------------------------------------------------------


def beside(file: Path, suffix: str) -> Path:
    """What lies beside a log's file."""
    return file.with_name(file.name + suffix)


def is_empty(file: Path) -> bool:
    """Whether nothing is in a log's file."""
    return not file.exists() or file.stat().st_size == 0


def left_behind(file: Path) -> bool:
    """Whether a log lay beside these, and does not any more."""
    return is_empty(file) and any(beside(file, suffix).exists() for suffix in (LOCK, WAL, SHARED))


def remembered(file: Path) -> str:
    """The mark that the lock file has; nothing where there is none."""
    try:
        return beside(file, LOCK).read_text("ascii", errors="replace").partition("\n")[0]
    except OSError:
        return ""


class Files:
    """The files of a log that we write, and that no other process does as long as we have the lock.

    The lock falls when the process ends, however it does. Raises :class:`OptionError` where another has it.
    """

    def __init__(self, place: Place) -> None:
        assert place.file is not None
        self.file = place.file
        self._begun = is_empty(self.file) and not left_behind(self.file)
        self._lock = os.open(beside(self.file, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise place.in_use() from None
        os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))
        self._paths = [str(beside(self.file, suffix)) for suffix in ("", LOCK, WAL)]
        self._seen: dict[str, tuple[int, int]] = {}

    def missing(self) -> str | None:
        """A file that was here when we looked first, and is not any more: what is written to it goes nowhere."""
        for path in self._paths:
            found = _identity(path)
            if found is not None:
                self._seen.setdefault(path, found)
            if found != self._seen.get(path):
                return path
        return None

    def reconnected(self) -> None:
        """SQLite may have made its own file anew."""
        self._seen.pop(self._paths[-1], None)

    def remember(self, mark: str) -> None:
        """The log's last record. It is not synced: what it forgets in a power failure, the log still has."""
        with contextlib.suppress(OSError):  # a full disk
            os.pwrite(self._lock, f"{mark}\n".encode(), 0)

    def give_up(self) -> None:
        """No log could be begun: where nothing was, nothing is left that would look like a log that was lost."""
        if self._begun:
            for suffix in ("", WAL, SHARED, LOCK):
                beside(self.file, suffix).unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._lock)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  (at each commit)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
