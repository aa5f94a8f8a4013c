"""Training on a GPU that is preempted goes on to the same bits."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from experiments.workloads.measure import WORKLOADS
from gavelx.errors import UserError
from gavelx.training import Training
from tests.experiments.test_workloads import PREEMPTED_AT, run
from tests.training.loops import Noisy

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """A named level asks torch for kernels that repeat themselves, for the whole process."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


@pytest.mark.parametrize("module", [one.module for one in WORKLOADS])
def test_workloads_with_a_named_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """Without one, kernels of a GPU need not repeat themselves."""
    workload = import_module(f"experiments.workloads.{module}")
    monkeypatch.setattr(workload, "Training", partial(Training, determinism="fixed"))
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    whole.mkdir(), pieces.mkdir()
    run(module, whole, "--device", "cuda")
    curve = re.findall(r"step (\d+) loss (\S+)\n", capsys.readouterr().out)
    assert torch.cuda.is_initialized() and len(curve) > PREEMPTED_AT[-1]
    for until_step in (*PREEMPTED_AT, 0):
        run(module, pieces, "--device", "cuda", until_step=until_step)
    assert re.findall(r"step (\d+) loss (\S+)\n", capsys.readouterr().out) == curve


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, until_step: int = 0) -> dict[str, Any]:
    """A training with everything that a GPU adds: its generator, a loss that is scaled, pinned batches."""
    folder.mkdir(exist_ok=True)
    (folder / "lease.json").write_text(json.dumps({"lease_id": 1, "until_step": until_step, "stop": False}))
    monkeypatch.setenv("GAVELX_JOB_DIR", str(folder))
    monkeypatch.setenv("GAVELX_LEASE_FILE", str(folder / "lease.json"))
    torch.manual_seed(0)
    own = torch.Generator("cuda").manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 64), nn.BatchNorm1d(64), nn.Dropout(0.3), nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cuda", growth_interval=3)
    loader = DataLoader(Noisy(0.0), 5, shuffle=True, num_workers=2, pin_memory=True)
    losses = []
    parts = {"model": model, "optimizer": optimizer, "scaler": scaler, "generator": own}
    with suppress(SystemExit), Training(**parts, total_steps=17, determinism="fixed") as training:  # type: ignore[arg-type]
        for batch in training.batches(loader):
            inputs = batch.cuda(non_blocking=True)
            noise = torch.rand(inputs.shape, generator=own, device="cuda") + torch.rand_like(inputs)
            with torch.autocast("cuda", torch.float16):
                loss = model(inputs + noise).float().square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            training.done(loss=loss)
            losses.append(loss.item().hex())
    state = {name: one.cpu().tolist() for name, one in model.state_dict().items()}
    return {
        "losses": losses,
        "model": state,
        "scale": scaler.get_scale(),
        "next": torch.rand(3, device="cuda").tolist(),
    }


def test_scaled_losses_and_generators_of_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(tmp_path / "whole", monkeypatch)
    pieces = [trained(tmp_path / "pieces", monkeypatch, until_step) for until_step in (3, 4, 11, 0)]
    assert [loss for one in pieces for loss in one["losses"]] == whole["losses"]
    assert {**pieces[-1], "losses": 0} == {**whole, "losses": 0}


def test_heterogeneous_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="GPU"):
        Training(model=nn.Linear(1, 1), folder=tmp_path, determinism="heterogeneous")
