"""Logs that older versions wrote bring the same commands, and the same figures, to the digit."""

import json
from pathlib import Path
from typing import Any

import pytest

from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Record, entry_of
from tests.service.written_log import figures, said

OLD = sorted((Path(__file__).parents[1] / "data").glob("log_of_version_*.json"))


@pytest.mark.parametrize("file", OLD, ids=lambda file: file.stem)
def test_an_older_log_brings_what_it_brought(file: Path) -> None:
    log = json.loads(file.read_text())
    state = State(Configuration.from_json(log["configuration"]))
    for n, ((time_s, kind, body), brought) in enumerate(zip(log["records"], log["commands"], strict=True), 1):
        commands = state.apply(entry_of(Record(n, time_s, kind, body, log["version"])))
        assert said(commands) == brought, f"record {n}, {kind}"
    assert figures(state) == log["figures"]


def test_what_a_log_is_made_with_is_written_as_it_was() -> None:
    written = json.loads(OLD[-1].read_text())["configuration"]
    assert same(written) == written
    written["overheads"]["a"] = [1.0, 2.0, 3.0]
    assert same(written) == written


def same(written: dict[str, Any]) -> dict[str, Any]:
    """Read and written again, without rules that came later."""
    again = Configuration.from_json(written).to_json()
    return again | {"rules": {name: again["rules"][name] for name in written["rules"]}}
