"""The shim's parts: limited logs, and what /proc tells."""

import errno
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gavelx.worker import shim
from gavelx.worker.logs import segments_of
from gavelx.worker.shim import Log, Rank, Shim, descendants, marked, read_json, start_ticks, write_json
from tests.waiting import PATIENCE_S, wait_until


def kept(folder: Path) -> list[tuple[int, bytes]]:
    return [(start, path.read_bytes()) for start, path in segments_of(folder).get(0, [])]


def test_a_log_keeps_how_it_began_and_how_it_ended(tmp_path: Path) -> None:
    text = bytes(random.Random(1).randrange(33, 126) for _ in range(100_000))
    log, at = Log(tmp_path, 0, 8000), 0
    while at < len(text):
        size = random.Random(at).randrange(1, 3000)
        log.write(text[at : at + size])
        at += size
    pieces = kept(tmp_path)
    assert pieces[0] == (0, text[:4000])
    for start, piece in pieces:
        assert text[start : start + len(piece)] == piece
    assert pieces[-1][0] + len(pieces[-1][1]) == len(text) == log.written
    assert sum(len(piece) for _, piece in pieces) + log.dropped == len(text)
    assert 6000 < sum(len(piece) for _, piece in pieces) <= 8000


def test_a_log_that_fits_is_one_file(tmp_path: Path) -> None:
    log = Log(tmp_path, 0, 8000)
    log.write(b"a")
    log.write(b"b" * 3999)
    assert kept(tmp_path) == [(0, b"a" + b"b" * 3999)]
    assert log.dropped == 0


def test_a_full_disk_makes_a_gap_and_not_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = Log(tmp_path, 0, 80_000), os.write

    def full(descriptor: int, text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    log.write(b"a" * 10)
    monkeypatch.setattr(os, "write", full)
    log.write(b"b" * 20)
    monkeypatch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[:3]))  # nearly full
    log.write(b"c" * 5)
    monkeypatch.setattr(os, "write", write)
    log.write(b"d" * 7)
    assert kept(tmp_path) == [(0, b"a" * 10), (30, b"ccc"), (35, b"d" * 7)]
    assert (log.written, log.dropped) == (42, 22)


def test_a_process_is_known_by_its_start(tmp_path: Path) -> None:
    mark = f"GAVELX_TEST={tmp_path}"
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, env={"GAVELX_TEST": str(tmp_path)}
    ) as parent:
        running = lambda: {pid for pid, _ in marked(mark.encode())}  # noqa: E731
        found = wait_until(lambda: len(now := running()) == 2 and now, "a process and its child", running)
        assert set(descendants(parent.pid)) == found - {parent.pid}
        ticks = start_ticks(parent.pid)
        assert ticks is not None
        assert ticks == start_ticks(parent.pid)
        parent.communicate(b"\n")
    assert start_ticks(parent.pid) is None
    assert marked(mark.encode()) == []


def test_files_that_are_no_objects_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in (b"", b"[1]", b"{", b"\xff", b"[" * 100_000, b"null"):
        path.write_bytes(text)
        assert read_json(path) is None
    assert read_json(tmp_path / "none.json") is None
    os.mkfifo(tmp_path / "pipe.json")
    assert read_json(tmp_path / "pipe.json") is None
    write_json(path, {"a": 1}, length=50)
    assert path.stat().st_size == 50
    assert read_json(path) == {"a": 1}


def test_it_is_the_standard_library_alone() -> None:
    code = f"import runpy, sys; runpy.run_path({shim.__file__!r}); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    names = {name.partition(".")[0] for name in run.stdout.split()}
    assert names <= {"__main__", *sys.stdlib_module_names}


@pytest.mark.parametrize(
    ("said", "from_s", "why"),
    [({}, 90.0, shim.LAPSED), ({"stop": True, "reason": "make room"}, 50.0, "make room")],
)
def test_a_job_has_a_grace_time_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, object], from_s: float, why: str
) -> None:
    """Until its lease lapses, at 100, or since it was to stop; on a clock that we turn."""
    clock, killed = SimpleNamespace(monotonic=lambda: clock.now_s), []
    monkeypatch.setattr(shim, "time", clock)
    monkeypatch.setattr(Shim, "_kill_all", lambda self: killed.append(clock.now_s))
    keeper = Shim(tmp_path, {"grace_s": 10.0, "until_monotonic_s": 100.0})

    def wakes_at(time_s: float) -> float:
        clock.now_s = time_s
        keeper._obey()
        return time_s + keeper._wait_s()

    write_json(tmp_path / "lease.json", {"until_monotonic_s": 100.0})
    assert wakes_at(from_s - 0.05) == pytest.approx(min(from_s + 0.15, 90.0))
    assert not keeper.asked
    write_json(tmp_path / "lease.json", {"until_monotonic_s": 100.0} | said)
    for time_s in (from_s, from_s + 9.95):
        wakes_at(time_s)
        assert (keeper.asked, killed) == (why, [])
    assert wakes_at(from_s + 9.95) == pytest.approx(from_s + 10.0)
    wakes_at(from_s + 10.0)
    assert killed == [from_s + 10.0] and keeper.killed


@pytest.mark.parametrize(
    ("said", "asked", "failed"),
    [
        ({"until_monotonic_s": 0.0}, shim.LAPSED, False),
        ({"until_monotonic_s": math.inf, "stop": True, "reason": "preempted"}, "preempted", False),
        ({"until_monotonic_s": math.inf}, "", True),
    ],
    ids=["lapsed", "to stop", "nothing"],
)
def test_a_job_that_ends_after_its_lease_has_not_failed_though_the_shim_had_not_looked(
    tmp_path: Path, said: dict[str, object], asked: str, failed: bool
) -> None:
    """The shim itself was stopped, or the job read its lease first, or was killed before the shim could."""
    keeper = Shim(tmp_path, {"grace_s": 10.0, "until_monotonic_s": time.monotonic() + 3600.0})
    write_json(tmp_path / "lease.json", said)
    with subprocess.Popen(["sleep", "1000"]) as job:
        job.kill()
        keeper._ended(Rank(0, job.pid, Log(tmp_path, 0, 1000)))
        job.returncode = -signal.SIGKILL  # it has been waited for
    assert (keeper.asked, keeper.failed is not None) == (asked, failed)


@pytest.mark.slow
def test_the_deadline_holds_while_a_disk_hangs(tmp_path: Path) -> None:
    """The job's output goes into a pipe that nobody reads, and the shim waits for that as for a dead disk.

    The job prints when it is asked to stop: its lease is over a grace time later.
    """
    lease = tmp_path / "1"
    lease.mkdir()
    os.mkfifo(lease / "out.0.log")
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print(1, flush=True))
open("part", "w").write(str(os.getpid()))
os.rename("part", "pid")
while True: time.sleep(60)
"""
    grace_s = 10.0
    launch = {
        "lease_id": 1,
        "boot_id": shim.boot_id(),
        "until_monotonic_s": time.monotonic() + 3600.0,
        "grace_s": grace_s,
        "log_bytes": 1000,
        "cgroup": None,
        "job_folder": str(tmp_path),
        "command": [sys.executable, "-I", "-S", "-c", code],
        "environment": {},
        "processes": [{"rank": 0, "environment": {}}],
    }
    write_json(lease / "launch.json", launch)
    write_json(lease / "lease.json", {"until_monotonic_s": launch["until_monotonic_s"]})
    with subprocess.Popen([sys.executable, "-I", "-S", shim.__file__, str(lease)]) as keeper:
        wait_until((tmp_path / "pid").exists, "the job runs")
        pid = int((tmp_path / "pid").read_text())
        write_json(lease / "lease.json", {"until_monotonic_s": time.monotonic() + grace_s})
        wait_until(lambda: start_ticks(pid) is None, "the job dies with its lease")
        assert keeper.poll() is None  # it hangs still
        with (lease / "out.0.log").open("rb"):
            keeper.wait(PATIENCE_S)
    exit = read_json(lease / "exit.json")
    assert exit is not None
    assert (exit["failed"], exit["asked"]) == (None, shim.LAPSED)
