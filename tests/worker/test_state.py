"""The agent's folder."""

import os
from pathlib import Path

import pytest

from gavelx.errors import OptionError
from gavelx.worker import state
from gavelx.worker.state import Folder, LockedError


def test_it_is_private_and_one_agents(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "agent")
    assert (tmp_path / "agent").stat().st_mode & 0o777 == 0o700
    with pytest.raises(OptionError, match="another agent is at work"):
        Folder(tmp_path / "agent")
    folder.close()
    Folder(tmp_path / "agent").close()


def test_it_knows_itself_again(tmp_path: Path) -> None:
    first = Folder(tmp_path / "a")
    first.belong_to("log")
    first.close()
    again, other = Folder(tmp_path / "a"), Folder(tmp_path / "b")
    assert (again.boot_id, again.log_id) == (first.boot_id, "log")
    assert other.boot_id != first.boot_id
    again.close()
    other.close()


def test_a_path_that_cannot_be_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="--folder"):
        Folder(tmp_path / "file")


def test_a_shims_lock_passes_on_to_its_children(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    lease = folder.create(7)
    lock = lease.lock_for_shim()
    inherited = os.dup(lock)
    os.close(lock)
    assert lease.shim_lives()
    with pytest.raises(LockedError):
        lease.lock_for_shim()
    os.close(inherited)
    assert not lease.shim_lives()
    folder.close()


def test_a_folder_beside_the_leases_is_none_of_them(tmp_path: Path) -> None:
    """A job may make any: the digit that is no number as well."""
    folder = Folder(tmp_path)
    for name in ("7", "\u00b2", "x"):
        (folder.leases / name).mkdir()
    assert [lease.lease_id for lease in folder.all()] == [7]
    folder.close()


def test_a_lease_is_rewritten_in_place_when_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    lease = folder.create(1)
    lease.write_lease({"until": 1.5, "reason": "long" * 100})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state, "write_json", full)
    lease.write_lease({"until": 2.5})
    assert lease.lease() == {"until": 2.5}
    folder.close()
