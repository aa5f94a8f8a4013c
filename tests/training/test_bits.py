"""Jobs with logical workers have the bits of torch's own wrapper, whatever processes compute them."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.parts.models import MODELS, OPTIMIZERS
from experiments.parts.runs import (
    Digests,
    Job,
    Reached,
    Schedule,
    by_kind,
    differences,
    hurried,
    one_by_one,
    reference,
)
from experiments.parts.scripts import Script, elastic
from gavelx.training import randomness
from gavelx.training.buffers import Buffers
from gavelx.training.contexts import Contexts
from gavelx.training.sums import Ordered

ALL = tuple((model, optimizer) for model in MODELS for optimizer in OPTIMIZERS)
EVERYTHING = {
    4: Script(ALL, steps=8, batch_size=4),
    3: Script(ALL, steps=8, batch_size=4, chunks=2, autocast=True),
}
"""By the number of parts. All models and optimizers at once, over the end of an epoch."""
SMALL = Script((("cnn", "sgd"), ("mlp", "adam")), steps=6)
PARTS = 4


@cache
def under_torch(script: Script, parts: int) -> Reached:
    return reference(script, parts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "schedule"),
    [(4, [(4, 2), (2, 4), (3, 5), (1, 6), (4, 8)]), (3, [(2, 1), (3, 5), (1, 8)])],
)
def test_live_resizes_keep_the_bits(tmp_path: Path, parts: int, schedule: Schedule) -> None:
    """Also where two processes have unequally many parts for a while, as on devices of two types."""
    job = Job(EVERYTHING[parts], parts, tmp_path, spread=(parts - 1, 1))
    job.live(schedule)
    assert job.reached() == under_torch(EVERYTHING[parts], parts)
    report = job.report()
    assert (report["determinism"], report["order"], report["world_size"]) == (
        "elastic",
        "torch-ddp",
        schedule[-1][0],
    )


@pytest.mark.slow
def test_restarts_in_other_sizes_keep_the_bits(tmp_path: Path) -> None:
    """Of two processes one has three parts, the other one."""
    job = Job(EVERYTHING[4], 4, tmp_path, spread=(3, 1))
    job.restarted([(4, 3), (2, 6), (1, 8)])
    assert job.reached() == under_torch(EVERYTHING[4], 4)


@pytest.mark.slow
def test_a_process_that_is_killed_in_a_step_costs_no_bits(tmp_path: Path) -> None:
    script = replace(SMALL, die=(1, 4), options=(("every_s", 0.0),))
    job = Job(script, PARTS, tmp_path)
    job.killed(2)
    assert job.reached() == under_torch(SMALL, PARTS)


# -- on one process, in this one ----------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Reached]]:
    """Runs all parts on this process, to the end or up to a step."""

    def run(script: Script = SMALL, until: int | None = None, digests: Digests = by_kind) -> Reached:
        job = Job(script, PARTS, tmp_path)
        for name, value in job.environments(1, until)[0].items():
            monkeypatch.setenv(name, value)
        with hurried():
            elastic(script, 0, tmp_path)
        return {} if until else job.reached(digests)

    before = randomness.capture()
    yield run
    randomness.restore(before)


@contextmanager
def instead(owner: Any, name: str, other: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, other)
        yield


def test_one_process_has_the_bits_of_all(alone: Callable[..., Reached]) -> None:
    assert alone() == under_torch(SMALL, PARTS)


def different(reached: Reached) -> set[str]:
    expected = under_torch(SMALL, PARTS)
    return {name for name, one in reached.items() if one != expected[name]}


def test_differences_are_named_with_their_model_and_step(alone: Callable[..., Reached]) -> None:
    """Gradients that are added in another order show in losses from the second step on, or later."""
    job = alone(replace(SMALL, options=(("order", "rank"),)), digests=one_by_one)
    found = differences(job, reference(SMALL, PARTS, one_by_one))
    assert re.match(r"step [1-9], part \d: loss of ", found[0])
    kinds = {re.sub(r"step \d+, part \d+: ", "", name).split(":")[0] for name in found}
    cases = ("cnn with sgd", "mlp with adam")
    assert kinds == {f"{kind} of {case}" for kind in ("loss", "model", "optimizer") for case in cases}
    assert "model of mlp with adam: 1.weight" in found


def test_gradients_that_are_just_accumulated_differ(alone: Callable[..., Reached]) -> None:
    assert different(alone(replace(SMALL, options=(("determinism", "none"),)))) >= {"model", "optimizer"}


def test_a_lost_layout_differs(alone: Callable[..., Reached]) -> None:
    """As torch's wrapper loses it, in a restart."""
    original = Ordered.load_state_dict

    def load(self: Ordered, state: dict[str, Any]) -> None:
        original(self, state | {"buckets": []})

    alone(until=3)
    with instead(Ordered, "load_state_dict", load):
        assert different(alone()) >= {"model", "optimizer"}


def test_lost_generators_differ(alone: Callable[..., Reached]) -> None:
    with instead(Contexts, "take", lambda *_: None):
        alone(until=3)
        assert different(alone()) >= {"losses", "generators", "model"}


def test_two_threads_differ(alone: Callable[..., Reached], tmp_path: Path) -> None:
    script = Script((("cnn", "sgd"),), steps=2)
    one = alone(script)
    shutil.rmtree(tmp_path / "checkpoints")
    torch.set_num_threads(2)  # the fixture of this folder takes it back
    assert alone(script)["model"] != one["model"]


def test_lost_buffers_differ(alone: Callable[..., Reached]) -> None:
    with instead(Buffers, "leave", lambda *_: None):
        assert different(alone()) == {"model"}


def test_buffers_in_the_place_of_others_are_those_of_part_0() -> None:
    """As ``DistributedDataParallel`` has it: a model may make its buffers anew, others, or of another size."""

    class Means(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(()))
            self.register_buffer("last", torch.zeros(0))
            self.register_buffer("cache", None)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = 0.5 * self.mean + x.mean()
            self.last = torch.cat([self.last, x])
            self.cache = torch.ones(3)
            return x - self.mean

    model = Means()
    buffers = Buffers([model])
    for update in range(2):
        buffers.begin(3)
        seen = []
        for part in range(3):
            buffers.enter(part)
            seen.append((model.mean.item(), len(model.last)))
            model(torch.full((2,), part + 1.0))
            buffers.leave(part)
        buffers.end(1)
        assert seen == [(update, 2 * update)] * 3
        assert model.mean == 0.5 * update + 1
        assert model.last.tolist() == [1.0] * (2 * update + 2)
