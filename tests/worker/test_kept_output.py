"""Output of ended leases is kept by owner, days and bytes, and what is removed is remembered."""

import os
from pathlib import Path
from typing import Any

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.devices import Devices
from gavelx.worker.kept_output import DAY_S, GIB, NOTES_MAX, KeepOutput, KeptOutput
from gavelx.worker.logs import Tail
from gavelx.worker.runner import ProcessRunner
from gavelx.worker.state import ACKNOWLEDGED, Folder

OUTPUT = 64 << 10


def ended(folder: Folder, lease_id: int, job_id: int, *, at_s: float = 0.0, owner: str | None = "ada") -> None:
    """An ended lease with ``OUTPUT`` bytes of output; the scheduler knows its end."""
    lease = folder.create(lease_id)
    launch: dict[str, Any] = {"job_id": job_id, "job_folder": f"/shared/jobs/{job_id}"}
    lease.write_launch(launch if owner is None else launch | {"owner": owner})
    (lease.path / "out.0.log").write_bytes(b"x" * OUTPUT)
    lease.keep_ended({"lease_id": lease_id, "report_id": str(lease_id)})
    lease.acknowledge()
    os.utime(lease.path / ACKNOWLEDGED, (at_s, at_s))


def kept(folder: Folder) -> list[int]:
    return [lease.lease_id for lease in folder.all()]


def leases(count: float) -> KeepOutput:
    """Room for so many of these leases of an owner; each has some small files too."""
    return KeepOutput(gib=(count + 0.5) * (OUTPUT + 8192) / GIB)


def test_many_leases_of_one_owner_remove_none_of_another(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    ended(folder, 1, 1, owner="ada")
    for n in range(300):
        ended(folder, 2 + n, 2 + n, owner="bob", at_s=float(n))
    output = KeptOutput(folder, leases(5))
    output.prune((), now_s=DAY_S)
    assert kept(folder)[0] == 1 and len(kept(folder)) == 6
    assert kept(folder)[1:] == list(range(297, 302)), "bob's newest"
    assert output.why_removed(1) == ""
    assert output.why_removed(2).startswith("was removed when bob's output on this server passed 0.0")
    folder.close()


def test_many_leases_are_kept_while_their_owner_has_room(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for n in range(300):
        ended(folder, n, 7)
    assert KeptOutput(folder, KeepOutput()).prune((), now_s=DAY_S) == []
    folder.close()


def test_a_running_job_keeps_earlier_leases_longest(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for lease_id in (1, 2):
        ended(folder, lease_id, 7, at_s=float(lease_id))
    for lease_id in (3, 4):
        ended(folder, lease_id, lease_id, at_s=float(lease_id))
    assert KeptOutput(folder, leases(3)).prune({7}, now_s=DAY_S) == [3]
    assert KeptOutput(folder, leases(1)).prune({7}, now_s=DAY_S) == [4, 1], "too much of the running job alone"
    folder.close()


def test_output_ages_from_the_last_lease_of_its_job(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    ended(folder, 1, 1, at_s=0.0)
    ended(folder, 2, 2, at_s=0.0)
    ended(folder, 3, 2, at_s=20 * DAY_S)
    ended(folder, 4, 4, at_s=0.0)
    output = KeptOutput(folder, KeepOutput(days=30.0))
    assert output.prune({4}, now_s=31 * DAY_S) == [1]
    assert output.why_removed(1) == "was removed after 30 days"
    assert output.prune({4}, now_s=51 * DAY_S) == [2, 3]
    assert kept(folder) == [4], "its job runs"
    folder.close()


def test_leases_without_an_owner_are_kept_together(tmp_path: Path) -> None:
    """As agents of an earlier version left them."""
    folder = Folder(tmp_path)
    for lease_id in (1, 2, 3):
        ended(folder, lease_id, lease_id, owner=None, at_s=float(lease_id))
    output = KeptOutput(folder, leases(2))
    assert output.prune((), now_s=DAY_S) == [1]
    assert "the output of all on this server passed" in output.why_removed(1)
    folder.close()


def test_what_the_scheduler_has_not_heard_of_is_never_removed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    lease = folder.create(1)
    lease.write_launch({"job_id": 1})
    lease.keep_ended({"lease_id": 1})
    assert KeptOutput(folder, KeepOutput(0.0, 0.0)).prune((), now_s=1e12) == []
    assert lease.ended() == {"lease_id": 1}
    folder.close()


def test_a_link_in_place_of_a_lease_is_not_followed(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "agent")
    ended(folder, 1, 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(b"x" * OUTPUT)
    lease = folder.lease(1).path
    lease.rename(tmp_path / "moved")
    lease.symlink_to(tmp_path / "moved")
    KeptOutput(folder, KeepOutput(0.0, 0.0)).prune((), now_s=1e12)
    assert (tmp_path / "moved" / "out.0.log").exists() and (tmp_path / "other" / "file").exists()
    folder.close()


def test_notes_of_removed_output_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert NOTES_MAX >= 1000
    monkeypatch.setattr("gavelx.worker.kept_output.NOTES_MAX", 3)
    folder = Folder(tmp_path)
    for lease_id in range(1, 9):
        ended(folder, lease_id, lease_id)
    output = KeptOutput(folder, KeepOutput(days=0.0))
    output.prune((), now_s=DAY_S)
    assert [job_id for job_id in range(1, 9) if output.why_removed(job_id)] == [6, 7, 8]
    folder.close()


def test_a_reader_is_told_that_output_was_removed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    ended(folder, 1, 7)
    runner = ProcessRunner(folder, tmp_path / "shared", Devices("cpu", ("",)), keep=KeepOutput(days=1.0))
    assert list(runner.leases_of(7)) == []
    tail = Tail(wire.SendLog(request_id="r", job_id=7), "one")
    (first, last) = tail.parts(runner.leases_of(7), runner.removed)
    assert first.log_part.chunk == wire.LogChunk(server="one", removed="was removed after 1 day")
    assert last.log_part.last
    runner.close()
