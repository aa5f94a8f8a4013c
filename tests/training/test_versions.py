"""Another torch than that of these tests: an older name, and one that is too old."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from experiments.parts.runs import ended, started
from gavelx.errors import UserError
from gavelx.training import versions
from gavelx.training.gradients import Dealt, Vectors

PROCESSES = 2


def under_an_older_torch(rank: int, folder: Path) -> None:
    """A process of two, each with one part: the sums of its gradients, where torch lacks the newer name."""
    del dist.all_gather_single
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=PROCESSES)
    parameter = torch.nn.Parameter(torch.zeros(5))
    vectors = Vectors([parameter], [[0]], "rank", Dealt([range(1), range(1, 2)], rank))
    parameter.grad = torch.arange(5.0) * (10 if rank else 1)
    vectors.take(0)
    vectors.add()
    torch.save(parameter.grad, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_processes_add_gradients_under_a_torch_without_the_newer_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    ended([started(under_an_older_torch, (rank, tmp_path)) for rank in range(PROCESSES)])
    for rank in range(PROCESSES):
        assert torch.equal(torch.load(tmp_path / f"{rank}.pt"), torch.arange(5.0) * 11 / PROCESSES)


@pytest.mark.parametrize(
    "version", ["2.7.0", "2.7.0a0+ecf3bae40a.nv25.02", "2.11.0+cu130", "2.13.0+cpu", "3.0.0", "main"]
)
def test_versions_that_are_taken(version: str) -> None:
    versions.check(version)


@pytest.mark.parametrize("version", ["2.6.1", "2.0.0+cu118", "1.13.1"])
def test_a_torch_that_is_too_old_is_refused_with_what_to_do(version: str) -> None:
    with pytest.raises(UserError) as refused:
        versions.check(version)
    said = f"gavelx.training: torch {version} is installed; expected 2.7 or newer. Try: pip install "
    assert str(refused.value) == said + '"gavelx[train]"'


@pytest.mark.slow
def test_it_is_refused_when_the_library_is_imported() -> None:
    script = "import torch; torch.__version__ = '2.6.0'; import gavelx.training"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "torch 2.6.0 is installed; expected 2.7 or newer" in ran.stderr
