"""Old records of a log, compressed, many in a row: where those before a snapshot go.

A restart reads the snapshot and what follows it. A replay of the whole log reads the archive first, so no record
is lost: each keeps its checksum, and the chain of them goes on from the last archived one to the table ``events``.
"""

import json
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from gavelx.service.store.database import METADATA, Store

LEVEL = 6
TABLE = sa.Table(
    "archive",
    METADATA,
    sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("records", sa.LargeBinary, nullable=False),
)


class Row(NamedTuple):
    """A row of the table ``events``, as it lay there."""

    sequence: int
    time_s: float
    version: int
    kind: str
    body: str


class Archive:
    """The archived records of a log; none before its first snapshot."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rows(self, sequence: int) -> list[Row]:
        """The record with this number and those that were archived with it; nothing if it is not here.

        Raises :class:`LogError` where they cannot be decompressed.
        """
        if not self._store.has_table(TABLE.name):
            return []
        found = self._store.all(
            sa.select(TABLE.c.records).where((TABLE.c.first <= sequence) & (TABLE.c.last >= sequence))
        )
        try:
            return [Row(*row) for row in json.loads(zlib.decompress(found[0].records))] if found else []
        except (zlib.error, TypeError, ValueError) as error:
            raise self._store.place.damaged(f"its archive ({error})", sequence) from None

    def take(self, rows: Sequence[Any], events: sa.Table) -> None:
        """Move rows of ``events`` here, in one transaction."""
        first, last = rows[0].sequence, rows[-1].sequence
        text = json.dumps([tuple(row) for row in rows], separators=(",", ":"), allow_nan=False)
        packed = {"first": first, "last": last, "records": zlib.compress(text.encode(), LEVEL)}

        def move(connection: sa.Connection) -> None:
            METADATA.create_all(connection, tables=[TABLE])  # a log from before there were archives has none
            connection.execute(sa.insert(TABLE), packed)
            connection.execute(sa.delete(events).where(events.c.sequence.between(first, last)))

        self._store.write(move)
