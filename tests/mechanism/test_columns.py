"""Columns grow, lose rows and gain types like lists."""

import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gavelx.mechanism.columns import Bools, Columns, Floats, Ints


class Table(Columns):
    of_type = frozenset({"speed"})

    speed: Floats
    age: Floats
    steps: Floats
    number: Ints
    done: Bools


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    columns = (table.speed, table.age, table.steps, table.number, table.done)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(st.lists(st.one_of(st.integers(1, 40), st.lists(st.booleans(), min_size=1), st.none()), max_size=12))
def test_columns_are_as_lists(changes: list[Any]) -> None:
    """Numbers are rows that come, lists the rows that stay, None is one more type."""
    table, rows, count, types = Table(), list[tuple[Any, ...]](), 0, 0
    for change in changes:
        if isinstance(change, int):
            for _ in range(change):
                count += 1
                table.add_row(
                    speed=np.full(types, float(count)), age=0.5 * count, number=count, done=count % 3 == 0
                )
                rows.append(([float(count)] * types, 0.5 * count, 0.0, count, count % 3 == 0))
            table.show()
        elif change is None:
            types += 1
            table.add_type(speed=np.full(len(rows), 7.0))
            rows = [([*speed, 7.0], *rest) for speed, *rest in rows]
        elif rows:
            keep = [change[n % len(change)] for n in range(len(rows))]
            if all(keep):
                continue
            places = table.keep_rows(np.array(keep)).tolist()
            assert [n for n in places if n >= 0] == list(range(sum(keep)))
            assert [n >= 0 for n in places] == keep
            rows = [row for row, stays in zip(rows, keep, strict=True) if stays]
        assert rows_of(table) == rows
        assert rows_of(pickle.loads(pickle.dumps(table))) == rows
