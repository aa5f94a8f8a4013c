import os
from pathlib import Path

import pytest

from gavelx.errors import OptionError
from gavelx.files.atomic import ensure_writable, write_atomically


def test_new_file_and_changed_file(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_atomically(path, "früh\r\n")
    assert path.read_bytes() == "früh\r\n".encode()
    write_atomically(path, b"late")
    assert path.read_bytes() == b"late"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_long_names_work(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    ensure_writable(path)
    write_atomically(path, "x")
    assert path.read_text() == "x"


def test_a_device_is_written_to_not_replaced() -> None:
    write_atomically(os.devnull, "x")
    ensure_writable(os.devnull)
    assert not Path(os.devnull).is_file()


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OptionError, match=r"out.json.*No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("check", [ensure_writable, lambda path: write_atomically(path, "x")])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing/out.json", "there is no folder '.*missing'"),
        ("file/out.json", "there is no folder '.*file'"),
        ("folder", "is a folder"),
        ("n" * 300, "cannot be written"),
        ("nul\0", "is no file name"),
    ],
)
def test_where_nothing_can_be_written(tmp_path: Path, check, name: str, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OptionError, match=said):
        check(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_the_check_leaves_no_trace(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "out.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OptionError, match="we may not write there"):
        ensure_writable(tmp_path / "out.json")


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    path, link = tmp_path / "trace.csv", tmp_path / "link"
    ensure_writable(path, str(path))  # nothing is there to be lost
    path.write_text("jobs")
    link.symlink_to(path)
    for out in (path, link, tmp_path / "." / "trace.csv"):
        with pytest.raises(OptionError, match="it is read from, and would be lost; expected another file"):
            ensure_writable(out, None, 7, "gcp", str(path))
