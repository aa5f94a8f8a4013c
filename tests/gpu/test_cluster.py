"""An agent finds this machine's GPU, and jobs take turns on it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gavelx.files.throughput_tables import load_throughputs
from gavelx.throughputs import Pairing
from gavelx.worker.devices import find_devices, type_of
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell
from tests.terminal import ROOT, Terminal

pytestmark = pytest.mark.slow
STEPS = 4000
JOBS = [
    f"python -m experiments.workloads.{module} --quick --steps {STEPS} --print-every 100 --device cuda"
    for module in ("translation", "language_model")
]


def test_a_gpu_is_found_by_its_product_and_named_by_its_uuid() -> None:
    devices = find_devices(None)
    assert devices.accelerator == type_of(torch.cuda.get_device_name())
    seen = "import torch; print(torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid)"
    for device in devices.ids:
        ran = subprocess.run(
            [sys.executable, "-c", seen],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": device},
            capture_output=True,
            check=True,
        )
        count, uuid = ran.stdout.decode().split()
        assert (count, f"GPU-{uuid}") == ("1", device)


def test_jobs_take_turns_on_it_and_lose_no_bit(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    devices = find_devices(None)
    whole = [
        subprocess.run(
            [sys.executable, *job.split()[1:]],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GAVELX_JOB_DIR": str(tmp_path / f"whole{i}")},
            capture_output=True,
            check=True,
        ).stdout.decode()
        for i, job in enumerate(JOBS)
    ]
    with Terminal(tmp_path, shell, monkeypatch) as terminal:
        terminal.run(
            "gavelx serve --listen 127.0.0.1:7070 --state state --heartbeat 1 --round 5 > serve.log 2>&1 &"
        )
        terminal.run("gavelx worker --scheduler 127.0.0.1:7070 --folder a --name a --shared shared > a.log 2>&1 &")
        here = f"a {devices.accelerator} 0 of {len(devices.ids)} serving"
        terminal.until("gavelx status", "has the GPU", lambda _, said: here in re.sub(r"\s+", " ", said))
        terminal.run("gavelx submit -- sh -c 'echo I have $CUDA_VISIBLE_DEVICES'")
        terminal.until("gavelx logs 0", "has its UUID", lambda _, said: f"I have {devices.ids[0]}" in said)
        for job in JOBS * len(devices.ids):
            terminal.run(f"gavelx submit -- {job}")
        numbers = range(1, 1 + len(JOBS) * len(devices.ids))
        complete = lambda _, said: f"step {STEPS} loss" in said  # noqa: E731
        logs = [terminal.until(f"gavelx logs {number}", "is complete", complete) for number in numbers]
        explained = [terminal.run(f"gavelx explain {number}") for number in numbers]
    launches = [int(found) for one in explained for found in re.findall(r"launches\s+(\d+)", one)]
    assert len(launches) == len(logs) and max(launches) > 1
    for number, said in enumerate(logs):
        curve = re.findall(r"step \d+ loss \S+", whole[number % len(JOBS)])
        assert len(curve) == STEPS // 100
        assert re.findall(r"step \d+ loss \S+", said) == curve


def test_a_speed_is_measured_on_it(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    job, partner = ([sys.executable, *one.split()[1:5], "--device", "cuda"] for one in JOBS)
    speeds = tmp_path / "speeds.csv"
    ran = shell(
        "throughputs", "measure", "--type", "mine", "--beside", "other", "--seconds", 6, "--out", speeds, "--json",
        *("--", *job, "+", *partner),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    here = find_devices(None).accelerator
    alone, *pair = ran.json["rows"]
    assert alone["accelerator"] == here and 200 < alone["memory_mib"] < 20_000
    assert 0.0 < alone["utilization"] <= 1.0
    assert all(0 < one["steps_per_second"] <= 1.2 * alone["steps_per_second"] for one in pair[:1])
    assert set(load_throughputs(speeds).colocated) == {
        Pairing("mine", "other", here),
        Pairing("other", "mine", here),
    }


def test_a_job_that_is_too_large_cannot_run_there(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.py").write_text("import torch\ntorch.empty(2**44, device='cuda')\n")
    monkeypatch.chdir(tmp_path)
    job = (sys.executable, "large.py")
    ran = shell("throughputs", "measure", "--type", "large", "--out", "speeds.csv", "--", *job)
    assert ran.code == 0, ran.err
    assert load_throughputs("speeds.csv").get("large", find_devices(None).accelerator) == 0.0
