"""Several processes that train one model: they join, agree on when to stop, and leave without hanging.

    with Gang() as gang:
        model = gang.parallel(Net().to(gang.device))

The lease sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun does. With one process, no
process group is made.
"""

import gc
import os
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gavelx.errors import UserError

M = TypeVar("M", bound=nn.Module)


class Gang:
    """The processes of one job, with NCCL if each has a device of its own, and otherwise gloo.

    ``device`` is the device of this process (the CPU without a GPU), ``rank`` its number, ``world_size`` the
    number of processes.
    """

    def __init__(self, device: str | None = None) -> None:
        self.rank, self.world_size = rank(), world_size()
        self.device = own_device(device)
        self._parallel: list[DistributedDataParallel] = []

    def __enter__(self) -> "Gang":
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self.world_size > 1:
            if os.environ.get("MASTER_ADDR") in ("127.0.0.1", "localhost"):
                os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host's name may resolve to another address
            dist.init_process_group("nccl" if self._has_own_device() else "gloo")
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Delete the wrappers, then leave: a wrapper that outlived the group made the process hang."""
        for wrapper in self._parallel:
            for part in ("reducer", "logger", "process_group"):
                wrapper.__dict__.pop(part, None)
        self._parallel.clear()
        gc.collect()
        if dist.is_initialized():
            if error is None or issubclass(error, SystemExit):  # otherwise the others may never arrive here
                dist.barrier()
            dist.destroy_process_group()

    def parallel(self, model: M) -> M | DistributedDataParallel:
        """The model, wrapped in ``DistributedDataParallel`` if there are several processes."""
        if self.world_size == 1:
            return model
        wrapper = DistributedDataParallel(model, device_ids=[self.device] if self.device.type == "cuda" else None)
        self._parallel.append(wrapper)
        return wrapper

    def _has_own_device(self) -> bool:
        """Whether each process has a device of its own, without which NCCL does not work."""
        here = int(os.environ.get("LOCAL_WORLD_SIZE", self.world_size))
        return self.device.type == "cuda" and torch.cuda.device_count() >= here and dist.is_nccl_available()


class Agreement:
    """The agreement of all processes on the steps at which they stop, save, and vote again.

    It has a gloo group of its own, so that a vote neither waits for a GPU nor disturbs one.
    """

    def __init__(self) -> None:
        self.rank, self.world_size = rank(), world_size()
        if self.world_size > 1 and not dist.is_initialized():
            raise UserError(
                f"WORLD_SIZE is {self.world_size}, and the processes have not joined",
                where="Training",
                expected="one group of processes",
                hint="with gavelx.training.Gang() as gang: ... around all of it",
            )
        self._group = dist.new_group(backend="gloo") if self.world_size > 1 else None

    def vote(self, stop: bool, save: bool, within: int) -> tuple[bool, bool, int]:
        """(whether any process stops, whether any saves, the least number of steps until the next vote)."""
        if self._group is None:
            return stop, save, within
        votes = torch.tensor([stop, save, -within])
        dist.all_reduce(votes, dist.ReduceOp.MAX, group=self._group)
        stops, saves, least = votes.tolist()
        return bool(stops), bool(saves), -least

    def gather(self, mine: Any) -> list[Any]:
        """The values of all processes, by rank, for the first process; an empty list for the others."""
        if self._group is None:
            return [mine]
        everyone: list[Any] | None = [None] * self.world_size if self.rank == 0 else None
        dist.gather_object(mine, everyone, dst=0, group=self._group)
        return everyone or []

    def from_first(self, value: Any) -> Any:
        """The value of the first process, for all."""
        if self._group is None:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._group)
        return values[0]


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))


def unwrapped(part: Any) -> Any:
    """The model inside the wrapper, so that checkpoints do not depend on the number of processes."""
    return part.module if isinstance(part, DistributedDataParallel) else part


def own_device(name: str | None = None) -> torch.device:
    """The named device; by default this process's GPU, or the CPU without one."""
    if name or not torch.cuda.is_available():
        return torch.device(name or "cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
