from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row, read_rows
from gavelx.files.texts import read_text, shown

COLUMNS = ("name", "size")


def save(folder: Path, content: str | bytes) -> Path:
    path = folder / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def row(**cells: str) -> Row:
    return Row("table.csv", 7, cells)


def test_rows_with_their_lines(tmp_path: Path) -> None:
    path = save(tmp_path, '\ufeffname, size ,more\r\n"a\nb",1,x\r\n\r\n c ,2,\r\n')
    rows = list(read_rows(path, COLUMNS))
    assert [(r.line, r.text("name"), r.whole("size", low=0)) for r in rows] == [(2, "a\nb", 1), (5, "c", 2)]
    assert rows[0].has("more")
    assert not rows[1].has("more")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty; expected columns name, size"),
        ("name,sizes\n", "row 1: the column 'size' is missing; there are 'name', 'sizes'.*is it 'sizes'"),
        ("name;size\na;1,5\n", "row 1: the column 'name' is missing.*Try: save it with commas .* not semicolons"),
        ("name;sizes\na;1,5\n", "row 1: the column 'name' is missing.*Try: save it with commas"),
        ("name\tsize\na\t1\n", "row 1: the column 'name' is missing.*Try: save it with commas .* not tabs"),
        ("name,size\ra,1\rb,2\r", "row 1: a line ends with CR alone; expected LF or CRLF"),
        ("name,size,name\n", "row 1: the column 'name' is there twice"),
        ("name,size\na,1\nb\n", "row 3: the row has 1 cells; expected 2"),
        ("name,size\na,1,2\n", "row 2: the row has 3 cells; expected 2"),
        ('name,size\n"a,1\n', "row 2: is no CSV"),
        ('name,size\n"a"b,1\n', "row 2: is no CSV"),
        (b"name,size\nna\xefve,1\n", r"row 2: byte 3 \(0xef\) is not UTF-8"),
        (b"name,size\na\0,1\n", "row 2: the file holds NUL bytes"),
        (b"\x89PNG\r\n\x1a\n\0\0", r"row 1: byte 1 \(0x89\)|row 1: .*not UTF-8"),
        (b"\0" * 10_000_000, "row 1: the line is longer than"),
        (bytes(range(1, 10)) * 1_200_000, "row 1: the line is longer than"),
        ("name,size\n" + "x" * 10_000_000, "row 2: the line is longer than"),
        ('name,size\n"' + "x\n" * 1_000_000, "row 2: is no CSV"),
    ],
)
def test_what_is_no_table(tmp_path: Path, content: str | bytes, said: str) -> None:
    path = save(tmp_path, content)
    with pytest.raises(InputFileError, match=said) as caught:
        list(read_rows(path, COLUMNS))
    assert "table.csv" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing.csv", "no such file"), (".", "is a folder"), ("a\0b", "cannot be read"), ("n" * 300, "cannot be")],
)
def test_what_is_no_file(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(InputFileError, match=said):
        list(read_rows(tmp_path / name, COLUMNS))
    with pytest.raises(InputFileError, match=said):
        read_text(tmp_path / name)


def test_an_endless_file_is_no_table() -> None:
    with pytest.raises(InputFileError, match="/dev/zero, row 1: the line is longer"):
        list(read_rows("/dev/zero", COLUMNS))


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "1_0", "0x1", "", "1,5", "١", "one", "1e", "- 1"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(InputFileError, match=r"^table.csv, row 7, column size: "):
        row(size=text).number("size")
    with pytest.raises(InputFileError, match=r"^table.csv, row 7, column size: "):
        row(size=text).whole("size", low=0)


def test_limits_of_numbers() -> None:
    assert row(size="0").number("size", low=0) == 0.0
    assert row(size="+1.5e3").number("size", above=0) == 1500.0
    assert row(size="").number("size", default=2.0) == row().number("size", default=2.0) == 2.0
    assert row(size="4.0").whole("size", low=1, high=4) == 4
    for check, expected in (
        (lambda: row(size="-1").number("size", low=0), "'-1' cannot be used; expected a finite number, 0 or more"),
        (lambda: row(size="0").number("size", above=0), "expected a finite number above 0"),
        (lambda: row(size="1.5").whole("size", low=0), "expected a whole number, 0 or more"),
        (lambda: row(size="9").whole("size", low=0, high=8), "expected a whole number, from 0 to 8"),
        (lambda: row(size="9" * 20).whole("size", low=0), "expected a whole number, from 0 to 9007199254740992"),
        (lambda: row(size="9" * 5000).whole("size", low=0), "expected a whole number"),
        (lambda: row().text("size"), "the cell is empty"),
        (
            lambda: row(size="bg").text("size", known=("big", "small")),
            "'bg' is not known. Try: did you mean 'big'",
        ),
    ):
        with pytest.raises(InputFileError, match=expected) as caught:
            check()
        assert len(str(caught.value)) < 300


def test_long_values_are_shown_short() -> None:
    assert shown("x" * 100, 5) == "'xxxxx...'"
    assert shown("x") == "'x'"
    assert len(shown(list(range(1000)))) < 50
