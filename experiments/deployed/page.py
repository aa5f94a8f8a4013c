"""What is written: tables in README.md, each below the command that made it, and their figures as JSON."""

import json
import os
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("README.md")


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """A table; the first columns hold words, the others numbers."""
    lines = [titles, ["---"] * left + ["---:"] * (len(titles) - left), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def this_machine() -> str:
    """What it was measured on."""
    load, python = " ".join(f"{value:.2f}" for value in os.getloadavg()), platform.python_version()
    return f"\n{os.cpu_count()} processor cores, load average {load} afterwards, Python {python}.\n"


def put(part: str, words: Sequence[str], text: str, figures: Any) -> None:
    """Put a text between the marks of its part, and the figures into ``results/``."""
    page = PAGE.read_text()
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->\n"
    head, found, rest = page.partition(begin)
    assert found and end in rest, f"{PAGE} has no place for {part}"
    command = shlex.join(["python", "-m", f"experiments.deployed.{part}", *words])
    PAGE.write_text(f"{head}{begin}\n    {command}\n\n{text}{end}{rest.partition(end)[2]}")
    results = PAGE.parent / "results" / f"{part}.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps({"command": command, "found": figures}, indent=1) + "\n")
