"""Faulty prices: numbers that stand for an unknown price, and two prices of one offer.

``gavelx prices check`` finds them in a whole table. Here, a row with such a price is refused when it would be
used, so that no bill contains one.
"""

from collections.abc import Hashable, Iterable
from decimal import Decimal

from gavelx.errors import InputFileError
from gavelx.files.current_prices import offer_of
from gavelx.files.price_rows import PriceRow

SENTINELS = (Decimal(0), Decimal(700), Decimal(9999), Decimal(99999))
"""Numbers that catalogues write for an unknown price."""
NO_SENTINEL = "a price; catalogues write this for an unknown price"


def offer_key(row: PriceRow) -> Hashable:
    """The key of a price: an offer and its date; without an instance type, also its source."""
    return offer_of(row), row.as_of, "" if row.instance_type else row.source


def name_of(row: PriceRow) -> str:
    """A readable name of an instance."""
    return " ".join(filter(None, (row.cloud, row.zone or row.region, row.instance_type or row.accelerator)))


def check_usable(rows: Iterable[PriceRow], table: str) -> None:
    """Raise :class:`InputFileError` for the first of these rows with a faulty price."""
    first: dict[Hashable, PriceRow] = {}
    for row in rows:
        where, hint = f"{table}, row {row.row}", "leave the row out; gavelx prices check shows all such rows"
        if row.usd in SENTINELS:
            raise InputFileError(f"${row.usd} for {name_of(row)}", where=where, expected=NO_SENTINEL, hint=hint)
        other = first.setdefault(offer_key(row), row)
        if (other.usd, other.devices) != (row.usd, row.devices):
            seen = ", ".join(f"${one.usd} for {one.devices:g} in row {one.row}" for one in (row, other))
            raise InputFileError(
                f"two prices of {name_of(row)}: {seen}", where=where, expected="one at one date", hint=hint
            )
