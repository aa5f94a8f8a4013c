"""The checksums of a log: each record carries one of itself and of all records before it.

A record that was changed, lost, moved or added shows at the first record whose checksum is another one.

A *mark* names the last record that a log had at some time, by number and checksum. Agents and the lock file
remember marks; a log that does not have the record of its own mark has lost it. A mark is signed with the key of
its log, so none can be made up.
"""

import hmac
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from gavelx.service.store.records import Record

CHECKED = 2
"""The version of records from which on each carries a checksum."""
DIGITS = 8


class Point(NamedTuple):
    """How far a log was read: the last record's number, checksum and version."""

    sequence: int
    check: str
    version: int


BEGIN = Point(0, "", 0)


def check_of(before: str, record: Record) -> str:
    """The CRC-32 of a record, in hexadecimal digits, given the one before it."""
    time_s = (record.time_s + 0.0).hex()  # -0.0 is 0.0 in a database
    text = f"{before} {record.sequence} {time_s} {record.version} {record.kind} {record.body}"
    return f"{zlib.crc32(text.encode()):08x}"


def rows_of(before: str, records: Iterable[Record]) -> tuple[str, list[dict[str, Any]]]:
    """The last checksum of records that follow one with this, and their rows: each stands before its body."""
    rows, check = list[dict[str, Any]](), before
    for record in records:
        check = check_of(check, record)
        row = {
            "sequence": record.sequence,
            "time_s": record.time_s,
            "version": record.version,
            "kind": record.kind,
        }
        rows.append(row | {"body": f"{check} {record.body}"})
    return check, rows


class BrokenError(Exception):
    """A record that is not the one that was written there."""

    def __init__(self, sequence: int, problem: str) -> None:
        super().__init__(problem)
        self.sequence = sequence


def records_in(rows: Iterable[Any], before: Point) -> tuple[list[Record], Point]:
    """The records in rows that follow, and how far they go. Raises :class:`BrokenError` at one that does not.

    One from before there were checksums has the one that it would have; it follows none that has its own.
    """
    records, end = list[Record](), before
    for row in rows:
        try:
            record, end = _next(row, end)
        except (AttributeError, TypeError, ValueError) as error:
            raise BrokenError(end.sequence + 1, str(error)) from None
        records.append(record)
    return records, end


def _next(row: Any, before: Point) -> tuple[Record, Point]:
    sequence, time_s, version, kind, body = row
    if sequence != before.sequence + 1:
        raise ValueError(f"it is missing, and {sequence} is there")
    if version < before.version:
        raise ValueError(f"its format is {version}, and {before.version} before it")
    own = own_check(row)
    record = Record(sequence, time_s, kind, body[DIGITS + 1 :] if own else body, version)
    check = check_of(before.check, record)
    if own not in ("", check):
        raise ValueError(f"its checksum is {own!r}, and should be {check!r}")
    return record, Point(sequence, check, version)


def own_check(row: Any) -> str:
    """The checksum that a row has; nothing for a record from before there were any."""
    return str(row.body[:DIGITS]) if row.version >= CHECKED else ""


def mark_of(key: str, sequence: int, check: str) -> str:
    """The mark of a record, as text."""
    said = f"{sequence}.{check}"
    return f"{said}.{_signature(key, said)}"


def read_mark(key: str, mark: str) -> tuple[int, str] | None:
    """Number and checksum of the record that a mark names; None for what was not signed with this key."""
    said, _, signature = mark.rpartition(".")
    sequence, _, check = said.partition(".")
    genuine = hmac.compare_digest(_signature(key, said).encode(), signature.encode())
    return (int(sequence), check) if genuine else None


def _signature(key: str, said: str) -> str:
    return hmac.digest(key.encode(), said.encode(), "sha256").hex()[:32]
