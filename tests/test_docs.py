"""The documentation runs as it stands, and lists what there is.

Blocks of a page are run in order, in one empty folder: ``python`` whose first line is ``# name.py`` is saved under
that name, other ``python`` is executed; each line of ``sh`` is run as in a shell, and ends with 0 or with the exit
code that its comment says; every line of ``text`` stands in the output of the command before it. The lines of
``bash`` go to one bash, with services and agents in its background (tests/terminal.py). ``console`` is for
machines that tests do not have; the files that it names are there.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gavelx.cli.commands import app
from gavelx.policies import catalog, load_policy, modifiers
from gavelx.policies.loading import ENTRY_POINTS
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell
from tests.terminal import ASKS, Terminal
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LINKING = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
POLICIES = (ROOT / "docs" / "policies.md").read_text()
LABELS = ("Formula", "Promises", "Source", "When")


@dataclass
class Page:
    """Runs the blocks of one page, each in what the ones before it left."""

    shell: Shell
    terminal: Terminal
    names: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    asked: str = ""

    def bash(self, text: str) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            command, _, comment = line.partition("    # exit code ")
            self.output = self.terminal.run(command, int(comment or 0))
            self.asked = command if command.startswith(ASKS) else ""

    def console(self, text: str) -> None:
        for path in re.findall(r"\bdeploy/[\w./-]+", text):
            assert (ROOT / path).exists(), path

    def python(self, text: str) -> None:
        if name := re.match(r"# (\w+\.py)\n", text):
            Path(name[1]).write_text(text)
        else:
            exec(text, self.names)

    def sh(self, text: str) -> None:
        for line in text.splitlines():
            command, _, comment = line.partition("    # exit code ")
            if command.startswith("gavelx throughputs measure"):  # a busy machine may be too unsteady to tell
                wait_until(lambda: self.code_of(command) == 0, command, lambda: self.output)  # noqa: B023
            else:
                assert self.code_of(command) == int(comment or 0), f"{line}\n{self.output}"

    def code_of(self, command: str) -> int:
        code, self.output = self.run(shlex.split(command))
        return code

    def run(self, words: list[str]) -> tuple[int, str]:
        match words:
            case ["gavelx", *arguments]:
                one = ["--workers", "1"] if arguments[0] == "compare" else []
                ran = self.shell(*arguments, *one)
                return ran.code, ran.out + ran.err
            case ["pytest", *arguments]:
                return self.pytest(arguments)
            case ["python", *arguments]:
                return self.process(arguments)
            case ["torchrun", *arguments]:
                return self.process(["-m", "torch.distributed.run", "--local-addr", "127.0.0.1", *arguments])
            case ["pip", "install", what]:
                return 0 if set(what.partition("[")[2].rstrip("]").split(",")) <= EXTRAS.keys() else 1, ""
        raise AssertionError(f"nobody knows how to run {words}")

    def pytest(self, arguments: list[str]) -> tuple[int, str]:
        return self.process(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", *arguments])

    def process(self, arguments: list[str]) -> tuple[int, str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": "1"}  # CI: the same cases every time
        command = [sys.executable, *arguments]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr

    def text(self, text: str) -> None:
        missing = _missing(text, self.output)
        if missing and self.asked:  # a cluster takes its time
            what = f"prints {missing[0]!r}"
            self.output = self.terminal.until(self.asked, what, lambda _, said: not _missing(text, said))
        else:
            assert not missing, f"{missing[0]}\nis not in\n{self.output}"

    def toml(self, text: str) -> None:
        assert ENTRY_POINTS in tomllib.loads(text)["project"]["entry-points"]


def _missing(text: str, output: str) -> list[str]:
    seen = " ".join(output.split())
    return [line for line in text.splitlines() if " ".join(line.split()) not in seen]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs(page: Path, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with Terminal(tmp_path, shell, monkeypatch) as terminal:
        running = Page(shell, terminal)
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
            getattr(running, language)(text)


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, _, heading in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", page.read_text()):
        there = page.parent / target if target else page
        assert "://" in target or there.exists(), target
        assert not heading or heading in _headings(there), f"{target}#{heading}"


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    """In code of a line or a block; its options as well, up to the command that a user gives after ``--``."""
    text = page.read_text()
    blocks = re.findall(r"^ *```(?:sh|bash|console)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))
    for line in lines:
        if (words := line.split()) and words[0] == "gavelx":
            _check_command(words[1:], " ".join(words))


def _check_command(words: list[str], line: str) -> None:
    command: Any = get_command(app)
    while hasattr(command, "commands") and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        assert words[0] in command.commands, line
        command, words = command.commands[words[0]], words[1:]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    for word in words[: words.index("--") if "--" in words else None]:
        if word in {"|", "&&", ";", "#", ">"}:
            return
        assert not re.match(r"--\w", word) or word.partition("=")[0].rstrip(",;.)]") in known, f"{line}: {word}"


def _headings(page: Path) -> set[str]:
    """The headings of a page, as links spell them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def sections() -> dict[str, str]:
    """The text under each heading of docs/policies.md that names a policy or a modifier."""
    return dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^#|\Z)", POLICIES, re.DOTALL | re.MULTILINE))


def test_every_policy_and_modifier_has_a_section() -> None:
    built_in = {name for name, policy in catalog().items() if type(policy).__module__.startswith("gavelx.")}
    assert sections().keys() == built_in | modifiers().keys()


@pytest.mark.parametrize("name", sections())
def test_a_section_says_formula_promises_source_and_when(name: str) -> None:
    entries = dict(re.findall(r"^\*\*(\w+)\.\*\* (.+)$", sections()[name], re.MULTILINE))
    assert tuple(entries) == LABELS
    if name in catalog():
        declared = ", ".join(load_policy(name).promises) or "none"
        assert entries["Promises"] == declared


def test_the_policies_that_look_at_weights_are_named() -> None:
    (named,) = re.findall(r"^Weights count in (.*)$", POLICIES, re.MULTILINE)
    look = {name for name in sections() if name in catalog() and "weights" not in load_policy(name).ignores}
    assert set(re.findall(r"`(\w+)`", named)) == look


def test_the_messages_that_are_explained_are_those_that_appear() -> None:
    """The parts of each between what stands for a name or a number are in the source as they are."""
    page = (ROOT / "docs" / "operations.md").read_text().partition("## What the messages mean")[2]
    source = "".join(path.read_text() for path in (ROOT / "gavelx").rglob("*.py"))
    messages = re.findall(
        r"`([a-zA-Z][^`]+)`", " ".join(line for line in page.split("**") if line.startswith("`"))
    )
    assert len(messages) >= 8
    for message in messages:
        for part in re.split(r"HOST:PORT|\b[XYN]\b", message):
            assert part.strip(" ,") in source, message
