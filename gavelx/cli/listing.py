"""``gavelx policies``, ``throughputs show`` and ``prices show``: lists to choose from."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from gavelx.cli.output import print_json, stdout
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.errors import OptionError, PolicyError, did_you_mean
from gavelx.files.current_prices import is_old
from gavelx.files.price_importers.offers import instance_types, plain
from gavelx.files.price_rows import PriceRow
from gavelx.files.price_tables import (
    Terms,
    check_discounts,
    clouds,
    load_quotes,
    of_types,
    price_rows,
    read_discounts,
)
from gavelx.files.texts import shown
from gavelx.files.throughput_tables import load_throughputs
from gavelx.policies import catalog, modifiers
from gavelx.policies.loading import installed
from gavelx.throughputs import Setting, Throughputs

WIDE = 76
"""Columns of a terminal in which there is room for what policies promise."""


def first_line(thing: object) -> str:
    """The first sentence of a docstring, without markup."""
    return (thing.__doc__ or "").strip().partition("\n")[0].replace("``", "")


def list_policies(as_json: bool) -> None:
    """Print the policies by name, then the modifiers."""
    policies = [
        {"name": name, "summary": first_line(policy), "promises": list(policy.promises)}
        for name, policy in catalog().items()
    ]
    changes = [{"name": name, "summary": first_line(modifier)} for name, modifier in modifiers().items()]
    if as_json:
        print_json({"policies": policies, "modifiers": changes})
        return
    console, table = stdout(), plain_table()
    wide = console.width >= WIDE
    for heading in ("policy", "what it does", "promises")[: 3 if wide else 2]:
        table.add_column(heading, no_wrap=wide and heading != "what it does", overflow="fold")
    for row in policies:
        cells = [str(row["name"]), policy_cell(str(row["summary"]))]
        promises = "\n".join(row["promises"]).replace("_", " ")
        table.add_row(*cells, *[promises] * wide)
    for change in changes:
        table.add_row(f"{change['name']}(POLICY)", policy_cell(change["summary"]), *[""] * wide)
    console.print(table)
    for failure in installed().values():
        if isinstance(failure, PolicyError):
            stdout().print(str(failure), markup=False)
    stdout().print("Your own: --policy my_file:my_policy, an object in my_file.py.", style="dim")


def list_throughputs(table_name: str, scale_factor: int | None, as_json: bool) -> None:
    """Print steps/s of every job type, of one scale factor or all."""
    throughputs = load_throughputs(table_name)
    settings = [s for s in throughputs.isolated if scale_factor is None or s.scale_factor == scale_factor]
    if not settings:
        known = ", ".join(map(str, sorted({s.scale_factor for s in throughputs.isolated})))
        raise OptionError(f"no row has {scale_factor}", where="--scale-factor", expected=f"one of {known}")
    if as_json:
        rows = [{**s._asdict(), "steps_per_second": throughputs.isolated[s]} for s in settings]
        print_json({"table": table_name, "rows": rows})
    else:
        _print_throughputs(throughputs, settings)


def _print_throughputs(throughputs: Throughputs, settings: list[Setting]) -> None:
    table = plain_table()
    table.add_column("job type", overflow="fold")
    for heading in ("devices", "placed", *throughputs.accelerators):
        table.add_column(policy_cell(heading), justify="right")
    for kind, devices, together in dict.fromkeys((s.job_type, s.scale_factor, s.consolidated) for s in settings):
        speeds = (throughputs.get(kind, name, devices, together) for name in throughputs.accelerators)
        cells = ("?" if speed is None else "0" if speed == 0 else f"{speed:.4g}" for speed in speeds)
        table.add_row(policy_cell(kind), str(devices), "together" if together else "spread", *cells)
    stdout().print(table)
    stdout().print("Steps/s of the whole job. 0: it cannot run there. ?: unknown.", style="dim")


def list_prices(
    cloud: str | None,
    accelerators: str | None,
    kind: str | None,
    as_json: bool,
    *,
    as_of: str | None = None,
    discount: str | None = None,
) -> None:
    """Print the price of one device in each cloud; for one cloud or kind, every offer of the price table."""
    terms = Terms(as_of, discounts=read_discounts(discount))
    wanted = None if accelerators is None else _priced(accelerators)
    if cloud is None and kind is None:
        rows = _prices_in_use(wanted or sorted({row.accelerator for row in price_rows()}), terms)
    else:
        offers = price_rows(cloud, wanted, kind)
        rows = [_offer(row, terms) for row in offers if as_of is None or row.as_of[: len(as_of)] <= as_of]
    check_discounts(terms.discounts, [cloud] if cloud is not None else clouds())
    if not rows:
        asked = {"--cloud": cloud, "--accelerators": accelerators, "--kind": kind, "--as-of": as_of}
        where = " ".join(f"{option} {value}" for option, value in asked.items() if value is not None)
        raise OptionError("no row of the price table matches", where=where, hint="gavelx prices show")
    if as_json:
        print_json({"rows": rows})
    elif cloud is None and kind is None:
        _print_prices_in_use(rows)
    else:
        _print_offers(rows)
        if cloud is not None and accelerators is None:
            _print_unpriced(cloud)


def _priced(accelerators: str) -> list[str]:
    """The types that are named. Raises :class:`OptionError` for a type without any offer."""
    names, rows = [name.strip().lower() for name in accelerators.split(",")], price_rows()
    for name in names:
        if not of_types(rows, [name]):
            known = {row.accelerator for row in rows}
            raise OptionError(
                f"the price table has no row for {shown(name)}",
                where="--accelerators",
                hint=did_you_mean(name[:200], sorted(known), "gavelx prices show"),
            )
    return names


def _offer(row: PriceRow, terms: Terms) -> dict[str, Any]:
    """An offer as figures by name: dollars per hour of one device, and of the whole instance."""
    fields = {name: value for name, value in row._asdict().items() if name not in ("usd", "row")}
    return fields | {"usd_per_hour": float(terms.usd(row)), "instance_usd_per_hour": float(row.usd)}


def _prices_in_use(accelerators: Sequence[str], terms: Terms) -> list[dict[str, Any]]:
    """The price that ``--prices CLOUD`` selects, for every cloud and type."""
    return [
        {
            "accelerator": name,
            "cloud": cloud,
            "usd_per_hour": float(quote.usd),
            "as_of": quote.row.as_of if quote.row else "",
        }
        for cloud in clouds()
        for name, quote in load_quotes(cloud, accelerators, terms, strict=False, together=False).items()
    ]


def _print_prices_in_use(rows: list[dict[str, Any]]) -> None:
    usd = {(row["accelerator"], row["cloud"]): row for row in rows}
    today = date.today().isoformat()
    names, columns = (list(dict.fromkeys(row[key] for row in rows)) for key in ("accelerator", "cloud"))
    table = plain_table()
    table.add_column("accelerator")
    for cloud in columns:
        table.add_column(cloud, justify="right")
    for name in sorted(names):
        cells = (usd.get((name, cloud)) for cloud in columns)
        table.add_row(policy_cell(name), *("" if cell is None else _price_cell(cell, today) for cell in cells))
    stdout().print(table)
    stdout().print(
        "US dollars per device-hour: each cloud's cheapest on-demand device, over all regions. "
        "*: the date is over a year ago, or unknown.\n"
        "Every offer of one cloud, with date and source: gavelx prices show --cloud gcp",
        style="dim",
    )


def _price_cell(row: dict[str, Any], today: str) -> str:
    return f"{row['usd_per_hour']:.2f}" + ("*" if is_old(row["as_of"], today) else "")


def _print_offers(rows: list[dict[str, Any]]) -> None:
    names = ("accelerator", "usd_per_hour", "kind", "as_of", "region", "instance_type")
    cells = [[f"{row[name]:.3f}" if name == "usd_per_hour" else row[name] for name in names] for row in rows]
    table = plain_table()
    for name, column in zip(names, zip(*cells, strict=True), strict=True):
        # instance types are long and rarely needed, so they are folded first
        width = None if name == "instance_type" else max(map(len, column))
        table.add_column(name.replace("_", " ").replace("usd per", "$ /"), min_width=width, overflow="fold")
    for row in cells:
        table.add_row(*(policy_cell(cell) for cell in row))
    stdout().print(table)
    stdout().print("US dollars per device-hour. Sources: --json.", style="dim")


def _print_unpriced(cloud: str) -> None:
    """Print the instance types of a cloud of which the shipped table has no price."""
    priced = {plain(row.instance_type) for row in price_rows(cloud)}
    if unknown := [name for name in instance_types(cloud) if plain(name) not in priced]:
        stdout().print(f"No price is known of {', '.join(unknown)}.", style="dim", markup=False)
