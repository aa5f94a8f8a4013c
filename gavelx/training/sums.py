"""From the gradients of parts to that of an update: kept apart and added in order, or as is fastest.

An update begins with :meth:`Sums.begin`, each part with :meth:`Sums.enter`. :meth:`Sums.backward` ends the part,
and with the last one the update: ``grad`` is then the mean over all parts.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from gavelx.errors import UserError
from gavelx.training import layout, self_test
from gavelx.training.buffers import Buffers
from gavelx.training.gang import Agreement, Gang
from gavelx.training.gradients import Dealt, Vectors
from gavelx.training.shards import Deal, Part
from gavelx.training_report import Order


class Sums(Protocol):
    """How the gradients of parts become one."""

    order: Order | None

    def join(self, agreement: Agreement) -> None:
        """The processes are those of ``agreement`` from now on."""

    def begin(self, parts: int, samples: int) -> None:
        """An update of so many samples begins, with so many parts on this process."""

    def enter(self, index: int, last: bool) -> None:
        """Our part number ``index`` begins."""

    def backward(self, loss: torch.Tensor, part: Part, index: int, last: bool) -> None:
        """Compute the gradients of a part."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Ordered:
    """Gradients are kept apart, by part or (``apart`` false) by process, and added in a fixed order.

    The bits are then those of ``DistributedDataParallel`` on as many processes as there are parts, whatever
    process computes which. Each parameter that needs a gradient must get one in each part, as in that wrapper.
    """

    def __init__(self, gang: Gang, parts: int, order: Order | None = None, apart: bool = True) -> None:
        models = gang.unwrapped()
        self.parts, self.order, self.apart = parts, order, apart
        self._gang = gang
        self._named = [
            [(name, parameter) for name, parameter in model.module.named_parameters() if parameter.requires_grad]
            for model in models
        ]
        self._parameters = [parameter for named in self._named for _, parameter in named]
        self._trained = [
            (*one, one[1].requires_grad) for model in models for one in model.module.named_parameters()
        ]
        self._buffers = Buffers([model.module for model in models])
        self._buckets: list[layout.Buckets] = []  # of each model, once they are known
        self._vectors: list[Vectors] = []
        self._left: list[torch.Tensor | None] = []
        self._arrived: list[list[int]] = []  # in the first update, of each model

    def join(self, agreement: Agreement) -> None:
        self._agreement = agreement
        count = self.parts if self.apart else agreement.world_size
        elastic = self._gang.elastic
        spread = elastic.parts_of_rank(agreement.world_size) if elastic and self.apart else ()
        deal = Deal(1, count, agreement.world_size, parts_of_rank=spread)
        self._dealt = Dealt([deal.mine(rank) for rank in range(agreement.world_size)], agreement.rank)
        self._vectors = []

    def begin(self, parts: int, samples: int) -> None:
        self._check_trained()
        if self.order is None:
            self.order = self._agreement.from_first(self._chosen() if self._agreement.rank == 0 else None)
        self._vectors = self._vectors or list(self._laid_out())
        self._buffers.begin(parts)
        self._left = [parameter.grad for parameter in self._parameters]

    def enter(self, index: int, last: bool) -> None:
        self._buffers.enter(index)
        if index == 0 or self.apart:
            for parameter, left in zip(self._parameters, self._left, strict=True):
                parameter.grad = None if left is None else left.clone()  # a script that did not clear it

    def backward(self, loss: torch.Tensor, part: Part, index: int, last: bool) -> None:
        row = index if self.apart else 0
        taken = self.apart or last
        arrivals = self._watch() if taken and row == 0 and not self._buckets else []
        loss.backward()  # type: ignore[no-untyped-call]
        self._arrived = [one.close() for one in arrivals] or self._arrived
        self._buffers.leave(part.number)
        if taken:
            self._check_all_there()
            for vectors in self._vectors:
                vectors.take(row)
        if last:
            for vectors in self._vectors:
                vectors.add()
            self._buffers.end(self._agreement.world_size)
            self._rebuild()

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order, "buckets": self._buckets}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order, self._buckets = state["order"], state["buckets"]
        self._vectors = []

    def _chosen(self) -> Order:
        """The order of torch's wrapper, if it is the one of gloo that we know.

        It depends on nothing that changes with the number of processes. So it is not gloo's on any GPU: processes
        that have one each exchange over NCCL, in another order, but those that share one, over gloo.
        """
        known = self._gang.device.type != "cuda" and self_test.torch_adds_in_a_ring(min(max(self.parts, 3), 4))
        return "torch-ddp" if known else "rank"

    def _laid_out(self) -> Sequence[Vectors]:
        """The vectors of all parts here, for each dtype and device."""
        assert self.order is not None
        groups: dict[tuple[torch.dtype, torch.device], layout.Buckets] = {}
        first = 0
        for model, named in enumerate(self._named):
            own = [parameter for _, parameter in named]
            for bucket in self._buckets[model] if self._buckets else layout.first(own):
                key = own[bucket[0]].dtype, own[bucket[0]].device
                groups.setdefault(key, []).append([first + number for number in bucket])
            first += len(named)
        return [Vectors(self._parameters, group, self.order, self._dealt) for group in groups.values()]

    def _watch(self) -> list[layout.Arrivals]:
        return [layout.Arrivals([parameter for _, parameter in named]) for named in self._named]

    def _rebuild(self) -> None:
        """After the first update, the buckets are those of the order in which gradients came to part 0."""
        if self._buckets:
            return
        models = [[parameter for _, parameter in named] for named in self._named]
        found = [layout.rebuilt(own, order) for own, order in zip(models, self._arrived, strict=True)]
        self._buckets = self._agreement.from_first(found)
        self._vectors = []

    def _check_trained(self) -> None:
        for name, parameter, then in self._trained:
            if parameter.requires_grad != then:
                raise UserError(
                    f"{name} {'is trained now, and was not' if not then else 'was trained'} when training began",
                    where="Training",
                    expected="in an elastic job the same parameters from begin to end",
                    hint="a learning rate of 0 for those that are not trained yet, or no longer",
                )

    def _check_all_there(self) -> None:
        missing = [name for named in self._named for name, parameter in named if parameter.grad is None]
        if missing:
            raise UserError(
                f"{', '.join(missing[:3])} got no gradient",
                where="training.backward",
                expected="one for each parameter that requires it, as for DistributedDataParallel",
                hint="requires_grad_(False) for those that are not trained",
            )
