"""What a log is made with: a format, an id, the key that signs its marks, and the configuration of the mechanism;
and that there are records.

These are few, and change hardly ever, so one checksum of all of them is enough.
"""

import json
import zlib

import sqlalchemy as sa

from gavelx.errors import InputFileError
from gavelx.service.store.database import METADATA, Store

FORMAT = "gavelx-log-1"
NAMES = {"format", "id", "key", "configuration", "begun"}
CHECK = "check"
TABLE = sa.Table(
    "facts",
    METADATA,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)


class Facts:
    """By name; none where there is no log yet. ``checked``: they have a checksum; those of old logs have none.

    Raises :class:`InputFileError` for those of another format, and :class:`LogError`.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._where = store, store.place
        self.known = self.stored()
        self.checked = self.known.pop(CHECK, None) is not None

    def __bool__(self) -> bool:
        return bool(self.known)

    def get(self, name: str) -> str:
        """One of them; nothing where it was never said."""
        return self.known.get(name, "")

    def say(self, **facts: str) -> None:
        """More of them, or others, in one transaction."""
        self._store.write(lambda connection: self.write(connection, **facts))
        self.known, self.checked = self.known | facts, True

    def write(self, connection: sa.Connection, **facts: str) -> None:
        """The same as part of another transaction."""
        known = self.known | facts
        rows = [{"name": name, "value": value} for name, value in {**known, CHECK: _check_of(known)}.items()]
        connection.execute(sa.delete(TABLE))
        connection.execute(sa.insert(TABLE), rows)

    def stored(self) -> dict[str, str]:
        """All that there are, with their checksum."""
        if not self._store.has_table(TABLE.name):
            return {}
        found = {row.name: row.value for row in self._store.all(sa.select(TABLE))}
        if not all(isinstance(text, str) for fact in found.items() for text in fact):
            raise self._where.damaged("what it is made with is not text")
        facts = {name: value for name, value in found.items() if name != CHECK}
        if found.get(CHECK, _check_of(facts)) != _check_of(facts):
            raise self._where.damaged("what it is made with has another checksum")
        if facts.get("format", FORMAT) != FORMAT:
            problem, hint = f"its format is {facts['format']!r}", "another folder or URL"
            raise InputFileError(problem, where=self._where.name, expected=FORMAT, hint=hint)
        if found and not {"format", "id"} <= facts.keys() <= NAMES:
            raise self._where.damaged("what it is made with is not all there")
        return found


def _check_of(facts: dict[str, str]) -> str:
    return f"{zlib.crc32(json.dumps(sorted(facts.items())).encode()):08x}"
