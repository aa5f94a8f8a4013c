"""Bills add up to the cent, and are what the ledger says; first on numbers that are easy to get wrong."""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.errors import InputFileError
from gavelx.files.jsons import Node
from gavelx.files.price_tables import Quote, load_quotes
from gavelx.files.results import Usage, Use, read_usages
from gavelx.files.results import _usage as usage_of
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.pricing.bill import Bill, bill_of, in_whole_units
from gavelx.published import RULES
from gavelx.simulator import simulate
from tests.simulator.test_ledger import TYPES, Workload, workloads

QUOTES = {"v100": Quote(Decimal("1.61")), "p100": Quote(Decimal(10) / 3), "k80": Quote(Decimal("0.9"))}
CENT = Decimal("0.01")


def usage(*device_s: dict[str, float], idle: dict[str, float], owners: str = "") -> Usage:
    names = owners or "a" * len(device_s)
    uses = tuple(Use(n, names[n], seconds) for n, seconds in enumerate(device_s))
    return Usage("mine", uses, dict.fromkeys(QUOTES, 0.0) | idle)


def check_sums(bill: Bill, unit: Decimal = CENT) -> None:
    assert bill.total_usd == sum(usd for *_, usd in bill.by_job) + bill.idle_usd
    assert bill.busy_usd == sum(bill.by_owner.values()) == sum(bill.by_accelerator.values())
    assert bill.idle_usd == sum(bill.idle_by_accelerator.values())
    for amount in (bill.total_usd, *(usd for *_, usd in bill.by_job), *bill.by_accelerator.values()):
        assert (amount, amount.as_tuple().exponent) == (amount.quantize(unit), unit.as_tuple().exponent)


def test_a_bill_by_hand() -> None:
    bill = bill_of(
        usage({"v100": 3600.0, "k80": 1800.0}, {"v100": 7200.0}, idle={"k80": 3600.0}, owners="ab"), QUOTES, "x"
    )
    assert bill.by_job == ((0, "a", Decimal("2.06")), (1, "b", Decimal("3.22")))
    assert (bill.busy_usd, bill.idle_usd, bill.total_usd) == (Decimal("5.28"), Decimal("0.90"), Decimal("6.18"))
    assert bill.by_accelerator == {"v100": Decimal("4.83"), "p100": 0, "k80": Decimal("0.45")}
    check_sums(bill)


def test_cents_that_no_job_has_go_to_the_largest_fractions() -> None:
    bill = bill_of(usage(*[{"p100": 3600.0}] * 3, idle={}), QUOTES, "thirds")
    assert bill.busy_usd == Decimal("10.00")
    assert sorted(usd for *_, usd in bill.by_job) == [Decimal("3.33"), Decimal("3.33"), Decimal("3.34")]
    tiny = bill_of(usage(*[{"v100": 0.001}] * 1000, idle={}), QUOTES, "tiny")
    assert tiny.busy_usd == sum(usd for *_, usd in tiny.by_job) == 0


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=40),
    st.sampled_from([("EUR", "0.01"), ("KRW", "1"), ("JPY", "1"), ("KWD", "0.001")]),
    st.decimals("0.0001", "200", places=5),
)
def test_amounts_in_another_currency_are_rounded_once(
    seconds: list[float], currency: tuple[str, str], usd: Decimal
) -> None:
    device_s = [{"v100": s, "k80": s / 3} for s in seconds]
    bill = bill_of(usage(*device_s, idle={"p100": 5e5, "k80": 7.0}), QUOTES, "x")
    name, unit = currency[0], Fraction(currency[1])
    other = bill.in_currency(name, usd)
    check_sums(other, Decimal(currency[1]))

    def exact(device_s: dict[str, float]) -> Fraction:
        """In units."""
        usd_s = sum(Fraction(repr(s)) * Fraction(QUOTES[name].usd) for name, s in device_s.items())
        return usd_s / 3600 / Fraction(usd) / unit

    jobs, idle = [exact(each) for each in device_s], exact({"p100": 5e5, "k80": 7.0})
    near = 1e-30  # quotients are rounded to 60 digits
    assert abs(Fraction(other.busy_usd) / unit - sum(jobs)) <= Fraction(1, 2) + near
    assert abs(Fraction(other.idle_usd) / unit - idle) <= Fraction(1, 2) + near
    assert all(
        abs(Fraction(amount) / unit - job) < 1 + near for (*_, amount), job in zip(other.by_job, jobs, strict=True)
    )


def test_won_have_no_hundredths_and_are_no_multiples_of_a_cent() -> None:
    bill = bill_of(usage({"v100": 1118.0}, idle={}), QUOTES, "x")  # 0.49999 dollars
    assert bill.in_currency("KRW", Decimal("0.00073")).busy_usd == 685  # not 0.50 dollars, which are 684.93
    assert [str(bill.in_currency(name, Decimal("0.5")).busy_usd) for name in ("EUR", "JPY", "KWD")] == [
        *("1.00", "1", "1.000")
    ]


@given(st.lists(st.decimals(0, 10**9, places=7), max_size=60))
def test_whole_cents_add_up_and_nobody_is_a_cent_off(amounts: list[Decimal]) -> None:
    total = sum(amounts, Decimal(0)).quantize(CENT)
    cents = in_whole_units(dict(enumerate(amounts)), total)
    assert sum(cents.values()) == total
    assert all(abs(cents[n] - amount) < CENT for n, amount in enumerate(amounts))


@pytest.mark.slow
@pytest.mark.parametrize("rules", sorted(RULES))
@settings(max_examples=25)
@given(case=workloads())
def test_bills_are_the_lease_time_of_the_ledger_times_the_price(rules: str, case: Workload) -> None:
    books: list[Any] = []

    def watch(mechanism: Any, backend: Any) -> Any:
        books.append(backend.ledger)
        return backend

    prices = Prices({name: float(quote.usd) for name, quote in QUOTES.items()})
    policy = load_policy("max_min_fairness")
    default = rules == "default"
    facts = (policy, case.jobs, case.cluster, case.throughputs, prices)
    result = simulate(*facts, rules=RULES[rules], watch=watch if default else None)
    bill = bill_of(usage_of(Node(result.to_json(), "result")), QUOTES, "prices")
    check_sums(bill)
    assert abs(float(bill.busy_usd) - result.summary()["cost_usd"]) <= 0.00501
    if default:
        held = sum(Decimal(repr(s)) * QUOTES[name].usd / 3600 for name, s in books[0].device_s.items())
        assert abs(bill.busy_usd - held) <= Decimal("0.00501")
        there = sum(
            Decimal(int(n)) * Decimal(repr(result.end_s)) * QUOTES[name].usd / 3600
            for name, n in zip(TYPES, case.cluster.devices_A, strict=True)
        )
        assert abs(bill.total_usd - there) <= Decimal("0.0101")


# -- what cannot be billed --------------------------------------------------------------------------------------


def save(folder: Path, document: object) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(document))
    return path


def run_of(**changed: object) -> dict[str, object]:
    job = {"job_id": 0, "owner": "a", "device_s": {"v100": 3600.0}}
    return {"policy": "fifo", "idle_device_s": {"v100": 0.0, "k80": 1.0}, "per_job": [job]} | changed


def with_periods(
    usd: dict[str, object] | None = None, idle: dict[str, float] | None = None, of_period: object = "halves"
) -> dict[str, object]:
    """The same run, in which prices changed once."""
    period = {"from_s": 0.0, "usd_per_hour": usd or {"v100": 1.0}, "idle_device_s": idle or {"k80": 0.5}}
    job = {"job_id": 0, "device_s": {"v100": 3600.0}, "device_s_of_period": of_period}
    if of_period == "halves":
        job["device_s_of_period"] = {"0": {"v100": 1200.0}, "1": {"v100": 2400.0}}
    elif of_period is None:
        del job["device_s_of_period"]
    return run_of(per_job=[job], prices={"name": "mine", "periods": [period, period]})


def test_one_run_or_several(tmp_path: Path) -> None:
    assert [one.policy for one in read_usages(save(tmp_path, run_of()))] == ["fifo"]
    both = {"runs": [run_of(), run_of(policy="las")]}
    assert [one.policy for one in read_usages(save(tmp_path, both))] == ["fifo", "las"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {"policy": "fifo", "per_job": []},
            "written before there were bills.*run gavelx simulate or compare again",
        ),
        ({"runs": []}, "there is no run in it"),
        ([], "a list cannot be used"),
        (run_of(idle_device_s={"v100": -1.0}), r"idle_device_s.v100: -1.0 cannot be used"),
        (run_of(idle_device_s={"v100": float("nan")}), "nan cannot be used"),
        (run_of(idle_device_s={"v100": 0.0, "V100": 1.0}), r"idle_device_s.V100: 'v100' is named twice"),
        (run_of(idle_device_s={"p100": 0.0}), r"per_job\[0\].device_s: 'v100' is not in the cluster"),
        (run_of(per_job=[{"job_id": "x", "device_s": {}}]), r"per_job\[0\].job_id: 'x' cannot be used"),
        (run_of(per_job=[{"job_id": 1}]), r"the key 'device_s' is missing"),
        (run_of(per_job=[{"job_id": 7, "device_s": {}}] * 2), r"per_job\[1\].job_id: job 7 is there twice"),
        (run_of(prices=[]), "prices: a list cannot be used; expected an object"),
        (with_periods(usd={"v100": -1}), r"periods\[0\].usd_per_hour.v100: -1 cannot be used"),
        (with_periods(usd={"v100": 1e300}), r"usd_per_hour.v100: 1e\+300 cannot be used; .* 1e\+15 at most"),
        (with_periods(of_period={"2": {}}), "there is no period 2; expected 0 to 1"),
        (with_periods(of_period={"-1": {}}), "there is no period -1"),
        (with_periods(of_period={"0": {"p100": 1.0}}), "'p100' is not in the cluster"),
        (with_periods(of_period={"1": {"v100": 1.0}}), "1 s of v100 in all; expected 3600 s, as in the whole run"),
        (with_periods(of_period=None), "the key 'device_s_of_period' is missing"),
        (with_periods(idle={"k80": 2.0}), r"prices.periods: 4 s of k80 in all; expected 1 s"),
    ],
)
def test_results_without_what_a_bill_needs(tmp_path: Path, document: object, said: str) -> None:
    with pytest.raises(InputFileError, match=said) as caught:
        read_usages(save(tmp_path, document))
    assert "result.json" in str(caught.value)


def test_a_missing_price_is_never_0() -> None:
    quotes = load_quotes("aws", ["v100", "p100"], strict=False)
    assert "p100" not in quotes
    with pytest.raises(KeyError):
        bill_of(usage({"v100": 1.0}, idle={}), quotes, "aws")
