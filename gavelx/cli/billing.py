"""``gavelx bill``: runs under price tables, as dollars that add up to the cent, energy and carbon."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from gavelx.cli.bill_tables import parts, print_charges, remarks
from gavelx.cli.charges import AS_RUN, Charge, charges_of, is_as_run
from gavelx.cli.extras import service_installed
from gavelx.cli.money_options import BillOptions
from gavelx.cli.output import Outputs, stderr, write_json
from gavelx.cli.prices import tell_of_age, tell_of_places, terms_of
from gavelx.cli.progress import reading
from gavelx.cli.secrets import STATE, check_not_typed
from gavelx.errors import OptionError
from gavelx.files.atomic import write_atomically
from gavelx.files.moments import utc_time
from gavelx.files.price_rows import read_rates
from gavelx.files.price_tables import Terms, parts_of, places_of, split_specs
from gavelx.files.results import Usage, read_usages
from gavelx.files.texts import shown

MONTH = re.compile(r"\d{4}-\d\d")


def run_bill(typed: BillOptions, outputs: Outputs) -> None:
    """Make every bill; print the matrix, and write the requested files."""
    results = typed.result or []
    if not results and typed.log is None:
        typed = replace(typed, log=os.environ.get(STATE))
    outputs.check(*results, typed.log, typed.prices, typed.carbon)
    _check_what(typed)
    specs = split_specs(typed.prices)
    tables = [spec for spec in specs if not is_as_run(spec) and parts_of(spec)[0]]
    terms = terms_of(typed.as_of, typed.kind, typed.discount, tables)
    rates = read_rates(typed.currency)
    if len(rates) > 1:
        raise OptionError("a bill is in one currency", where="--currency", hint="--currency EUR=1.08")
    runs = [(path, usage) for path in results for usage in read_usages(path)]
    if typed.log is not None:
        runs.append((typed.log, _recorded(typed.log, typed.since, typed.until)))
    usages = _told_apart(runs)
    charges = [charge for spec in specs for charge in charges_of(usages, spec, terms, typed)]
    for line in dict.fromkeys(chain.from_iterable(map(_others, charges))):
        stderr().print(line, markup=False, soft_wrap=True)
    for spec, quotes in {charge.bill.prices: charge.quotes for charge in charges}.items():
        tell_of_places(places_of(quotes), spec)
        tell_of_age({name: quote.row.as_of for name, quote in quotes.items() if quote.row}, spec, typed.as_of)
    if outputs.json is not None:
        write_json({"bills": [_as_json(charge, terms) for charge in charges]}, outputs.json)
    if outputs.html is not None:
        from gavelx.report.bills import bill_report  # noqa: PLC0415  (matplotlib)

        rows = [_row(charge) for charge in charges]
        of_one = parts(charges[0].bill) if len(charges) == 1 else []
        write_atomically(outputs.html, bill_report(rows, _about(typed), of_one, list(remarks(charges))))
    if outputs.table_wanted:
        print_charges(charges, rates)


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


def _others(charge: Charge) -> Iterator[str]:
    """A line if the table has other prices than the run."""
    bill, usage = charge.bill, charge.usage
    seen = {name: usage.usd_per_hour(name) for name in usage.accelerators}
    if not is_as_run(bill.prices) and any(
        {float(usd) for usd in prices} - {float(charge.quotes[name].usd)} for name, prices in seen.items()
    ):
        changed = ", which changed" if any(len(prices) > 1 for prices in seen.values()) else ""
        theirs = f"{usage.prices or 'prices without a name'}{changed}"
        yield f"{bill.prices}: the run was made at other prices ({theirs}); --prices {AS_RUN} bills at those"


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
        **_of_estimates(charge),
        "per_job": [{"job_id": job_id, "owner": owner, "usd": float(usd)} for job_id, owner, usd in bill.by_job],
        "per_owner": [{"owner": owner, "usd": float(usd)} for owner, usd in bill.by_owner.items()],
        "per_accelerator": [_accelerator(charge, name) for name in bill.by_accelerator],
        "energy": {
            "estimate": "TDP x utilization"
            + (" x PUE" if footprint.pue is not None else ", of the devices alone"),
            "kwh": footprint.kwh,
            "kg_co2": footprint.kg_co2,
            "pue": footprint.pue,
        },
    }


def _of_estimates(charge: Charge) -> dict[str, Any]:
    """The types whose speeds are estimated, with their typical ranges, and the intervals; empty without any."""
    if not charge.usage.estimated:
        return {}
    intervals = charge.intervals.to_json() if charge.intervals else {}
    return {"estimated_speeds": dict(charge.usage.estimated), **intervals}


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
        "source": row.source if row else AS_RUN if is_as_run(bill.prices) else "as given",
        "kwh": footprint.kwh_by_accelerator[name],
        "kg_co2": footprint.kg_co2_by_accelerator[name],
    }


def _row(charge: Charge) -> dict[str, Any]:
    """A bill as a row of the report."""
    bill, intervals = charge.bill, {name: charge.interval(name) for name in charge.figures}
    names = {"policy": bill.policy, "prices": bill.prices, "as_of": bill.as_of}
    return {**names, **charge.figures, "intervals": intervals, "total_between": charge.between("total_usd")}


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
