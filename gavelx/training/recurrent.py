"""Recurrent layers with dropout on a GPU: without cuDNN where a level is named, or they would lose the bits.

cuDNN draws the dropout between layers from a buffer of its own, one for each GPU. torch seeds it when a process
first uses it, from the generator that checkpoints have, and can neither save nor restore it (``get_dropout_state``
in ``aten/src/ATen/native/cudnn/RNN.cpp``). So a restart draws another seed, and drops other units. Without cuDNN,
torch's own dropout draws from that generator. This takes more time: layers without dropout keep cuDNN, and so does
evaluation.

Not covered: calls of ``layer.forward`` or ``torch._VF.lstm``, layers that ``torch.jit.script`` compiled, and
layers that threads of a process run side by side (``nn.DataParallel``): all threads have one switch of cuDNN.
"""

from typing import Any

import torch
from torch import nn


def drop_without_cudnn() -> None:
    """Of all models of this process, from now on."""
    nn.RNNBase.__call__ = _called  # type: ignore[method-assign]


def _called(layer: nn.RNNBase, *inputs: Any, **named: Any) -> Any:
    if not (layer.training and layer.dropout):  # a single layer, too: torch draws a seed for it
        return nn.Module.__call__(layer, *inputs, **named)
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        return nn.Module.__call__(layer, *inputs, **named)
    finally:
        torch.backends.cudnn.enabled = before
