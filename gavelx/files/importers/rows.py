"""The rows of a file one line at a time, so that a bad row does not affect the others.

Unlike :func:`gavelx.files.csvs.read_rows`, a row that cannot be used is yielded as an error. A quoted cell
ends with its line: none of these formats has line breaks in a cell.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row, checked_header
from gavelx.files.jsons import Node
from gavelx.files.texts import read_lines, read_text

Item = tuple[int, "Row | Node | InputFileError"]
"""The number of the line on which a row begins, and the row or its error."""

NAMED = {"\t": " between tabs", "|": " between bars", ";": " between semicolons"}
MARKS = "".join(mark for mark in map(chr, range(128)) if not mark.isalnum() and mark != "_")
BLANKS = " "
"""The separator of columns between any number of blanks."""


def split(line: str, separator: str) -> list[str]:
    """The cells of a line, without blanks around them. Raises :class:`csv.Error` for quotes that do not pair."""
    if separator == BLANKS:
        return line.split()
    if separator in (",", ";", "\t") and '"' in line:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, strict=True))]
    return [cell.strip() for cell in line.split(separator)]


def separator_of(header: str, required: Sequence[str]) -> str:
    """What stands beside the first of these columns that the header names; a comma if it names none.

    ``a/b`` is either of the two.
    """
    header = header.rstrip("\r\n")
    for name in (name for column in required for name in column.split("/")):
        if found := re.search(rf"\b{re.escape(name)}\b(\W*)", header):
            beside = found[1] or header[len(header[: found.start()].rstrip(MARKS)) : found.start()] or ","
            return next((mark for mark in "|\t;," if mark in beside), beside.strip() or BLANKS)
    return ","


def head_cells(line: str, separator: str) -> list[str]:
    """The cells of what may be a header; none where the line is no CSV."""
    try:
        return split(line.rstrip("\r\n"), separator)
    except csv.Error:
        return []


def with_header(path: Path, required: Sequence[str]) -> Iterator[Item]:
    """The rows below a header. Raises :class:`InputFileError` where it lacks one of the required columns.

    ``a/b`` requires one of the two. What stands between the cells is seen from the header.
    """
    header: list[str] | None = None
    separator = ","
    for number, line in numbered_lines(path):
        if header is None:
            if "\0" in line:
                raise InputFileError(
                    "the line is no UTF-8 text", where=f"{path}, row {number}", expected="UTF-8 text"
                )
            separator = separator_of(line, required)
            header = _header(path, number, head_cells(line, separator), required)
            if separator == BLANKS:
                raise InputFileError(
                    "the columns have a fixed width, which cuts longer cells",
                    where=f"{path}, row {number}",
                    expected="bars or commas between the columns",
                    hint="sacct --parsable2, if it is from there",
                )
        else:
            yield number, row_of(path, number, line, separator, header)


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
            yield number, row_of(path, number, line, separator, columns)


def json_elements(path: Path, key: str = "") -> Iterator[tuple[int, Node]]:
    """The elements of a JSON list, or with ``key`` of the list in this field of a JSON object.

    Raises :class:`InputFileError` where the file is no such list.
    """
    text = read_text(path)
    decoder = json.JSONDecoder()
    position, count = _field(path, text, key) if key else _skip(text, 0), 0
    if text[position : position + 1] != "[":
        raise InputFileError("is no list", where=str(path), expected="a JSON list of jobs: [{...}, {...}]")
    end = position + 1
    number = 1 + text.count("\n", 0, end)
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
    if not key and (after := _skip(text, position + 1)) < len(text):
        number += text.count("\n", end, after)
        raise InputFileError(
            "something follows the list", where=f"{path}, row {number}", expected="one list in a file"
        )


def _field(path: Path, text: str, wanted: str) -> int:
    """The position of the value of a field of a JSON object."""
    decoder, position = json.JSONDecoder(), _skip(text, 0)
    if text[position : position + 1] != "{":
        raise InputFileError("is no object", where=str(path), expected=f'a JSON object with "{wanted}": [...]')
    position = _skip(text, position + 1)
    try:
        while text[position : position + 1] == '"':
            key, position = decoder.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)  # past the colon
            if key == wanted:
                return position
            _, position = decoder.raw_decode(text, position)
            position = _skip(text, position)
            position = _skip(text, position + 1) if text[position : position + 1] == "," else position
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", str(error))[:100] or "nested too deeply"
        where = f"{path}, row {1 + text.count(chr(10), 0, position)}"
        raise InputFileError(f"is no JSON: {reason}", where=where) from None
    problem = f"the object has no list {wanted!r}"
    raise InputFileError(problem, where=str(path), expected=f'"{wanted}": [...], as sacct --json writes it')


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


def row_of(path: Path, number: int, line: str, separator: str, columns: Sequence[str]) -> "Row | InputFileError":
    """The row of a line, or the error about it."""
    if (error := not_text(path, number, line)) is not None:
        return error
    where = f"{path}, row {number}"
    try:
        cells = split(line.rstrip("\r\n"), separator)
    except csv.Error as error:
        return InputFileError(f"is no CSV ({error})", where=where)
    if separator == "," and len(cells) > len(columns):
        cells = _lists_whole(cells)
    if len(cells) != len(columns):
        problem = f"the line has {len(cells)} fields{NAMED.get(separator, '')}"
        return InputFileError(problem, where=where, expected=f"{len(columns)}: " + ", ".join(columns)[:200])
    return Row(path, number, dict(zip(columns, cells, strict=True)))


def _lists_whole(cells: Sequence[str]) -> list[str]:
    """The cells of a line, where commas also stand in lists of Slurm: ``cpu=8,gres/gpu=1`` and ``7_[1,3]``.

    The next list of resources begins where one of them comes again.
    """
    whole: list[list[str]] = []
    for cell in cells:
        last = whole[-1] if whole else [""]
        name, counts, _ = cell.partition("=")
        goes_on = "=" in last[0] and counts and name not in [one.partition("=")[0] for one in last]
        if whole and (goes_on or ",".join(last).count("[") > ",".join(last).count("]")):
            last.append(cell)
        else:
            whole.append([cell])
    return [",".join(parts) for parts in whole]
