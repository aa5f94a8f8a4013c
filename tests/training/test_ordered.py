"""Orders of sums: each element once, the same bits however it is cut, and those of gloo for its ring."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gavelx.training import ordered, self_test
from gavelx.training.ordered import spans
from gavelx.training_report import Order

orders = st.sampled_from(["torch-ddp", "rank", "tree"])


def vectors(count: int, length: int) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(count * 1000 + length)
    return [torch.randn(length, generator=chance) for _ in range(count)]


def added(order: Order, rows: list[torch.Tensor], begin: int = 0, end: int | None = None) -> torch.Tensor:
    how = spans(order, len(rows[0]), len(rows), 4)
    cut = [row[begin:end] for row in rows]
    out = torch.full_like(cut[0], torch.nan)
    ordered.add(order, how, cut, begin, out)
    return out


@given(length=st.integers(1, 5_000_000), count=st.integers(1, 16), element_bytes=st.sampled_from([2, 4, 8]))
def test_a_ring_adds_each_element_once(length: int, count: int, element_bytes: int) -> None:
    at = 0
    for span in spans("torch-ddp", length, count, element_bytes):
        assert span.begin == at
        assert span.begin < span.end
        assert sorted(span.sequence) == list(range(count))
        at = span.end
    assert at == length


@given(order=orders, count=st.integers(1, 9), length=st.integers(1, 300), processes=st.integers(1, 5))
def test_slices_have_the_bits_of_the_whole(order: Order, count: int, length: int, processes: int) -> None:
    rows = vectors(count, length)
    cuts = [length * process // processes for process in range(processes + 1)]
    slices = [added(order, rows, begin, end) for begin, end in pairwise(cuts)]
    whole = added(order, rows)
    assert torch.equal(torch.cat(slices), whole)
    assert torch.allclose(whole, torch.stack(rows).double().sum(0).float(), atol=1e-5)


def test_orders_differ_in_their_bits() -> None:
    """Otherwise the tests of this folder would show nothing."""
    rows = vectors(4, 10_000)
    found = {order: added(order, rows) for order in ("torch-ddp", "rank", "tree")}  # type: ignore[arg-type]
    assert not torch.equal(found["torch-ddp"], found["rank"])
    assert not torch.equal(found["tree"], found["rank"])


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_the_ring_is_that_of_gloo(count: int) -> None:
    assert self_test.torch_adds_in_a_ring(count)


def test_another_order_of_gloo_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "SEGMENT_BYTES", 1 << 19)
    assert not self_test.torch_adds_in_a_ring(3)
