"""What the agent tells a process of an elastic job is what the training library reads."""

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.sizes import Size, environment_of

elastic = pytest.importorskip("gavelx.training.elastic", exc_type=ImportError)


def launch(elasticity: str, batch: int = 0) -> wire.Launch:
    """Processes 1 and 4 of a job that was submitted for two devices, on this server."""
    return wire.Launch(
        lease_id=3,
        slots=[0, 2],
        numbers=[1, 4],
        workers=2,
        master_address="10.0.0.4",
        master_port=20012,
        elasticity=elasticity,
        size=wire.Size(generation=2, rank_of_number={0: 0, 1: 1, 4: 2}, batch=batch),
    )


@pytest.mark.parametrize(
    ("text", "batch", "expected"),
    [
        ("workers:1-4", 0, ("workers", 4, 0, "linear")),
        ("workers:1-4/8", 0, ("workers", 8, 0, "linear")),
        ("batch:1-4/64-512/adascale", 256, ("batch", 4, 64, "adascale")),
    ],
)
def test_both_ends_read_the_same(text: str, batch: int, expected: tuple[str, int, int, str]) -> None:
    told = launch(text, batch)
    size = Size.of(told, ["a", "b"], 0.0)
    assert size.slots == 2
    environment = environment_of(told, size, 4, joins=True)
    assert (environment["RANK"], environment["LOCAL_RANK"]) == ("2", "1")
    read = elastic.Elasticity.of(environment)
    assert (read.what, read.parts, read.batch, read.rates) == expected
    assert read.joins
    assert (read.slot, read.rank) == (4, 2)
    assert read.size == elastic.Size(2, 3, {0: 0, 1: 1, 4: 2}, "10.0.0.4", 20012, batch)


def test_a_rigid_job_is_told_its_rank_alone() -> None:
    told = wire.Launch(lease_id=3, slots=[0], first_rank=2, processes=1)
    size = Size.of(told, ["a"], 0.0)
    assert size.words == {}
    assert environment_of(told, size, 2, joins=False) == {"RANK": "2", "LOCAL_RANK": "0"}


def test_each_process_sees_its_own_slice_of_a_gpu() -> None:
    told = wire.Launch(lease_id=3, slots=[0, 1], first_rank=2, processes=2)
    size = Size.of(told, ["MIG-a", "MIG-b"], 0.0)
    seen = [environment_of(told, size, number, joins=False)["CUDA_VISIBLE_DEVICES"] for number in (2, 3)]
    assert seen == ["MIG-a", "MIG-b"]
