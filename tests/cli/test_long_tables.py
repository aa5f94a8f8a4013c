"""A table of very many rows says the same as a short one, at a fraction of the time."""

import io

from rich.console import Console

from gavelx.cli import tables
from gavelx.cli.tables import LONG, print_rows

HEADINGS = ["job", "share", "job type"]


def printed(rows: list[list[str]], width: int = 80) -> list[str]:
    out = io.StringIO()
    print_rows("a [policy]", HEADINGS, rows, Console(file=out, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_long_table_has_the_words_of_a_short_one(monkeypatch) -> None:
    rows = [[str(j), f"{j / 7:.3f}", f"ResNet-{j} [batch size 16]"] for j in range(40)]
    short = printed(rows)
    monkeypatch.setattr(tables, "LONG", 10)
    words = [line.replace("─", "").split() for line in printed(rows)]
    assert [line for line in words if line] == [
        line for line in (x.replace("─", "").split() for x in short) if line
    ]


def test_every_row_is_there_once_whatever_is_in_it_and_no_line_is_cut() -> None:
    rows = [[str(j), ".", "x" * 100 + f"\x1b[31m{j}\n"] for j in range(LONG + 1)]
    lines = printed(rows, width=40)
    assert len(lines) == len(rows) + 3
    assert all("\x1b" not in line for line in lines)
    assert all(f"{j}" in line and "x" * 100 in line for j, line in enumerate(lines[3:]))
    assert len({line.index("x") for line in lines[3:]}) == 1
