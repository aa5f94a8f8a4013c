"""Offers: whole instances of accelerator types that can be bought, from clouds, lists and files.

For each cloud, accelerator type and number of devices, the cheapest instance is offered, over all regions, among
the rows that count (`gavelx.files.current_prices`): on demand, unless another kind is asked for. Instances with a
fraction of a device are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gavelx.errors import OptionError
from gavelx.files.price_rows import PriceRow
from gavelx.files.price_tables import (
    ON_DEMAND,
    Terms,
    best_first,
    load_prices,
    of_types,
    parts_of,
    rows_in_use,
    sellers,
    table_rows,
)
from gavelx.files.texts import shown

FORM = "--prices aws,gcp, or --prices my_prices.csv, or --prices v100=2.48,k80=0.45"


class Offer(NamedTuple):
    """An instance for sale: a number of devices of one accelerator type, and its dollars per hour.

    ``as_of`` is the date of its price in a table, None for a price of the user's.
    """

    accelerator: str
    devices: int
    usd_per_hour: float
    cloud: str = ""
    region: str = ""
    instance_type: str = ""
    as_of: str | None = None
    source: str = ""

    def __str__(self) -> str:
        """A unique name: the cloud, and its name of the instance."""
        named = "_".join(self.instance_type.split()) or f"{self.devices}x{self.accelerator}"
        return "/".join(filter(None, (self.cloud, named)))


def load_offers(spec: str, accelerators: Sequence[str], terms: Terms = ON_DEMAND) -> tuple[Offer, ...]:
    """The offers of ``spec`` for these accelerator types, in their order, small instances before large ones.

    ``spec`` names clouds, regions of clouds (``gcp:us-central1``), files of prices and single prices
    (``v100=2.48``: one device; ``aws+p100=1.35``: beside a cloud's), separated by commas. Raises
    :class:`OptionError` for any other text, for a free instance, and if nothing is for sale;
    :class:`InputFileError` for a bad file.
    """
    offers = [offer for one in _specs(spec) for offer in _sold(one, accelerators, terms)]
    if free := [str(offer) for offer in offers if not offer.usd_per_hour > 0]:
        raise OptionError(f"{', '.join(free)} costs nothing", where="--prices", expected="prices above 0")
    if not offers:
        kind = f" at {terms.kind} prices" if terms.kind != ON_DEMAND.kind else ""
        until = f" up to {terms.as_of}" if terms.as_of else ""
        has = ", ".join(sold_types(spec, terms)) or "nothing"
        problem = f"{shown(spec, 80)} sells none of {', '.join(accelerators)}{kind}{until}; it has {has}"
        problem += sellers(accelerators, terms)
        raise OptionError(problem, where="--prices", hint=FORM)
    offers = list({str(offer): offer for offer in sorted(offers, key=lambda offer: -offer.usd_per_hour)}.values())
    return tuple(sorted(offers, key=lambda offer: (accelerators.index(offer.accelerator), offer.devices, offer)))


def sold_types(spec: str, terms: Terms = ON_DEMAND) -> tuple[str, ...]:
    """The accelerator types that ``spec`` sells in whole devices at this kind of price, in its order.

    Dates and amounts are not checked.

    Raises :class:`OptionError` for what is neither a cloud nor a file nor a price.
    """
    names = dict[str, None]()
    for table, added in map(parts_of, _specs(spec)):
        names |= {one.partition("=")[0].strip().lower(): None for one in added.split(",") if one}
        rows = table_rows(table) if table else ()
        names |= dict.fromkeys(row.accelerator for row in rows if row.kind == terms.kind and _is_whole(row))
    return tuple(names)


def _specs(spec: str) -> list[str]:
    """The parts between commas; single prices are one part."""
    parts = [part.strip() for part in spec.split(",")]
    if not all(parts):
        raise OptionError(f"{shown(spec, 80)} has an empty part", where="--prices", expected=FORM)
    listed = [part for part in parts if not parts_of(part)[0]]
    return [part for part in dict.fromkeys(parts) if part not in listed] + [",".join(listed)] * bool(listed)


def _sold(spec: str, accelerators: Sequence[str], terms: Terms) -> Iterator[Offer]:
    """The offers of one cloud, file or list for these types; an added price is of a single device."""
    table, added = parts_of(spec)
    listed = load_prices(added, accelerators, strict=False).usd_per_hour if added else {}
    yield from (Offer(name, 1, usd) for name, usd in listed.items())
    wanted = [name for name in accelerators if name not in listed]
    rows = list(filter(_is_whole, rows_in_use(table, wanted, terms))) if table else []
    for name in wanted:
        yield from _of_type(name, of_types(rows, [name]), terms)


def _is_whole(row: PriceRow) -> bool:
    """Whether it holds whole devices."""
    return row.devices >= 1 and row.devices == int(row.devices)


def _of_type(name: str, rows: Iterable[PriceRow], terms: Terms) -> Iterator[Offer]:
    """The cheapest instance of each cloud and size."""
    best: dict[tuple[str, float], PriceRow] = {}
    for row in best_first(rows, terms):
        best.setdefault((row.cloud, row.devices), row)
    for (cloud, devices), row in best.items():
        usd = float(terms.usd(row)) * row.devices
        yield Offer(name, int(devices), usd, cloud, row.region, row.instance_type, row.as_of, row.source)
