"""Price tables: what one device of each accelerator type costs per hour.

Clouds sell instances, not devices. A row of a table is the price of one instance at one date, its host included;
what a device costs is that price divided by the devices in the instance. Of all instances of an accelerator type
we take the cheapest per device, over all regions of the table, at the latest date on which the cloud prices that
type on demand: one price per type, which anybody can look up again, and no mix of dates within a type.

* A row without a date is older than any row with one.
* Instances that hold a fraction of a device are left out: no job can run on a quarter of one.
* Every row prices whole instances, so all types are compared with their hosts; a list of bare device prices
  (which some clouds also publish) must not be mixed in.

An accelerator type is found by its name, in any case, or by the device that both names stand for in
``accelerator_aliases.csv``: ``v100`` and ``V100-16GB`` are both the 16 GB SXM card of the throughput tables.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gavelx.errors import OptionError, did_you_mean
from gavelx.files.csvs import NUMBER, read_rows
from gavelx.files.data_sheets import accelerator_aliases
from gavelx.files.locate import data_path
from gavelx.files.texts import exists, shown
from gavelx.prices import Prices

FORM = "--prices v100=1.6,p100=1.35,k80=0.9"
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?", re.ASCII)


class PriceRow(NamedTuple):
    """One offer: dollars per device-hour of an accelerator type in a cloud and region, at a date."""

    cloud: str
    accelerator: str
    usd_per_hour: float
    kind: str
    region: str
    as_of: str
    source: str
    instance_type: str = ""
    devices: float = 1.0


def load_prices(
    spec: str | Path, accelerators: Sequence[str], *, strict: bool = True, as_of: str | None = None
) -> Prices:
    """Prices of these accelerator types, from a cloud, a list or a file.

    ``spec`` is a cloud (``aws``, ``gcp``, ``azure``...), a list (``v100=1.6,p100=1.35``; dollars per device-hour)
    or a CSV with the columns ``accelerator, price_usd_per_hour`` and, if wanted, ``accelerator_count`` (devices
    that this price buys) and the other columns of ``prices.csv``. With ``as_of`` (2023-09-21, or 2023-09) only
    rows up to that date count; rows without a date always do.

    Raises :class:`OptionError` when a type has no price (unless not ``strict``: then it is left out), or when
    ``spec`` is none of the three; :class:`InputFileError` for what is wrong in a file.
    """
    spec = str(spec)
    if as_of is not None and not _DATE.fullmatch(as_of):
        raise OptionError(f"{as_of!r} is no date", where="--as-of", expected="a date such as 2023-09-21")
    offered = _offered(spec, as_of)
    aliases = accelerator_aliases()
    found = {name.lower(): _price_of(name.lower(), offered, aliases) for name in accelerators}
    if strict and (missing := [name for name, usd in found.items() if usd is None]):
        until = f" up to {as_of}" if as_of else ""
        there = ", ".join(offered) or "nothing"
        problem = f"no price of {', '.join(missing)}; {shown(spec, 80)} has prices{until} of {there}"
        raise OptionError(problem, where="--prices", hint=FORM)
    known = {name: usd for name, usd in found.items() if usd is not None}
    return Prices(known, name=f"{spec}@{as_of}" if as_of else spec)


def price_rows(
    cloud: str | None = None,
    accelerators: Iterable[str] | None = None,
    kind: str | None = None,
    *,
    path: str | Path | None = None,
) -> tuple[PriceRow, ...]:
    """Every offer of the shipped table (or of the file at ``path``), in its order.

    ``cloud``, ``accelerators`` and ``kind`` (``on_demand``, ``spot``, ``reserved``) keep only the offers that
    match. Raises :class:`OptionError` for a cloud or kind that the table does not have.
    """
    rows = tuple(_rows(path or data_path("prices", "prices")))
    if cloud is not None:
        cloud = _one_of("--cloud", cloud, {row.cloud for row in rows})
        rows = tuple(row for row in rows if row.cloud == cloud)
    if kind is not None:
        kind = _one_of("--kind", kind, {row.kind for row in rows})
        rows = tuple(row for row in rows if row.kind == kind)
    if accelerators is not None:
        aliases = accelerator_aliases()
        wanted = {aliases.get(name.lower(), name.lower()) for name in accelerators}
        rows = tuple(row for row in rows if aliases.get(row.accelerator, row.accelerator) in wanted)
    return rows


def clouds() -> tuple[str, ...]:
    """The clouds of the shipped price table, in alphabetical order."""
    return tuple(sorted({row.cloud for row in price_rows()}))


def _one_of(option: str, value: str, known: Iterable[str]) -> str:
    if value.lower() not in (known := sorted(known)):
        raise OptionError(f"{shown(value)} is not in the table", where=option, hint=did_you_mean(value, known))
    return value.lower()


def _offered(spec: str, as_of: str | None) -> dict[str, float]:
    """Dollars per device-hour by accelerator type (lower case), from whatever the user named."""
    if "=" in spec and not exists(spec):
        return _listed(spec)
    if Path(spec).suffix or Path(spec).name != spec:
        return _cheapest(_rows(spec), as_of)
    rows = price_rows()
    known = sorted({row.cloud for row in rows})
    if spec.lower() in known:
        return _cheapest((row for row in rows if row.cloud == spec.lower()), as_of)
    if exists(spec):
        return _cheapest(_rows(spec), as_of)
    problem = f"{shown(spec, 80)} is neither a cloud nor a list of prices nor a file"
    raise OptionError(problem, where="--prices", expected=f"one of {', '.join(known)}, or a list", hint=FORM)


def _listed(spec: str) -> dict[str, float]:
    """Read ``v100=1.6,p100=1.35``."""
    prices: dict[str, float] = {}
    for part in spec.split(","):
        name, _, amount = (piece.strip() for piece in part.partition("="))
        usd = float(amount) if NUMBER.fullmatch(amount) else math.nan
        if not name or not (math.isfinite(usd) and usd >= 0):
            problem = f"cannot read {shown(part)} in {shown(spec, 80)}"
            raise OptionError(
                problem, where="--prices", expected="TYPE=DOLLARS_PER_HOUR between commas", hint=FORM
            )
        if name.lower() in prices:
            raise OptionError(f"{shown(name)} is named twice in {shown(spec, 80)}", where="--prices", hint=FORM)
        prices[name.lower()] = usd
    return prices


def _rows(path: str | Path) -> Iterator[PriceRow]:
    for row in read_rows(path, ("accelerator", "price_usd_per_hour")):
        devices = row.number("accelerator_count", above=0, default=1.0)
        as_of = row.text("as_of", "")
        if as_of and not _DATE.fullmatch(as_of):
            raise row.mistake("as_of", f"{shown(as_of)} is no date", expected="a date such as 2023-09-21")
        yield PriceRow(
            cloud=row.text("cloud", "").lower(),
            accelerator=row.text("accelerator").lower(),
            usd_per_hour=row.number("price_usd_per_hour", low=0) / devices,
            kind=row.text("price_kind", "on_demand").lower(),
            region=row.text("region", ""),
            as_of=as_of,
            source=row.text("source", ""),
            instance_type=row.text("instance_type", ""),
            devices=devices,
        )


def _cheapest(rows: Iterable[PriceRow], as_of: str | None) -> dict[str, float]:
    """The rule of this module: per type the latest date, then the cheapest whole device on demand."""
    best: dict[str, PriceRow] = {}
    for row in rows:
        if row.kind != "on_demand" or row.devices < 1 or (as_of and row.as_of[: len(as_of)] > as_of):
            continue
        held = best.setdefault(row.accelerator, row)
        if row.as_of > held.as_of or (row.as_of == held.as_of and row.usd_per_hour < held.usd_per_hour):
            best[row.accelerator] = row
    return {name: row.usd_per_hour for name, row in best.items()}


def _price_of(name: str, offered: Mapping[str, float], aliases: Mapping[str, str]) -> float | None:
    """The price offered under this name, or under another name of the same device."""
    if name in offered:
        return offered[name]
    device = aliases.get(name, name)
    same = [usd for other, usd in offered.items() if aliases.get(other, other) == device]
    return min(same, default=None)
