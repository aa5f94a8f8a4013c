"""A model of which each process has a part is refused: one process saves for all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gavelx.errors import UserError

torch = pytest.importorskip("torch")
from torch import distributed  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

from gavelx.training import objects  # noqa: E402


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_sharded_model_is_refused_with_the_name_of_a_parameter() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
    fully_shard(model, mesh=mesh)
    with pytest.raises(UserError, match=r"model\.0\.weight is a DTensor"):
        objects.check("model", model)
    with pytest.raises(UserError, match="is a DTensor"):
        objects.check("optimizer", torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.usefixtures("alone")
def test_a_model_that_is_sharded_later_is_refused_when_it_is_saved() -> None:
    model = torch.nn.Linear(4, 4)
    objects.check("model", model)
    fully_shard(model, mesh=distributed.device_mesh.init_device_mesh("cpu", (1,)))
    with pytest.raises(UserError, match=r"model\.weight is a DTensor"):
        objects.state_of("model", model)


def test_wrappers_that_keep_parts_as_plain_tensors_are_refused() -> None:
    class FullyShardedDataParallel(torch.nn.Module):
        pass

    with pytest.raises(UserError, match="0 is a FullyShardedDataParallel"):
        objects.check("model", torch.nn.Sequential(FullyShardedDataParallel()))


def test_whole_models_and_optimizers_are_taken() -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    for name, one in {"model": model, "optimizer": optimizer}.items():
        objects.check(name, one)
        assert objects.state_of(name, one)
