"""``gavelx prices refresh``."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gavelx.cli.money_options import ImportOptions
from gavelx.cli.output import print_json, stderr, stdout
from gavelx.cli.price_tables import account
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.files.atomic import ensure_writable, write_atomically
from gavelx.files.price_importers import Given, import_prices
from gavelx.files.price_rows import price_csv, read_rates
from gavelx.files.price_tables import price_rows, table_rows
from gavelx.pricing.refresh import Change, What, refresh

SHOWN = 15
"""Changes of each kind in the table; --json has all."""
DIGITS_MAX, LEAST = 8, 5e-4


def run_refresh(
    format: str, files: Sequence[str], typed: ImportOptions, *, table: str | None, out: str | None, as_json: bool
) -> None:
    """Print what newer lists change in a table, and write the new one."""
    if out is not None:
        ensure_writable(out, *files, table)
    given = Given(typed.cloud, typed.as_of, read_rates(typed.currency))
    imported = import_prices(format, files, given, skip_bad_rows=typed.skip_bad_rows)
    for line in account(imported):
        stderr().print(line, markup=False, soft_wrap=True)
    found = refresh(price_rows() if table is None else tuple(table_rows(table)), imported.rows)
    changes, rows = found.changes, found.rows
    if out is not None:
        write_atomically(out, price_csv(rows))
    counts = Counter(change.what for change in changes)
    if as_json:
        told = {"table": "prices" if table is None else table, "out": out, "rows": len(rows)}
        told |= {"same": found.same, "older": found.older, "unlisted": found.unlisted}
        print_json(told | {str(what): counts[what] for what in What} | {"changes": [*map(_as_json, changes)]})
        return
    if changes:
        stdout().print(_table(changes))
    for what in What:
        if (more := counts[what] - SHOWN) > 0:
            stdout().print(f"{what}, not shown here (--json has all): {more:,}")
    said = ", ".join(f"{counts[what]:,} {what}" for what in What)
    stdout().print(
        f"{said}, {found.same:,} the same" + (f"; {len(rows):,} rows are in {out}" if out else ""), markup=False
    )
    if counts[What.GONE]:
        stdout().print("gone: they count no more; a new table keeps them at their old date")
    if found.older:
        stdout().print(f"{found.older:,} in the lists do not count: the table has later prices")
    if found.unlisted:
        stdout().print(
            f"{found.unlisted:,} not in the lists, though their region is, still count, until a newer edition of "
            "their own list (NAME@VERSION in source) has their type without them, or prices of it a year later"
        )


def _table(changes: Sequence[Change]) -> Any:
    table = plain_table()
    for heading in ("", "where", "instance", "devices"):
        table.add_column(heading, overflow="fold")
    for heading in ("$/h before", "now", "change"):
        table.add_column(heading, justify="right")
    for what in What:
        for change in [each for each in changes if each.what is what][:SHOWN]:
            offer = change.offer
            place = " ".join(filter(None, (offer.cloud, offer.zone or offer.region, offer.kind.replace("_", " "))))
            before, now = _amounts(change)
            relative = "" if change.relative is None else _percent(change.relative)
            devices = f"{offer.devices:g} x {offer.accelerator}"
            names = map(policy_cell, (place, offer.instance_type, devices))
            table.add_row(what, *names, before, now, relative)
    return table


def _amounts(change: Change) -> tuple[str, str]:
    """Dollars before and now, to the cent; with more digits where that would show no change."""
    for digits in range(2, DIGITS_MAX + 1):
        before, now = ("" if row is None else f"{row.usd:,.{digits}f}" for row in (change.before, change.now))
        if before != now:
            break
    return before, now


def _percent(relative: float) -> str:
    """A tenth of a percent is enough, unless the change is less."""
    return f"{relative:+.1%}" if abs(relative) >= LEAST else f"{100 * relative:+.1g}%"


def _as_json(change: Change) -> dict[str, Any]:
    offer = change.offer
    return {
        "what": str(change.what),
        **{
            name: getattr(offer, name)
            for name in ("cloud", "region", "zone", "kind", "instance_type", "accelerator")
        },
        "devices": offer.devices,
        **{
            name: None if row is None else {"usd_per_hour": float(row.usd), "as_of": row.as_of}
            for name, row in (("before", change.before), ("now", change.now))
        },
        "relative": change.relative,
    }
