import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.against_commit import __main__ as against_commit
from benchmarks.against_commit.cases import CASES

HERE = Path(__file__).parents[2]
PYTHON = Path(sys.executable)


@pytest.mark.parametrize(
    "case", ["strategy_proof, 64 x 3", "gavelx allocate, 4,096 jobs", "rounds of 40, fifo, default"]
)
def test_a_case_says_its_processor_time_and_gives_the_same_answer_twice(case: str) -> None:
    one, other = (against_commit.measure((HERE, PYTHON), case) for _ in range(2))
    assert one["answer"] == other["answer"]
    assert min(one["seconds"], other["seconds"]) > 0.01
    assert (0.0 < one["answering_s"] < one["seconds"]) == ("rounds" in case)


def test_sides_take_turns_and_ratios_are_those_of_pairs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = iter([(2.0, "a"), (1.0, "a"), (9.0, "a"), (3.0, "a"), (4.0, "a"), (4.0, "a")])

    def measure(side: against_commit.Side, case: str) -> dict[str, Any]:
        seconds, answer = next(runs)
        return {"seconds": seconds, "answering_s": seconds / 10, "answer": answer}

    monkeypatch.setattr(against_commit, "measure", measure)
    row = against_commit.compare("any", (tmp_path, PYTHON), 3)
    assert (row["before_s"], row["now_s"]) == (4.0, 3.0)
    assert (row["ratio_min"], row["ratio"], row["ratio_max"]) == (1.0, 2.0, 3.0)
    assert row["ratio_of_answers"] == pytest.approx(4.0 / 0.3)
    assert row["same_answer"]


def test_another_answer_failures_and_slow_cases_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(against_commit, "checked_out", lambda commit: (tmp_path, PYTHON))

    def measure(side: against_commit.Side, case: str) -> dict[str, Any]:
        if "makespan" in case:
            return {"failed": ["ValueError: no"]}
        answering_s = 0.25 if "rounds" in case else 0.0
        return {
            "seconds": 1.0 if side[0] == tmp_path else 2.0,
            "answering_s": answering_s,
            "answer": str(side[0]),
        }

    monkeypatch.setattr(against_commit, "measure", measure)
    file = tmp_path / "rows.json"
    assert against_commit.main(["--pairs", "1", "--below", "0.8", "--json", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "failed: ValueError: no" in out
    assert out.count("another answer") == len(CASES) - 1
    assert out.count(", at most 4.0") == sum("rounds" in case for case in CASES)
    assert err.count("warning: ") == len(CASES)
    assert len(json.loads(file.read_text())["rows"]) == len(CASES)


def test_no_case_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        against_commit.main(["--only", "nothing"])
    assert "--only nothing: no case has that in its name" in capsys.readouterr().err


def test_a_side_that_fails_says_why(tmp_path: Path) -> None:
    assert "KeyError" in against_commit.measure((tmp_path, PYTHON), "nothing")["failed"][0]


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository with one commit, and a file that was changed since; what installs it there does nothing."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "pyproject.toml").write_text("then")
    (tmp_path / "Makefile").write_text(".venv/.core:\n\tmkdir -p .venv && touch $@\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "pyproject.toml", "Makefile"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    monkeypatch.setattr(against_commit, "HERE", tmp_path)
    return tmp_path


def test_a_commit_is_checked_out_as_it_was(clone: Path) -> None:
    """Its files and no others, with an environment of its own where other things are to be installed."""
    (clone / "pyproject.toml").write_text("now")
    folder, python = against_commit.checked_out("HEAD")
    assert (folder / "pyproject.toml").read_text() == "then"
    assert python == folder / ".venv" / "bin" / "python"
    assert (folder / ".venv" / ".core").exists()
    assert (folder, python) == against_commit.checked_out("HEAD")


def test_where_the_same_is_installed_no_environment_is_made(clone: Path) -> None:
    folder, python = against_commit.checked_out("HEAD")
    assert python == PYTHON
    assert not (folder / ".venv").exists()


def test_a_commit_that_this_clone_lacks_is_named(clone: Path) -> None:
    with pytest.raises(SystemExit, match="HEAD~1: no such commit in this clone"):
        against_commit.checked_out("HEAD~1")


def test_the_quick_cases_are_cases() -> None:
    assert set(against_commit.QUICK) < set(CASES)
