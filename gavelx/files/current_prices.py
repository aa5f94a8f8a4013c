"""The rows of a price table that count: one rule for prices (`gavelx.files.price_tables`) and for offers to buy.

A table may have several lists of a cloud, and several editions of a list. No list has everything, so all lists
count together. Prices of the past stay in the table for ``--as-of``, and do not compete with those of today:

1. Of the editions of one list, the newest counts, for each cloud, region, type and kind of price: an offer that it
   no longer has is gone. Editions differ in the ``@version`` at the end of ``source``. Rows with the same
   ``source``, or with none, are one edition, whatever their dates.
2. Of one offer (:func:`offer_of`), the latest date counts, in whichever list it is.
3. Prices of a cloud for a type and kind that are more than ``YEARS`` older than its latest ones do not count. A
   row without a date is older than any row with one, so it counts only where no row has a date.

The order of the rows does not matter. For the prices at an earlier date, leave out later rows first.
"""

from collections.abc import Callable, Hashable, Iterable

from gavelx.files.data_sheets import device_of
from gavelx.files.price_rows import PriceRow

YEARS = 1
"""The years for which a price counts beside newer ones, and after which commands call it old."""


def current(rows: Iterable[PriceRow]) -> list[PriceRow]:
    """The rows that count, in the order of the table."""
    rows = list(rows)
    edition, newest = _last(rows, _edition), _last(rows, _list)
    rows = [row for row in rows if edition[_edition(row)] == newest[_list(row)]]
    offered, sold = _last(rows, offer_of), _last(rows, _type)
    return [row for row in rows if row.as_of == offered[offer_of(row)] and not is_old(row.as_of, sold[_type(row)])]


def offer_of(row: PriceRow) -> Hashable:
    """The key of an offer: an instance type in one place, of one kind; without a name, a number of devices."""
    what = row.instance_type or (device_of(row.accelerator), row.devices)
    return row.cloud, row.region, row.zone, row.kind, what


def is_old(as_of: str, now: str) -> bool:
    """Whether a date is more than ``YEARS`` before another; no date is older than any.

    >>> [is_old(as_of, "2026-03-15") for as_of in ("2025-03-15", "2025-03", "2025-03-14", "")]
    [False, False, True, True]
    >>> is_old("2025-03-14", "2026-03"), is_old("", "")
    (False, False)
    """
    if not as_of or not now:
        return as_of < now
    then = f"{int(now[:4]) - YEARS:04}{now[4:]}"
    return as_of[: len(then)] < then[: len(as_of)]


def _last(rows: Iterable[PriceRow], key: Callable[[PriceRow], Hashable]) -> dict[Hashable, str]:
    """The latest date of the rows with one key."""
    last: dict[Hashable, str] = {}
    for row in rows:
        where = key(row)
        last[where] = max(last.get(where, ""), row.as_of)
    return last


def _type(row: PriceRow) -> Hashable:
    """What a cloud sells under one name, in one kind."""
    return row.cloud, row.kind, device_of(row.accelerator)


def _list(row: PriceRow) -> Hashable:
    """The part of a list, in all its editions, that is about a type in one region."""
    return _type(row), row.region, row.source.partition("@")[0]


def _edition(row: PriceRow) -> Hashable:
    return _list(row), row.source
