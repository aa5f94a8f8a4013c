"""Files in a command are named so that they are found from elsewhere."""

import re
from pathlib import Path

import pytest

from gavelx.cli.command_line import check_can_be_run, with_whole_paths
from gavelx.errors import OptionError


def test_files_here_get_their_whole_path_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "run.sh", "hello", "-x.py"):
        (tmp_path / name).touch()
    (tmp_path / "data").mkdir()
    command = [
        "python",
        "train.py",
        "--data",
        "data/",
        "--lr=0.1",
        "none.py",
        "hello",
        "-x.py",
        "/etc",
        "x" * 5000,
    ]
    here = str(tmp_path)
    expected = ["python", f"{here}/train.py", "--data", f"{here}/data", *command[4:]]
    assert with_whole_paths(command) == tuple(expected)
    assert with_whole_paths(["./run.sh", "a\0.b"]) == (f"{here}/run.sh", "a\0.b")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("job.yaml", "gavelx submit --workers 2 -- python train.py"),
        ("notes", "gavelx submit --workers 2 -- python train.py"),
        ("train.py", "python .*train.py --lr 0.1, or chmod"),
        ("job.sbatch", "bash .*job.sbatch --lr 0.1, or chmod"),
    ],
)
def test_a_file_that_is_no_program_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch(0o644)
    for typed in (f"./{name}", str(tmp_path / name)):
        with pytest.raises(OptionError, match="cannot be executed") as refused:
            check_can_be_run([typed, "--lr", "0.1"])
        assert re.search(hint, str(refused.value))
    (tmp_path / name).chmod(0o755)
    check_can_be_run([f"./{name}"])


@pytest.mark.parametrize("command", [["echo", "a.txt"], ["none.yaml"], ["."], [], ["/etc"]])
def test_commands_that_may_be_programs_are_left_alone(command: list[str]) -> None:
    check_can_be_run(command)
