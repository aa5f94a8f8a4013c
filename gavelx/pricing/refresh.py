"""What newer price lists change in a price table."""

from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from gavelx.files.price_rows import PriceRow


class What(StrEnum):
    """What became of an offer."""

    NEW = "new"
    GONE = "gone"
    DEARER = "dearer"
    CHEAPER = "cheaper"


class Change(NamedTuple):
    """An offer before and now; None where it was not there. Prices are of the whole instance."""

    what: What
    before: PriceRow | None
    now: PriceRow | None

    @property
    def offer(self) -> PriceRow:
        found = self.now or self.before
        assert found is not None
        return found

    @property
    def relative(self) -> float | None:
        """The price now over the price before, minus 1; None for what is new or gone."""
        if self.before is None or self.now is None or not self.before.usd:
            return None
        return float(self.now.usd / self.before.usd - Decimal(1))


class Refreshed(NamedTuple):
    """The changes, the number of offers at the same price, and the rows of the new table."""

    changes: tuple[Change, ...]
    same: int
    rows: tuple[PriceRow, ...]


def refresh(table: Sequence[PriceRow], lists: Sequence[PriceRow]) -> Refreshed:
    """The table with the rows of newer lists, and what they change.

    An offer is an instance type (or a number of devices of a type) in one place, of one kind. Its price before is
    the last one in the table, and its price now the last one in the lists. What the table had in a region and kind
    that the lists cover, and they do not have, is gone: the table keeps it, for runs in the past. Rows of the same
    offer and date are replaced.
    """
    before, now = _last(table), _last(lists)
    covered = {_market(row) for row in now.values()}
    changes, same = [], 0
    for key in sorted({*before, *now}, key=str):
        was, is_ = before.get(key), now.get(key)
        if is_ is None:
            assert was is not None
            if _market(was) in covered:
                changes.append(Change(What.GONE, was, None))
        elif was is None:
            changes.append(Change(What.NEW, None, is_))
        elif is_.usd == was.usd:
            same += 1
        else:
            changes.append(Change(What.DEARER if is_.usd > was.usd else What.CHEAPER, was, is_))
    replaced = {(_offer(row), row.as_of) for row in lists}
    kept = (row for row in table if (_offer(row), row.as_of) not in replaced)
    return Refreshed(tuple(changes), same, (*kept, *dict.fromkeys(lists)))


def _last(rows: Iterable[PriceRow]) -> dict[Hashable, PriceRow]:
    """The last price of each offer."""
    last: dict[Hashable, PriceRow] = {}
    for row in rows:
        held = last.setdefault(_offer(row), row)
        if row.as_of >= held.as_of:
            last[_offer(row)] = row
    return last


def _offer(row: PriceRow) -> Hashable:
    what = row.instance_type or (row.accelerator, row.devices)
    return row.cloud, row.region, row.zone, row.kind, what


def _market(row: PriceRow) -> Hashable:
    return row.cloud, row.region, row.kind
