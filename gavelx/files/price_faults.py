"""Prices that cannot stand: numbers that mean that there is none, and one thing for two prices.

``gavelx prices check`` looks at a whole table for them. Here they are refused where such a row would be used, so
that no bill is made of one.
"""

from collections.abc import Hashable, Iterable
from decimal import Decimal

from gavelx.errors import InputFileError
from gavelx.files.data_sheets import accelerator_aliases
from gavelx.files.price_rows import PriceRow

SENTINELS = (Decimal(0), Decimal(700), Decimal(9999), Decimal(99999))
"""Prices that catalogues write where they know none."""
NO_SENTINEL = "a price; catalogues write this where they know none"


def offer_key(row: PriceRow) -> Hashable:
    """What has one price: an instance type, or so many devices of a source, at one place and date, of one kind."""
    device = accelerator_aliases().get(row.accelerator, row.accelerator)
    what = (row.instance_type,) if row.instance_type else (device, row.devices, row.source)
    return row.cloud, row.region, row.zone, row.kind, row.as_of, what


def name_of(row: PriceRow) -> str:
    """An instance as a person names it."""
    return " ".join(filter(None, (row.cloud, row.zone or row.region, row.instance_type or row.accelerator)))


def check_usable(rows: Iterable[PriceRow], table: str) -> None:
    """Each of these rows of a table may be used. Raises :class:`InputFileError` for the first that may not."""
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
