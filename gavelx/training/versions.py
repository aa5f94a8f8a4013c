"""Which torch the library takes, and what an older one calls by another name."""

import re

import torch
import torch.distributed as dist

from gavelx.errors import UserError

OLDEST = (2, 7)
"""The first whose ``DistributedDataParallel`` has ``init_sync`` (pytorch/pytorch#142824), which gangs need."""


def check(version: str = str(torch.__version__)) -> None:
    """Raises :class:`UserError` for a torch that is too old."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise UserError(
            f"torch {version} is installed",
            where="gavelx.training",
            expected=".".join(map(str, OLDEST)) + " or newer",
            hint='pip install "gavelx[train]"',
        )


def all_gather_single(whole: torch.Tensor, own: torch.Tensor) -> None:
    """Give all processes the tensors of all, in one: ``all_gather_into_tensor`` before torch 2.13."""
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(whole, own)
