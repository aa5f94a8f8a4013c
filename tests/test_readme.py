"""The README's code runs as it stands."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gavelx.cli.commands import app

README = (Path(__file__).parents[1] / "README.md").read_text()
THRIFTY, FROM_PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


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
