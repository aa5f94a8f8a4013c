import io

import pytest
from rich.console import Console

from gavelx.cli.tables import print_comparison, print_result, print_speeds
from gavelx.report.speeds import SpeedsOfType
from tests.report.results import NASTY, result

NAN = float("nan")


def printed(width: int, *names: str) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_comparison([result(policy=name) for name in names], console)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_any_name_stays_within_the_terminal(width: int) -> None:
    text = printed(width, *NASTY)
    assert max(map(len, text.splitlines())) <= width
    assert "[red]no[/]" in text
    text.encode()


def test_a_run_without_completions_has_dashes() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_result(result((), (NAN,), policy="idle"), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "0/1" in text
    assert " -" in text


@pytest.mark.parametrize("seldom", [0, 3])
def test_the_table_of_speeds_is_whole_in_a_narrow_terminal(seldom: int) -> None:
    console = Console(file=io.StringIO(), width=60, highlight=False)
    print_speeds([SpeedsOfType("a100-80gb", 0, 15, seldom, seldom, 1.88, 2.72)], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 60
    assert ("unknown" in text) == bool(seldom), "columns without a number are left out"
