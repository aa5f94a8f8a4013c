"""Sums of gradients in an order that does not depend on which process computed which of them.

Addition of floats is not associative: the bits of a sum depend on its order. An order is chosen for a job once,
whatever its processes are:

| order       | the sum of g[0] to g[N - 1]                                                               |
|-------------|-------------------------------------------------------------------------------------------|
| `torch-ddp` | as gloo's ring adds them for ``DistributedDataParallel`` on N processes (:func:`ring`)    |
| `rank`      | ((g[0] + g[1]) + g[2]) + ...                                                              |
| `tree`      | (g[0] + g[1]) + (g[2] + g[3]), and so on: a number is rounded log2(N) times, not N - 1    |

The ring is a detail of gloo and not a promise, so a job asks `gavelx.training.self_test` before it takes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gavelx.training_report import Order

SEGMENT_BYTES = 1 << 20
"""The longest message of gloo's ring (``gloo::AllreduceOptions``, ``maxSegmentSize``)."""
BLOCK = 1 << 17
"""Elements that are added at once, so that their sum stays in the cache."""


@dataclass(frozen=True)
class Span:
    """Elements ``begin`` to ``end``, whose summands are added in the order of ``sequence``."""

    begin: int
    end: int
    sequence: tuple[int, ...]


def spans(order: Order, length: int, count: int, element_bytes: int) -> list[Span]:
    """How ``count`` vectors of one bucket are added."""
    return ring(length, count, element_bytes) if order == "torch-ddp" else [Span(0, length, tuple(range(count)))]


def ring(length: int, count: int, element_bytes: int) -> list[Span]:
    """The order of gloo's ring all-reduce (``gloo/allreduce.cc``, ``ring``).

    A vector is cut into segments, and those into a chunk for each process. A chunk c travels once around the ring:
    (((g[c - 1] + g[c - 2]) + ...) + g[c + 1]) + g[c], ranks modulo ``count``.
    """
    total = length * element_bytes
    segments = max(-(-total // SEGMENT_BYTES), 2 * count)
    a_chunk = -(-segments // count)
    segment_bytes = -(-total // (a_chunk * count))
    segment = -(-segment_bytes // element_bytes)  # in elements
    found = []
    for chunk in range(count):
        begin, end = (min(length, at * a_chunk * segment) for at in (chunk, chunk + 1))
        if begin < end:
            sequence = (*((chunk - 1 - step) % count for step in range(count - 1)), chunk)
            found.append(Span(begin, end, sequence))
    return found


def add(order: Order, spans: Sequence[Span], rows: Sequence[torch.Tensor], begin: int, out: torch.Tensor) -> None:
    """Add up the elements from ``begin`` on that ``rows`` have, into ``out``. ``spans`` count from 0."""
    sum_up = _tree if order == "tree" else _chain
    for span in spans:
        first, last = max(span.begin - begin, 0), min(span.end - begin, len(out))
        for at in range(first, last, BLOCK):
            to = min(at + BLOCK, last)
            sum_up([rows[number][at:to] for number in span.sequence], out[at:to])


def _chain(rows: list[torch.Tensor], out: torch.Tensor) -> None:
    if len(rows) == 1:
        out.copy_(rows[0])
        return
    torch.add(rows[0], rows[1], out=out)
    for row in rows[2:]:
        out.add_(row)


def _tree(rows: list[torch.Tensor], out: torch.Tensor) -> None:
    while len(rows) > 2:
        pairs = [torch.add(one, other) for one, other in zip(rows[::2], rows[1::2], strict=False)]
        rows = pairs + (rows[-1:] if len(rows) % 2 else [])
    _chain(rows, out)
