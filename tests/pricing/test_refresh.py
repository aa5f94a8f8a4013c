"""What newer price lists change: worked by hand, and what must hold for any lists."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.files.current_prices import current, offer_of
from gavelx.files.price_rows import PriceRow
from gavelx.pricing.refresh import What, refresh


def row(instance: str, usd: str, as_of: str, **more: str) -> PriceRow:
    return PriceRow("aws", "v100", Decimal(usd), region="east", instance_type=instance, as_of=as_of, **more)  # type: ignore[arg-type]


def test_new_gone_dearer_and_cheaper() -> None:
    dated = (("a", "1", "2024-01"), ("a", "2", "2025-01"), ("b", "4", "2025-01"), ("c", "1", "2025-01"))
    table = [row(*each, source="list@1") for each in (*dated, ("d", "1", "2025-01"))]
    table.append(row("e", "1", "2025-01", source="list@1", kind="spot"))
    lists = [
        row(name, usd, "2026-01", source="list@2")
        for name, usd in (("a", "3"), ("b", "3"), ("c", "1"), ("f", "9"))
    ]
    found = refresh(table, lists)
    said = [(str(change.what), change.offer.instance_type, change.relative) for change in found.changes]
    assert said == [("dearer", "a", 0.5), ("cheaper", "b", -0.25), ("gone", "d", None), ("new", "f", None)]
    assert found.same == 1  # c; and nothing is said of spot prices, which the lists do not have
    assert (found.older, found.unlisted) == (0, 0)
    assert found.rows == (*table, *lists)


def test_what_another_list_has_is_not_gone() -> None:
    table = [row("a", "1", "2025-06", source="long@1"), row("b", "2", "2025-06", source="long@1")]
    found = refresh(table, [row("a", "3", "2026-01", source="short@1")])
    assert [str(change.what) for change in found.changes] == ["dearer"] and found.unlisted == 1
    later = refresh(table, [row("a", "3", "2026-07", source="short@1")])
    assert [str(change.what) for change in later.changes] == ["dearer", "gone"] and later.unlisted == 0


@pytest.mark.parametrize("source", ["", "list@0"])
def test_an_older_list_changes_nothing(source: str) -> None:
    """Its prices were called dearer and cheaper, and all that it lacks gone."""
    table = [row("a", "1", "2025-06", source="list@1"), row("b", "2", "2025-06", source="list@1")]
    found = refresh(table, [row("a", "3", "2025-01", source=source)])
    assert (found.changes, found.same, found.older, found.unlisted) == ((), 0, 1, 0)


def test_a_row_of_the_same_date_is_replaced() -> None:
    found = refresh([row("a", "1", "2025-01")], [row("a", "2", "2025-01")])
    assert found.rows == (row("a", "2", "2025-01"),)


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from("abc"),
        st.sampled_from(("1", "2", "3")),
        st.sampled_from(("2024-01", "2025-01", "2026-01")),
        kind=st.sampled_from(("on_demand", "spot")),
        source=st.sampled_from(("", "list@1", "list@2")),
    ),
    unique_by=lambda each: (each.instance_type, each.as_of, each.kind),
)


@given(ROWS, ROWS)
def test_every_offer_is_accounted_for_and_a_second_time_changes_nothing(
    table: list[PriceRow], lists: list[PriceRow]
) -> None:
    found = refresh(table, lists)
    listed = {offer_of(each) for each in lists}
    changed = [change for change in found.changes if change.now in lists]
    assert len(changed) + found.same + found.older == len(listed)
    assert set(lists) <= set(found.rows) <= {*table, *lists}
    again = refresh(found.rows, lists)
    assert sorted(map(str, again.rows)) == sorted(map(str, found.rows))
    assert not again.changes and again.same == len(changed) + found.same and again.older == found.older


@given(ROWS, ROWS)
def test_what_is_gone_is_no_longer_bought(table: list[PriceRow], lists: list[PriceRow]) -> None:
    found = refresh(table, lists)
    sold = {offer_of(each) for each in current(found.rows)}
    gone = {offer_of(change.offer) for change in found.changes if change.what is What.GONE}
    assert gone == {offer_of(each) for each in current(table)} - sold
