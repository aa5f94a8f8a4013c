"""Each workload learns, and has the same loss curve however often it is preempted."""

import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from experiments import workloads
from experiments.workloads import measure, profile
from experiments.workloads.measure import WORKLOADS
from gavelx.files.profiles import Profile
from gavelx.files.throughput_tables import load_throughputs
from gavelx.measurements import Measurement
from gavelx.profiler.running import Job
from gavelx.throughputs import Setting
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell
from tests.terminal import Terminal
from tests.waiting import wait_until

torch = pytest.importorskip("torch")
PREEMPTED_AT = (7, 23)


def run(module: str, folder: Path, *arguments: str, until_step: int = 0) -> None:
    """One process's life, in this one."""
    (folder / "lease.json").write_text(json.dumps({"lease_id": 1, "until_step": until_step, "stop": False}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [module, "--quick", "--print-every", "1", *arguments])
        patch.setenv("GAVELX_JOB_DIR", str(folder))
        patch.setenv("GAVELX_LEASE_FILE", str(folder / "lease.json"))
        try:
            import_module(f"experiments.workloads.{module}").main()
        except SystemExit as left:
            assert left.code == 0


@pytest.mark.slow
@pytest.mark.parametrize("module", [one.module for one in WORKLOADS])
def test_it_learns_and_preemption_changes_no_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    threads = torch.get_num_threads()
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    whole.mkdir(), pieces.mkdir()
    run(module, whole)
    curve = re.findall(r"step (\d+) loss (\S+)\n", capsys.readouterr().out)
    for until_step in (*PREEMPTED_AT, 0):
        run(module, pieces, until_step=until_step)
    torch.set_num_threads(threads)
    assert re.findall(r"step (\d+) loss (\S+)\n", capsys.readouterr().out) == curve
    losses = [float(loss) for _, loss in curve]
    assert sum(losses[-10:]) < 0.97 * sum(losses[:10])


@pytest.mark.slow
def test_what_the_page_submits_is_run(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an agent without a GPU, which only sleeps here."""
    page = Path(workloads.__file__).with_name("README.md").read_text()
    (submitted,) = re.findall(r"^    (gavelx submit .*)$", page, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    with Terminal(tmp_path, shell, monkeypatch) as terminal:
        terminal.run("gavelx serve --listen 127.0.0.1:7070 --state state --heartbeat 1 > serve.log 2>&1 &")
        terminal.run(
            "gavelx worker --scheduler 127.0.0.1:7070 --devices cpu=1 --folder a --emulate > a.log 2>&1 &"
        )
        terminal.run("gavelx status")
        terminal.run(submitted)
        terminal.until("gavelx status", "says that it runs", lambda _, said: "0 waiting, 1 running" in said)


@pytest.mark.slow
def test_what_a_preemption_costs_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(["--only", "recommendation", "--before", "2", "--steps", "5"]) == 0
    titles, _, row, *_ = capsys.readouterr().out.splitlines()
    cells = dict(zip(titles.split(" | "), row.split(" | "), strict=True))
    assert float(cells["steps/s"]) > 0
    assert float(cells["checkpoint, kB"]) > 100
    assert float(cells["restart, s |"].rstrip("| ")) > 0


@pytest.mark.slow
def test_one_command_profiles_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))  # which it changes
    short = ["--only", "recommendation", "--seconds", "8", "--repeat", "1", "--again"]

    def rows() -> list[str]:
        """None, if the machine was too busy to tell."""
        assert profile.main([*short, "--out", str(tmp_path / "speeds.csv")]) == 0
        printed = capsys.readouterr().out.splitlines()
        return [line for line in printed if line.startswith("| `recommendation-quick")]

    (row,) = wait_until(rows, "it is profiled")
    assert (load_throughputs(tmp_path / "speeds.csv").get("recommendation-quick", "cpu") or 0) > 0
    assert row.split(" | ")[-1].rstrip(" |") in ("yes", "no")


def test_what_could_be_measured_only_once_does_not_agree() -> None:
    measured = Measurement(Setting("net", "cpu", 1), steps_per_second=5.0, relative_error=0.1)
    first = {Job("net", ("true",)): Profile(measured)}
    assert profile.table(first, {}).splitlines()[2].endswith(" |  | no |")
    assert profile.table(first, None).splitlines()[2].endswith(" | 0% |")


def test_every_workload_is_in_the_table() -> None:
    files = {path.stem for path in measure.HERE.glob("*.py")} - {"__init__", "common", "measure", "profile"}
    assert files == {one.module for one in WORKLOADS}
    page = (measure.HERE / "README.md").read_text()
    assert all(f"`{one.module}.py`" in page for one in WORKLOADS)
