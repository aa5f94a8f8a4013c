"""Under any sequence of sizes each sample comes once an epoch, and counts as much as any other."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset, WeightedRandomSampler

from gavelx.errors import UserError
from gavelx.training.elastic import Elasticity, Size
from gavelx.training.parts import deal_of
from gavelx.training.shards import Deal, Shards, order

sizes = st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 40), st.integers(1, 4))
"""(processes, samples of a device at once, samples of an update, updates until the next resize)."""


def elasticity(what: str, world_size: int, parts: int = 1, batch: int = 8) -> Elasticity:
    size = Size(0, world_size, {rank: rank for rank in range(world_size)}, "127.0.0.1", 1)
    return Elasticity(what, 0, size, parts, batch)  # type: ignore[arg-type]


@given(samples=st.integers(1, 60), seed=st.integers(0, 9), schedule=st.lists(sizes, min_size=1, max_size=6))
def test_each_sample_comes_once_an_epoch(
    samples: int, seed: int, schedule: list[tuple[int, int, int, int]]
) -> None:
    indices = order(samples, seed, 3)
    seen, done = 0, []
    while seen < samples:
        world_size, at_once, batch, updates = schedule[len(done) % len(schedule)]
        deal = deal_of(elasticity("batch", world_size), at_once, batch, world_size)
        for _ in range(updates):
            if seen < samples:
                done.append(one_update(deal, indices, seen))
                seen += len(done[-1])
    assert sorted(i for update in done for i in update) == list(range(samples))


def one_update(deal: Deal, indices: list[int], seen: int) -> list[int]:
    """The samples of one update, of all processes; each counts the same in the average over processes."""
    ranks = [deal.update(indices, seen, rank) for rank in range(deal.world_size)]
    parts = [part for found in ranks for part in found]
    samples = [i for part in parts for i in part.samples]
    for part in parts:
        assert len(part.samples) <= -(-deal.batch // deal.parts)
        assert part.loaded, "every process takes part"
        share = Fraction(len(part.samples), len(samples)) * deal.world_size
        assert part.weight == pytest.approx(float(share))
    return samples


@given(parts=st.integers(1, 6), data=st.data(), batch_size=st.integers(1, 4))
def test_logical_workers_keep_their_sequences(parts: int, data: st.DataObject, batch_size: int) -> None:
    """Those of torch's DistributedSampler in its batches, on any number of processes; each sample counts once."""
    samples = data.draw(st.integers(1, 40))
    world_size = data.draw(st.integers(1, parts))
    drop_last = data.draw(st.booleans())
    loader = DataLoader(TensorDataset(torch.arange(samples)), batch_size, shuffle=True, drop_last=drop_last)
    spread: tuple[int, ...] = ()
    if data.draw(st.booleans()):  # as on devices of several types
        cuts = st.lists(st.integers(1, parts - 1), min_size=world_size - 1, max_size=world_size - 1, unique=True)
        ends = [0, *sorted(data.draw(cuts) if world_size > 1 else []), parts]
        spread = tuple(end - start for start, end in pairwise(ends))
    deal = deal_of(elasticity("workers", world_size, parts, 0), batch_size, 0, world_size, spread)
    assert [len(deal.mine(rank)) for rank in range(world_size)] == list(spread) or not spread
    shards = Shards(loader, seed=5)
    mine: dict[int, list[list[int]]] = {number: [] for number in range(parts)}
    counted: list[int] = []
    for rank in range(world_size):
        for update in shards.updates(deal, 2, 0, rank):
            for part in update:
                mine[part.number].append(list(part.loaded))
                counted += part.samples
    assert sorted(counted) == list(range(samples)) or (drop_last and len(set(counted)) == len(counted))
    for number in range(parts):
        sampler: DistributedSampler[int] = DistributedSampler(range(samples), parts, number, seed=5)  # type: ignore[arg-type]
        sampler.set_epoch(2)
        batches = DataLoader(
            TensorDataset(torch.arange(samples)), batch_size, sampler=sampler, drop_last=drop_last
        )  # type: ignore[arg-type]
        assert mine[number] == [numbers.tolist() for (numbers,) in batches]


def test_a_loader_is_dealt_with_all_that_it_has() -> None:
    """It collates, keeps its order without shuffle, and with drop_last an incomplete update is left out."""
    data = TensorDataset(torch.arange(10))
    loader = DataLoader(data, 3, collate_fn=lambda rows: [int(row[0]) for row in rows], drop_last=True)
    shards = Shards(loader, seed=0)
    parts = [part for update in shards.updates(Deal(6, 2), 0, 0, 0) for part in update]
    assert list(shards.load(iter(parts))) == [[0, 2, 4], [1, 3, 5]]


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([1])


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([1, 2], "was given a list"),
        (DataLoader(Stream(), 2), "of a stream"),
        (DataLoader(TensorDataset(torch.arange(4)), batch_size=None), "without a batch_size"),
        (
            DataLoader(TensorDataset(torch.arange(4)), 2, sampler=WeightedRandomSampler([1.0] * 4, 4)),
            "a WeightedRandomSampler of your own",
        ),
        (DataLoader(TensorDataset(torch.zeros(0)), 2), "no batches"),
    ],
)
def test_what_cannot_be_dealt_is_refused(loader: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Shards(loader, seed=0)


def test_a_batch_size_that_is_not_that_of_the_logical_workers_is_refused() -> None:
    with pytest.raises(
        UserError, match="a batch_size of 3, with 4 logical workers; expected 2: a step was submitted"
    ):
        deal_of(elasticity("workers", 2, 4, 8), 3, 0, 2)
