"""The state of a job for processes that join it: one flat tensor for each dtype, and the rest as plain data."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch

from gavelx.training.gang import Agreement


def give(agreement: Agreement, state: Any, joiners: list[int]) -> None:
    """Send a state from the first process to those that joined; all others take part."""
    if agreement.rank == 0:
        skeleton, flat = packed(state)
        agreement.from_first(({dtype: len(one) for dtype, one in flat.items()}, skeleton))
        agreement.send(list(flat.values()), joiners)
    else:
        agreement.from_first(None)


def take(agreement: Agreement) -> Any:
    """The state that the first process gives."""
    lengths, skeleton = agreement.from_first(None)
    flat = empty(lengths)
    agreement.receive(list(flat.values()))
    return unpacked(skeleton, flat)


@dataclass(frozen=True)
class Slot:
    """The place of a tensor: in which flat one, from where on, its shape."""

    dtype: torch.dtype
    begin: int
    shape: torch.Size


Skeleton = Any
"""A state with a :class:`Slot` in the place of each tensor."""


def packed(state: Any) -> tuple[Skeleton, dict[torch.dtype, torch.Tensor]]:
    """(the state without its tensors, the tensors by dtype, one after the other, on the CPU)."""
    tensors: dict[torch.dtype, list[torch.Tensor]] = {}
    lengths: dict[torch.dtype, int] = {}

    def pack(tensor: torch.Tensor) -> Slot:
        slot = Slot(tensor.dtype, lengths.get(tensor.dtype, 0), tensor.shape)
        tensors.setdefault(tensor.dtype, []).append(tensor.detach().reshape(-1).cpu())
        lengths[tensor.dtype] = slot.begin + tensor.numel()
        return slot

    skeleton = _replaced(state, torch.Tensor, pack)
    return skeleton, {dtype: torch.cat(found) for dtype, found in tensors.items()}


def empty(lengths: dict[torch.dtype, int]) -> dict[torch.dtype, torch.Tensor]:
    return {dtype: torch.empty(length, dtype=dtype) for dtype, length in lengths.items()}


def unpacked(skeleton: Skeleton, flat: dict[torch.dtype, torch.Tensor]) -> Any:
    """The state again. Its tensors are copies: a generator crashed the process on a view that was not aligned."""

    def unpack(slot: Slot) -> torch.Tensor:
        return flat[slot.dtype][slot.begin : slot.begin + slot.shape.numel()].clone().view(slot.shape)

    return _replaced(skeleton, Slot, unpack)


def _replaced(value: Any, kind: type, by: Any) -> Any:
    if isinstance(value, kind):
        return by(value)
    if isinstance(value, dict):
        found = OrderedDict((key, _replaced(one, kind, by)) for key, one in value.items())
        found.__dict__.update(getattr(value, "__dict__", {}))  # a module's state has its versions there
        return found if isinstance(value, OrderedDict) else dict(found)
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        items = [_replaced(one, kind, by) for one in value]
        return items if isinstance(value, list) else tuple(items)
    return value
