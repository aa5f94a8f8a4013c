"""The durable log: append-only, one writer, on SQLite or PostgreSQL by the same code.

A batch is written in one transaction, and no event is acted on before its transaction is on disk. SQLite runs
in WAL mode with ``synchronous=FULL``: ``NORMAL`` may lose the last commits when the power fails.

====================  ==================================================================================
``events``            every record, in order, each with a checksum (`chain`); never changed
``archive``           those before a snapshot, compressed (`archive`)
``snapshots``         the state after some record, made by some version of the code; may be thrown away
``facts``             what a log is made with (`facts`)
====================  ==================================================================================

When a write fails it is unknown at first whether it was committed (the answer may have been lost):
:meth:`Log.settle` looks, before anything else is written.

A record that is not what was written, or is not there any more, is a :class:`LogError` that says so.
"""

import contextlib
import hashlib
import json
import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from gavelx.errors import InputFileError, OptionError
from gavelx.service.store.archive import Archive
from gavelx.service.store.chain import (
    BEGIN,
    CHECKED,
    BrokenError,
    Point,
    mark_of,
    own_check,
    read_mark,
    records_in,
    rows_of,
)
from gavelx.service.store.database import METADATA, LogUnavailableError, Store
from gavelx.service.store.facts import FORMAT, Facts
from gavelx.service.store.places import LogError, Place, left_behind, place_of, remembered
from gavelx.service.store.records import Record

KEPT_SNAPSHOTS = 2
CHUNK = 2000
DIGEST_BYTES = 32
_events = sa.Table(
    "events",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time_s", sa.Double, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)
_snapshots = sa.Table(
    "snapshots",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("code", sa.String(64), nullable=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
)
_log = logging.getLogger(__name__)


class Log:
    """One log, open for writing (``read_only``: for reading, beside a service that writes).

    ``restored``: it is a backup, and becomes another log to the agents: they stop what runs for the old one, and
    forget it. ``new``: where a log was lost, another one begins.

    Raises :class:`OptionError` for a place that cannot be a log or is in use by another service,
    :class:`InputFileError` for a log that this version cannot read, and :class:`LogError`.
    """

    def __init__(self, place: str, *, read_only: bool = False, restored: bool = False, new: bool = False) -> None:
        self.place, self.read_only = place, read_only
        self.last_sequence, self._check = -1, ""  # of the last record; -1: not open yet
        self.mark = ""  # of that record, where it has a checksum of its own
        self._unsure: tuple[int, int] | None = None  # last sequence before a write of unknown fate, and after it
        self._where = place_of(place, read_only=read_only)
        file = self._where.file
        if file is not None and left_behind(file) and not new:
            raise self._where.lost(f"a log was here, and nothing is in {file.name} any more", empty=True)
        with _opening(self._where):
            self._store = Store(self._where, read_only=read_only, look=self._look_again)
            try:
                self._open(restored=restored, new=new)
            except BaseException:
                self._store.give_up()
                raise

    @property
    def name(self) -> str:
        """What messages call it: its place, without a password."""
        return self._where.name

    @property
    def id(self) -> str:
        """Which log this is."""
        return self._facts.get("id")

    # -- records ----------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        """Write a batch: all of it is on disk when this returns, or none is known to be.

        Raises :class:`LogUnavailableError`; then :meth:`settle` has to say what became of it. Raises
        :class:`LogError` where it would not be found again.
        """
        assert self._unsure is None, "settle() first"
        first, last = self.last_sequence, records[-1].sequence
        assert records[0].sequence == first + 1, (records[0].sequence, first)
        check, rows = rows_of(self._check, records)

        def write(connection: sa.Connection) -> None:
            connection.execute(sa.insert(_events), rows)
            if first == 0:
                self._facts.write(connection, begun="yes")

        self._unsure = first, last
        self._store.write(write)
        self._ends_at(last, check)

    def check_place(self) -> None:
        """Raises :class:`LogError` where the log's files are not there any more."""
        self._store.check_files()

    def settle(self) -> bool:
        """After a failed :meth:`append`: whether it was written after all. Raises while that is unknown."""
        if self._unsure is None:
            return False
        (before, after), last = self._unsure, self._end()
        self._ends_at(last, self._check if last == before else self._check_at(last))
        return last == after

    def read(self, after: int = 0) -> Iterator[Record]:
        """All records after this one, in order. Raises :class:`LogError` at one that is not what was written."""
        last = after
        for records, end in self._chunks(self._point(after)):
            yield from records
            last = end.sequence
        if last < self.last_sequence:
            raise self._where.damaged("it is missing", last + 1)

    def check_mark(self, mark: str, who: str) -> bool:
        """Whether this log signed a mark; one that it did not sign says nothing.

        Raises :class:`LogError` if the record that it names is not in the log, though an agent knows it.
        """
        named = read_mark(self._facts.get("key"), mark)
        if named is not None and self._check_at(named[0]) != named[1]:
            problem = f"{who} knows record {named[0]}, which is not in it; it ends at record {self.last_sequence}"
            raise self._where.lost(problem)
        return named is not None

    # -- snapshots and configuration --------------------------------------------------------------------------

    def save_snapshot(self, sequence: int, code: str, state: bytes) -> None:
        """Keep the state after a record, and the one before it."""
        row = {"sequence": sequence, "code": code, "state": self._digest(sequence, code, state) + state}

        def write(connection: sa.Connection) -> None:
            connection.execute(sa.delete(_snapshots).where(_snapshots.c.sequence == sequence))
            connection.execute(sa.insert(_snapshots), row)
            kept = sa.select(_snapshots.c.sequence).order_by(_snapshots.c.sequence.desc()).limit(KEPT_SNAPSHOTS)
            numbers = connection.execute(kept).scalars().all()
            connection.execute(sa.delete(_snapshots).where(_snapshots.c.sequence.not_in(numbers)))

        self._store.write(write)

    def snapshot(self, code: str) -> tuple[int, bytes] | None:
        """The latest state that this code made, and the record after which it was. A damaged one is not used."""
        usable = (_snapshots.c.code == code) & (_snapshots.c.sequence <= self.last_sequence)
        try:
            for row in self._store.all(sa.select(_snapshots).where(usable).order_by(_snapshots.c.sequence.desc())):
                digest, state = row.state[:DIGEST_BYTES], row.state[DIGEST_BYTES:]
                if digest == self._digest(row.sequence, code, state):
                    return row.sequence, state
                _log.warning(
                    "%s: its snapshot of record %s is damaged, and not used", self._where.name, row.sequence
                )
        except LogError as error:
            _log.warning("no snapshot can be used: %s", error)
        return None

    def _digest(self, sequence: int, code: str, state: bytes) -> bytes:
        """Of a snapshot, and by its last checksum of the log up to it."""
        head = f"{sequence} {code} {self._check_at(sequence)} "
        return hashlib.sha256(head.encode() + state).digest()

    @property
    def configuration(self) -> dict[str, Any] | None:
        """What the mechanism of this log is made with; None in a new log."""
        with self._finding("its configuration"):
            return dict(json.loads(self._facts.get("configuration"))) if self._facts.get("configuration") else None

    def configure(self, configuration: dict[str, Any]) -> None:
        """Say once what the mechanism is made with."""
        assert not self._facts.get("configuration"), "it was said already"
        self._facts.say(configuration=json.dumps(configuration))

    def archive(self, before: int) -> int:
        """Archive some of the records before this one, the oldest first; how many there were, 0 if none is left.

        A transaction moves them, so a process that is killed meanwhile has archived them or not. The last record
        stays where it is.
        """
        old = _events.c.sequence < min(before, self.last_sequence)
        if rows := self._store.all(_select(old).limit(CHUNK)):
            self._archive.take(rows, _events)
        return len(rows)

    def shrink(self) -> None:
        """Give the room of what was archived back to the disk."""
        self._store.shrink()

    # -- opening ----------------------------------------------------------------------------------------------

    def _open(self, *, restored: bool, new: bool) -> None:
        """Find what is there, or begin; and look whether it ends where it ended."""
        remembers = "" if self._where.file is None else remembered(self._where.file)
        self._facts, self._archive = Facts(self._store), Archive(self._store)
        if not self._facts:
            self._begin(lost=bool(remembers) and not new)
        elif new:
            problem, expected = "there is a log already", "--new only where one was lost"
            raise OptionError(problem, where=self._where.name, expected=expected, hint="without --new")
        snapshot = self._store.all(sa.select(sa.func.max(_snapshots.c.sequence)))[0][0] or 0
        last = self.last_sequence = self._last_sequence()  # asked last, as another service may write
        if not restored:
            self._check_end(last, snapshot, remembers)
        if not self.read_only:
            if restored:
                self._store.write(
                    lambda connection: connection.execute(
                        sa.delete(_snapshots).where(_snapshots.c.sequence > last)
                    )
                )
            if restored or not self._facts.checked:
                self._facts.say(id=uuid4().hex if restored else self.id, key=secrets.token_hex(16))
            end = self._point(last)
            self._ends_at(last, end.check, marked=end.version >= CHECKED)

    def _begin(self, *, lost: bool) -> None:
        """A new log, where none is or was."""
        if self._store.has_table(_events.name) and self._last_sequence():
            raise self._where.damaged("it does not say what it is made with")
        if lost:
            raise self._where.lost("a log was here, and nothing is in it any more", empty=True)
        if self.read_only:
            raise InputFileError("it is no log of gavelx", where=self._where.name, expected=FORMAT)
        self._store.write(METADATA.create_all)
        self._facts.say(format=FORMAT, id=uuid4().hex, key=secrets.token_hex(16))

    def _check_end(self, last: int, snapshot: int, remembers: str) -> None:
        """What was its last record is in it still."""
        if snapshot > last:
            raise self._where.lost(f"it ends at record {last}, and there is a snapshot of record {snapshot}")
        self.check_mark(remembers, "the lock file")
        if self._facts.get("begun") and not last:
            raise self._where.lost("it has no record any more")
        if not self._facts.checked and self._check_at(last):
            raise self._where.damaged("what it is made with has no checksum")

    def damaged(self, problem: str, sequence: int | None = None) -> LogError:
        """What is in it, at a record or anywhere, is not what was written."""
        return self._where.damaged(problem, sequence)

    def close(self) -> None:
        """Let go of the log; another service may have it."""
        self._store.close()

    # -- how --------------------------------------------------------------------------------------------------

    def _ends_at(self, sequence: int, check: str, *, marked: bool = True) -> None:
        """This is the last record, and known to be on disk."""
        self.last_sequence, self._check, self._unsure = sequence, check, None
        self.mark = mark_of(self._facts.get("key"), sequence, check) if marked else ""
        if self._store.files is not None:
            self._store.files.remember(self.mark)

    def _look_again(self) -> None:
        """A database that was away has come back as it was, and not as an older copy."""
        if not self.read_only and self.last_sequence >= 0:
            self._end()

    def _end(self) -> int:
        """Where the log ends, which is where it ended, but for a write of unknown fate."""
        before, last = self.last_sequence, self._last_sequence()
        if last not in (self._unsure or (before,)) or self._check_at(before) not in ("", self._check):
            raise self._where.lost(f"it ends at record {last} now, and ended at {before}")
        return last

    def _last_sequence(self) -> int:
        return int(self._store.all(sa.select(sa.func.max(_events.c.sequence)))[0][0] or 0)

    def _chunks(self, after: Point, until: int | None = None) -> Iterator[tuple[list[Record], Point]]:
        """The records after a point, many at a time, and the points where they end."""
        end, more = after, True
        while more:
            rows = self._rows_after(end.sequence, until)
            try:
                records, end = records_in(rows, end)
            except BrokenError as error:
                raise self._where.damaged(str(error), error.sequence) from None
            yield records, end
            more = bool(rows)

    def _rows_after(self, sequence: int, until: int | None) -> Sequence[Any]:
        """The next rows: of ``events``, or of the archive if they are not there any more."""
        those = _events.c.sequence > sequence
        if until is not None:
            those &= _events.c.sequence <= until
        rows = self._store.all(_select(those).limit(CHUNK))
        if rows and rows[0].sequence == sequence + 1:
            return rows
        old = self._archive.rows(sequence + 1)
        return [row for row in old if sequence < row.sequence <= (until or row.sequence)] or rows

    def _point(self, sequence: int) -> Point:
        """How far the log is after this record; for one without a checksum that takes reading all before it."""
        if (check := self._check_at(sequence)) or sequence == 0:
            return Point(sequence, check, CHECKED if check else 0)
        *_, (_, end) = self._chunks(BEGIN, until=sequence)
        if end.sequence != sequence:
            raise self._where.damaged("it is missing", end.sequence + 1)
        return end

    def _check_at(self, sequence: int) -> str:
        """The checksum that a record has in the log; nothing if it has none, or is not there."""
        rows: Sequence[Any] = self._store.all(_select(_events.c.sequence == sequence))
        rows = rows or [row for row in self._archive.rows(sequence) if row.sequence == sequence]
        with self._finding(f"record {sequence}"):
            return own_check(rows[0]) if rows else ""

    @contextlib.contextmanager
    def _finding(self, what: str) -> Iterator[None]:
        """What makes no sense is not what was written."""
        try:
            yield
        except (AttributeError, TypeError, ValueError) as error:
            raise self._where.damaged(f"{what}: {error}") from None


@contextlib.contextmanager
def _opening(place: Place) -> Iterator[None]:
    """What goes wrong around a log that is opened is a mistake of who named it."""
    try:
        yield
    except (LogUnavailableError, SQLAlchemyError, ImportError, OSError) as error:
        said, expected = place.said(error.__cause__ or error), "a folder, or the URL of a database"
        raise OptionError(f"it cannot be opened ({said})", where=place.name, expected=expected) from None


def _select(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(_events).where(condition).order_by(_events.c.sequence)
