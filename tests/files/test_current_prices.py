"""Which rows of a price table count: worked by hand, and what must hold for any table."""

from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gavelx.files.current_prices import YEARS, current, is_old, offer_of
from gavelx.files.price_rows import PriceRow, price_csv
from gavelx.files.price_tables import Terms, load_prices, load_quotes, price_rows
from gavelx.pricing.offers import Offer, load_offers


def row(usd: str, as_of: str, instance: str = "", **more: str) -> PriceRow:
    return PriceRow(more.pop("cloud", "sky"), "h100", Decimal(usd), instance_type=instance, as_of=as_of, **more)  # type: ignore[arg-type]


def prices(rows: list[PriceRow]) -> list[str]:
    return [str(each.usd) for each in current(rows)]


# -- a table by hand ----------------------------------------------------------------------------------------------


def test_a_newer_edition_replaces_its_list_and_no_other() -> None:
    rows = [
        row("1", "2026-01", "gone", source="list@1"),
        row("2", "2026-01", "big", source="list@1"),
        row("3", "2026-02", "big", source="list@2"),
        row("4", "2025-12", "small", source="another@9"),
        row("5", "2026-01", "west", source="list@1", region="west"),  # of which the newer edition says nothing
    ]
    assert prices(rows) == ["3", "4", "5"]


@pytest.mark.parametrize("source", ["", "prices.example.com"])
def test_rows_of_one_source_are_one_edition_whatever_their_dates(source: str) -> None:
    """As in a list that says since when each price holds, and in a file that its owner keeps by hand."""
    rows = [row(str(n), f"2026-{n:02}", f"size {n}", source=source) for n in range(1, 11)]
    assert current(rows) == rows


def test_the_latest_date_of_an_offer_counts_in_whichever_list_it_is() -> None:
    rows = [
        row("10", "2026-01", "a", source="long@1"),
        row("11", "2026-01", "b", source="long@1"),
        row("12", "2026-02", "a", source="short@1"),
    ]
    assert prices(rows) == ["11", "12"]
    assert prices([row("9", "2026-01"), row("10", "2026-02"), row("7", "2026-01", region="west")]) == ["10", "7"]


def test_prices_of_years_ago_do_not_count_beside_newer_ones_of_the_cloud() -> None:
    rows = [
        row("3", "2025-02-28", "a"),
        row("4", "2025-03", "b"),
        row("5", "2025-03-01", "c"),
        row("6", "2026-03-01", "d"),
        row("1", "", "e"),
        row("2", "2020-03", "f", cloud="sea"),
        row("1", "2019-02", "g", cloud="sea"),
        row("1", "2020-03", "h", kind="spot"),
    ]
    assert YEARS == 1 and prices(rows) == ["4", "5", "6", "2", "1"]


def test_months_and_days() -> None:
    assert prices([row("1", "2020-03"), row("2", "2020-03-15")]) == ["2"]
    assert prices([row("1", "2020-02", "a"), row("2", "2020-03", "b"), row("3", "2019-02", "c")]) == ["1", "2"]
    assert is_old("2023-02-28", "2024-02-29") and not is_old("2023-03-01", "2024-02-29")
    assert not is_old("2023-02", "2024-02-29")


# -- of the shipped table -----------------------------------------------------------------------------------------


def test_a_short_list_does_not_hide_a_long_one() -> None:
    """Six newer rows once hid GCP's sizes: the smallest H100 instance for sale cost $84.40 an hour."""
    offers = {offer.devices: offer for offer in load_offers("gcp", ["h100-80gb"])}
    assert sorted(offers) == [1, 2, 4, 8]
    assert offers[1].usd_per_hour == pytest.approx(11.0612) and offers[8].usd_per_hour == pytest.approx(88.49)
    assert offers[1].as_of == offers[8].as_of == "2026-07-30"
    quote = load_quotes("gcp", ["a100-40gb"])["a100-40gb"]
    assert quote.row is not None and quote.row.instance_type == "a2-megagpu-16g"


def test_a_table_of_two_clouds_has_the_price_of_the_cheaper(tmp_path: Path) -> None:
    path = save(tmp_path, [row("3", "2026-09-06", cloud="dear"), row("2", "2026-08-26", cloud="cheap")])
    assert load_prices(path, ["h100"]).usd_per_hour == {"h100": 2.0}


def test_all_shipped_rows_of_a_date_are_of_sources_with_editions() -> None:
    """So that a newer edition replaces them."""
    versioned = [each for each in price_rows() if "@" in each.source]
    assert {each.source for each in price_rows()} - {each.source for each in versioned} == {
        "lambda.ai/pricing (tgarg01/silybench-data)"
    }


# -- for any table ------------------------------------------------------------------------------------------------

DATES = ("", "2024-06", "2025-02", "2025-02-03", "2025-12", "2026-01-31", "2026-02")
ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from(("1", "2", "3", "4")),
        st.sampled_from(DATES),
        st.sampled_from(("", "a", "b", "c")),
        cloud=st.sampled_from(("", "sky", "sea")),
        region=st.sampled_from(("", "west")),
        source=st.sampled_from(("", "list@1", "list@2", "list", "other")),
    ),
    min_size=1,
    unique_by=lambda each: (offer_of(each), each.as_of, each.source),
)

by_date = attrgetter("as_of")


@given(ROWS, st.randoms())
def test_the_order_of_rows_does_not_matter(rows: list[PriceRow], random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert set(current(shuffled)) == set(current(rows))


@given(ROWS)
def test_the_latest_date_of_each_cloud_counts(rows: list[PriceRow]) -> None:
    latest, kept = ({each.cloud: each.as_of for each in sorted(of, key=by_date)} for of in (rows, current(rows)))
    assert kept == latest


@given(ROWS, ROWS)
def test_clouds_do_not_touch_each_other(rows: list[PriceRow], others: list[PriceRow]) -> None:
    here, there = ([each._replace(cloud=name) for each in of] for name, of in (("x", rows), ("y", others)))
    assert set(current(here + there)) == {*current(here), *current(there)}


@given(ROWS, st.sampled_from(("1", "4")), st.sampled_from(DATES))
def test_one_more_offer_hides_no_other_of_the_year(rows: list[PriceRow], usd: str, as_of: str) -> None:
    """So it makes nothing dearer. Only what is more than a year older than a newest row goes."""
    more = row(usd, as_of, "one more")
    kept = current([*rows, more])
    assert {each for each in current(rows) if each.cloud != "sky" or not is_old(each.as_of, as_of)} <= {*kept}


@given(ROWS, ROWS)
def test_a_newer_edition_is_all_that_counts_of_its_list(old: list[PriceRow], new: list[PriceRow]) -> None:
    rows = [each._replace(source="list@3") for each in old]
    newer = [each._replace(source="list@4", as_of="2026-03") for each in new]
    said = {(each.cloud, each.region) for each in newer}
    assert not any((each.cloud, each.region) in said for each in current([*rows, *newer]) if each in set(rows))
    assert {*newer} <= {*current([*rows, *newer])}


def said(path: str, as_of: str | None = None) -> tuple[float, tuple[Offer, ...]]:
    """The price of a table, and the offers for sale."""
    return load_prices(path, ["h100"], as_of=as_of).of("h100"), load_offers(path, ["h100"], Terms(as_of))


@given(rows=ROWS, as_of=st.sampled_from(DATES[1:]))
def test_as_of_is_the_table_cut_at_that_date(
    tmp_path_factory: pytest.TempPathFactory, rows: list[PriceRow], as_of: str
) -> None:
    until = [each for each in rows if each.as_of[: len(as_of)] <= as_of]
    agreeing = {offer_of(each): each.usd for each in rows}
    rows, until = ([each._replace(usd=agreeing[offer_of(each)]) for each in of] for of in (rows, until))
    assume(until)
    folder = tmp_path_factory.mktemp("tables")
    whole, cut = save(folder, rows, "whole"), save(folder, until, "cut")
    assert said(whole, as_of) == said(cut)
    usd, offers = said(cut)
    assert usd == min(float(each.usd_per_device) for each in current(until))
    assert usd == min(offer.usd_per_hour / offer.devices for offer in offers)


def save(folder: Path, rows: list[PriceRow], name: str = "table") -> str:
    path = folder / f"{name}.csv"
    path.write_text(price_csv(rows))
    return str(path)
