"""Files in a command are named so that they are found from elsewhere."""

from pathlib import Path

import pytest

from gavelx.cli.command_line import with_whole_paths


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
