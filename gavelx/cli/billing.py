"""``gavelx bill``: runs under price tables, as dollars that add up to the cent, energy and carbon."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from rich.table import Table

from gavelx.cli.extras import service_installed
from gavelx.cli.money_options import BillOptions
from gavelx.cli.output import Outputs, stderr, stdout, write_json
from gavelx.cli.progress import reading
from gavelx.cli.secrets import STATE, check_not_typed
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.errors import OptionError
from gavelx.files.amounts import read_amounts
from gavelx.files.atomic import write_atomically
from gavelx.files.current_prices import is_old
from gavelx.files.energy_tables import find_grid, load_pue, load_tdp_w, read_grid
from gavelx.files.moments import utc_time
from gavelx.files.price_rows import read_rates
from gavelx.files.price_tables import (
    Quote,
    Terms,
    check_discounts,
    listed_quotes,
    load_quotes,
    parts_of,
    read_discounts,
    split_specs,
)
from gavelx.files.results import Usage, read_usages
from gavelx.files.texts import shown
from gavelx.pricing.bill import Bill, bill_as_run, bill_of
from gavelx.pricing.energy import Draw, Footprint, footprint_of
from gavelx.report.words import number, short

SHOWN = 10
AS_RUN = "as-run"
"""In place of a price table: the prices of the run."""
PUE_MAX = 10.0
Part = tuple[str, Mapping[str, Decimal]]
"""What divides a bill, and the amount of each."""
MONTH = re.compile(r"\d{4}-\d\d")


@dataclass(frozen=True)
class Charge:
    """One bill, with the run, the prices (if each type has only one), and the energy that the run used."""

    bill: Bill
    usage: Usage
    quotes: Mapping[str, Quote]
    footprint: Footprint


def run_bill(typed: BillOptions, outputs: Outputs) -> None:
    """Make every bill; print the matrix, and write the requested files."""
    results = typed.result or []
    if not results and typed.log is None:
        typed = replace(typed, log=os.environ.get(STATE))
    outputs.check(*results, typed.log, typed.prices, typed.carbon)
    _check_what(typed)
    terms = Terms(typed.as_of, typed.kind.lower().replace("-", "_"), read_discounts(typed.discount))
    specs = split_specs(typed.prices)
    _check_terms(terms, [spec for spec in specs if not _is_as_run(spec) and parts_of(spec)[0]])
    rates = read_rates(typed.currency)
    if len(rates) > 1:
        raise OptionError("a bill is in one currency", where="--currency", hint="--currency EUR=1.08")
    runs = [(path, usage) for path in results for usage in read_usages(path)]
    if typed.log is not None:
        runs.append((typed.log, _recorded(typed.log, typed.since, typed.until)))
    usages = _told_apart(runs)
    charges = [charge for spec in specs for charge in _charges(usages, spec, terms, typed)]
    for line in dict.fromkeys(chain.from_iterable([*_others(one), *_ages(one, typed.as_of)] for one in charges)):
        stderr().print(line, markup=False, soft_wrap=True)
    if outputs.json is not None:
        write_json({"bills": [_as_json(charge, terms) for charge in charges]}, outputs.json)
    if outputs.html is not None:
        from gavelx.report.bills import bill_report  # noqa: PLC0415  (matplotlib)

        rows = [_row(charge) for charge in charges]
        parts = _parts(charges[0].bill) if len(charges) == 1 else []
        write_atomically(outputs.html, bill_report(rows, _about(typed), parts))
    if outputs.table_wanted:
        _print(charges, rates)


def _check_what(typed: BillOptions) -> None:
    if not typed.result and typed.log is None:
        raise OptionError("there is nothing to bill", expected="--result FILE, or --log LOG of a cluster")
    if typed.log is None and (windows := [f"--{name}" for name in ("since", "until") if getattr(typed, name)]):
        raise OptionError("only a log has dates", where=" and ".join(windows), expected="--log LOG with it")


def _recorded(log: str, since: str | None, until: str | None) -> Usage:
    """What a real cluster did, from one moment to another."""
    begin, end = _moment(since, "--since"), _moment(until, "--until")
    if begin is not None and end is not None and begin >= end:
        raise OptionError(f"{until} is not after {since}", where="--until", expected="a later moment than --since")
    with service_installed():
        check_not_typed("--log", log)
        from gavelx.service.state.usage import read_usage  # noqa: PLC0415

    def ends(day: str) -> None:
        line = f"--until {until}: the last record of the log is of {day}; what was later is not on this bill"
        stderr().print(line, markup=False, soft_wrap=True)

    with reading("the log") as watch:
        return read_usage(log, begin, end, watch, ends)


def _moment(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    found = utc_time(f"{text}-01" if MONTH.fullmatch(text) else text)
    if found is None:
        expected = "2026-11, 2026-11-01 or 2026-11-01T08:00+01:00"
        raise OptionError(f"cannot read {shown(text)}", where=option, expected=expected)
    return found


def _told_apart(runs: Sequence[tuple[str, Usage]]) -> list[Usage]:
    """The runs under distinct names: runs of one policy get the name of their file too, or its path."""
    runs_of = Counter(usage.policy for _, usage in runs)
    called = Counter((usage.policy, Path(path).stem) for path, usage in runs)
    files = [Path(path).stem if called[usage.policy, Path(path).stem] == 1 else path for path, usage in runs]
    return [
        replace(usage, policy=f"{usage.policy} ({file})") if runs_of[usage.policy] > 1 else usage
        for file, (_, usage) in zip(files, runs, strict=True)
    ]


def _is_as_run(spec: str) -> bool:
    return parts_of(spec)[0] == AS_RUN


def _check_terms(terms: Terms, tables: Sequence[str]) -> None:
    """Raise :class:`OptionError` if dates, kinds or discounts are given without a price table."""
    asked = {"--as-of": terms.as_of, "--kind": terms.kind != "on_demand", "--discount": terms.discounts}
    if not tables and (typed := [option for option, value in asked.items() if value]):
        problem, expected = "there is no table to choose prices from", "one in --prices, such as aws"
        raise OptionError(problem, where=" and ".join(typed), expected=expected)
    check_discounts(terms.discounts, tables)


def _charges(usages: Sequence[Usage], spec: str, terms: Terms, typed: BillOptions) -> list[Charge]:
    """The bills of all runs under one price table, or at the prices of each run."""
    accelerators = list(dict.fromkeys(name for usage in usages for name in usage.accelerators))
    as_run = _is_as_run(spec)
    quotes = listed_quotes(spec, accelerators) if as_run else load_quotes(spec, accelerators, terms)
    pue, grams = _pue(spec, typed), _grams(accelerators, quotes, typed)
    tdp_w, draw = load_tdp_w(accelerators), _draw(typed)
    as_of = typed.as_of or max((quote.row.as_of for quote in quotes.values() if quote.row), default="") or None
    charges = []
    for usage in usages:
        bill = bill_as_run(usage, spec, quotes) if as_run else bill_of(usage, quotes, spec, as_of)
        known = {**_steady(usage), **quotes} if as_run else quotes
        charges.append(Charge(bill, usage, known, footprint_of(usage, tdp_w, grams, pue, draw)))
    return charges


def _steady(usage: Usage) -> dict[str, Quote]:
    """The prices of a run that did not change during it."""
    seen = {name: usage.usd_per_hour(name) for name in usage.accelerators}
    return {name: Quote(min(prices)) for name, prices in seen.items() if len(prices) == 1}


def _others(charge: Charge) -> Iterator[str]:
    """A line if the table has other prices than the run."""
    bill, usage = charge.bill, charge.usage
    seen = {name: usage.usd_per_hour(name) for name in usage.accelerators}
    if not _is_as_run(bill.prices) and any(
        {float(usd) for usd in prices} - {float(charge.quotes[name].usd)} for name, prices in seen.items()
    ):
        changed = ", which changed" if any(len(prices) > 1 for prices in seen.values()) else ""
        theirs = f"{usage.prices or 'prices without a name'}{changed}"
        yield f"{bill.prices}: the run was made at other prices ({theirs}); --prices {AS_RUN} bills at those"


def _pue(spec: str, typed: BillOptions) -> float:
    """Power usage effectiveness of the data centre: as typed, or the cloud's, or 1."""
    if typed.pue is not None:
        if not 1.0 <= typed.pue <= PUE_MAX:
            raise OptionError(f"a PUE of {typed.pue:g}", where="--pue", expected=f"1 to {PUE_MAX:g}")
        return typed.pue
    return load_pue().get(spec.partition("+")[0].partition(":")[0].lower(), 1.0)


def _grams(accelerators: Sequence[str], quotes: Mapping[str, Quote], typed: BillOptions) -> dict[str, float]:
    """Grams of CO2 per kWh by accelerator type: of the grid that was typed, or of the region of the price."""
    if typed.carbon is not None:
        return dict.fromkeys(accelerators, read_grid(typed.carbon).g_co2_per_kwh)
    regions = {name: (quote.row.cloud, quote.row.region) for name, quote in quotes.items() if quote.row}
    if len(places := set(regions.values())) == 1:  # a price that the user added is taken to be of the same region
        regions |= dict.fromkeys(quotes, places.pop())
    grids = {name: find_grid(*region) for name, region in regions.items()}
    return {name: grid.g_co2_per_kwh for name, grid in grids.items() if grid}


def _draw(typed: BillOptions) -> Draw:
    if typed.draw is None:
        return Draw()
    form = "--draw busy=0.8,idle=0.1"
    return Draw(**read_amounts(typed.draw, {"busy": 1.0, "idle": 1.0}, where="--draw", form=form))


def _ages(charge: Charge, as_of: str | None) -> Iterator[str]:
    """A line for each type whose price is old at the date of the bill, or has no date."""
    now = as_of or date.today().isoformat()
    for name, quote in charge.quotes.items():
        if quote.row is None:
            continue
        about = f"{charge.bill.prices}: the price of {name}"
        if not quote.row.as_of:
            yield f"{about} has no date" + (f" ({quote.row.source})" if quote.row.source else "")
        elif is_old(quote.row.as_of, now):
            years = (_day(now) - _day(quote.row.as_of)).days / 365.25
            yield f"{about} is of {quote.row.as_of}, {years:.1f} years old"


def _day(as_of: str) -> date:
    """A date of a table; for a month, roughly its end."""
    return date.fromisoformat(f"{as_of}-28"[:10])


def _as_json(charge: Charge, terms: Terms) -> dict[str, Any]:
    bill, footprint = charge.bill, charge.footprint
    return {
        "policy": bill.policy,
        "prices": bill.prices,
        "as_of": bill.as_of,
        "kind": terms.kind,
        "total_usd": float(bill.total_usd),
        "busy_usd": float(bill.busy_usd),
        "idle_usd": float(bill.idle_usd),
        "per_job": [{"job_id": job_id, "owner": owner, "usd": float(usd)} for job_id, owner, usd in bill.by_job],
        "per_owner": [{"owner": owner, "usd": float(usd)} for owner, usd in bill.by_owner.items()],
        "per_accelerator": [_accelerator(charge, name) for name in bill.by_accelerator],
        "energy": {
            "estimate": "TDP x utilization x PUE",
            "kwh": footprint.kwh,
            "kg_co2": footprint.kg_co2,
            "pue": footprint.pue,
        },
    }


def _accelerator(charge: Charge, name: str) -> dict[str, Any]:
    bill, quote, footprint = charge.bill, charge.quotes.get(name), charge.footprint
    row = quote.row if quote else None
    return {
        "accelerator": name,
        "busy_usd": float(bill.by_accelerator[name]),
        "idle_usd": float(bill.idle_by_accelerator[name]),
        "usd_per_hour": float(quote.usd) if quote else None,
        "as_of": row.as_of or None if row else None,
        "region": row.region if row else None,
        "instance_type": row.instance_type if row else None,
        "source": row.source if row else AS_RUN if _is_as_run(bill.prices) else "as given",
        "kwh": footprint.kwh_by_accelerator[name],
        "kg_co2": footprint.kg_co2_by_accelerator[name],
    }


def _row(charge: Charge) -> dict[str, Any]:
    """A bill as a row of the report."""
    bill, footprint = charge.bill, charge.footprint
    return {
        "policy": bill.policy,
        "prices": bill.prices,
        "as_of": bill.as_of,
        "busy_usd": float(bill.busy_usd),
        "idle_usd": float(bill.idle_usd),
        "total_usd": float(bill.total_usd),
        "kwh": footprint.kwh,
        "kg_co2": footprint.kg_co2,
    }


def _about(typed: BillOptions) -> list[tuple[str, str]]:
    said = [("Results", ", ".join(typed.result))] if typed.result else []
    if typed.log is not None:
        from gavelx.service.store.places import without_password  # noqa: PLC0415

        said.append(("Log", without_password(typed.log)))
    said.append(("Prices", f"{typed.prices} ({typed.kind.replace('_', ' ')})"))
    for heading in ("since", "until", "as_of", "discount", "carbon"):
        if (value := getattr(typed, heading)) is not None:
            said.append((heading.replace("_", " ").capitalize(), value))
    return said


def _print(charges: Sequence[Charge], rates: Mapping[str, Decimal]) -> None:
    """Print the matrix of policies and price tables, then the bills of each table; of a single bill its parts."""
    currency, usd = next(iter(rates.items()), ("USD", Decimal(1)))
    charges = [replace(charge, bill=charge.bill.in_currency(currency, usd)) for charge in charges]
    specs = list(dict.fromkeys(charge.bill.prices for charge in charges))
    of_spec = {spec: [charge for charge in charges if charge.bill.prices == spec] for spec in specs}
    if len(charges) > len(specs) > 1:
        for heading, what in (("total", attrgetter("total_usd")), ("busy", attrgetter("busy_usd"))):
            table = _table(f"{heading} under", [short(spec, 24) for spec in specs])
            for bills in zip(*([charge.bill for charge in of_spec[spec]] for spec in specs), strict=True):
                table.add_row(policy_cell(short(bills[0].policy)), *(f"{what(bill):,f}" for bill in bills))
            stdout().print(table)
            stdout().print()
    for spec, of_one in of_spec.items():
        _print_bills(spec, of_one)
    if len(charges) == 1:
        _print_parts(charges[0].bill)
    amounts_in = "US dollars" if currency == "USD" else currency
    stdout().print(
        f"{amounts_in}. busy: devices that jobs held. idle: available devices that no job held. MWh and CO2e are "
        "estimates: TDP x utilization x PUE, and the annual average of the region's grid.",
        style="dim",
    )


def _print_bills(spec: str, charges: Sequence[Charge]) -> None:
    table = _table(short(spec, 32), ("total", "busy", "idle", "MWh", "t CO2e"))
    for charge in charges:
        bill, kwh, kg_co2 = charge.bill, charge.footprint.kwh, charge.footprint.kg_co2
        amounts = (f"{amount:,f}" for amount in (bill.total_usd, bill.busy_usd, bill.idle_usd))
        thousands = (number(None if value is None else value / 1000) for value in (kwh, kg_co2))
        table.add_row(policy_cell(short(bill.policy, 32)), *amounts, *thousands)
    stdout().print(table)
    stdout().print()


def _table(first: str, amounts: Sequence[str]) -> Table:
    table = plain_table()
    table.add_column(policy_cell(first), overflow="fold")
    for heading in amounts:
        table.add_column(policy_cell(heading), justify="right")
    return table


def _print_parts(bill: Bill) -> None:
    for heading, amounts in _parts(bill):
        table = _table(heading, ["busy"])
        for name, amount in amounts.items():
            table.add_row(policy_cell(name), f"{amount:,f}")
        stdout().print(table)


def _parts(bill: Bill) -> list[Part]:
    """What jobs pay: by accelerator type, by owner if there are any, and the dearest jobs."""
    dearest = sorted(bill.by_job, key=lambda job: -job[2])[:SHOWN]
    parts: list[Part] = [("accelerator", bill.by_accelerator)]
    if any(bill.by_owner):
        parts.append(("owner", {owner or "(no owner)": amount for owner, amount in bill.by_owner.items()}))
    parts.append((f"job (dearest {len(dearest)})", {str(job_id): amount for job_id, _, amount in dearest}))
    return parts
