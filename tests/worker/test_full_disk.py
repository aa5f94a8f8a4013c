"""A disk that is full: what runs goes on, what cannot be begun says so, and nothing is left unreported."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gavelx.worker import runner
from tests.waiting import until
from tests.worker.machines import Machine, kill_all, machine
from tests.worker.scheduler import Scheduler
from tests.worker.test_processes import FOREVER, SAVE_ON_TERM, printed

DISK_BYTES, BLOCK = 1 << 20, 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "gavelx-test", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"no small disk can be mounted: {done.stderr.strip()}")
    yield folder
    kill_all(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, *, left: int = 0) -> None:
    """Nothing is free but so many blocks."""
    with (folder / "ballast").open("ab", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(b"x" * BLOCK):
                pass
        file.truncate(file.tell() // BLOCK * BLOCK - left * BLOCK)


def play(folder: Path, scene: object) -> None:
    async def run() -> None:
        async with Scheduler() as scheduler, machine(folder, scheduler) as m:
            await scheduler.connected()
            await scene(m)  # type: ignore[operator]

    asyncio.run(run())


def test_jobs_run_on_are_renewed_and_reported(small_disk: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        await printed(m, 1)
        fill(small_disk)
        first_s = m.lease_file(1)["until_monotonic_s"]
        await until(lambda: m.lease_file(1)["until_monotonic_s"] > first_s, "it is renewed")
        m.scheduler.stop_lease(1)
        ended = await m.scheduler.end_of(1)
        assert not ended.failed
        assert "make room" in ended.reason  # what is written into a lease on a full disk is read
        assert ended.steps_done == 20.0  # its own report found no room
        assert not m.pids(1)

    play(small_disk, scene)


def test_output_that_finds_no_room_is_counted(small_disk: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, "for _ in range(4000): print('x' * 999)", until_step=7.0)
        ended = await m.scheduler.end_of(1)
        assert (ended.complete, ended.steps_done) == (True, 7.0)
        exit = json.loads((m.lease(1) / "exit.json").read_text())
        assert exit["log_bytes"] == 4_000_000
        assert exit["log_bytes_dropped"] > 4_000_000 - DISK_BYTES

    play(small_disk, scene)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_a_launch_that_finds_too_little_room_is_no_fault_of_the_job_either(small_disk: Path, blocks: int) -> None:
    async def scene(m: Machine) -> None:
        (small_disk / "shared" / "jobs").mkdir(parents=True)
        fill(small_disk, left=blocks)
        m.scheduler.launch_python(1, "print(1)", saved_steps=5.0)
        ended = await m.scheduler.end_of(1)
        assert not ended.failed, ended.reason
        assert ended.complete or "this server c" in ended.reason  # cannot start it, or could not begin it

    play(small_disk, scene)


def test_a_launch_that_finds_no_room_is_no_fault_of_the_job(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PAUSE_S", 3600.0)

    async def scene(m: Machine) -> None:
        fill(small_disk)
        m.scheduler.launch_python(1, "print(1)", saved_steps=5.0)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.complete, ended.steps_done) == (False, False, 5.0)
        assert "No space left on device" in ended.reason
        assert not m.runner.ready  # the next one would not fare better, and nobody is to try it in a circle
        (small_disk / "ballast").unlink()
        m.runner._ready_at_s -= runner.PAUSE_S
        assert m.runner.ready
        m.scheduler.launch_python(2, "print(2)")
        assert (await m.scheduler.end_of(2)).complete

    play(small_disk, scene)


def test_a_shared_folder_that_takes_no_jobs_is_no_fault_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file server that is full, or away; what a job itself puts in place of its folder is."""
    monkeypatch.setattr(runner, "PAUSE_S", 3600.0)

    async def scene(m: Machine) -> None:
        shared = m.runner.shared
        m.runner.shared = Path("/proc/nowhere")
        m.scheduler.launch_python(1, "print(1)", saved_steps=5.0)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.complete, ended.steps_done) == (False, False, 5.0)
        assert "'/proc/nowhere/jobs/101' cannot be made" in ended.reason
        assert not m.runner.ready
        m.runner.shared = shared
        m.runner._ready_at_s -= runner.PAUSE_S
        (shared / "jobs").mkdir(parents=True)
        (shared / "jobs" / "102").write_text("I am no folder")
        m.scheduler.launch_python(2, "print(2)")
        ended = await m.scheduler.end_of(2)
        assert ended.failed and "cannot be made: File exists" in ended.reason
        assert m.runner.ready

    play(tmp_path, scene)
