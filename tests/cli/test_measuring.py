"""``gavelx throughputs measure`` with real processes on this machine."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gavelx.files.throughput_tables import load_throughputs
from gavelx.throughputs import Pairing, Setting
from tests.cli.running import Ran, Shell
from tests.waiting import wait_until

JOB = """
import json, os, sys, time
pace, path, steps = float(sys.argv[1]), os.environ["GAVELX_REPORT_FILE"], 0
began_s = time.monotonic()
if pace == 0:
    sys.exit("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB")
if pace == 21:
    sys.exit("no data")
while steps < float(os.environ["GAVELX_TOTAL_STEPS"]):
    time.sleep(1 / abs(pace) if pace > 0 or steps < 10 else 60)
    steps += 1
    report = {"lease_id": int(os.environ["GAVELX_LEASE_ID"]), "steps_done": steps, "saved_steps": 0}
    with open(path + ".part", "w") as file:
        json.dump(report | {"monotonic_s": began_s + steps / abs(pace)}, file)
    os.replace(path + ".part", path)
    print("step", steps, flush=True)
"""
"""Its reports say that it keeps its pace, however busy this machine is; it never is ahead of it."""
TYPES = "--accelerator", "cpu", "--seconds", 1.5


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)


def job(pace: object) -> tuple[object, ...]:
    return sys.executable, "job.py", pace


def measure(
    shell: Shell, job_type: str, *words: object, says: str = "", all_there: Callable[[Ran], bool] = lambda _: True
) -> Ran:
    """Measure once more where that fails, says something else or finds not all: a busy machine may see no step."""
    ran = Ran(-1, "", "")

    def is_right() -> bool:
        nonlocal ran
        ran = shell("throughputs", "measure", "--type", job_type, *TYPES, *words)
        return bool(re.search(says, ran.err)) and ran.code == (2 if says else 0) and all_there(ran)

    wait_until(is_right, f"it says {says!r}" if says else "it measures", lambda: ran)
    return ran


@pytest.mark.slow
def test_batch_sizes_become_types_of_a_table(shell: Shell) -> None:
    sizes = ("--batch-sizes", "40,20", "--out", "speeds.csv")

    def both(ran: Ran) -> bool:
        known = load_throughputs("speeds.csv").isolated
        return all(Setting(name, "cpu") in known and name in ran.out for name in names) and "MiB" in ran.out

    names = [f"mine (batch size {size})" for size in (40, 20)]
    measure(shell, "mine", *sizes, "--", *job("{batch_size}"), all_there=both)
    table = load_throughputs("speeds.csv")
    for size, name in zip((40, 20), names, strict=True):
        assert table.get(name, "cpu") == pytest.approx(size, rel=1e-3)


@pytest.mark.slow
def test_a_pair_on_one_device(shell: Shell) -> None:
    pair = ("--beside", "other", "--out", "speeds.csv", "--json")
    three = lambda ran: len(rows := ran.json["rows"]) == 3 and all(row["memory_mib"] for row in rows)  # noqa: E731
    ran = measure(shell, "mine", *pair, "--", *job(20), "+", *job(40), all_there=three)
    alone, first, second = ran.json["rows"]
    assert "partner" not in alone and (first["partner"], second["partner"]) == ("other", "mine")
    for row, pace in ((alone, 20), (first, 20), (second, 40)):
        assert row["steps_per_second"] == pytest.approx(pace, rel=1e-3)
        assert row["lower"] < row["steps_per_second"] < row["upper"] and row["memory_mib"] > 1
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row["measured_at"])
    colocated = load_throughputs("speeds.csv").colocated
    assert set(colocated) == {Pairing("mine", "other", "cpu"), Pairing("other", "mine", "cpu")}


@pytest.mark.slow
def test_a_table_that_said_otherwise_is_put_right_and_told_so(shell: Shell, tmp_path: Path) -> None:
    speeds = tmp_path / "speeds.csv"
    speeds.write_text("job_type,scale_factor,accelerator,steps_per_second\nmine,1,cpu,1000000\nyours,1,cpu,7\n")
    printed = ("--step-pattern", r"step (\d+)", "--repeat", 2)
    ran = measure(shell, "mine", *printed, "--out", speeds, "--", *job(20))
    assert "mine on cpu: the table said 1e+06 steps/s; replaced" in ran.err
    speeds_now = load_throughputs(speeds).isolated
    assert 0 < speeds_now[Setting("mine", "cpu")] < 100 and speeds_now[Setting("yours", "cpu")] == 7.0


def test_a_job_without_room_cannot_run_there(shell: Shell) -> None:
    measure(shell, "big", "--out", "speeds.csv", "--", *job(0))
    assert load_throughputs("speeds.csv").isolated == {Setting("big", "cpu"): 0.0}


@pytest.mark.slow
def test_speeds_measured_before_a_run_that_fails_are_kept(shell: Shell) -> None:
    options = ("--batch-sizes", "20,21", "--out", "speeds.csv")
    said, kept = r"mine \(batch size 21\): .*no data", lambda _: Path("speeds.csv").exists()
    measure(shell, "mine", *options, "--", *job("{batch_size}"), says=said, all_there=kept)
    assert list(load_throughputs("speeds.csv").isolated) == [Setting("mine (batch size 20)", "cpu")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "command", "said"),
    [
        ((), job(3), "no speed of mine could be measured: too short"),
        (("--seconds", 3), job(-20), "no speed of mine could be measured: stalled: no step in the last"),
        ((), (sys.executable, "-c", "pass"), r"mine: no step was reported; .*--step-pattern"),
        ((), (sys.executable, "-c", "raise SystemExit('no data')"), "mine: .*exit code 1: no data"),
        (("--step-pattern", "("), job(20), r"--step-pattern: '\(' is no regular expression"),
        (("--step-pattern", "never"), (sys.executable, "-c", "print(1)"), "mine: no line matched --step-pattern"),
        (("--workers", "one"), job(20), "--workers: cannot read 'one'"),
        (("--batch-sizes", "16"), job(20), "--batch-sizes: the command has no place for {batch_size}"),
        ((), job("{batch_size}"), "--batch-sizes: the command has a place"),
        (("--beside", "other"), job(20), "--beside: 1 partners, and 0 commands after the first"),
        ((), (*job(20), "+"), "-- COMMAND: a command is empty"),
        (("--out", "no/speeds.csv"), job(20), "no/speeds.csv"),
    ],
)
def test_what_goes_wrong_is_said(
    shell: Shell, options: tuple[object, ...], command: tuple[object, ...], said: str
) -> None:
    measure(shell, "mine", *options, "--", *command, says=said)


@pytest.mark.parametrize("words", [("--type", " "), ("--type", "mine", "--beside", "")])
def test_a_job_type_has_a_name(shell: Shell, words: tuple[str, ...]) -> None:
    """A row without one made the whole table unreadable."""
    ran = shell(
        "throughputs", "measure", *words, *TYPES, "--", *job(20), *(["+", *job(20)] if len(words) > 2 else [])
    )
    assert ran.code == 2 and f"{words[-2]}: the job type has no name" in ran.err
