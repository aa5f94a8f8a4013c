"""The README's code runs as it stands, and its table is what its first command prints."""

import json
import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gavelx.cli import demo
from gavelx.cli.commands import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
THRIFTY, FROM_PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def printed_table() -> str:
    """The tables that the README shows under its first command, without their indentation."""
    (block,) = re.findall(r"all figures in `out/compare.json`:\n\n(.*?)\n\nJCT is", README, re.DOTALL)
    return textwrap.dedent(block)


def arguments_of_make_compare() -> list[str]:
    """What `make compare` says to gavelx, without the files that it writes."""
    make = ["make", "--dry-run", "--no-print-directory", "compare"]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (command,) = re.findall(r"^\S*/gavelx (compare .*)$", said.replace("\\\n", " "), re.MULTILINE)
    words = shlex.split(command)
    return words[: words.index("--html")]


@pytest.mark.slow
def test_the_table_is_what_the_first_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last digit, on any processor; and so is the sentence below it."""
    monkeypatch.chdir(tmp_path)
    options = ["--workers", "1", "--json", "compare.json"]
    answer = CliRunner().invoke(app, [*arguments_of_make_compare(), *options])
    assert answer.exit_code == 0, answer.output
    assert printed_table() in re.sub(" +$", "", answer.stdout, flags=re.MULTILINE)
    jct_h = {
        run["policy"]: run["jct_mean_s"] / 3600 for run in json.loads(Path("compare.json").read_text())["runs"]
    }
    blind, aware = (jct_h[name] for name in ("agnostic(max_min_fairness)", "max_min_fairness"))
    costs = f"costs {blind / aware - 1:.0%} in mean completion time here ({blind:.1f} h against {aware:.1f} h)"
    assert costs.replace("%", " %") in " ".join(README.split())


def test_the_policy_of_the_readme_runs_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thrifty.py").write_text(THRIFTY)
    assert len(THRIFTY.splitlines()) <= 10
    (command,) = re.findall(r"^    gavelx (compare .*thrifty:policy.*)$", README, re.MULTILINE)
    arguments = re.findall(r'"[^"]*"|\S+', command)
    options = ["--workers", "1", "--json", "runs.json"]
    answer = CliRunner().invoke(app, [*(word.strip('"') for word in arguments), *options])
    assert answer.exit_code == 0, answer.output
    assert "thrifty:policy" in answer.stdout


def test_the_script_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(FROM_PYTHON, {})
    assert "hours on average" in capsys.readouterr().out


def test_every_command_of_the_readme_exists() -> None:
    for name in re.findall(r"^    gavelx (\w+)", README, re.MULTILINE):
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def test_the_demo_is_the_first_command() -> None:
    same = demo.RUN.command(f"compare --policies '{demo.POLICIES}'")
    assert {*shlex.split(same), "--table", "simulation"} == {*arguments_of_make_compare()}
