"""Whether this torch adds gradients as we know it from gloo: a small all-reduce, compared to the bit.

The group is one of threads of this process, on loopback; it takes a tenth of a second.
"""

import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gavelx.training import ordered

LENGTHS = (1_000, 2_000_003)
"""Elements of the vectors: of a short one, and of one that gloo cuts into more segments than usual."""
TIMEOUT_S = 30.0


def torch_adds_in_a_ring(count: int) -> bool:
    """Whether gloo's all-reduce has the bits of our ``torch-ddp`` order. False as well if it cannot be tried."""
    try:
        return all(_agrees(_random(length, count)) for length in LENGTHS)
    except (AttributeError, RuntimeError, TypeError):
        return False


def _random(length: int, count: int) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(length)
    return [torch.randn(length, generator=chance) for _ in range(count)]


def _agrees(rows: list[torch.Tensor]) -> bool:
    ours = torch.empty_like(rows[0])
    how = ordered.spans("torch-ddp", len(ours), len(rows), ours.element_size())
    ordered.add("torch-ddp", how, rows, 0, ours)
    return torch.equal(ours, _all_reduced(rows))


def _all_reduced(rows: list[torch.Tensor]) -> torch.Tensor:
    """The sum that gloo gives to the first process of a group, of a thread each."""
    gloo: Any = dist.ProcessGroupGloo
    store = dist.HashStore()  # type: ignore[attr-defined]
    sums = [row.clone() for row in rows]

    def one(rank: int) -> None:
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname="127.0.0.1")]
        options._timeout = timedelta(seconds=TIMEOUT_S)
        gloo(store, rank, len(rows), options).allreduce([sums[rank]]).wait()

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    return sums[0]
