"""Every decision has a page with the same headings, a date, and a row in the index."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
PAGES = sorted(set(FOLDER.glob("*.md")) - {FOLDER / "README.md"})
HEADINGS = ["Context", "Decision", "Measurement", "Roads not taken"]
DATE = r"\d{4}-\d{2}-\d{2}"
LINES_MAX = 30


def test_the_index_lists_every_page_once() -> None:
    table = max((FOLDER / "README.md").read_text().split("\n\n"), key=len)  # rows elsewhere would be shown as text
    rows = re.findall(rf"^\| ({DATE}) \| (.+) \| \[(.+)\]\((.+)\) \|$", table, re.MULTILINE)
    listed = [(name, date, title) for date, _, title, name in rows]
    assert sorted(listed) == [(page.name, *_date_and_title(page)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_all_headings_and_text_under_each(page: Path) -> None:
    text = page.read_text()
    sections = re.findall(r"^## (.+)\n\n(.+)", text, re.MULTILINE)
    assert [heading for heading, _ in sections] == HEADINGS
    assert len(text.splitlines()) <= LINES_MAX, "a decision is a short page"


def _date_and_title(page: Path) -> tuple[str, str]:
    first = re.match(rf"# (.+)\n\nDate: ({DATE})\n", page.read_text())
    assert first, f"{page.name} does not begin with a title and a date"
    return first[2], first[1]
