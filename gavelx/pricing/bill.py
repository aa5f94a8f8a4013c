"""Bills that add up to the cent: device time of a run times the prices of a table, or of the run itself.

    busy  = sum of device-seconds billed to jobs x dollars per device-hour / 3600        by job and type
    idle  = device-seconds available and billed to no job x the same price
    total = busy + idle

Amounts are decimal: seconds are exactly those of the result, prices those of the table, and nothing is rounded
before the end. Then busy and idle are rounded to the smallest unit of the bill's currency, such as a cent (half to
even). Busy is divided among jobs, and among types, in whole units by largest remainders (Hamilton): each gets the
exact amount rounded down, and the remaining units go to the largest fractions. So parts add up to their sum
exactly, and every part is less than a unit off.

If prices changed during the run, each second counts at the price of its time: a result has the seconds of each
period (`gavelx.files.results`).

A type that is used, or idle, and has no price is an error and never $0: for a table it is reported when the table
is read, for the run's own prices here.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import TypeVar

from gavelx.errors import OptionError
from gavelx.files.price_tables import Quote, with_prices_of
from gavelx.files.results import Usage
from gavelx.files.texts import shown

CENT = Decimal("0.01")
HOUR_S = Decimal(3600)
EXACT = Context(prec=60)
"""Enough digits for the product of any two floats of ours: sums and products are exact."""
DECIMALS = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI"), 0),
    **dict.fromkeys(("VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}
"""Decimals of the currencies that do not have two (ISO 4217, list one)."""
Amounts = Mapping[str, Decimal]
"""Dollars by accelerator type."""
Tariff = Mapping[str, Decimal | None]
"""Dollars per device-hour by accelerator type; None if unknown."""
Seconds = Mapping[int, Mapping[str, float]]
"""Device-seconds by period and accelerator type."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Cost:
    """The exact cost of one run under one table: for each job (id and owner), and of idle time, by type."""

    policy: str
    prices: str
    as_of: str | None
    by_job: tuple[tuple[int, str, Amounts], ...]
    idle: Amounts


@dataclass(frozen=True)
class Bill:
    """The cost of one run under one price table, in whole cents.

    ``by_job`` is in the order of the run's jobs, ``idle_by_accelerator`` adds up to ``idle_usd``.
    """

    cost: Cost
    busy_usd: Decimal
    idle_usd: Decimal
    by_job: tuple[tuple[int, str, Decimal], ...]
    by_owner: Mapping[str, Decimal]
    by_accelerator: Mapping[str, Decimal]
    idle_by_accelerator: Mapping[str, Decimal]

    @property
    def policy(self) -> str:
        return self.cost.policy

    @property
    def prices(self) -> str:
        return self.cost.prices

    @property
    def as_of(self) -> str | None:
        return self.cost.as_of

    @property
    def total_usd(self) -> Decimal:
        return self.busy_usd + self.idle_usd

    def in_currency(self, name: str, usd: Decimal) -> "Bill":
        """The bill in a currency that is worth ``usd`` dollars, rounded once, to its smallest unit."""
        return _rounded(self.cost, usd, Decimal(1).scaleb(-DECIMALS.get(name, 2)))


def bill_of(usage: Usage, quotes: Mapping[str, Quote], prices: str, as_of: str | None = None) -> Bill:
    """The bill of a run under a table; ``quotes`` has every accelerator type of its cluster."""
    usd = {name: quotes[name].usd for name in usage.accelerators}
    with localcontext(EXACT):
        by_job = tuple((use.job_id, use.owner, _amounts(use.device_s, usd)) for use in usage.uses)
        return _rounded(Cost(usage.policy, prices, as_of, by_job, _amounts(usage.idle_device_s, usd)))


def bill_as_run(usage: Usage, prices: str, quotes: Mapping[str, Quote]) -> Bill:
    """The bill of a run at its own prices, each second at that of its time; ``quotes`` replace some of them.

    Raises :class:`OptionError` if the result has no prices, or if one that is needed was unknown.
    """
    if not usage.periods:
        problem = f"the result of {shown(usage.policy)} was written before results kept their prices"
        hint = "run gavelx simulate or compare again, with --json; or name a table"
        raise OptionError(problem, where=f"--prices {prices}", hint=hint)
    named = {name: quote.usd for name, quote in quotes.items()}
    usd_K = [{**period.usd_per_hour, **named} for period in usage.periods]
    idle_K = {k: period.idle_device_s for k, period in enumerate(usage.periods)}
    _check_known([idle_K, *(use.device_s_of_period for use in usage.uses)], usd_K, usage, prices)
    with localcontext(EXACT):
        by_job = tuple((use.job_id, use.owner, _over_time(use.device_s_of_period, usd_K)) for use in usage.uses)
        idle = dict.fromkeys(usage.accelerators, Decimal(0)) | _over_time(idle_K, usd_K)
        return _rounded(Cost(usage.policy, prices, None, by_job, idle))


def _check_known(seconds: Iterable[Seconds], usd_K: Sequence[Tariff], usage: Usage, prices: str) -> None:
    """Raise :class:`OptionError` that names every type that was available at a time when it had no price."""
    there = {(k, name) for parts in seconds for k, part in parts.items() for name in part if part[name]}
    unpriced = {name for k, name in there if usd_K[k][name] is None}
    if missing := [name for name in usage.accelerators if name in unpriced]:
        problem = f"{shown(usage.policy)} ran while no price of {', '.join(missing)} was known"
        raise OptionError(problem, where="--prices", hint=with_prices_of(missing, prices))


def _rounded(cost: Cost, usd: Decimal = Decimal(1), unit: Decimal = CENT) -> Bill:
    """The bill in a currency that is worth ``usd`` dollars: every amount is rounded once, to whole units."""
    with localcontext(EXACT):
        jobs = {n: _sum(amounts.values()) / usd for n, (_, _, amounts) in enumerate(cost.by_job)}
        spent = _added_up(part for _, _, amounts in cost.by_job for part in amounts.items())
        types = {name: spent.get(name, Decimal(0)) / usd for name in cost.idle}
        idle = {name: amount / usd for name, amount in cost.idle.items()}
        sums = (_sum(parts.values()).quantize(unit, ROUND_HALF_EVEN) for parts in (types, idle))
        busy_usd, idle_usd = (amount + 0 for amount in sums)  # no -0.00
        whole = in_whole_units(jobs, busy_usd, unit)
        by_job = tuple((job_id, owner, whole[n]) for n, (job_id, owner, _) in enumerate(cost.by_job))
        return Bill(
            cost=cost,
            busy_usd=busy_usd,
            idle_usd=idle_usd,
            by_job=by_job,
            by_owner=_added_up((owner, amount) for _, owner, amount in by_job),
            by_accelerator=in_whole_units(types, busy_usd, unit),
            idle_by_accelerator=in_whole_units(idle, idle_usd, unit),
        )


def in_whole_units(exact: Mapping[Key, Decimal], total: Decimal, unit: Decimal = CENT) -> dict[Key, Decimal]:
    """The amounts in whole units that add up to ``total``, which is their sum rounded to the unit.

    >>> third = Decimal(10) / 3
    >>> [str(usd) for usd in in_whole_units({"a": third, "b": third, "c": third}, Decimal(10)).values()]
    ['3.34', '3.33', '3.33']
    """
    units = {key: (amount / unit).to_integral_value(ROUND_FLOOR) for key, amount in exact.items()}
    left = int(total / unit - _sum(units.values()))
    by_fraction = sorted(exact, key=lambda key: units[key] - exact[key] / unit)
    assert 0 <= left <= len(by_fraction), (left, total)
    for key in by_fraction[:left]:
        units[key] += 1
    return {key: (number * unit).quantize(unit) for key, number in units.items()}


def _over_time(device_s_K: Seconds, usd_K: Sequence[Tariff]) -> dict[str, Decimal]:
    """The cost of seconds in several periods, by type."""
    return _added_up(part for k, device_s in device_s_K.items() for part in _amounts(device_s, usd_K[k]).items())


def _amounts(device_s: Mapping[str, float], usd: Tariff) -> Amounts:
    return {name: _amount(seconds, usd[name]) for name, seconds in device_s.items()}


def _amount(seconds: float, usd_per_hour: Decimal | None) -> Decimal:
    if not seconds:
        return Decimal(0)  # also without a known price
    assert usd_per_hour is not None, "a price that is missing was refused"
    return Decimal(repr(seconds)) * usd_per_hour / HOUR_S


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


def _added_up(amounts: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """The sum of each name."""
    total: dict[str, Decimal] = {}
    for name, usd in amounts:
        total[name] = total.get(name, Decimal(0)) + usd
    return total
