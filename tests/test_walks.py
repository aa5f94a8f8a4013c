"""What walks, decisions and ARCHITECTURE.md name is there: files, with their classes, functions and constants."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "walks").glob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
FILE = r"`((?:gavelx|tests|experiments|benchmarks|docs|examples)/[\w/]*(?:\.\w+|/))`"
NAMES = r"((?::|,)\s+`[A-Za-z_][\w.]*`)*"


@pytest.mark.parametrize("page", [*PAGES, *DECISIONS], ids=lambda page: page.name)
def test_every_file_is_there(page: Path) -> None:
    for name in re.findall(FILE, page.read_text()):
        assert (ROOT / name).exists(), f"{page.name} names {name}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_is_in_the_file_before_it(page: Path) -> None:
    for found in re.finditer(FILE + NAMES, page.read_text()):
        file = ROOT / found[1]
        for name in re.findall(r"`([\w.]+)`", found[0][len(found[1]) + 2 :]):
            assert _defines(file, name), f"{page.name} names {name} in {found[1]}; it is {_where(name)}"


def test_every_walk_is_listed() -> None:
    links = set(re.findall(r"\(docs/walks/(\w+\.md)\)", (ROOT / "ARCHITECTURE.md").read_text()))
    assert links == {page.name for page in PAGES[1:]}


def _defines(file: Path, name: str) -> bool:
    text = file.read_text() if file.is_file() else ""
    return all(
        re.search(rf"^(?:\s*(?:async )?(?:class|def) {part}\b|{part}\b.* = )", text, re.MULTILINE)
        for part in name.split(".")
    )


def _where(name: str) -> str:
    """Where something of this name is now, for those who mend the page."""
    files = [str(file.relative_to(ROOT)) for file in (ROOT / "gavelx").rglob("*.py") if _defines(file, name)]
    return f"in {', '.join(files)}" if files else "nowhere in the package"
