"""Price changes during a run: a table of times, accelerator types, and prices from then on."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row, read_rows
from gavelx.files.data_sheets import load_data_sheets, meant_by
from gavelx.files.price_faults import NO_SENTINEL, SENTINELS
from gavelx.files.price_rows import PRICE_MAX
from gavelx.files.texts import shown
from gavelx.prices import Prices

SLIP = 0.8
"""Similarity from which an unknown name counts as a misspelt type of the cluster."""


def load_price_changes(
    path: str | Path, prices: Prices, accelerators: Sequence[str]
) -> tuple[tuple[float, Prices], ...]:
    """Times in seconds with all prices from then on, in order; ``prices`` are those before the first change.

    The columns are ``time_s, accelerator, usd_per_hour`` (of one device). Rows may be in any order; those of types
    that are not in ``accelerators`` are skipped. Aliases of types are accepted, as in price tables. Raises
    :class:`InputFileError` for a mistake in the file: two changes of a type at one time, a misspelt type of the
    cluster, or no row for any of these types.
    """
    changes: dict[float, dict[str, float]] = {}
    meant = meant_by(accelerators)
    for row in read_rows(path, ("time_s", "accelerator", "usd_per_hour")):
        time_s, seen = row.number("time_s", low=0.0), row.text("accelerator").lower()
        if (name := meant(seen)) is None:
            _check_no_slip(row, seen, accelerators)
            name = seen
        usd_per_hour = row.number("usd_per_hour", low=0.0, high=PRICE_MAX)
        if usd_per_hour in SENTINELS:
            problem = f"{row.text('usd_per_hour')!r} is no price"
            raise row.mistake("usd_per_hour", problem, expected=NO_SENTINEL, hint="leave the row out")
        if name in changes.setdefault(time_s, {}):
            raise row.mistake("accelerator", f"{name!r} changes twice at {time_s:g} s", expected="one price")
        changes[time_s][name] = usd_per_hour
    there = sorted({name for change in changes.values() for name in change})
    if not set(there) & set(accelerators):
        has, expected = ", ".join(there) or "nothing", "one of " + ", ".join(accelerators)
        raise InputFileError(f"has prices of {has}, and none of the cluster", where=str(path), expected=expected)
    made: list[tuple[float, Prices]] = []
    for time_s in sorted(changes):
        now = {name: usd for name, usd in changes[time_s].items() if name in accelerators}
        prices = Prices({**prices.usd_per_hour, **now}, name=prices.name)
        made += [(time_s, prices)] if now else []
    return tuple(made)


def _check_no_slip(row: Row, seen: str, accelerators: Sequence[str]) -> None:
    """Raise :class:`InputFileError` for an unknown type that is spelled like one of the cluster."""
    sheets = load_data_sheets()
    if sheets.aliases.get(seen, seen) in sheets.by_name:
        return
    if near := get_close_matches(seen[:200], accelerators, n=1, cutoff=SLIP):
        raise row.mistake("accelerator", f"{shown(seen)} is not known", hint=f"did you mean {near[0]!r}?")
