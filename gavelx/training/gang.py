"""Several processes that train one model: they join, agree on when to stop, and leave without hanging.

    with Gang() as gang:
        model = gang.parallel(Net().to(gang.device))

The lease sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun does. With one process, no
process group is made. In an elastic job the processes change while it runs: `gavelx.training.regroup`.
"""

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gavelx.errors import UserError
from gavelx.training.elastic import Elasticity

M = TypeVar("M", bound=nn.Module)


class Parallel(nn.Module):
    """A model whose ``DistributedDataParallel`` is made anew in each generation of an elastic job.

    It is used like that wrapper; the model itself is ``module``.
    """

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module, self._device = module, device
        self._wrapper: list[DistributedDataParallel] = []  # in a list, as it is no part of the model
        self.plain = False  # no wrapper: gradients are added by `gavelx.training.sums`
        self.squares: Squares | None = None

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return (self._wrapper[0] if self._wrapper else self.module)(*inputs, **named)

    def join(self, init_sync: bool) -> None:
        """Wrap the model for the group that there is now."""
        self.leave()
        if self.plain:
            return
        if dist.is_initialized() and any(parameter.requires_grad for parameter in self.module.parameters()):
            wrapper = _wrapped(self.module, self._device, init_sync)
            if self.squares is not None:
                wrapper.register_comm_hook(self.squares, Squares.reduce)
            self._wrapper.append(wrapper)

    def leave(self) -> None:
        while self._wrapper:
            dismantle(self._wrapper.pop())

    def sync(self, last: bool) -> None:
        """Whether the next backward pass ends the update, and adds up the gradients of all processes."""
        for wrapper in self._wrapper:
            wrapper.require_backward_grad_sync = last


class Squares:
    """Takes the squared norm of this process's gradients just before they are added up, when it is asked to."""

    def __init__(self) -> None:
        self.asked, self.square = False, 0.0

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        if self.asked:
            self.square += float(bucket.buffer().double().square().sum())
        gradient = bucket.buffer().div_(dist.get_world_size())
        work: Any = dist.all_reduce(gradient, async_op=True)
        return work.get_future().then(lambda future: future.value()[0])  # type: ignore[no-any-return]


def _wrapped(model: nn.Module, device: torch.device, init_sync: bool = True) -> DistributedDataParallel:
    devices = [device] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, init_sync=init_sync)


def dismantle(wrapper: DistributedDataParallel) -> None:
    """Take a wrapper apart before its group ends.

    One that outlives its group may hang: torch (2.13) deletes the group with it, and waits for the group's threads
    without letting go of the interpreter, which they need to delete tensors.
    """
    for part in ("reducer", "logger", "process_group"):
        wrapper.__dict__.pop(part, None)


class Gang:
    """The processes of one job, with NCCL if each has a device of its own, and otherwise gloo.

    ``device`` is the device of this process (the CPU without a GPU), ``rank`` its number, ``world_size`` the
    number of processes.
    """

    def __init__(self, device: str | None = None) -> None:
        self.elastic = Elasticity.of(os.environ)
        self.joins = self.elastic is not None and self.elastic.joins
        self.rank, self.world_size = rank(), world_size()
        if self.elastic is not None:
            self.rank, self.world_size = self.elastic.rank, self.elastic.size.world_size
        self.device = own_device(device)
        self._wrappers: list[DistributedDataParallel] = []
        self.models: list[Parallel] = []

    def __enter__(self) -> "Gang":
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self.world_size > 1:
            master = os.environ.get("MASTER_ADDR") if self.elastic is None else self.elastic.size.master
            if master in ("127.0.0.1", "localhost"):
                os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host's name may resolve to another address
        if self.world_size > 1 and not self.joins:
            dist.init_process_group(self.backend)
        return self

    def __exit__(
        self, error: type[BaseException] | None, instance: BaseException | None = None, *_: object
    ) -> None:
        """Delete the wrappers, then leave."""
        while self._wrappers:
            dismantle(self._wrappers.pop())
        for model in self.models:
            model.leave()
        gc.collect()
        if dist.is_initialized():
            if error is None or (isinstance(instance, SystemExit) and not instance.code):
                # otherwise the others may never arrive here
                dist.barrier()
            dist.destroy_process_group()

    def parallel(self, model: M) -> M | DistributedDataParallel | Parallel:
        """The model for several processes: wrapped in ``DistributedDataParallel``, or unchanged for one process.

        In an elastic job it is a :class:`Parallel`, which stays the same object when processes come and go.
        """
        if self.elastic is not None:
            self.models.append(Parallel(model, self.device))
            if self.elastic.what == "batch":
                self.models[-1].squares = Squares()
            if not self.joins:
                self.models[-1].join(init_sync=True)
            return self.models[-1]
        if self.world_size == 1:
            return model
        wrapper = _wrapped(model, self.device)
        self._wrappers.append(wrapper)
        return wrapper

    def leave(self) -> None:
        """Leave the group of this generation, with all others; models and this process stay."""
        for model in self.models:
            model.leave()
        if dist.is_initialized():
            dist.destroy_process_group()

    def join(self, store: Any, backend: str, rank: int, world_size: int) -> None:
        """Join the group of the next generation; the models are wrapped by :meth:`wrap`."""
        if store is not None:
            dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
        self.rank, self.world_size, self.joins = rank, world_size, False
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world_size)}  # as scripts and libraries know them

    def sync(self, last: bool) -> None:
        """Whether the next backward pass is the last one of the step."""
        for model in self.models:
            model.sync(last)

    def unwrapped(self) -> list[Parallel]:
        """The models, from now on without a wrapper that adds up gradients."""
        if not self.models:
            raise UserError(
                "no model was given to the gang", where="Training", expected="model = gang.parallel(model)"
            )
        for model in self.models:
            model.plain = True
            model.leave()
        return self.models

    def parameters(self) -> Iterator[nn.Parameter]:
        """Of all models."""
        for model in self.models:
            yield from model.parameters()

    def wrap(self) -> None:
        """Wrap the models, whose parameters and buffers are equal everywhere."""
        for model in self.models:
            model.join(init_sync=False)

    @property
    def backend(self) -> str:
        return "nccl" if self._has_own_device() else "gloo"

    def _has_own_device(self) -> bool:
        """Whether each process has a device of its own, without which NCCL does not work."""
        here = int(os.environ.get("LOCAL_WORLD_SIZE", self.world_size))
        return self.device.type == "cuda" and torch.cuda.device_count() >= here and dist.is_nccl_available()


@dataclass(frozen=True)
class Vote:
    """What a process wants between two steps, and what all do.

    Any process stops or saves all; ``within`` is the number of steps until the next vote, the least of all.
    ``ready``: the first process of generation ``generation`` has seen all that join; all have heard of this
    generation, the least of all.
    """

    stop: bool
    save: bool
    within: int
    ready: bool = False
    generation: int = 0


class Agreement:
    """The agreement of all processes on the steps at which they stop, save, regroup, and vote again.

    It has a group over gloo, so that a vote neither waits for a GPU nor disturbs one.
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
        self._group = _over_gloo() if self.world_size > 1 else None

    def vote(self, mine: "Vote") -> "Vote":
        """What all processes do, of what each wants."""
        if self._group is None:
            return mine
        votes = torch.tensor([mine.stop, mine.save, mine.ready, -mine.within, -mine.generation])
        dist.all_reduce(votes, dist.ReduceOp.MAX, group=self._group)
        stop, save, ready, within, generation = votes.tolist()
        return Vote(bool(stop), bool(save), -within, bool(ready), -generation)

    def total(self, *values: float) -> list[float]:
        """The sums over all processes."""
        if self._group is None:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(sums, group=self._group)
        return sums.tolist()

    def gather(self, mine: Any) -> list[Any]:
        """The values of all processes, by rank, for the first process; an empty list for the others."""
        if self._group is None:
            return [mine]
        everyone: list[Any] | None = [None] * self.world_size if self.rank == 0 else None
        dist.gather_object(mine, everyone, dst=0, group=self._group)
        return everyone or []

    def everyone(self, mine: Any) -> list[Any]:
        """The values of all processes, by rank, for all."""
        found: list[Any] = self.from_first(self.gather(mine))
        return found

    def send(self, tensors: list[torch.Tensor], to: list[int]) -> None:
        """Send tensors from the first process to some others, which :meth:`receive` them."""
        for work in [dist.isend(tensor, rank, group=self._group) for tensor in tensors for rank in to]:
            work.wait()  # type: ignore[union-attr]

    def receive(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            dist.recv(tensor, 0, group=self._group)

    def from_first(self, value: Any) -> Any:
        """The value of the first process, for all."""
        if self._group is None:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._group)
        return values[0]


def _over_gloo() -> Any:
    return dist.group.WORLD if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))


def unwrapped(part: Any) -> Any:
    """The model inside the wrapper, so that checkpoints do not depend on the number of processes."""
    return part.module if isinstance(part, DistributedDataParallel | Parallel) else part


def own_device(name: str | None = None) -> torch.device:
    """The named device; by default this process's GPU, or the CPU without one. ``cuda`` is this process's GPU."""
    device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % max(1, torch.cuda.device_count()))
    return device
