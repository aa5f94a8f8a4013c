"""Alarms about price tables: errors, and warnings about oddities.

An *error* would make bills wrong: a row that cannot be read, an unknown currency, two prices for one thing, a
price that stands for something else (700.0 in a catalogue for an unknown price; less than the cost of the
electricity; ten times the others or a tenth of them), boards of two devices counted as one device. A *warning* may
be correct, but should be looked at: spot as expensive as on demand, a fraction of a device, a missing date.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import NamedTuple

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row
from gavelx.files.energy_tables import load_tdp_w
from gavelx.files.importers.rows import with_header
from gavelx.files.price_faults import NO_SENTINEL, SENTINELS, name_of, offer_key
from gavelx.files.price_importers.offers import inside
from gavelx.files.price_rows import REQUIRED, PriceRow, price_row
from gavelx.files.sold_regions import is_sold

ERROR, WARNING = "error", "warning"
USD_PER_KWH = 0.05
"""Price of cheap electricity: an offer below the electricity that a device draws is not for a whole device."""
OUTLIER = 10.0
"""Factor above, or below, the median price of its type and kind from which a price is an error."""
ENOUGH = 3
"""The number of prices that a median needs."""
GPU_PART = Decimal("0.5")
"""An instance for less than this part of another of the same name is probably without its devices."""


class Alarm(NamedTuple):
    """An error or warning about a row: the value seen, the value expected, and what to do."""

    level: str
    trap: str
    row: int
    seen: str
    expected: str
    hint: str

    def __str__(self) -> str:
        return f"row {self.row}: {self.level}: {self.seen}; expected {self.expected}. Try: {self.hint}"


@dataclass(frozen=True)
class Checked:
    """The number of rows, and all alarms about them in the order of the rows."""

    rows: int
    alarms: tuple[Alarm, ...]

    @property
    def errors(self) -> int:
        return sum(alarm.level == ERROR for alarm in self.alarms)


def check_table(path: str | Path) -> Checked:
    """Check every row of a price table. Raises :class:`InputFileError` for a file that is not a table."""
    rows: list[PriceRow] = []
    alarms: list[Alarm] = []
    read = 0
    for number, item in with_header(Path(path), REQUIRED):
        read += 1
        try:
            if not isinstance(item, Row):
                raise item if isinstance(item, InputFileError) else AssertionError(item)
            rows.append(price_row(item))
        except InputFileError as error:
            alarms.append(_unreadable(Path(path), number, error))
    for trap in TRAPS:
        alarms += trap(rows)
    return Checked(read, tuple(sorted(alarms, key=lambda alarm: (alarm.row, alarm.level, alarm.trap))))


def _unreadable(path: Path, number: int, error: InputFileError) -> Alarm:
    seen = ": ".join(filter(None, (error.where.removeprefix(f"{path}, row {number}").lstrip(", "), error.problem)))
    return Alarm(ERROR, "unreadable", number, seen, error.expected or "a value", error.hint or "correct the cell")


def sentinels(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """Numbers that stand for an unknown price."""
    for row in rows:
        if row.usd in SENTINELS:
            yield Alarm(
                *(ERROR, "sentinel", row.row, f"${row.usd} for {name_of(row)}"),
                *(NO_SENTINEL, "leave the row out"),
            )


def disagreeing(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """Two contents or two prices for one instance type, place, kind and date: one may be without the devices."""
    for first, *others in _grouped(rows, offer_key):
        for row in others:
            prices = f"${row.usd} for {name_of(row)}, ${first.usd} in row {first.row}"
            if _inside(row) != _inside(first):
                seen = f"{name_of(row)} holds {_holds(row)} here and {_holds(first)} in row {first.row}"
                yield Alarm(
                    ERROR, "disagree", row.row, seen, "one content for one name", "leave the wrong row out"
                )
            elif min(row.usd, first.usd) < max(row.usd, first.usd) * GPU_PART:
                expected, hint = (
                    "one price; the lower may be without its devices",
                    "keep that of the whole instance",
                )
                yield Alarm(ERROR, "without_devices", row.row, prices, expected, hint)
            elif row.usd != first.usd:
                yield Alarm(ERROR, "disagree", row.row, prices, "one price at one date", "date them, or keep one")


def spot_not_below(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """Spot prices that are not below the price on demand: one of the two is wrong or stale."""
    for same in _grouped(rows, lambda row: (row.cloud, row.region, row.instance_type, row.as_of)):
        regular = [row.usd for row in same if row.kind == "on_demand"]
        for row in same:
            if row.kind == "spot" and regular and row.usd >= min(regular):
                seen = f"spot ${row.usd} for {name_of(row)}, on demand ${min(regular)}"
                hint = "look both up again; one may be of another date, system or currency"
                yield Alarm(WARNING, "spot_not_below", row.row, seen, "spot below on demand", hint)


def fractions(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """Parts of a device: no job can run on one, so prices of types leave such rows out."""
    for row in rows:
        if row.devices != int(row.devices):
            seen = f"{name_of(row)} holds {_holds(row)}"
            yield Alarm(
                WARNING, "fraction", row.row, seen, "whole devices", "leave the row out, or let it be unused"
            )


def boards(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """K80 boards: a K80 is a board of two GK210; clouds sell the halves, and some catalogues count boards."""
    for row in rows:
        held = inside(row.cloud, row.instance_type)
        if row.accelerator == "k80" and held is not None and held.devices == 2 * row.devices:
            seen = f"{name_of(row)} holds {_holds(row)}"
            expected = f"{held.devices:g} halves, as the instance shows its devices"
            yield Alarm(ERROR, "boards", row.row, seen, expected, f"write {held.devices:g} as accelerator_count")


def not_sold(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """Instances in regions that do not sell them: commands leave these rows out."""
    for row in rows:
        if not is_sold(row):
            seen = f"{name_of(row)} in {row.region}"
            hint = "leave the row out, as all commands do"
            yield Alarm(
                WARNING, "not_sold", row.row, seen, "a region that sells it (prices/gcp_regions.csv)", hint
            )


def dates(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """Prices without a date, which count as older than any other."""
    for row in rows:
        if not row.as_of:
            seen, hint = f"no date for {name_of(row)}", "write 2023-09-21 or 2023-09 in as_of"
            yield Alarm(WARNING, "no_date", row.row, seen, "when it was the price", hint)


def outliers(rows: Sequence[PriceRow]) -> Iterator[Alarm]:
    """Prices of a device far below or above others of its type, or below its electricity."""
    tdp_w = load_tdp_w(sorted({row.accelerator for row in rows}))
    priced = [row for row in rows if row.usd not in SENTINELS]
    for same in _grouped(priced, lambda row: (row.accelerator, row.kind)):
        usual = median(row.usd_per_hour for row in same)
        for row in same:
            usd, least = row.usd_per_hour, tdp_w.get(row.accelerator, 0.0) / 1000 * USD_PER_KWH
            seen = f"${usd:.4g} for one {row.accelerator} of {name_of(row)}"
            hint = "see which field it was read from; devices, host and unit may be others"
            if len(same) >= ENOUGH and not usual / OUTLIER <= usd <= usual * OUTLIER:
                yield Alarm(ERROR, "outlier", row.row, seen, f"about ${usual:.4g}, the median of its type", hint)
            elif usd < least:
                expected = f"${least:.3f} at least, what it draws in electricity"
                yield Alarm(ERROR, "outlier", row.row, seen, expected, hint)


TRAPS: tuple[Callable[[Sequence[PriceRow]], Iterable[Alarm]], ...] = (
    *(sentinels, disagreeing, spot_not_below),
    *(fractions, boards, not_sold, dates, outliers),
)


def _grouped(rows: Sequence[PriceRow], key: Callable[[PriceRow], object]) -> list[list[PriceRow]]:
    groups: Mapping[object, list[PriceRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return list(groups.values())


def _inside(row: PriceRow) -> tuple[str, float]:
    return row.accelerator, row.devices


def _holds(row: PriceRow) -> str:
    return f"{row.devices:g} {row.accelerator}"
