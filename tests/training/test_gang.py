"""Jobs as real processes: stopped by SIGTERM, killed, and two at a time over gloo on loopback."""

import functools
import json
import os
import random
import signal
import sys
import tempfile
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from torch import nn

from gavelx.errors import UserError
from gavelx.rpc.ports import free_port
from gavelx.training import Gang, Training, own_device
from tests.training import loops
from tests.training.elastic_job import CONTEXT
from tests.waiting import PATIENCE_S, wait_until


class Running:
    """One process, and what it has said; ``seen``: so much of that was looked at."""

    def __init__(self, process: BaseProcess, output: Path) -> None:
        self.process, self.output, self.seen = process, output, 0

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def rest(self) -> str:
        return self.output.read_text()[self.seen :] if self.output.exists() else ""


def work(arguments: list[str], environment: dict[str, str], output: Path) -> None:
    """`tests.training.loops` as a program, in a process that has torch already."""
    for name in [name for name in os.environ if name.startswith("GAVELX_")]:
        del os.environ[name]
    os.environ.update(environment)
    os.setsid()
    sys.stdout = sys.stderr = output.open("a", buffering=1)
    sys.argv = ["loops", *arguments]
    loops.main()


class Job:
    """Processes of `tests.training.loops`, as an agent would start them; one folder, wherever they run."""

    def __init__(self, folder: Path, world_size: int = 1) -> None:
        self.folder, self.world_size = folder, world_size

    def start(self, *arguments: object) -> list[Running]:
        gang = {"WORLD_SIZE": str(self.world_size), "LOCAL_WORLD_SIZE": str(self.world_size)}
        gang |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())} if self.world_size > 1 else {}
        gang |= {"GAVELX_JOB_DIR": str(self.folder), "GAVELX_REPORT_FILE": str(self.folder / "report.json")}
        started = len(list(self.folder.glob("out-*")))
        running = list[Running]()
        for rank in range(self.world_size):
            output = self.folder / f"out-{started}-{rank}.txt"
            environment = gang | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            process = CONTEXT.Process(target=work, args=([*map(str, arguments)], environment, output), daemon=True)
            process.start()
            running.append(Running(process, output))
        return running

    def run(self, *arguments: object) -> str:
        """To the end; what the first process said."""
        outputs = [finished(process) for process in self.start(*arguments)]
        assert [code for code, _ in outputs] == [0] * self.world_size, outputs
        return outputs[0][1]

    def report(self) -> dict[str, object]:
        read: dict[str, object] = json.loads((self.folder / "report.json").read_text())
        return read


def finished(running: Running) -> tuple[int | None, str]:
    """Its exit code and what it said since it was looked at; what will not end is killed."""
    running.process.join(PATIENCE_S)
    if running.process.is_alive():
        running.process.kill()
        raise AssertionError(f"does not end in {PATIENCE_S:g} s:\n{running.rest()}")
    return running.process.exitcode, running.rest()


def read_until(running: Running, step: int) -> list[str]:
    """Lines up to that step."""

    def lines() -> list[str]:
        ended, said = not running.process.is_alive(), running.rest()
        found = list[str]()
        for line in said[: said.rfind("\n") + 1].splitlines(keepends=True):
            found.append(line)
            if line.split()[1:2] == [str(step)]:
                return found
        assert not ended, f"ended before step {step}:\n{said}"
        return []

    found: list[str] = wait_until(lines, f"step {step}", running.rest)
    running.seen += len("".join(found))
    return found


def curve(output: str) -> dict[str, str]:
    """Loss by step, of the first process, and the sum of the parameters at the end."""
    lines = [line.split() for line in output.splitlines()]
    return {line[-2]: line[-1] for line in lines if line[0] in ("0", "complete")}


@functools.cache
def whole(world_size: int) -> dict[str, str]:
    """The curve of a run that nobody interrupts."""
    with tempfile.TemporaryDirectory() as folder:
        return curve(Job(Path(folder), world_size).run("--steps", 30))


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2])
def test_stopped_by_a_signal_it_goes_on_to_the_same_end(tmp_path: Path, world_size: int) -> None:
    job = Job(tmp_path, world_size)
    slowly = ("--step-s", 0.1)  # several processes look for a stop once a second, so within ten steps
    processes = job.start("--steps", 30, "--hold-at", 11, "--go", tmp_path / "go", *slowly)
    said = "".join(read_until(processes[0], 11))
    for process in random.Random(1).sample(processes, world_size):
        process.send_signal(signal.SIGTERM)
    (tmp_path / "go").touch()
    ended = [finished(process) for process in processes]
    assert [code for code, _ in ended] == [0] * world_size, ended
    said += ended[0][1]
    report = job.report()
    assert not report["complete"]
    assert str(report["saved_steps"]) == str(report["steps_done"]) == list(curve(said))[-1]
    said += job.run("--steps", 30)
    assert job.report()["complete"]
    assert curve(said) == whole(world_size)
    assert len(whole(world_size)) == 31


@pytest.mark.slow
def test_killed_it_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    job = Job(tmp_path)
    said = ""
    for step in (3, 9):
        (process,) = job.start("--steps", 30, "--every-s", 0, "--hold-at", step)
        said += "".join(read_until(process, step))
        process.send_signal(signal.SIGKILL)
        code, rest = finished(process)
        assert code == -signal.SIGKILL
        said += rest
    said += job.run("--steps", 30)
    assert curve(said) == whole(1)
    steps = [line.split()[1] for line in said.splitlines() if line.startswith("0 ")]
    assert len(steps) - len(set(steps)) <= 2, "one step a kill was done again at most"


@pytest.mark.slow
def test_one_stopped_stops_all_at_the_same_step(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    first, second = job.start("--steps", 10**6, "--step-s", 0.005)
    said = "".join(read_until(second, 5))
    second.send_signal(signal.SIGTERM)
    ended = [finished(process) for process in (first, second)]
    assert [code for code, _ in ended] == [0, 0], ended
    outputs = ended[0][1], said + ended[1][1]  # it may stop where it was, and say no more
    last_steps = [output.split()[-2] for output in outputs]
    assert last_steps[0] == last_steps[1] == str(job.report()["saved_steps"])


@pytest.mark.slow
def test_one_that_fails_takes_the_others_with_it(tmp_path: Path) -> None:
    processes = Job(tmp_path, 2).start("--steps", 50, "--fail-rank", 1, "--step-s", 0.01)
    ended = [finished(process) for process in processes]
    assert all(code != 0 for code, _ in ended), ended
    assert "CrashError" in ended[1][1]


@pytest.mark.slow
def test_a_checkpoint_is_for_any_number_of_processes(tmp_path: Path) -> None:
    """An epoch has ten batches on one process, and five on two."""
    said = Job(tmp_path, 1).run("--steps", 4)
    said += Job(tmp_path, 2).run("--steps", 7)
    assert "not the same bits as before: processes 1 then, 2 now" in said
    assert Job(tmp_path).report()["epoch"] == 0, "the epoch is just over, after 4 x 4 and 3 x 8 samples"
    said += Job(tmp_path, 1).run("--steps", 10)
    assert Job(tmp_path).report()["epoch"] == 1
    assert set(curve(said)) == {*map(str, range(1, 11)), "complete"}


def test_alone_a_gang_is_nothing() -> None:
    model = nn.Linear(1, 1)
    with Gang(device="cpu") as gang:
        assert (gang.rank, gang.world_size, gang.device) == (0, 1, torch.device("cpu"))
        assert gang.parallel(model) is model
    assert not torch.distributed.is_initialized()


def test_processes_that_have_not_joined_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"WORLD_SIZE is 2, and the processes have not joined.*Gang\(\)"):
        Training(model=nn.Linear(1, 1), folder=tmp_path).__enter__()


def test_a_device_without_a_number_is_the_one_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``torch.cuda.set_device`` needs one."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "6")
    assert own_device("cuda") == torch.device("cuda", 2)
    assert own_device("cuda:1") == torch.device("cuda", 1)
    assert own_device("cpu") == torch.device("cpu")
