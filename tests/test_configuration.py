"""A configuration is the same one wherever it is named, and another one where anything about it differs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.configuration import ABSENT, ALONE, Configuration, ConfigurationSet, keys

ROWS = st.tuples(
    *(st.integers(0, 5), st.integers(-1, 5), st.integers(0, 2), st.sampled_from([1, 2, 10**6]), st.booleans()),
    st.sampled_from([0, 64, 2**31 - 1]),
)
Row = tuple[int, int, int, int, bool, int]


def of(rows: list[Row]) -> ConfigurationSet:
    job, partner, type_, devices, spread, batch = zip(*rows, strict=True) if rows else ((),) * 6
    whole = (np.array(column, dtype=np.int64) for column in (job, partner, type_, devices))
    return ConfigurationSet.of(*whole, np.array(spread, dtype=bool), np.array(batch, dtype=np.int64))


def same(one: Row) -> tuple[object, ...]:
    """Who runs, in any order, and how."""
    return frozenset(one[:2]), *one[2:]


@given(st.lists(ROWS, unique_by=same), st.lists(ROWS))
def test_each_is_found_where_it_stands_and_nothing_else_is(here: list[Row], wanted: list[Row]) -> None:
    place = {same(row): n for n, row in enumerate(here)}
    assert of(here).find(of(wanted)).tolist() == [place.get(same(row), ABSENT) for row in wanted]


def test_members_are_named_in_rising_order() -> None:
    assert of([(7, ALONE, 0, 4, True, 0), (9, 3, 1, 1, False, 96)]).named(["v100", "k80"]) == [
        Configuration((7,), "v100", 4, spread=True),
        Configuration((3, 9), "k80", 1, batch=96),
    ]


def test_keys_are_of_rows() -> None:
    with pytest.raises(AssertionError, match="by rows, not by ids"):
        keys(of([(2**40, 2**40 + 1, 0, 1, False, 0)]))
