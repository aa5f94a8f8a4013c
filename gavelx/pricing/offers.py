"""Offers: whole instances of accelerator types that can be bought, from clouds, lists and files.

For each cloud, accelerator type and number of devices, the cheapest on-demand instance counts, over all regions,
at the latest date on which the cloud prices that type: the rule of `gavelx.files.price_tables`, for each size.
Instances with a fraction of a device are left out.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gavelx.errors import OptionError
from gavelx.files.price_rows import PriceRow
from gavelx.files.price_tables import load_prices, of_types, parts_of, table_rows
from gavelx.files.texts import shown

ON_DEMAND = "on_demand"
FORM = "--prices aws,gcp, or --prices my_prices.csv, or --prices v100=2.48,k80=0.45"


class Offer(NamedTuple):
    """An instance for sale: a number of devices of one accelerator type, and its dollars per hour."""

    accelerator: str
    devices: int
    usd_per_hour: float
    cloud: str = ""
    region: str = ""
    instance_type: str = ""
    as_of: str = ""
    source: str = ""

    def __str__(self) -> str:
        """A unique name: the cloud, and its name of the instance."""
        named = "_".join(self.instance_type.split()) or f"{self.devices}x{self.accelerator}"
        return "/".join(filter(None, (self.cloud, named)))


def load_offers(spec: str, accelerators: Sequence[str], *, as_of: str | None = None) -> tuple[Offer, ...]:
    """The offers of ``spec`` for these accelerator types, in their order, small instances before large ones.

    ``spec`` names clouds, regions of clouds (``gcp:us-central1``), files of prices and single prices
    (``v100=2.48``: one device; ``aws+p100=1.35``: beside a cloud's), separated by commas. Raises
    :class:`OptionError` for any other text, for a free instance, and if nothing is for sale;
    :class:`InputFileError` for a bad file.
    """
    offers = [offer for one in _specs(spec) for offer in _sold(one, accelerators, as_of)]
    if free := [str(offer) for offer in offers if not offer.usd_per_hour > 0]:
        raise OptionError(f"{', '.join(free)} costs nothing", where="--prices", expected="prices above 0")
    if not offers:
        until = f" up to {as_of}" if as_of else ""
        has = ", ".join(sold_types(spec)) or "nothing"
        problem = f"{shown(spec, 80)} sells none of {', '.join(accelerators)}{until}; it has {has}"
        raise OptionError(problem, where="--prices", hint=FORM)
    offers = list({str(offer): offer for offer in sorted(offers, key=lambda offer: -offer.usd_per_hour)}.values())
    return tuple(sorted(offers, key=lambda offer: (accelerators.index(offer.accelerator), offer.devices, offer)))


def sold_types(spec: str) -> tuple[str, ...]:
    """The accelerator types that ``spec`` sells in whole devices, in its order; amounts are not checked.

    Raises :class:`OptionError` for what is neither a cloud nor a file nor a price.
    """
    names = dict[str, None]()
    for table, added in map(parts_of, _specs(spec)):
        names |= {one.partition("=")[0].strip().lower(): None for one in added.split(",") if one}
        names |= dict.fromkeys(row.accelerator for row in table_rows(table) if _is_whole(row)) if table else {}
    return tuple(names)


def _specs(spec: str) -> list[str]:
    """The parts between commas; single prices are one part."""
    parts = [part.strip() for part in spec.split(",")]
    if not all(parts):
        raise OptionError(f"{shown(spec, 80)} has an empty part", where="--prices", expected=FORM)
    listed = [part for part in parts if not parts_of(part)[0]]
    return [part for part in dict.fromkeys(parts) if part not in listed] + [",".join(listed)] * bool(listed)


def _sold(spec: str, accelerators: Sequence[str], as_of: str | None) -> Iterator[Offer]:
    """The offers of one cloud, file or list for these types; an added price is of a single device."""
    table, added = parts_of(spec)
    listed = load_prices(added, accelerators, strict=False).usd_per_hour if added else {}
    yield from (Offer(name, 1, usd) for name, usd in listed.items())
    rows = list(filter(_is_whole, table_rows(table))) if table else []
    for name in load_prices(table, accelerators, strict=False, as_of=as_of).usd_per_hour if table else ():
        if name not in listed:
            yield from _of_type(name, of_types(rows, [name]), as_of)


def _is_whole(row: PriceRow) -> bool:
    """Whether it is sold on demand, and holds whole devices."""
    return row.kind == ON_DEMAND and row.devices >= 1 and row.devices == int(row.devices)


def _of_type(name: str, offered: Sequence[PriceRow], as_of: str | None) -> Iterator[Offer]:
    """The cheapest instance of each cloud and size, at the cloud's latest date for the type."""
    rows = [row for row in offered if not (as_of and row.as_of[: len(as_of)] > as_of)]
    latest: dict[str, str] = {}
    best: dict[tuple[str, int], PriceRow] = {}
    for row in rows:
        latest[row.cloud] = max(latest.get(row.cloud, ""), row.as_of)
    for row in rows:
        if row.as_of == latest[row.cloud]:
            held = best.setdefault((row.cloud, int(row.devices)), row)
            if row.usd_per_hour < held.usd_per_hour:
                best[row.cloud, int(row.devices)] = row
    for (cloud, devices), row in best.items():
        usd = row.usd_per_hour * row.devices
        yield Offer(name, devices, usd, cloud, row.region, row.instance_type, row.as_of, row.source)
