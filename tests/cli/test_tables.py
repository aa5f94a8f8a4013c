import io

import pytest
from rich.console import Console

from gavelx.cli.tables import print_comparison, print_result
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
