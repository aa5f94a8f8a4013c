"""The rows of a file one line at a time, so that a bad row does not affect the others.

Unlike :func:`gavelx.files.csvs.read_rows`, a row that cannot be used is yielded as an error. A quoted cell
ends with its line: none of these formats has line breaks in a cell.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row, checked_header
from gavelx.files.jsons import Node
from gavelx.files.texts import read_lines, read_text

Item = tuple[int, "Row | Node | InputFileError"]
"""The number of the line on which a row begins, and the row or its error."""

NAMED = {"\t": " between tabs", "|": " between bars", ",": ""}


def split(line: str, separator: str) -> list[str]:
    """The cells of a line, without blanks around them. Raises :class:`csv.Error` for quotes that do not pair."""
    if separator == "," and '"' in line:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    return [cell.strip() for cell in line.split(separator)]


def head_cells(line: str, separator: str) -> list[str]:
    """The cells of what may be a header; none where the line is no CSV."""
    try:
        return split(line.rstrip("\r\n"), separator)
    except csv.Error:
        return []


def with_header(path: Path, separator: str, required: Sequence[str]) -> Iterator[Item]:
    """The rows below a header. Raises :class:`InputFileError` where it lacks one of the required columns.

    ``a/b`` requires one of the two.
    """
    header: list[str] | None = None
    for number, line in numbered_lines(path):
        if header is None:
            if "\0" in line:
                raise InputFileError(
                    "the line is no UTF-8 text", where=f"{path}, row {number}", expected="UTF-8 text"
                )
            header = _header(path, number, head_cells(line, separator), required)
        else:
            yield number, _row(path, number, line, separator, header)


def _header(path: Path, number: int, cells: list[str], required: Sequence[str]) -> list[str]:
    header = checked_header(path, number, cells, [name for name in required if "/" not in name])
    for column in required:
        if not set(names := column.split("/")) & set(header):
            expected = "a column " + " or ".join(names)
            raise InputFileError("a column is missing", where=f"{path}, row {number}", expected=expected)
    return header


def without_header(path: Path, separator: str, columns: Sequence[str]) -> Iterator[Item]:
    """The rows of a file whose columns are known; a first line that names them all says in which order."""
    for count, (number, line) in enumerate(numbered_lines(path)):
        if count == 0 and sorted(cells := head_cells(line, separator)) == sorted(columns):
            columns = cells
        else:
            yield number, _row(path, number, line, separator, columns)


def json_elements(path: Path) -> Iterator[Item]:
    """The elements of a JSON list. Raises :class:`InputFileError` where the file is no such list."""
    text = read_text(path)
    decoder = json.JSONDecoder()
    position, number, count = _skip(text, 0), 1, 0
    if text[position : position + 1] != "[":
        raise InputFileError("is no list", where=str(path), expected="a JSON list of jobs: [{...}, {...}]")
    end = position + 1
    number += text.count("\n", 0, end)
    while (position := _skip(text, end)) < len(text) and text[position] != "]":
        if count and text[position] == ",":
            position = _skip(text, position + 1)
        elif count:
            raise InputFileError(f"a comma is missing after job {count}", where=f"{path}, row {number}")
        if position == len(text):
            break
        number += text.count("\n", end, position)
        count += 1
        where = f"{path}, row {number}, job {count}"
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", str(error))[:100] or "nested too deeply"
            raise InputFileError(f"is no JSON: {reason}", where=where) from None
        yield number, Node(value, where)
        number += text.count("\n", position, end)
    if position >= len(text):
        raise InputFileError("the file ends early", where=f"{path}, row {number}", expected="]")
    if (after := _skip(text, position + 1)) < len(text):
        number += text.count("\n", end, after)
        raise InputFileError(
            "something follows the list", where=f"{path}, row {number}", expected="one list in a file"
        )


def _skip(text: str, position: int) -> int:
    """The position of what follows blanks."""
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers; bytes that are not UTF-8 become U+FFFD."""
    return ((n, line) for n, line in enumerate(read_lines(path, replace=True), start=1) if line.strip())


def not_text(path: Path, number: int, line: str) -> InputFileError | None:
    """The error about a line that is no UTF-8 text; None for any other."""
    if "\ufffd" in line or "\0" in line:
        return InputFileError("the line is no UTF-8 text", where=f"{path}, row {number}", expected="UTF-8 text")
    return None


def _row(path: Path, number: int, line: str, separator: str, columns: Sequence[str]) -> "Row | InputFileError":
    if (error := not_text(path, number, line)) is not None:
        return error
    where = f"{path}, row {number}"
    try:
        cells = split(line.rstrip("\r\n"), separator)
    except csv.Error as error:
        return InputFileError(f"is no CSV ({error})", where=where)
    if len(cells) != len(columns):
        problem = f"the line has {len(cells)} fields{NAMED[separator]}"
        return InputFileError(problem, where=where, expected=f"{len(columns)}: " + ", ".join(columns)[:200])
    return Row(path, number, dict(zip(columns, cells, strict=True)))
