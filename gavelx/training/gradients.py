"""The gradients of logical workers: one vector a part, and their sum, which all processes get.

A part's gradients are copied, times 1/N, from ``parameter.grad`` into slots, which are views of the part's vector.
Buckets lie one behind the other in it (`gavelx.training.layout`). When all parts are there, every process gets a
slice of all N vectors, adds it up in the order of the job (`gavelx.training.ordered`), and gives it to the others:
per process 2 (P - 1)/P vectors at P = N, as much as a ring. ``parameter.grad`` is then a view of the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from gavelx.training import ordered, versions
from gavelx.training.layout import Buckets
from gavelx.training.ordered import Span
from gavelx.training_report import Order


@dataclass(frozen=True)
class Dealt:
    """Which process has which vectors: ``shares[p]`` are those of process p, in the order of ranks."""

    shares: Sequence[range]
    rank: int

    @property
    def mine(self) -> range:
        return self.shares[self.rank]

    @property
    def count(self) -> int:
        return self.shares[-1].stop

    @property
    def processes(self) -> int:
        return len(self.shares)


class Vectors:
    """The vectors of all parts here, for parameters of one dtype and device."""

    def __init__(
        self, parameters: Sequence[torch.nn.Parameter], buckets: Buckets, order: Order, dealt: Dealt
    ) -> None:
        first = parameters[buckets[0][0]]
        self.order, self.dealt = order, dealt
        self.parameters = [parameters[number] for bucket in buckets for number in bucket]
        self.spans: list[Span] = []
        length = 0
        for bucket in buckets:
            elements = sum(parameters[number].numel() for number in bucket)
            for span in ordered.spans(order, elements, dealt.count, first.element_size()):
                self.spans.append(Span(span.begin + length, span.end + length, span.sequence))
            length += elements
        self.slice = -(-length // dealt.processes)
        whole, device = self.slice * dealt.processes, _device(first)
        self.rows = [torch.zeros(whole, dtype=first.dtype, device=device) for _ in dealt.mine]
        self.slots = [self._views(row) for row in self.rows]
        self.sum = torch.zeros(whole, dtype=first.dtype, device=device)
        self.sums = self._views(self.sum)
        alone = dealt.processes == 1
        self._received = self.rows if alone else list(self.sum.new_empty(dealt.count, self.slice))
        self._own = self.sum if alone else self.sum.new_empty(self.slice)

    def take(self, row: int) -> None:
        """Copy the gradients into a row, as the mean over parts needs them; ``grad`` is None afterwards."""
        share = 1.0 / self.dealt.count
        for parameter, slot in zip(self.parameters, self.slots[row], strict=True):
            assert parameter.grad is not None
            if slot.device == parameter.device:
                torch.mul(parameter.grad, share, out=slot)
            else:
                slot.copy_(parameter.grad).mul_(share)
            parameter.grad = None

    def add(self) -> None:
        """Add up the rows of all parts; ``grad`` is the mean."""
        dealt = self.dealt
        if dealt.processes == 1:
            ordered.add(self.order, self.spans, self.rows, 0, self.sum)
        else:
            self._exchange()
            ordered.add(self.order, self.spans, self._received, dealt.rank * self.slice, self._own)
            versions.all_gather_single(self.sum, self._own)
        for parameter, gradient in zip(self.parameters, self.sums, strict=True):
            parameter.grad = gradient if gradient.device == parameter.device else gradient.to(parameter.device)

    def _exchange(self) -> None:
        """Get our slice of each part's vector: one round for the first part of each process, and so on."""
        dealt, width = self.dealt, self.slice
        for turn in range(max(map(len, dealt.shares))):
            here = [turn < len(share) for share in dealt.shares]
            ours = self.rows[turn] if here[dealt.rank] else self.sum[:0]
            got = self.sum.new_empty(sum(here) * width)
            dist.all_to_all_single(
                got,
                ours,
                [width * there for there in here],
                [width * here[dealt.rank]] * dealt.processes,
            )
            senders = [share[turn] for share, there in zip(dealt.shares, here, strict=True) if there]
            for number, row in zip(senders, got.view(-1, width), strict=True):
                self._received[number] = row

    def _views(self, vector: torch.Tensor) -> list[torch.Tensor]:
        found, begin = [], 0
        for parameter in self.parameters:
            strides = parameter.stride() if _dense(parameter) else torch.empty_like(parameter).stride()
            found.append(vector.as_strided(parameter.shape, strides, begin))
            begin += parameter.numel()
        return found


def _device(parameter: torch.Tensor) -> torch.device:
    """Where vectors are: gloo exchanges those of a GPU over the host."""
    over_host = dist.is_initialized() and dist.get_backend() == "gloo"
    return torch.device("cpu") if over_host else parameter.device


def _dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor fills its memory, in whatever order of dimensions, as ``channels_last`` does."""
    by_stride = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(by_stride).is_contiguous()
