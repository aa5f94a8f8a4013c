"""Buffers of a model, such as the running statistics of BatchNorm, while parts run one after the other.

As in ``DistributedDataParallel``, every part begins an update with the same buffers, and those of part 0 remain.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist


class Buffers:
    """All buffers of some models, on this process."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = list(tensors)
        self._begun: list[torch.Tensor] = []
        self._kept: list[torch.Tensor] = []

    def begin(self, parts: int) -> None:
        """An update of so many parts begins here."""
        self._begun = _copies(self.tensors) if parts > 1 else []
        self._kept = []

    def enter(self, index: int) -> None:
        """Our part number ``index`` begins."""
        if index and self.tensors:
            _put(self.tensors, self._begun)

    def leave(self, number: int) -> None:
        """Part ``number`` of all is done."""
        if number == 0 and self._begun:
            self._kept = _copies(self.tensors)

    def end(self, processes: int) -> None:
        """All parts are done: every process has the buffers of part 0."""
        if self._kept:
            _put(self.tensors, self._kept)
        if processes > 1 and self.tensors:
            dist._broadcast_coalesced(_group(), self.tensors, BROADCAST_BYTES, 0)  # type: ignore[attr-defined]


BROADCAST_BYTES = 250 << 20
"""Bytes that are sent at once, as by torch's wrapper."""


def _group() -> dist.ProcessGroup:
    group = dist.group.WORLD
    assert group is not None
    return group


def _copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _put(tensors: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
