"""No lease hangs on a clock that somebody may set: service and agents look at the monotonic one alone.

The runs of `run.play` let the wall clock jump by years all the time; here it is read off the source.
"""

import ast
from pathlib import Path

import pytest

import gavelx

PACKAGE = Path(gavelx.__file__).parent
WALL = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
ALLOWED = {
    "rpc/certificates.py",
    "rpc/tokens.py",
    "service/measuring.py",
    "worker/usage.py",
    "worker/kept_output.py",
}
"""Certificates, tokens, measured speeds, what a GPU's driver has measured and kept output have dates on them."""


@pytest.mark.parametrize("room", ["service", "worker", "rpc", "mechanism"])
def test_nobody_looks_at_the_wall_clock(room: str) -> None:
    found = set()
    for path in (PACKAGE / room).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                if (owner, node.attr) in WALL:
                    found.add(f"{room}/{path.name}")
    assert found <= ALLOWED
