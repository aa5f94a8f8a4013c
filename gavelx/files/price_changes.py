"""Prices that change while jobs run: a table of times, accelerator types, and prices from then on."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from gavelx.accelerators import DataSheets
from gavelx.errors import InputFileError
from gavelx.files.csvs import Row, read_rows
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.price_faults import NO_SENTINEL, SENTINELS
from gavelx.files.price_rows import PRICE_MAX
from gavelx.files.texts import shown
from gavelx.prices import Prices

SLIP = 0.8
"""So alike a name that nobody knows is to one of the cluster's where it was meant for it."""


def load_price_changes(
    path: str | Path, prices: Prices, accelerators: Sequence[str]
) -> tuple[tuple[float, Prices], ...]:
    """Times in seconds and the prices from then on, in order; ``prices`` are those before the first change.

    The columns are ``time_s, accelerator, usd_per_hour`` (of one device). Rows may come in any order; those of
    types that are not among ``accelerators`` are passed over. Types are known by their aliases too, as in price
    tables. Raises :class:`InputFileError` for what is wrong in the file: a type that changes twice at one time,
    one that is nearly spelled like one of these, or no row of any of these types.
    """
    changes: dict[float, dict[str, float]] = {}
    sheets = load_data_sheets()
    meant = {sheets.aliases.get(name, name): name for name in accelerators} | {name: name for name in accelerators}
    for row in read_rows(path, ("time_s", "accelerator", "usd_per_hour")):
        time_s, name = row.number("time_s", low=0.0), _type(row, meant, sheets)
        usd_per_hour = row.number("usd_per_hour", low=0.0, high=PRICE_MAX)
        if usd_per_hour in SENTINELS:
            seen = row.text("usd_per_hour")
            raise row.mistake(
                "usd_per_hour", f"{seen!r} is no price", expected=NO_SENTINEL, hint="leave the row out"
            )
        if name in changes.setdefault(time_s, {}):
            raise row.mistake("accelerator", f"{name!r} changes twice at {time_s:g} s", expected="one price")
        changes[time_s][name] = usd_per_hour
    there = sorted({name for change in changes.values() for name in change})
    if not set(there) & set(accelerators):
        seen = ", ".join(there) or "nothing"
        expected = "one of " + ", ".join(accelerators)
        raise InputFileError(f"has prices of {seen}, and none of the cluster", where=str(path), expected=expected)
    made: list[tuple[float, Prices]] = []
    for time_s in sorted(changes):
        now = {name: usd for name, usd in changes[time_s].items() if name in accelerators}
        prices = Prices({**prices.usd_per_hour, **now}, name=prices.name)
        made += [(time_s, prices)] if now else []
    return tuple(made)


def _type(row: Row, meant: Mapping[str, str], sheets: DataSheets) -> str:
    """The type that a row is about, by the name that the cluster has for it, if it has any."""
    seen = row.text("accelerator").lower()
    device = sheets.aliases.get(seen, seen)
    if name := meant.get(seen) or meant.get(device):
        return name
    if device not in sheets.by_name and (near := get_close_matches(seen[:200], meant, n=1, cutoff=SLIP)):
        raise row.mistake("accelerator", f"{shown(seen)} is not known", hint=f"did you mean {near[0]!r}?")
    return seen
