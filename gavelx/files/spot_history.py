"""Spot prices over time, replayed from a recorded history.

A history is a CSV (``timestamp, accelerator, accelerator_count, price_usd_per_hour`` and, if wanted, ``cloud,
region, zone, instance_type``; the shipped one is called ``spot_history``), or what ``describe-spot-price-history``
printed. A *series* is an instance type in a zone, or in a region where there are no zones; its price holds until
its next row.

Each accelerator type of a cluster is bought in the series that is the cheapest per device when the replay starts,
as a user would do, and stays there. A series that has ended by then is used only if there is no other. Time 0 of
the run is the start of the replay: as given, or the first time at which every series of these types has a price,
so that the choice is among all of them. After the end of a series, its last price holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from gavelx.errors import InputFileError, OptionError
from gavelx.files.csvs import Row, read_rows
from gavelx.files.data_sheets import meant_by
from gavelx.files.jsons import read_pages
from gavelx.files.locate import data_path, names
from gavelx.files.moments import utc_time
from gavelx.files.price_importers.aws import LINUX, LIST, region_of
from gavelx.files.price_importers.offers import amount, inside
from gavelx.files.price_rows import DEVICES_MAX, DEVICES_MIN, PRICE_MAX
from gavelx.files.texts import read_head, shown
from gavelx.prices import Prices

WHEN = "%Y-%m-%d %H:%M UTC"
"""Format of times in messages, always in UTC."""


class Place(NamedTuple):
    """The cloud, region, zone and instance type in which devices are bought."""

    cloud: str
    region: str
    zone: str
    instance_type: str

    def is_in(self, place: str) -> bool:
        """Whether this place is in the cloud, region or zone of that name."""
        return place.lower() in (self.cloud, self.region, self.zone)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.cloud, self.zone or self.region, self.instance_type)))


@dataclass(frozen=True)
class SpotPrices:
    """The prices of a run: those at its start, and the changes with their times in seconds.

    The name of the prices says where each type is bought. Types that are not in the history (``on_demand``) keep
    their prices.
    """

    prices: Prices
    changes: tuple[tuple[float, Prices], ...]
    on_demand: tuple[str, ...] = ()


@dataclass
class _Series:
    """Times and dollars per device-hour of one place, in order of time."""

    times: list[datetime] = field(default_factory=list)
    usd: list[float] = field(default_factory=list)

    def at(self, time: datetime) -> float | None:
        """The price that holds at a time; None before the first."""
        before = [usd for when, usd in zip(self.times, self.usd, strict=True) if when <= time]
        return before[-1] if before else None


def load_spot_history(
    spec: str | Path,
    prices: Prices,
    accelerators: Sequence[str],
    *,
    place: str | None = None,
    start: str | None = None,
) -> SpotPrices:
    """The prices of a run under a recorded history; ``prices`` are used for types that it does not have.

    ``place`` is the cloud, region or zone in which devices are bought, ``start`` the time of the history at which
    the run starts. Raises :class:`InputFileError` for a mistake in the file, or if it has none of the types in
    that place; :class:`OptionError` for a start outside of the history.
    """
    is_shipped = str(spec) in names("prices") and not Path(spec).is_file()
    path = data_path("prices", str(spec)) if is_shipped else Path(spec)
    series = _read(path, place, accelerators)
    begin = _start(start, series, path)
    bought = {name: _cheapest(name, places, begin) for name, places in series.items()}
    used = {name: series[name][where] for name, where in bought.items()}
    first_usd = {name: usd for name, one in used.items() if (usd := one.at(begin)) is not None}
    on_demand = tuple(name for name in accelerators if name not in bought)
    where_from = [f"{name} in {where}" for name, where in bought.items()]
    where_from += [f"{name} on demand by {prices.name}" for name in on_demand if name in prices.usd_per_hour]
    name = f"{spec} from {begin:{WHEN}} on: {', '.join(where_from)}"
    dates = {name: prices.as_of[name] for name in on_demand if name in prices.as_of}
    now = Prices({**prices.usd_per_hour, **first_usd}, name, dates)
    return SpotPrices(now, tuple(_changes(used, begin, now)), on_demand)


def _cheapest(name: str, places: dict[Place, _Series], begin: datetime) -> Place:
    """The place in which a device of this type is cheapest when the replay starts."""
    at_start = {where: usd for where, one in places.items() if (usd := one.at(begin)) is not None}
    if not at_start:
        first = min(one.times[0] for one in places.values())
        problem = f"no spot price of {name} at {begin:{WHEN}}; the first is of {first:{WHEN}}"
        raise OptionError(problem, where="--spot-start", hint="a later start, or none")
    return min(at_start, key=lambda where: (places[where].times[-1] < begin, at_start[where], where))


def _changes(used: dict[str, _Series], begin: datetime, prices: Prices) -> Iterator[tuple[float, Prices]]:
    """Every time at which a price changes, with all prices from then on."""
    events = sorted(
        (when, name, usd)
        for name, one in used.items()
        for when, usd in zip(one.times, one.usd, strict=True)
        if when > begin
    )
    for when, together in groupby(events, key=lambda event: event[0]):
        now = {**prices.usd_per_hour, **{name: usd for _, name, usd in together}}
        if now != prices.usd_per_hour:
            prices = Prices(now, name=prices.name)
            yield (when - begin).total_seconds(), prices


def _start(start: str | None, series: dict[str, dict[Place, _Series]], path: Path) -> datetime:
    """The start of the replay: as typed, or the first time at which every place has a price."""
    last = max(one.times[-1] for places in series.values() for one in places.values())
    if start is None:
        return max(one.times[0] for places in series.values() for one in places.values())
    begin = utc_time(start)
    if begin is None:
        raise OptionError(
            f"{shown(start)} is no time", where="--spot-start", expected="2020-01-31, or with T10:00"
        )
    if begin > last:
        problem = f"{start} is after the last price of {path}, of {last:{WHEN}}"
        raise OptionError(problem, where="--spot-start", hint="an earlier start")
    return begin


def _read(path: Path, place: str | None, accelerators: Sequence[str]) -> dict[str, dict[Place, _Series]]:
    """The series of each type of the cluster. Raises :class:`InputFileError` if there are none."""
    meant = meant_by(accelerators)
    series: dict[str, dict[Place, _Series]] = {}
    there: set[str] = set()
    rows = _json_rows(path) if read_head(path).lstrip()[:1] in ("{", "[") else _csv_rows(path)
    for when, where, accelerator, usd in sorted(rows, key=lambda row: row[0]):
        there.add(accelerator)
        name = meant(accelerator)
        if name is None or (place is not None and not where.is_in(place)):
            continue
        one = series.setdefault(name, {}).setdefault(where, _Series())
        if one.times and one.times[-1] == when:
            if one.usd[-1] != usd:
                problem = f"two prices of a {name} at {when:{WHEN}}: ${one.usd[-1]:g} and ${usd:g} an hour"
                expected = "one for each instance_type in a zone"
                raise InputFileError(problem, where=f"{path}, {where}".rstrip(", "), expected=expected)
        else:
            one.times.append(when)
            one.usd.append(usd)
    if not series:
        seen = ", ".join(sorted(there)) or "nothing"
        within = f" in {shown(place)}" if place else ""
        problem = f"has no price{within} of {', '.join(accelerators)}; it has {seen}"
        raise InputFileError(problem, where=str(path), hint="--spot-place with another place" if place else "")
    return series


_Item = tuple[datetime, Place, str, float]


def _csv_rows(path: Path) -> Iterator[_Item]:
    for row in read_rows(path, ("timestamp", "accelerator", "price_usd_per_hour")):
        devices = row.number("accelerator_count", low=DEVICES_MIN, high=DEVICES_MAX, default=1.0)
        cloud, region, zone = (row.text(name, "").lower() for name in ("cloud", "region", "zone"))
        where = Place(cloud, region, zone, row.text("instance_type", ""))
        usd = row.number("price_usd_per_hour", above=0, high=PRICE_MAX)
        yield _when(row), where, row.text("accelerator").lower(), usd / devices


def _when(row: Row) -> datetime:
    text = row.text("timestamp")
    if (time := utc_time(text)) is None:
        raise row.mistake("timestamp", f"{shown(text)} is no time", expected="2020-01-31T10:00:00Z")
    return time


def _json_rows(path: Path) -> Iterator[_Item]:
    for node in (node for page in read_pages(path) for node in page[LIST].elements()):
        held = inside("aws", node["InstanceType"].text())
        if held is None or node["ProductDescription"].text() not in LINUX:
            continue
        time, usd = utc_time(node["Timestamp"].text()), amount(node["SpotPrice"].text())
        if time is None:
            raise node["Timestamp"].mistake(f"{shown(node['Timestamp'].value)} is no time")
        if not usd:
            raise node["SpotPrice"].mistake(f"{shown(node['SpotPrice'].value)} cannot be used", expected="dollars")
        zone = node["AvailabilityZone"].text()
        where = Place("aws", region_of(zone), zone, node["InstanceType"].text())
        yield time, where, held.accelerator, float(usd) / held.devices
