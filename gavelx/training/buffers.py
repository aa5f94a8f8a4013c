"""Buffers of a model, such as the running statistics of BatchNorm, while parts run one after the other.

As in ``DistributedDataParallel``, every part begins an update with the same buffers, and those of part 0 remain.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

Named = dict[str, torch.Tensor]


class Buffers:
    """All buffers of some models, on this process."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self._models = nn.ModuleList(models)
        self._begun: Named = {}
        self._kept: Named = {}

    def begin(self, parts: int) -> None:
        """An update of so many parts begins here."""
        self._begun = self._copies() if parts > 1 else {}
        self._kept = {}

    def enter(self, index: int) -> None:
        """Our part number ``index`` begins."""
        if index:
            self._put(self._begun)

    def leave(self, number: int) -> None:
        """Part ``number`` of all is done."""
        if number == 0 and self._begun:
            self._kept = self._copies()

    def end(self, processes: int) -> None:
        """All parts are done: every process has the buffers of part 0."""
        self._put(self._kept)
        if processes > 1 and (tensors := list(self._models.buffers())):
            dist._broadcast_coalesced(_group(), tensors, BROADCAST_BYTES, 0)  # type: ignore[attr-defined]

    def _copies(self) -> Named:
        return {name: tensor.detach().clone() for name, tensor in self._models.named_buffers()}

    def _put(self, values: Named) -> None:
        """Into the present tensors: a model may make others, as by ``self.mean = 0.9 * self.mean``."""
        if values:
            with torch.no_grad():
                for name, tensor in self._models.named_buffers():
                    if name in values:
                        tensor.resize_(values[name].shape).copy_(values[name])


BROADCAST_BYTES = 250 << 20
"""Bytes that are sent at once, as by torch's wrapper."""


def _group() -> dist.ProcessGroup:
    group = dist.group.WORLD
    assert group is not None
    return group
