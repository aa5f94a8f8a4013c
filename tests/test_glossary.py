"""The glossary says what is so: every name in it is there, and every public name has an entry."""

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import typer

import gavelx
from gavelx import Cluster, load_policy, load_throughputs, random_jobs, simulate, write_trace
from gavelx.cli.commands import app
from gavelx.policies import catalog, modifiers

DOCS = Path(__file__).parents[1] / "docs"
ENTRY = r"^\* \*\*(.+?)\*\* \((.+?)\): (.+?)(?=\n\* |\n\n|\Z)"
ENTRIES = {
    name: re.findall(r"`([^`]+)`", names)
    for name, names, _ in re.findall(ENTRY, (DOCS / "glossary.md").read_text(), re.MULTILINE | re.DOTALL)
}


def test_every_entry_is_read() -> None:
    """One without a name in the code is not, nor one that is written otherwise."""
    lines = [line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("* ")]
    assert [line for line in lines if not any(line.startswith(f"* **{name}** (") for name in ENTRIES)] == []
    assert len(lines) == len(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_name_is_there(entry: str, commands: set[str], options: set[str], columns: set[str]) -> None:
    for name in ENTRIES[entry]:
        if name.startswith("--"):
            there, what = name in options, "no option of any command"
        elif name.startswith("gavelx "):
            there, what = name in commands, "no command"
        elif name.startswith("gavelx."):
            there, what = _is_public(name), "no name that can be imported"
        else:
            there, what = name in columns | catalog().keys() | modifiers().keys(), "no column, policy or modifier"
        assert there, f"docs/glossary.md, entry {entry!r}: {name} is {what} any more"


def test_every_public_name_has_an_entry() -> None:
    explained = {name for names in ENTRIES.values() for name in names}
    policies = (DOCS / "policies.md").read_text()
    missing = [n for n in gavelx.__all__ if f"gavelx.{n}" not in explained and f"`{n}`" not in policies]
    assert not missing, f"docs/glossary.md says nothing of gavelx.{', gavelx.'.join(missing)}"


def _is_public(name: str) -> bool:
    """Whether it is a module, something in one, or an attribute or field of a class in one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        return _has(found, parts[n:])
    return False


def _has(found: Any, path: list[str]) -> bool:
    if not path:
        return True
    if hasattr(found, path[0]):
        return _has(getattr(found, path[0]), path[1:])
    fields = {each.name for each in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else set()
    return len(path) == 1 and path[0] in fields


@pytest.fixture(scope="module")
def commands() -> set[str]:
    return set(_commands(typer.main.get_command(app), "gavelx"))


@pytest.fixture(scope="module")
def options() -> set[str]:
    found = _commands(typer.main.get_command(app), "gavelx").values()
    return {option for command in found for parameter in command.params for option in parameter.opts}


def _commands(command: Any, name: str) -> dict[str, Any]:
    """A command and those below it, by what one types."""
    below = getattr(command, "commands", {})
    return {name: command} | {
        full: each for word, sub in below.items() for full, each in _commands(sub, f"{name} {word}").items()
    }


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Of a trace and of a result: what is written of one short run."""
    table, cluster = load_throughputs("simulation"), Cluster.parse("v100=1")
    jobs = [dataclasses.replace(random_jobs(1, table, seed=0)[0], owner="a", preemptible="no")]
    trace = tmp_path_factory.mktemp("trace") / "trace.csv"
    write_trace(trace, jobs)
    result = simulate(load_policy("fifo"), jobs, cluster, table)
    document = result.to_json()
    return {*trace.read_text().splitlines()[0].split(","), *document, *document["per_job"][0]}
