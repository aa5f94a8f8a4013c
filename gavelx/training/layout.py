"""Buckets: which gradients lie behind each other in a vector that is added up, as in ``DistributedDataParallel``.

It matters to the bits, because the order of a sum depends on the place in the vector (`gavelx.training.ordered`).
In the first update all gradients are in one bucket, in the order of parameters; then in buckets of 1 and 25 MiB,
in the order in which they came (``torch/csrc/distributed/c10d/reducer.cpp``, ``rebuild_buckets``). That order is
kept in checkpoints: torch's own wrapper begins anew with one bucket after a restart, and gets other bits.
"""

import sys
from collections.abc import Sequence

import torch
import torch.distributed as dist

Buckets = list[list[int]]
"""Parameters by their number in the model, without those that need no gradient."""
BUCKET_BYTES = (1 << 20, 25 << 20)
"""``dist._DEFAULT_FIRST_BUCKET_BYTES``, and ``bucket_cap_mb`` of the wrapper."""


def first(parameters: Sequence[torch.Tensor]) -> Buckets:
    """The buckets of the first update: one for each dtype and device."""
    return _assigned(list(parameters), [sys.maxsize], list(range(len(parameters))))


def rebuilt(parameters: Sequence[torch.Tensor], arrived: Sequence[int]) -> Buckets:
    """The buckets of all other updates, from the order in which the gradients of part 0 came in the first one."""
    return _assigned([parameters[number] for number in arrived], list(BUCKET_BYTES), list(arrived))


def _assigned(tensors: list[torch.Tensor], limits: list[int], numbers: list[int]) -> Buckets:
    assign = dist._compute_bucket_assignment_by_size  # type: ignore[attr-defined]
    buckets, _ = assign(tensors, limits, [False] * len(tensors))
    return [[numbers[at] for at in bucket] for bucket in buckets]


class Arrivals:
    """Writes down in which order gradients come, until it is closed."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.order: list[int] = []
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda _, number=number: self.order.append(number)
            )
            for number, parameter in enumerate(parameters)
        ]

    def close(self) -> list[int]:
        for hook in self._hooks:
            hook.remove()
        return self.order
