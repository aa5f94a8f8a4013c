"""Price tables: dollars per hour of one device of each accelerator type.

Clouds sell instances, not devices. A row of a table is the price of one instance at one date, its host included;
the price of a device is that price divided by the devices in the instance. Of all instances of an accelerator
type, the cheapest per device is used, among the rows that count (`gavelx.files.current_prices`): one price per
type, which a user can look up. Of equal prices the newest is named.

* A cluster is in one place: of the regions that sell all its types, the one where one device of each is cheapest
  has all prices. Only if no region of the table sells all is each price that of the cheapest region of its type,
  and commands say so.
* Rows of regions that do not sell the instance are left out (`gavelx.files.sold_regions`).

* A negotiated discount lowers on-demand and reserved prices, before the cheapest is chosen; spot prices stay.
* Instances with a fraction of a device are left out: no job can run on a quarter of one.
* Every row prices whole instances, so all types are compared with their hosts; do not mix in a list of bare device
  prices, which some clouds also publish.

An accelerator type is found by its name, or by the device that both names mean
(:class:`~gavelx.accelerators.DataSheets`): ``v100`` and ``Tesla V100-SXM2-16GB`` are both the 16 GB SXM card of
the throughput tables.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from gavelx.errors import OptionError, did_you_mean
from gavelx.files.csvs import NUMBER, read_rows
from gavelx.files.current_prices import current
from gavelx.files.data_sheets import device_of, load_data_sheets
from gavelx.files.locate import data_path
from gavelx.files.price_faults import check_usable
from gavelx.files.price_rows import KINDS, PRICE_MAX, REQUIRED, PriceRow, is_date, price_row
from gavelx.files.sold_regions import is_sold
from gavelx.files.texts import exists, shown
from gavelx.prices import Prices

FORM = "--prices v100=1.6,p100=1.35,k80=0.9"
SPEC_SHOWN = 60
"""The longest list of prices that a message repeats."""
DISCOUNT_FORM = "--discount aws=10%,aws:p3=20%"
_ADDED = re.compile(r"\+(?=[^=+,]*=)")
"""A plus before TYPE=DOLLARS, but not the one in 1e+3."""


@dataclass(frozen=True)
class Terms:
    """The date, kind and negotiated discounts of prices.

    ``discounts`` are parts of the price by ``cloud`` or ``cloud:instance family``, in lower case. Raises
    :class:`OptionError` for a bad date or kind.
    """

    as_of: str | None = None
    kind: str = "on_demand"
    discounts: Mapping[str, Decimal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.as_of is not None and not is_date(self.as_of):
            raise OptionError(f"{self.as_of!r} is no date", where="--as-of", expected="a date such as 2023-09-21")
        if self.kind not in KINDS:
            raise OptionError(
                f"{shown(self.kind)} is no kind", where="--kind", hint=did_you_mean(self.kind, KINDS)
            )

    def usd(self, row: PriceRow) -> Decimal:
        """Dollars per hour of one device of an offer, with the discount of the longest family that matches."""
        if row.kind == "spot":
            return row.usd_per_device
        fits = [name for name in self.discounts if _is_of(row, name)]
        return row.usd_per_device * (1 - self.discounts[max(fits, key=len)]) if fits else row.usd_per_device


ON_DEMAND = Terms()


def _is_of(row: PriceRow, name: str) -> bool:
    """Whether a cloud, or an instance family of it, sells this: ``p3`` is neither p3dn nor p33, ``NC`` has NC6."""
    cloud, _, family = name.partition(":")
    instance = row.instance_type.lower()
    rest = instance.removeprefix(family)[:1]
    ends = not rest.isalpha() and not (rest.isdigit() and family[-1:].isdigit())
    return row.cloud == cloud and (not family or (instance.startswith(family) and ends))


class Quote(NamedTuple):
    """Dollars per hour of one device of a type, and its row in the table (None: the user named the price)."""

    usd: Decimal
    row: PriceRow | None = None


def load_prices(
    spec: str | Path, accelerators: Sequence[str], *, strict: bool = True, as_of: str | None = None
) -> Prices:
    """On-demand prices of these accelerator types in one region, found as in :func:`load_quotes`."""
    found = load_quotes(spec, accelerators, Terms(as_of), strict=strict)
    known = {name: float(quote.usd) for name, quote in found.items()}
    dates = {name: quote.row.as_of for name, quote in found.items() if quote.row}
    return Prices(known, f"{spec}@{as_of}" if as_of else str(spec), dates, places_of(found))


def places_of(quotes: Mapping[str, Quote]) -> dict[str, str]:
    """Where each price of a table is asked: ``gcp us-central1``. Prices of no place are left out."""
    places = {name: f"{quote.row.cloud} {quote.row.region}".strip() for name, quote in quotes.items() if quote.row}
    return {name: place for name, place in places.items() if place}


def load_all_prices(spec: str | Path) -> Prices:
    """On-demand prices of every type in ``spec``, by each name of its device, for types that join later.

    Raises :class:`OptionError` if it has none, and the errors of :func:`load_quotes`.
    """
    rows, named = _source(str(spec))
    sheets = load_data_sheets()
    names = dict.fromkeys([*sheets.aliases, *sheets.by_name, *named, *(row.accelerator for row in rows)])
    quotes = load_quotes(spec, list(names), strict=False, together=False)
    dates = {name: quote.row.as_of for name, quote in quotes.items() if quote.row}
    prices = Prices({name: float(quote.usd) for name, quote in quotes.items()}, str(spec), dates)
    if not prices.usd_per_hour:
        raise OptionError(f"{shown(str(spec), 80)} has no price on demand", where="--prices", hint=FORM)
    return prices


def load_quotes(
    spec: str | Path,
    accelerators: Sequence[str],
    terms: Terms = ON_DEMAND,
    *,
    strict: bool = True,
    together: bool = True,
) -> dict[str, Quote]:
    """Prices of these accelerator types, from a cloud, a list or a file.

    ``spec`` is a cloud (``aws``, ``gcp``, ``azure``...) or one of its regions (``gcp:us-central1``), a list
    (``v100=1.6,p100=1.35``; dollars per device-hour) or a CSV with the columns ``accelerator, price_usd_per_hour``
    and, optionally, ``accelerator_count`` (devices that this price buys) and the other columns of ``prices.csv``.
    ``aws+p100=1.35`` is a cloud with a price added or replaced. With ``terms.as_of`` (2023-09-21, or 2023-09) only
    rows up to that date count; rows without a date always do. If ``together``, all are prices of the region that
    sells all types cheapest, where there is one.

    Raises :class:`OptionError` if a type has no price (if not ``strict``, it is left out), or if ``spec`` is none
    of the three; :class:`InputFileError` for a mistake in a file, and for faulty prices of these types
    (`gavelx.files.price_faults`).
    """
    spec = str(spec)
    rows, named = _source(spec)
    asked = [name for name in map(str.lower, accelerators) if not _quote_of(name, named)]
    sold = _sold(rows, asked, spec, terms)
    cheapest = _cheapest(_in_one_region(sold, asked, terms) if together else sold, terms)
    offered = {row.accelerator: Quote(terms.usd(row), row) for row in cheapest}
    found: dict[str, Quote] = {}
    for name in map(str.lower, accelerators):
        if (quote := _quote_of(name, named) or _quote_of(name, offered)) is not None:
            found[name] = quote
    missing = [name for name in map(str.lower, accelerators) if name not in found]
    if strict and missing:
        problem = _nothing_of(missing, spec, rows, {**offered, **named}, terms) + sellers(missing, terms)
        raise OptionError(problem, where="--prices", hint=with_prices_of(missing, spec))
    return found


def listed_quotes(spec: str, accelerators: Sequence[str]) -> dict[str, Quote]:
    """The prices of these types in the user's own list: ``as-run+p100=1.35``. Raises :class:`OptionError`."""
    added = parts_of(spec)[1]
    named = _listed(added, spec) if added else {}
    found = {name: _quote_of(name, named) for name in accelerators}
    return {name: quote for name, quote in found.items() if quote is not None}


def _nothing_of(
    missing: Sequence[str], spec: str, rows: Sequence[PriceRow], offered: Iterable[str], terms: Terms
) -> str:
    """The message about types without a price: the prices that there are, and their first date."""
    until = f" up to {terms.as_of}" if terms.as_of else ""
    kind = "" if terms.kind == "on_demand" else f" ({terms.kind})"
    there = ", ".join(offered) or "nothing"
    problem = f"no price{kind} of {', '.join(missing)}; {shown(spec, 80)} has prices{until} of {there}"
    dates = [row.as_of for row in rows if row.as_of and row.kind == terms.kind]
    if dates and terms.as_of and terms.as_of < min(dates)[: len(terms.as_of)]:
        problem += f"; its first date is {min(dates)}"
    return problem


def sellers(missing: Sequence[str], terms: Terms) -> str:
    """Which clouds of the shipped table have a price of these types, on the same terms."""
    rows = [row for row in price_rows() if _counts(row, terms)]
    of_type = {name: sorted({row.cloud for row in of_types(rows, [name])}) for name in missing}
    said = ", ".join(f"{name} ({', '.join(names)})" for name, names in of_type.items() if names)
    return f"; clouds with a price: {said}" if said else ""


def with_prices_of(missing: Sequence[str], spec: str) -> str:
    """The hint for a table without a price of some types: add prices of your own to it.

    >>> with_prices_of(["p100", "k80"], "aws")
    '--prices "aws+p100=DOLLARS+k80=DOLLARS" with prices of yours'
    >>> with_prices_of(["v100"], "k80=0.9")
    '--prices "k80=0.9,v100=DOLLARS" with a price of yours'
    """
    spec = spec if len(spec) <= SPEC_SHOWN else "TABLE"
    separator = "+" if parts_of(spec)[0] else ","
    yours = separator.join([spec, *(f"{name}=DOLLARS" for name in missing)])
    return f'--prices "{yours}" with {"a price" if len(missing) == 1 else "prices"} of yours'


def price_rows(
    cloud: str | None = None, accelerators: Iterable[str] | None = None, kind: str | None = None
) -> tuple[PriceRow, ...]:
    """Every offer of the shipped table, in its order.

    ``cloud``, ``accelerators`` and ``kind`` (``on_demand``, ``spot``, ``reserved``) keep only the offers that
    match. Raises :class:`OptionError` for a cloud or kind that the table does not have, or a kind that it does
    not have of this cloud.
    """
    rows = _shipped(data_path("prices", "prices"))
    kinds = {row.kind for row in rows}
    if cloud is not None:
        cloud = _one_of("--cloud", cloud, {row.cloud for row in rows})
        rows = tuple(row for row in rows if row.cloud == cloud)
    if kind is not None:
        kind = _one_of("--kind", kind, kinds)
        if kind not in (sold := {row.kind for row in rows}):
            expected = " or ".join(sorted(sold))
            raise OptionError(f"the table has no {kind} prices of {cloud}", where="--kind", expected=expected)
        rows = tuple(row for row in rows if row.kind == kind)
    return rows if accelerators is None else of_types(rows, accelerators)


def of_types(rows: Iterable[PriceRow], accelerators: Iterable[str]) -> tuple[PriceRow, ...]:
    """The offers that hold one of these accelerator types, by any name of it."""
    wanted = set(map(device_of, accelerators))
    return tuple(row for row in rows if device_of(row.accelerator) in wanted)


def clouds() -> tuple[str, ...]:
    """The clouds of the shipped price table, in alphabetical order."""
    return tuple(sorted({row.cloud for row in price_rows()}))


def split_specs(text: str) -> list[str]:
    """Several tables between commas; amounts that follow each other are one list.

    >>> split_specs("aws+p100=1.35, gcp, v100=1.6,k80=0.9")
    ['aws+p100=1.35', 'gcp', 'v100=1.6,k80=0.9']
    """
    specs: list[str] = []
    listed = False
    for part in map(str.strip, text.split(",")):
        is_amount = "=" in part.partition("+")[0]
        if listed and is_amount:
            specs[-1] += "," + part
        else:
            specs.append(part)
        listed = is_amount
    return specs


def read_discounts(spec: str | None) -> dict[str, Decimal]:
    """Read ``aws=10%,aws:p3=20%``: parts of the price by cloud or instance family. Raises :class:`OptionError`."""
    discounts: dict[str, Decimal] = {}
    for part in spec.split(",") if spec is not None else ():
        name, _, amount = (piece.strip() for piece in part.partition("="))
        number = amount.removesuffix("%")
        if not (name and amount.endswith("%") and NUMBER.fullmatch(number) and 0 <= float(number) <= 100):
            expected = "CLOUD=PERCENT% or CLOUD:FAMILY=PERCENT%, from 0% to 100%"
            problem = f"cannot read {shown(part)}"
            raise OptionError(problem, where="--discount", expected=expected, hint=DISCOUNT_FORM)
        if name.lower() in discounts:
            raise OptionError(f"{shown(name)} is there twice", where="--discount", hint=DISCOUNT_FORM)
        discounts[name.lower()] = Decimal(number) / 100
    return discounts


def check_discounts(discounts: Mapping[str, Decimal], specs: Iterable[str]) -> None:
    """Raise :class:`OptionError` for a discount on a cloud or family that none of these tables has."""
    rows = [row for spec in specs for row in _source(spec)[0]] if discounts else []
    for name in discounts:
        if not any(_is_of(row, name) for row in rows):
            cloud = name.partition(":")[0]
            families = {f"{row.cloud}:{row.instance_type.lower()}" for row in rows if row.cloud == cloud}
            hint = did_you_mean(name, families or {row.cloud for row in rows}) if rows else ""
            problem, expected = f"{shown(name)} is not in the table", "a cloud or instance family that it sells"
            raise OptionError(problem, where="--discount", expected=expected, hint=hint)


def _one_of(option: str, value: str, known: Iterable[str]) -> str:
    if value.lower() not in (known := sorted(known)):
        raise OptionError(
            f"{shown(value)} is not in the table",
            where=option,
            hint=did_you_mean(value, known, "gavelx prices show"),
        )
    return value.lower()


def _source(spec: str) -> tuple[Sequence[PriceRow], dict[str, Quote]]:
    """The rows of the table that the user named, and the prices in the user's own list."""
    if not spec.strip():
        raise OptionError("a table without a name", where="--prices", expected="one between commas", hint=FORM)
    table, added = parts_of(spec)
    return tuple(table_rows(table)) if table else (), _listed(added, spec) if added else {}


def parts_of(spec: str) -> tuple[str, str]:
    """The table that a text names, and the prices that it adds; either may be missing.

    >>> parts_of("aws+p100=1.35"), parts_of("v100=1.6,k80=1e+0")
    (('aws', 'p100=1.35'), ('', 'v100=1.6,k80=1e+0'))
    """
    if exists(spec):
        return spec, ""
    table, *added = _ADDED.split(spec)
    return ("", ",".join([table, *added])) if "=" in table else (table, ",".join(added))


def table_rows(spec: str) -> Iterable[PriceRow]:
    """The rows of a file, a cloud, or a region of one."""
    cloud, colon, region = spec.partition(":")
    rows = price_rows()
    known = sorted({row.cloud for row in rows})
    if cloud.lower() in known:
        rows = tuple(row for row in rows if row.cloud == cloud.lower())
        if colon:
            region = _one_of("--prices", region, {row.region for row in rows})
            rows = tuple(row for row in rows if row.region == region)
        return rows
    if exists(spec) or Path(spec).suffix or Path(spec).name != spec:
        return _rows(spec)
    problem = f"{shown(spec, 80)} is neither a cloud nor a list of prices nor a file"
    near = get_close_matches(cloud.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}? or {FORM}" if near else FORM
    raise OptionError(problem, where="--prices", expected=f"one of {', '.join(known)}, or a list", hint=hint)


def _listed(text: str, spec: str) -> dict[str, Quote]:
    """Read ``v100=1.6,p100=1.35``, which is in ``spec``."""
    prices: dict[str, Quote] = {}
    for part in text.split(","):
        name, _, amount = (piece.strip() for piece in part.partition("="))
        usd = float(amount) if NUMBER.fullmatch(amount) else math.nan
        if not (name and 0 <= usd <= PRICE_MAX):
            problem = f"cannot read {shown(part)} in {shown(spec, 80)}"
            raise OptionError(
                problem, where="--prices", expected="TYPE=DOLLARS_PER_HOUR between commas", hint=FORM
            )
        if name.lower() in prices:
            raise OptionError(f"{shown(name)} is named twice in {shown(spec, 80)}", where="--prices", hint=FORM)
        prices[name.lower()] = Quote(Decimal(amount))
    return prices


@cache
def _shipped(path: Path) -> tuple[PriceRow, ...]:
    return tuple(_rows(path))


def _rows(path: str | Path) -> Iterator[PriceRow]:
    return filter(is_sold, (price_row(row) for row in read_rows(path, REQUIRED)))


def _counts(row: PriceRow, terms: Terms) -> bool:
    """Whether this is a price of the wanted kind and date, of at least one whole device."""
    as_of = terms.as_of
    return row.kind == terms.kind and row.devices >= 1 and not (as_of and row.as_of[: len(as_of)] > as_of)


def rows_in_use(spec: str, accelerators: Iterable[str], terms: Terms = ON_DEMAND) -> tuple[PriceRow, ...]:
    """The rows of a cloud, region or file that count for these types. Raises the errors of :func:`load_quotes`."""
    return of_types(_sold(table_rows(spec), accelerators, spec, terms), accelerators)


def _sold(rows: Iterable[PriceRow], asked: Iterable[str], spec: str, terms: Terms) -> list[PriceRow]:
    """The rows that count on these terms. Raises :class:`InputFileError` for a faulty one of ``asked``."""
    usable = [row for row in rows if _counts(row, terms)]
    check_usable(of_types(usable, asked), spec)
    return current(usable)


def _in_one_region(rows: Sequence[PriceRow], asked: Iterable[str], terms: Terms) -> Sequence[PriceRow]:
    """The rows of the region that sells all of these types cheapest, one device of each; all rows if none does."""
    sold = of_types(rows, asked)
    usd_in: dict[tuple[str, str], dict[str, Decimal]] = {}
    for row in sold:
        usd, device = usd_in.setdefault((row.cloud, row.region), {}), device_of(row.accelerator)
        usd[device] = min(terms.usd(row), usd.get(device, terms.usd(row)))
    types = len({device_of(row.accelerator) for row in sold})
    total = {place: sum(usd.values()) for place, usd in usd_in.items() if len(usd) == types}
    if not total:
        return rows
    place = min(total, key=lambda place: (total[place], place))
    return [row for row in rows if (row.cloud, row.region) == place]


def _cheapest(rows: Iterable[PriceRow], terms: Terms) -> list[PriceRow]:
    """For each device, by any name, the cheapest whole instance."""
    same: dict[str, list[PriceRow]] = {}
    for row in rows:
        same.setdefault(device_of(row.accelerator), []).append(row)
    return [best_first(of_one, terms)[0] for of_one in same.values()]


def best_first(rows: Iterable[PriceRow], terms: Terms = ON_DEMAND) -> list[PriceRow]:
    """Rows from the cheapest per device to the dearest; of equal prices the newest, then the smallest first."""
    names = attrgetter("devices", "cloud", "region", "zone", "instance_type", "source")
    newest = sorted(sorted(rows, key=names), key=attrgetter("as_of"), reverse=True)
    return sorted(newest, key=terms.usd)


def _quote_of(name: str, offered: Mapping[str, Quote]) -> Quote | None:
    """The price offered under this name, or under another name of the same device."""
    if name in offered:
        return offered[name]
    device = device_of(name)
    same = [quote for other, quote in offered.items() if device_of(other) == device]
    return min(same, default=None, key=lambda quote: quote.usd)
