"""Bills that add up to the cent: device time of a run times the prices of a table.

    busy  = sum of device-seconds billed to jobs x dollars per device-hour / 3600        by job and type
    idle  = device-seconds that were there and billed to nobody x the same price
    total = busy + idle

Amounts are decimal: seconds are taken as they were written, prices as the table has them, and nothing is rounded
before the end. Then busy and idle are rounded to the cent (half to even), and what a job or a type pays is busy in
whole cents by largest remainders (Hamilton): each gets the exact amount rounded down, and the cents that are left
go to the largest fractions. So parts add up to their sum exactly, and no job's is a cent off or more.

A type that is used, or idle, and has no price is an error and never $0; that is seen to where prices are read.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import TypeVar

from gavelx.files.price_tables import Quote
from gavelx.files.results import Usage

CENT = Decimal("0.01")
HOUR_S = Decimal(3600)
EXACT = Context(prec=60)
"""Enough digits for the product of any two floats of ours: sums and products lose nothing."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Bill:
    """What one run costs under one table; amounts in whole cents.

    ``by_job`` is in the order of the run's jobs, ``idle_by_accelerator`` adds up to ``idle_usd``.
    """

    policy: str
    prices: str
    as_of: str | None
    busy_usd: Decimal
    idle_usd: Decimal
    by_job: tuple[tuple[int, str, Decimal], ...]
    by_owner: Mapping[str, Decimal]
    by_accelerator: Mapping[str, Decimal]
    idle_by_accelerator: Mapping[str, Decimal]

    @property
    def total_usd(self) -> Decimal:
        return self.busy_usd + self.idle_usd

    def at_rate(self, usd: Decimal) -> "Bill":
        """The same in a currency whose unit is worth so many dollars; its parts add up to its cents, too."""
        if usd == 1:
            return self
        with localcontext(EXACT):
            idle = {name: amount / usd for name, amount in self.idle_by_accelerator.items()}
            types = {name: amount / usd for name, amount in self.by_accelerator.items()}
            busy_usd, idle_usd = _to_the_cent([self.busy_usd / usd]), _to_the_cent([self.idle_usd / usd])
            jobs = in_whole_cents({n: job[2] / usd for n, job in enumerate(self.by_job)}, busy_usd)
            by_job = tuple((job_id, owner, jobs[n]) for n, (job_id, owner, _) in enumerate(self.by_job))
            return replace(
                self,
                busy_usd=busy_usd,
                idle_usd=idle_usd,
                by_job=by_job,
                by_owner=_added_up((owner, amount) for _, owner, amount in by_job),
                by_accelerator=in_whole_cents(types, busy_usd),
                idle_by_accelerator=in_whole_cents(idle, idle_usd),
            )


def bill_of(usage: Usage, quotes: Mapping[str, Quote], prices: str, as_of: str | None = None) -> Bill:
    """The bill of a run; ``quotes`` has every accelerator type of its cluster."""
    with localcontext(EXACT):
        return _bill(usage, {name: quotes[name].usd for name in usage.accelerators}, prices, as_of)


def _bill(usage: Usage, usd: Mapping[str, Decimal], prices: str, as_of: str | None) -> Bill:
    jobs: dict[int, Decimal] = {}
    types = dict.fromkeys(usage.accelerators, Decimal(0))
    for position, use in enumerate(usage.uses):
        amounts = {name: _amount(seconds, usd[name]) for name, seconds in use.device_s.items()}
        jobs[position] = _sum(amounts.values())
        for name, amount in amounts.items():
            types[name] += amount
    idle = {name: _amount(seconds, usd[name]) for name, seconds in usage.idle_device_s.items()}
    busy_usd, idle_usd = _to_the_cent(types.values()), _to_the_cent(idle.values())
    in_cents = in_whole_cents(jobs, busy_usd)
    return Bill(
        policy=usage.policy,
        prices=prices,
        as_of=as_of,
        busy_usd=busy_usd,
        idle_usd=idle_usd,
        by_job=tuple((use.job_id, use.owner, in_cents[n]) for n, use in enumerate(usage.uses)),
        by_owner=_added_up((use.owner, in_cents[n]) for n, use in enumerate(usage.uses)),
        by_accelerator=in_whole_cents(types, busy_usd),
        idle_by_accelerator=in_whole_cents(idle, idle_usd),
    )


def in_whole_cents(exact: Mapping[Key, Decimal], total_usd: Decimal) -> dict[Key, Decimal]:
    """The amounts in whole cents, so that they add up to ``total_usd``: their sum, rounded to the cent.

    >>> third = Decimal(10) / 3
    >>> [str(usd) for usd in in_whole_cents({"a": third, "b": third, "c": third}, Decimal(10)).values()]
    ['3.34', '3.33', '3.33']
    """
    cents = {key: (usd / CENT).to_integral_value(ROUND_FLOOR) for key, usd in exact.items()}
    left = int(total_usd / CENT - _sum(cents.values()))
    by_fraction = sorted(exact, key=lambda key: cents[key] - exact[key] / CENT)
    assert 0 <= left <= len(by_fraction), (left, total_usd)
    for key in by_fraction[:left]:
        cents[key] += 1
    return {key: (number * CENT).quantize(CENT) for key, number in cents.items()}


def _amount(seconds: float, usd_per_hour: Decimal) -> Decimal:
    return Decimal(repr(seconds)) * usd_per_hour / HOUR_S


def _to_the_cent(amounts: Iterable[Decimal]) -> Decimal:
    return _sum(amounts).quantize(CENT, ROUND_HALF_EVEN)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


def _added_up(amounts: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """What each name pays in all."""
    total: dict[str, Decimal] = {}
    for name, usd in amounts:
        total[name] = total.get(name, Decimal(0)) + usd
    return total
