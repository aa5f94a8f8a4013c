"""The lease ends when the signal, the file or its clock says so, and not before."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from torch import nn

from gavelx.training import Training, lease
from gavelx.training.lease import Lease


@pytest.fixture(autouse=True)
def look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "POLL_S", 0.0)


def write(path: Path, **entries: object) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"lease_id": 1, **entries}))
    part.replace(path)


def test_without_a_file_only_the_signal_ends_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Lease(None) as mine:
        assert not mine.over(10**9, 1e9)
        signal.raise_signal(signal.SIGTERM)
        assert mine.over(0, 0.0)
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_ends_in_time_for_what_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "lease.json"
    write(path, until_monotonic_s=time.monotonic() + 50)
    mine = Lease(path)
    assert not mine.over(0, 20.0)
    assert not mine.over(0, 1e6), "half of a renewal at most"
    write(path, until_monotonic_s=time.monotonic() + 100)
    assert not mine.over(0, 49.0)
    write(path, until_monotonic_s=time.monotonic() - 1)
    assert mine.over(0, 0.0)
    write(path, until_monotonic_s=time.monotonic() + 60)
    assert not mine.over(0, 5.0), "renewed in the last moment"


def test_steps_and_stop(tmp_path: Path) -> None:
    path = tmp_path / "lease.json"
    write(path, until_step=20.0, stop=False)
    mine = Lease(path)
    assert [mine.over(step, 0.0) for step in (19, 20)] == [False, True]
    write(path, until_step=0)
    assert not mine.over(10**9, 0.0), "0: no such limit"
    write(path, stop=True)
    assert mine.over(0, 0.0)


@pytest.mark.parametrize("nonsense", ["", "{", "[]", '{"until_monotonic_s": "soon"}', '{"until_step": [1]}', "\0"])
def test_nonsense_changes_nothing(tmp_path: Path, nonsense: str) -> None:
    path = tmp_path / "lease.json"
    write(path, until_step=5)
    mine = Lease(path)
    assert mine.over(5, 0.0)
    path.write_text(nonsense)
    os.utime(path, ns=(1, 1))
    assert (mine.over(4, 0.0), mine.over(5, 0.0)) == (False, True)
    path.unlink()
    assert (mine.over(4, 0.0), mine.over(5, 0.0)) == (False, True)


def test_a_training_follows_its_lease_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"GAVELX_LEASE_FILE": tmp_path / "lease.json", "GAVELX_REPORT_FILE": tmp_path / "report.json"}
    environment = {name: str(path) for name, path in files.items()}
    environment |= {"GAVELX_JOB_DIR": str(tmp_path), "GAVELX_LEASE_ID": "12", "GAVELX_TOTAL_STEPS": "9"}
    write(files["GAVELX_LEASE_FILE"], until_monotonic_s=time.monotonic() + 60, until_step=4)

    def run() -> dict[str, object]:
        with Training(model=nn.Linear(1, 1), environment=environment) as training:
            for step in training.steps():
                training.done(loss=float("nan") if step == 3 else 0.5)
        return {}

    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 0
    report = json.loads(files["GAVELX_REPORT_FILE"].read_text())
    assert report["checkpoint_bytes"] > 0
    assert report["restart_s"] > 0
    counts = {key: report[key] for key in ("lease_id", "steps_done", "saved_steps", "total_steps", "complete")}
    assert counts == {"lease_id": 12, "steps_done": 4, "saved_steps": 4, "total_steps": 9, "complete": False}
    assert report["loss"] is None, "JSON knows no nan"
    write(files["GAVELX_LEASE_FILE"], until_step=9)
    run()
    report = json.loads(files["GAVELX_REPORT_FILE"].read_text())
    assert (report["saved_steps"], report["complete"], report["loss"]) == (9, True, 0.5)


def test_a_report_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    environment = {"GAVELX_REPORT_FILE": str(tmp_path / "gone" / "report.json"), "GAVELX_LEASE_ID": "1"}
    with (
        pytest.warns(UserWarning, match="report.json cannot be written") as said,
        Training(model=nn.Linear(1, 1), environment=environment, folder=tmp_path, total_steps=2) as training,
    ):
        for _ in training.steps():
            training.done()
    assert training.complete
    assert len(said) == 1
