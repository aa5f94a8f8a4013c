"""Bills at the prices of the run: computed again from the file alone, in fractions, and from leases and servers.

The cases are those of the swarm, in which prices change and some are not known, jobs share devices, restart and
fail, gangs run over servers, and servers fail; here spot servers come and go besides.
"""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.errors import OptionError
from gavelx.files.jsons import Node
from gavelx.files.price_tables import Quote, load_quotes
from gavelx.files.results import _usage as usage_of
from gavelx.mechanism import Rules
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.pricing.bill import bill_as_run
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.ledger import Ledger
from tests.swarm.cases import TYPES, Case, case_of

SEEDS = st.integers(0, 2**32 - 1)


def ran(case: Case) -> tuple[Result, Ledger]:
    """The result, and the books of the simulated machines; empty ones where they are not shown."""
    books: list[Ledger] = []

    def watch(mechanism: Any, backend: Any) -> Any:
        books.append(backend.ledger)
        return backend

    random, capacities, faults = Random(f"spot:{case.seed}"), list[Capacity](), case.faults
    if isinstance(case.rules, Rules) and random.random() < 0.5:
        shares = tuple((random.uniform(300.0, 4000.0), random.choice((0.0, 0.5, 1.0))) for _ in range(4))
        capacities.append(Capacity(TYPES[0], (*shares, (50_000.0, 1.0)), notice_s=random.choice((0.0, 120.0))))
        faults = replace(faults, server_failures_per_day=0.0)
    result = simulate(
        *(load_policy(case.policy), case.jobs, case.cluster, case.throughputs, case.prices),
        rules=case.rules,
        faults=faults,
        price_changes=case.price_changes,
        capacities=capacities,
        watch=watch if isinstance(case.rules, Rules) else None,
    )
    return result, books[0] if books else Ledger()


def priced(case: Case) -> Case:
    """The same, and every price is known."""

    def whole(prices: Prices) -> Prices:
        return Prices({**dict.fromkeys(TYPES, 0.7), **prices.usd_per_hour}, "mine")

    changes = tuple((time_s, whole(prices)) for time_s, prices in case.price_changes)
    return replace(case, prices=whole(case.prices), price_changes=changes)


class Dollars(NamedTuple):
    jobs: dict[int, Fraction]
    idle: Fraction

    @property
    def busy(self) -> Fraction:
        return sum(self.jobs.values(), Fraction(0))


def from_the_file(text: str) -> Dollars:
    """Nothing but what is written there, and no number rounded."""
    document = json.loads(text, parse_float=Fraction, parse_int=Fraction)
    periods = document["prices"]["periods"]

    def usd(k: int, device_s: dict[str, Fraction]) -> Fraction:
        tariff = periods[k]["usd_per_hour"]
        return sum((seconds * tariff[name] / 3600 for name, seconds in device_s.items() if seconds), Fraction(0))

    jobs = {}
    for job in document["per_job"]:
        parts = job["device_s_of_period"] if len(periods) > 1 else {"0": job["device_s"]}
        jobs[int(job["job_id"])] = sum((usd(int(k), part) for k, part in parts.items()), Fraction(0))
    idle = sum((usd(k, period["idle_device_s"]) for k, period in enumerate(periods)), Fraction(0))
    return Dollars(jobs, idle)


def bill(result: Result, text: str = "") -> Any:
    document = json.loads(text or json.dumps(result.to_json()))
    return bill_as_run(usage_of(Node(document, "result")), "as-run", {})


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_a_bill_is_what_the_file_says_to_the_cent_and_what_the_run_cost(seed: int) -> None:
    result, _ = ran(priced(case_of(seed)))
    text = json.dumps(result.to_json())
    seen, found = bill(result, text), from_the_file(text)
    cents = [Fraction(amount) * 100 for amount in (seen.busy_usd, seen.idle_usd, seen.total_usd)]
    busy, idle = round(found.busy * 100), round(found.idle * 100)
    assert cents == [busy, idle, busy + idle]
    assert sum(Fraction(usd) for *_, usd in seen.by_job) == Fraction(seen.busy_usd)
    assert all(abs(Fraction(usd) - found.jobs[job_id]) < Fraction(1, 100) for job_id, _, usd in seen.by_job)
    assert sum(seen.by_accelerator.values()) == sum(seen.by_owner.values()) == seen.busy_usd
    assert sum(seen.idle_by_accelerator.values()) == seen.idle_usd
    assert float(found.busy) == pytest.approx(result.summary()["cost_usd"], rel=1e-9)
    assert float(found.idle) == pytest.approx(result.idle_usd, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_what_is_billed_is_each_leases_time_at_the_prices_of_that_time(seed: int) -> None:
    case = priced(case_of(seed))
    result, _ = ran(case)
    found = from_the_file(json.dumps(result.to_json()))
    tariffs = [(0.0, case.prices), *sorted(case.price_changes, key=lambda change: change[0]), (np.inf, Prices({}))]
    L, usd = result.leases, dict.fromkeys((job.id for job in result.jobs), 0.0)
    for n in range(len(L)):
        name, job_id = result.cluster.accelerators[L.accelerator_L[n]], result.jobs[L.job_L[n]].id
        for (from_s, prices), (until_s, _) in pairwise(tariffs):
            if part := within(L.start_s_L[n], L.end_s_L[n], from_s, until_s):
                usd[job_id] += part * L.billed_s_L[n] * L.devices_L[n] * prices.of(name) / 3600.0
    assert {job_id: float(amount) for job_id, amount in found.jobs.items()} == pytest.approx(usd, rel=1e-9)


def within(start_s: float, end_s: float, from_s: float, until_s: float) -> float:
    """The part of a lease that lies in a period; one without length is in that in which it begins."""
    if start_s == end_s:
        return float(from_s <= start_s < until_s)
    return max(0.0, min(end_s, until_s) - max(start_s, from_s)) / (end_s - start_s)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_idle_is_what_was_there_and_nobody_held(seed: int) -> None:
    """Step by step from one thing that happens to the next: servers come and go, leases begin and end."""
    case = priced(case_of(seed))
    if not isinstance(case.rules, Rules):
        return  # they charge gaps, or shared devices twice
    result, books = ran(case)
    L, end_s = result.leases, result.end_s
    events = [
        (time_s, n * server.device_count, server.accelerator)
        for n, times in ((1, books._up), (-1, books._gone))
        for server, time_s in times
    ]
    held_s_L = L.end_s_L - L.start_s_L
    part_L = np.divide(L.billed_s_L, held_s_L, out=np.zeros(len(L)), where=held_s_L > 0)
    for n in range(len(L)):
        name, devices = result.cluster.accelerators[L.accelerator_L[n]], float(L.devices_L[n] * part_L[n])
        events += [(float(L.start_s_L[n]), -devices, name), (float(L.end_s_L[n]), devices, name)]
    changes = sorted(case.price_changes, key=lambda change: change[0])
    times = sorted({0.0, end_s, *(time_s for time_s, *_ in events), *(time_s for time_s, _ in changes)})
    idle_usd, events = 0.0, sorted(events)
    free, at = dict.fromkeys(TYPES, 0.0), 0
    for time_s, next_s in pairwise(time_s for time_s in times if time_s <= end_s):
        while at < len(events) and events[at][0] <= time_s:
            free[events[at][2]] += events[at][1]
            at += 1
        prices = [case.prices, *(prices for changed_s, prices in changes if changed_s <= time_s)][-1]
        idle_usd += sum(free[name] * prices.of(name) for name in TYPES) * (next_s - time_s) / 3600.0
    assert float(bill(result).idle_usd) == pytest.approx(idle_usd, abs=0.00501)
    assert result.idle_usd == pytest.approx(idle_usd, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_a_price_that_was_not_known_is_named_and_may_be_added(seed: int) -> None:
    result, _ = ran(case_of(seed))
    text = json.dumps(result.to_json())
    usage = usage_of(Node(json.loads(text), "result"))
    held = {
        name for use in usage.uses for part in use.device_s_of_period.values() for name, s in part.items() if s
    }
    unknown = {
        name
        for k, period in enumerate(usage.periods)
        for name in TYPES
        if period.usd_per_hour[name] is None
        and (period.idle_device_s[name] or any(use.device_s_of_period.get(k, {}).get(name) for use in usage.uses))
    }
    if not unknown:
        assert bill(result, text).total_usd >= 0
        return
    with pytest.raises(OptionError) as error:
        bill(result, text)
    assert all(f"+{name}=DOLLARS" in str(error.value) for name in unknown)
    added = {name: Quote(load_quotes(f"{name}=2", [name])[name].usd) for name in unknown}
    assert bill_as_run(usage, "as-run+...", added).total_usd >= 0
    assert (result.summary()["cost_usd"] is None) <= bool(unknown & held)
