"""What newer price lists change: worked by hand, and what must hold for any lists."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from gavelx.files.price_rows import PriceRow
from gavelx.pricing.refresh import What, refresh


def row(instance: str, usd: str, as_of: str, **more: str) -> PriceRow:
    return PriceRow("aws", "v100", Decimal(usd), region="east", instance_type=instance, as_of=as_of, **more)  # type: ignore[arg-type]


def test_new_gone_dearer_and_cheaper() -> None:
    dated = (("a", "1", "2024-01"), ("a", "2", "2025-01"), ("b", "4", "2025-01"), ("c", "1", "2025-01"))
    table = [row(*each) for each in (*dated, ("d", "1", "2025-01"))] + [row("e", "1", "2025-01", kind="spot")]
    lists = [
        row("a", "3", "2026-01"),
        row("b", "3", "2026-01"),
        row("c", "1", "2026-01"),
        row("f", "9", "2026-01"),
    ]
    found = refresh(table, lists)
    said = [(str(change.what), change.offer.instance_type, change.relative) for change in found.changes]
    assert said == [("dearer", "a", 0.5), ("cheaper", "b", -0.25), ("gone", "d", None), ("new", "f", None)]
    assert found.same == 1  # c; and nothing is said of spot prices, which the lists do not have
    assert found.rows == (*table, *lists)


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
    ),
    unique_by=lambda each: (each.instance_type, each.as_of, each.kind),
)


@given(ROWS, ROWS)
def test_every_offer_is_accounted_for_and_a_second_time_changes_nothing(
    table: list[PriceRow], lists: list[PriceRow]
) -> None:
    found = refresh(table, lists)
    listed = {(each.instance_type, each.kind) for each in lists}
    changed = [
        (change.offer.instance_type, change.offer.kind) for change in found.changes if change.what != What.GONE
    ]
    assert len(changed) + found.same == len(listed)
    assert set(lists) <= set(found.rows) <= {*table, *lists}
    again = refresh(found.rows, lists)
    assert sorted(map(str, again.rows)) == sorted(map(str, found.rows))
