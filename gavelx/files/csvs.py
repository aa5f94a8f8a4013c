"""Checked reading of CSV files: every mistake names its file, row and column.

Rows are read one at a time, and their cells by kind (``text``, ``number``, ``whole``). The row number is the line
number of an editor: the header is row 1. Blank lines are skipped, and unused columns are ignored.
"""

import csv
import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from pathlib import Path

from gavelx.errors import InputFileError, did_you_mean
from gavelx.files.limits import WHOLE_MAX
from gavelx.files.texts import read_lines, shown
from gavelx.spelling import meant, nearest

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
"""The form of a number: no blanks or underscores, only ASCII digits, no ``inf`` or ``nan``, no huge exponent."""


class Row:
    """One row of a CSV file; its cells are read by column and kind."""

    __slots__ = ("cells", "line", "path")

    def __init__(self, path: str | Path, line: int, cells: dict[str, str]) -> None:
        self.path, self.line, self.cells = path, line, cells

    def mistake(self, column: str, problem: str, *, expected: str = "", hint: str = "") -> InputFileError:
        """The error to raise about one cell of this row."""
        where = f"{self.path}, row {self.line}" + (f", column {column}" if column else "")
        return InputFileError(problem, where=where, expected=expected, hint=hint)

    def has(self, column: str) -> bool:
        """Whether the file has the column and the cell of this row is not empty."""
        return bool(self.cells.get(column))

    def text(self, column: str, default: str | None = None, *, known: Iterable[str] | None = None) -> str:
        """The cell without surrounding blanks; ``default`` if it is empty, or an error without a default."""
        text = self.cells.get(column, "")
        if not text:
            if default is None:
                raise self.mistake(column, "the cell is empty", expected="a value")
            return default
        if known is not None and text not in (known if isinstance(known, Container) else tuple(known)):
            raise self.mistake(column, f"{shown(text)} is not known", hint=did_you_mean(text[:200], known))
        return text

    def job_type(self, column: str, known: Collection[str] | None = None) -> str:
        """The cell as one of the ``known`` job types, in any spelling; any text if none are given."""
        text = self.text(column)
        name = text if known is None else meant(text, known)
        if name is None:
            raise self.mistake(column, f"{shown(text)} is not known", hint=nearest(text[:200], known or ()))
        return name

    def number(
        self,
        column: str,
        *,
        low: float = -math.inf,
        above: float = -math.inf,
        high: float = math.inf,
        default: float | None = None,
    ) -> float:
        """The cell as a finite number, at least ``low``, greater than ``above``, at most ``high``."""
        if default is not None and not self.has(column):
            return default
        text = self.text(column)
        value = float(text) if NUMBER.fullmatch(text) else math.nan
        if not (math.isfinite(value) and low <= value <= high and value > above):
            expected = _kind("finite", low, above) + (f", {high:g} at most" if high < math.inf else "")
            raise self.mistake(column, f"{shown(text)} cannot be used", expected=expected)
        return value

    def whole(self, column: str, *, low: int, high: int = WHOLE_MAX, default: int | None = None) -> int:
        """The cell as a whole number from ``low`` to ``high``; ``4.0`` is 4."""
        if default is not None and not self.has(column):
            return default
        text = self.text(column)
        value = float(text) if NUMBER.fullmatch(text) else math.nan
        if not (low <= value <= high and value.is_integer()):
            limits = f"{low} or more" if high == WHOLE_MAX and not value > high else f"from {low} to {high}"
            raise self.mistake(column, f"{shown(text)} cannot be used", expected=f"a whole number, {limits}")
        return int(value)


def _kind(kind: str, low: float, above: float) -> str:
    if above > -math.inf:
        return f"a {kind} number above {above:g}"
    return f"a {kind} number, {low:g} or more" if low > -math.inf else f"a {kind} number"


def read_rows(
    path: str | Path,
    required: Sequence[str],
    *,
    hint: str = "",
    instead: Sequence[Sequence[str]] = (),
    hint_of: Callable[[Collection[str]], str] = lambda _: "",
) -> Iterator[Row]:
    """The rows of a CSV file whose header has at least the ``required`` columns, or one of the sets ``instead``.

    ``hint`` says what to try if the file has none of them; ``hint_of`` says it for the columns that it has.

    Raises :class:`InputFileError` for a file that is missing, a folder, empty, not UTF-8 text or not a CSV, for
    columns that are missing or named twice, and for a row with too few or too many cells.
    """
    header: list[str] | None = None
    for line, cells in _records(path):
        if header is None:
            there = {cell.strip() for cell in cells}
            foreign = hint if not there & set(required) else hint_of(there)
            needed = next((others for others in instead if there.issuperset(others)), required)
            header = checked_header(path, line, cells, needed, foreign)
        elif len(cells) != len(header):
            expected = f"{len(header)}, as the header has"
            raise InputFileError(f"the row has {len(cells)} cells", where=f"{path}, row {line}", expected=expected)
        else:
            yield Row(path, line, dict(zip(header, map(str.strip, cells), strict=True)))
    if header is None:
        raise InputFileError("the file is empty", where=str(path), expected="columns " + ", ".join(required))


def _records(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not blank, with the number of the line on which it begins."""
    records = csv.reader(read_lines(path), strict=True)
    while True:
        line = records.line_num + 1
        try:
            cells = next(records, None)
        except csv.Error as error:
            where = f"{path}, row {line}"
            if "new-line" in str(error):
                raise InputFileError("a line ends with CR alone", where=where, expected="LF or CRLF") from None
            raise InputFileError(f"is no CSV ({error})", where=where) from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield line, cells


def checked_header(
    path: str | Path, line: int, cells: Sequence[str], required: Sequence[str], hint: str = ""
) -> list[str]:
    """The names of the columns. Raises :class:`InputFileError` for a missing or repeated column.

    ``hint`` says what to try; without it, the message suggests a column with a similar name.
    """
    header = [cell.strip() for cell in cells]
    where = f"{path}, row {line}"
    for column in required:
        if column not in header:
            hint = _separator(cells, required) or hint
            there = ", ".join(shown(name) for name in header[:20]) + (", ..." if len(header) > 20 else "")
            near = did_you_mean(column, [name[:40] for name in header if name])
            hint = hint or (near.replace("did you mean", "is it") if near.startswith("did") else "")
            problem = f"the column {column!r} is missing; there are {there}"
            raise InputFileError(problem, where=where, expected="columns " + ", ".join(required), hint=hint)
    for column in filter(None, header):
        if header.count(column) > 1:
            raise InputFileError(f"the column {shown(column)} is there twice", where=where)
    return header


def _separator(cells: Sequence[str], required: Collection[str]) -> str:
    """What to try if the header's only cell has one of the ``required`` columns between other separators."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        names = cells[0].split(separator) if len(cells) == 1 else []
        if len(names) > 1 and {name.strip() for name in names} & set(required):
            return f"save it with commas between the columns, not {name}"
    return ""
