"""Charges: each run under each price table, as a bill and energy, with intervals if speeds are estimated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from gavelx.cli.intervals import intervals_of
from gavelx.cli.money_options import BillOptions
from gavelx.errors import OptionError
from gavelx.files.amounts import read_amounts
from gavelx.files.energy_tables import find_grid, load_pue, load_tdp_w, read_grid
from gavelx.files.price_tables import Quote, Terms, listed_quotes, load_quotes, parts_of
from gavelx.files.results import Usage
from gavelx.pricing.bill import Bill, bill_as_run, bill_of
from gavelx.pricing.energy import Draw, Footprint, footprint_of
from gavelx.report.words import digits, number
from gavelx.result import Intervals

AS_RUN = "as-run"
"""In place of a price table: the prices of the run."""
PUE_MAX = 10.0


@dataclass(frozen=True)
class Charge:
    """One bill, with the run, the prices (if each type has only one), and the energy that the run used.

    ``repetitions`` are those of the run with speeds drawn from their ranges, under the same prices.
    """

    bill: Bill
    usage: Usage
    quotes: Mapping[str, Quote]
    footprint: Footprint
    repetitions: tuple["Charge", ...] = ()

    def in_currency(self, name: str, usd: Decimal) -> "Charge":
        """The same with amounts in a currency that is worth ``usd`` dollars."""
        repetitions = tuple(each.in_currency(name, usd) for each in self.repetitions)
        return replace(self, bill=self.bill.in_currency(name, usd), repetitions=repetitions)

    @property
    def figures(self) -> dict[str, float | None]:
        """The amounts, energy and carbon, by name."""
        bill, footprint = self.bill, self.footprint
        amounts = {"total_usd": bill.total_usd, "busy_usd": bill.busy_usd, "idle_usd": bill.idle_usd}
        known = {name: float(amount) for name, amount in amounts.items()}
        return {**known, "kwh": footprint.kwh, "kg_co2": footprint.kg_co2}

    @cached_property
    def intervals(self) -> Intervals | None:
        """The intervals of the figures over the repetitions; None if there are none."""
        figures = {(0, number): each.figures for number, each in enumerate(self.repetitions)}
        return intervals_of(figures)[0] if figures else None

    def between(self, name: str) -> tuple[float, float] | None:
        """The ends of the interval of a figure; None if it has none, or one without a width."""
        low, high = self.intervals.of.get(name, (0.0, 0.0)) if self.intervals else (0.0, 0.0)
        return (low, high) if low < high else None

    def interval(self, name: str) -> str:
        """The same in words; empty for None."""
        word = digits if name in ("kwh", "kg_co2") else number
        return " - ".join(map(word, self.between(name) or ()))


def is_as_run(spec: str) -> bool:
    return parts_of(spec)[0] == AS_RUN


def charges_of(usages: Sequence[Usage], spec: str, terms: Terms, typed: BillOptions) -> list[Charge]:
    """The bills of all runs under one price table, or at the prices of each run."""
    accelerators = list(dict.fromkeys(name for usage in usages for name in usage.accelerators))
    as_run = is_as_run(spec)
    quotes = listed_quotes(spec, accelerators) if as_run else load_quotes(spec, accelerators, terms)
    grams = _grams(accelerators, quotes, typed)
    tdp_w, draw = load_tdp_w(accelerators), _draw(typed)
    as_of = typed.as_of or max((quote.row.as_of for quote in quotes.values() if quote.row), default="") or None

    def charge(usage: Usage) -> Charge:
        bill = bill_as_run(usage, spec, quotes) if as_run else bill_of(usage, quotes, spec, as_of)
        known = {**_steady(usage), **quotes} if as_run else quotes
        table = usage.prices if as_run else spec
        footprint = footprint_of(usage, tdp_w, grams, _pue(table, quotes, typed), draw)
        return Charge(bill, usage, known, footprint, tuple(map(charge, usage.repetitions)))

    return list(map(charge, usages))


def _steady(usage: Usage) -> dict[str, Quote]:
    """The prices of a run that did not change during it."""
    seen = {name: usage.usd_per_hour(name) for name in usage.accelerators}
    return {name: Quote(min(prices)) for name, prices in seen.items() if len(prices) == 1}


def _pue(table: str, quotes: Mapping[str, Quote], typed: BillOptions) -> float | None:
    """Power usage effectiveness of the data centre: as typed, or of the cloud of the prices; None if unknown."""
    if typed.pue is not None:
        if not 1.0 <= typed.pue <= PUE_MAX:
            raise OptionError(f"a PUE of {typed.pue:g}", where="--pue", expected=f"1 to {PUE_MAX:g}")
        return typed.pue
    clouds = {quote.row.cloud.lower() for quote in quotes.values() if quote.row}
    clouds = clouds or {parts_of(table)[0].partition(":")[0].lower()}
    return load_pue().get(clouds.pop()) if len(clouds) == 1 else None


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
