"""One row of a price table: the price of one instance per hour, at one date.

========================  ==================================================================
``accelerator``           a type: ``V100-16GB``; in any case
``price_usd_per_hour``    of the whole instance, its host included
``accelerator_count``     devices in the instance; 1 where the column or the cell is missing
``cloud, region, zone``   where it is sold; a price without a zone holds in the whole region
``instance_type``         the cloud's name of it
``vcpus, memory_gib``     of its host
``price_kind``            ``on_demand`` (where missing), ``spot`` or ``reserved``
``as_of``                 2023-09-21, or 2023-09; blank if unknown
``as_of_precision``       precision of that date: day, month, inferred or unknown
``currency``              of the price, if it is not US dollars; needs a rate
``source``                where to look the row up
========================  ==================================================================

All columns but the first two are optional. Amounts are decimal from here to the bill: $0.10 is a tenth.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from gavelx.errors import OptionError, UserError
from gavelx.files.csvs import NUMBER, Row
from gavelx.files.texts import shown

KINDS = ("on_demand", "spot", "reserved")
USD = "USD"
PRICE_MAX = 1e9
"""The highest price per hour in any currency; a higher one is a mistake, and too large for a bill to the cent."""
PRICE_MIN = Decimal("1e-6")
"""The lowest price above 0. A price of 0 stands for an unknown one, and is refused when it would be used."""
DEVICES_MIN, DEVICES_MAX = 1e-3, 10_000
"""In an instance: the smallest part of a device that is sold, and more than any has."""
COLUMNS = (
    *("cloud", "region", "zone", "instance_type", "accelerator", "accelerator_count", "vcpus", "memory_gib"),
    *("price_usd_per_hour", "price_kind", "as_of", "as_of_precision", "source"),
)
REQUIRED = ("accelerator", "price_usd_per_hour")
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?", re.ASCII)
Rates = Mapping[str, Decimal]
"""US dollars for one unit of a currency."""


class PriceRow(NamedTuple):
    """One offer: dollars per hour of an instance with ``devices`` of an accelerator type (lower case)."""

    cloud: str
    accelerator: str
    usd: Decimal
    devices: float = 1.0
    kind: str = "on_demand"
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    vcpus: float | None = None
    memory_gib: float | None = None
    as_of: str = ""
    precision: str = ""
    source: str = ""
    row: int = 0

    @property
    def usd_per_device(self) -> Decimal:
        """Dollars per hour of one device; :class:`decimal.Decimal` with 28 digits."""
        return self.usd / Decimal(repr(self.devices))

    @property
    def usd_per_hour(self) -> float:
        """Dollars per hour of one device."""
        return float(self.usd_per_device)


def is_date(text: str) -> bool:
    """Whether this is a day or a month of the calendar.

    >>> [is_date(text) for text in ("2023-09-21", "2023-09", "2023-02-30", "2023")]
    [True, True, False, False]
    """
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text if len(text) == 10 else text + "-01")
    except ValueError:
        return False
    return True


def precision_of(as_of: str) -> str:
    """The precision of a date.

    >>> [precision_of(text) for text in ("2023-09-21", "2023-09", "")]
    ['day', 'month', 'unknown']
    """
    return {0: "unknown", 7: "month"}.get(len(as_of), "day")


def price_row(row: Row, rates: Rates | None = None) -> PriceRow:
    """The offer in one row of a table. Raises :class:`InputFileError` that names row and column."""
    as_of = row.text("as_of", "")
    if as_of and not is_date(as_of):
        raise row.mistake("as_of", f"{shown(as_of)} is no date", expected="a date such as 2023-09-21")
    kind = row.text("price_kind", "on_demand").lower()
    if kind not in KINDS:
        raise row.mistake("price_kind", f"{shown(kind)} is not known", expected=" or ".join(KINDS))
    row.number("price_usd_per_hour", low=0, high=PRICE_MAX)
    if 0 < Decimal(price := row.text("price_usd_per_hour")) < PRICE_MIN:
        raise row.mistake("price_usd_per_hour", f"{shown(price)} cannot be used", expected=f"{PRICE_MIN} at least")
    try:
        usd = in_usd(Decimal(price), row.text("currency", USD), rates or {})
    except UserError as error:
        raise row.mistake("currency", error.problem, expected=error.expected, hint=error.hint) from None
    return PriceRow(
        cloud=row.text("cloud", "").lower(),
        region=row.text("region", ""),
        zone=row.text("zone", ""),
        instance_type=row.text("instance_type", ""),
        accelerator=row.text("accelerator").lower(),
        devices=row.number("accelerator_count", low=DEVICES_MIN, high=DEVICES_MAX, default=1.0),
        vcpus=row.number("vcpus", low=0) if row.has("vcpus") else None,
        memory_gib=row.number("memory_gib", low=0) if row.has("memory_gib") else None,
        usd=usd,
        kind=kind,
        as_of=as_of,
        precision=row.text("as_of_precision", ""),
        source=row.text("source", ""),
        row=row.line,
    )


def in_usd(amount: Decimal, currency: str, rates: Rates) -> Decimal:
    """An amount in US dollars. Raises :class:`UserError` for a currency without a rate."""
    currency = currency.upper()
    if currency == USD:
        return amount
    if currency not in rates:
        hint = "gavelx prices import --currency EUR=1.08 (US dollars for one unit)"
        raise UserError(f"the currency {shown(currency)} has no rate", expected=USD, hint=hint)
    return amount * rates[currency]


def read_rates(spec: str | None) -> dict[str, Decimal]:
    """Read ``EUR=1.08,GBP=1.27``: US dollars for one unit of each. Raises :class:`OptionError`."""
    rates: dict[str, Decimal] = {}
    for part in spec.split(",") if spec is not None else ():
        name, _, text = (piece.strip() for piece in part.partition("="))
        usd = float(text) if NUMBER.fullmatch(text) else math.nan
        if not (name.isascii() and name.isalpha() and len(name) == 3 and 0 < usd < math.inf):
            expected = "CURRENCY=US_DOLLARS_FOR_ONE between commas"
            problem = f"cannot read {shown(part)}"
            raise OptionError(problem, where="--currency", expected=expected, hint="--currency EUR=1.08")
        if name.upper() == USD and usd != 1:
            raise OptionError(f"{usd:g} US dollars for one", where="--currency", expected="another currency")
        if name.upper() in rates:
            raise OptionError(f"{name!r} is there twice", where="--currency", hint="--currency EUR=1.08")
        rates[name.upper()] = Decimal(text)
    return rates


def price_csv(rows: Iterable[PriceRow]) -> str:
    """Rows as the text of a price table, which reads back the same."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            [row.cloud, row.region, row.zone, row.instance_type, row.accelerator.upper()]
            + ["" if value is None else f"{value:.15g}" for value in (row.devices, row.vcpus, row.memory_gib)]
            + [f"{row.usd:f}", row.kind, row.as_of, row.precision, row.source]
        )
    return text.getvalue()
