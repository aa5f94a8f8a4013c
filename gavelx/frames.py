"""What pandas does for us: DataFrames, HTML for notebooks, numbers for what is equal.

It is heavy, and imported here alone, on demand.
"""
# ruff: noqa: PLC0415

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

Row = Mapping[str, Any]
ROWS = 60


def frame(table: Iterable[Row] | Mapping[str, Any]) -> "pandas.DataFrame":
    """Rows, or columns by name, as a DataFrame; None becomes NaN in columns of numbers."""
    import pandas

    return pandas.DataFrame(table if isinstance(table, Mapping) else list(table))


def html(table: "pandas.DataFrame") -> str:
    """An HTML table, four digits a number, of the first and last rows if there are many; text is escaped."""
    return str(table.to_html(index=False, border=0, na_rep="", max_rows=ROWS, float_format=lambda x: f"{x:,.4g}"))


def factorized(array: "NDArray[Any]") -> "tuple[NDArray[Any], NDArray[Any]]":
    """A number for each element, equal ones alike, and the element of each number, the first to come first."""
    import pandas

    numbers, elements = pandas.factorize(array)
    return numbers, elements
