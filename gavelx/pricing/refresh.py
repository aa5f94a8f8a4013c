"""What newer price lists change in a price table."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from gavelx.files.current_prices import current, offer_of
from gavelx.files.price_rows import PriceRow
from gavelx.files.price_tables import best_first


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
    """The changes, the rows of the new table, and the numbers of other offers.

    ``same`` offers of the lists are at the price that they had. ``older`` ones do not count: the table has a later
    price of the offer, or a newer edition of the list. ``unlisted`` ones are in the table alone, in a region and
    kind that the lists cover, and still count.
    """

    changes: tuple[Change, ...]
    rows: tuple[PriceRow, ...]
    same: int
    older: int
    unlisted: int


def refresh(table: Sequence[PriceRow], lists: Sequence[PriceRow]) -> Refreshed:
    """The table with the rows of newer lists, and what they change.

    Prices before and now are those that count (`gavelx.files.current_prices`), of the table and of the new one; an
    offer that counts no more is gone. The new table keeps its row, for runs in the past. Rows of the same offer
    and date are replaced.
    """
    replaced = {(offer_of(row), row.as_of) for row in lists}
    kept = (row for row in table if (offer_of(row), row.as_of) not in replaced)
    rows = (*kept, *dict.fromkeys(lists))
    before, now = _prices(table), _prices(rows)
    given = {offer_of(row) for row in lists}
    used = {key for key in given & now.keys() if (key, now[key].as_of) in replaced}
    markets = {_market(now[key]) for key in used}
    return Refreshed(
        changes=tuple(_changes(before, now)),
        rows=rows,
        same=sum(key in before and before[key].usd == now[key].usd for key in used),
        older=len(given - used),
        unlisted=sum(key not in given and _market(row) in markets for key, row in now.items()),
    )


def _prices(table: Iterable[PriceRow]) -> dict[Hashable, PriceRow]:
    """The price of each offer that counts: the lowest, if lists of one date differ."""
    lowest: dict[Hashable, PriceRow] = {}
    for row in best_first(current(table)):
        lowest.setdefault(offer_of(row), row)
    return lowest


def _changes(before: Mapping[Hashable, PriceRow], now: Mapping[Hashable, PriceRow]) -> Iterator[Change]:
    for key in sorted({*before, *now}, key=str):
        was, is_ = before.get(key), now.get(key)
        if was is None:
            yield Change(What.NEW, None, is_)
        elif is_ is None:
            yield Change(What.GONE, was, None)
        elif is_.usd != was.usd:
            yield Change(What.DEARER if is_.usd > was.usd else What.CHEAPER, was, is_)


def _market(row: PriceRow) -> Hashable:
    return row.cloud, row.region, row.kind
