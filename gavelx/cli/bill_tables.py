"""Bills as tables in a terminal, and what a reader must know of their figures."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from rich.console import Console
from rich.table import Table

from gavelx.cli.charges import Charge
from gavelx.cli.output import stdout
from gavelx.cli.tables import interval_legend, plain_table, policy_cell
from gavelx.files.price_tables import places_of
from gavelx.pricing.bill import Bill
from gavelx.report.words import digits, short

SHOWN = 10
WIDE = 1000
MONEY = {"total": "total_usd", "busy": "busy_usd", "idle": "idle_usd"}
ENERGY = {"kWh": "kwh", "kg CO2e": "kg_co2"}
"""Columns, and the figures in them."""
Part = tuple[str, Mapping[str, Decimal]]
"""What divides a bill, and the amount of each."""


def print_charges(charges: Sequence[Charge], rates: Mapping[str, Decimal]) -> None:
    """Print the matrix of policies and price tables, then the bills of each table; of a single bill its parts."""
    currency, usd = next(iter(rates.items()), ("USD", Decimal(1)))
    charges = [charge.in_currency(currency, usd) for charge in charges]
    specs = list(dict.fromkeys(charge.bill.prices for charge in charges))
    of_spec = {spec: [charge for charge in charges if charge.bill.prices == spec] for spec in specs}
    if len(charges) > len(specs) > 1:
        for heading in ("total", "busy"):
            table = _table(f"{heading} under", [short(spec, 24) for spec in specs])
            for row in zip(*of_spec.values(), strict=True):
                table.add_row(policy_cell(short(row[0].bill.policy)), *(_cell(one, heading) for one in row))
            stdout().print(table)
            stdout().print()
    for spec, of_one in of_spec.items():
        _print_bills(spec, of_one)
    if len(charges) == 1:
        _print_parts(charges[0].bill)
    amounts_in = "US dollars" if currency == "USD" else currency
    legend = f"{amounts_in}. busy: devices that jobs held. idle: available devices that no job held."
    stdout().print(" ".join([legend, *remarks(charges)]), style="dim", markup=False)


def _print_bills(spec: str, charges: Sequence[Charge]) -> None:
    """The bills of one price table; in a narrow terminal, energy and carbon in a table of their own."""

    def table_of(*headings: str) -> Table:
        table = _table(short(spec, 32), headings)
        for charge in charges:
            table.add_row(policy_cell(short(charge.bill.policy, 32)), *(_cell(charge, name) for name in headings))
        return table

    together = table_of(*MONEY, *ENERGY)
    fits = Console(width=WIDE).measure(together).maximum <= stdout().width
    for table in [together] if fits else [table_of(*MONEY), table_of(*ENERGY)]:
        stdout().print(table)
        stdout().print()


def remarks(charges: Sequence[Charge]) -> Iterator[str]:
    """Sentences about what is estimated, and what is unknown."""
    yield (
        "kWh and CO2e are estimates: TDP x utilization x PUE, and the annual average of the region's grid. PUE: "
        f"{_pues(charges)}."
    )
    yield from _places(charges)
    estimated = {name: width for charge in charges for name, width in charge.usage.estimated.items()}
    if estimated:
        types = ", ".join(f"{name} (typically x/÷ {width:.2f})" for name, width in estimated.items())
        yield f"Speeds on {types} are estimated, so all figures of such a run are estimates too."
        if missing := list(dict.fromkeys(_without_interval(charges))):
            again = "simulate and compare repeat runs with --speed-samples"
            yield f"Without an interval: {', '.join(missing)}; {again}."
    if intervals := next((charge.intervals for charge in charges if charge.intervals), None):
        yield interval_legend(intervals.samples, intervals.level)


def _places(charges: Sequence[Charge]) -> Iterator[str]:
    """A sentence for each price table: the region of every price."""
    for spec, quotes in {charge.bill.prices: charge.quotes for charge in charges}.items():
        where: dict[str, list[str]] = {}
        for name, place in places_of(quotes).items():
            where.setdefault(place, []).append(name)
        if where:
            parts = "; ".join(f"{', '.join(names)} in {place}" for place, names in where.items())
            yield f"Prices under {short(spec, 32)}: {parts}."


def _without_interval(charges: Sequence[Charge]) -> Iterator[str]:
    return (charge.bill.policy for charge in charges if charge.usage.estimated and not charge.intervals)


def _pues(charges: Sequence[Charge]) -> str:
    """The PUE of each price table."""
    of = {charge.bill.prices: charge.footprint.pue for charge in charges}
    said = [f"{pue:g} ({short(spec, 32)})" for spec, pue in of.items() if pue is not None]
    if unknown := [short(spec, 32) for spec, pue in of.items() if pue is None]:
        said.append(f"unknown for {', '.join(unknown)}, and taken as 1, for the devices alone (--pue)")
    return ", ".join(said)


def _cell(charge: Charge, heading: str) -> str:
    """An amount to the cent, or energy or carbon, with its interval below it."""
    name = (MONEY | ENERGY)[heading]
    figure = digits(charge.figures[name]) if heading in ENERGY else f"{getattr(charge.bill, name):,f}"
    ends = charge.interval(name)
    return f"{figure}\n[dim]{ends}[/dim]" if ends else figure


def _table(first: str, amounts: Sequence[str]) -> Table:
    table = plain_table()
    table.add_column(policy_cell(first), overflow="fold")
    for heading in amounts:
        table.add_column(policy_cell(heading), justify="right")
    return table


def _print_parts(bill: Bill) -> None:
    for heading, amounts in parts(bill):
        table = _table(heading, ["busy"])
        for name, amount in amounts.items():
            table.add_row(policy_cell(name), f"{amount:,f}")
        stdout().print(table)


def parts(bill: Bill) -> list[Part]:
    """What jobs pay: by accelerator type, by owner if there are any, and the dearest jobs."""
    dearest = sorted(bill.by_job, key=lambda job: -job[2])[:SHOWN]
    found: list[Part] = [("accelerator", bill.by_accelerator)]
    if any(bill.by_owner):
        found.append(("owner", {owner or "(no owner)": amount for owner, amount in bill.by_owner.items()}))
    found.append((f"job (dearest {len(dearest)})", {str(job_id): amount for job_id, _, amount in dearest}))
    return found
