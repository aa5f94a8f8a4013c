"""The quick way to the gradient of an update: a process accumulates those of its parts, and torch averages.

The bits depend on the number of processes. On the way the gradient noise scale is measured, from the gradient of
a process's first part and that of the whole update.
"""

from collections.abc import Iterable
from typing import Any

import torch

from gavelx.errors import UserError
from gavelx.training.gang import Agreement, Gang
from gavelx.training.noise import NoiseScale
from gavelx.training.shards import Part
from gavelx.training_report import Order

NOISE_EVERY = 4
"""Updates between measurements of the noise scale."""


class Averaged:
    """Sums for which no order is promised (`gavelx.training.sums.Sums`)."""

    order: Order | None = None

    def __init__(self, gang: Gang, noise: NoiseScale) -> None:
        self.gang, self.noise = gang, noise
        self._updates = self._samples = 0
        self._small: tuple[float, float] | None = None  # the square of a gradient, and of how many samples
        self._measuring = self._kept = False

    def join(self, agreement: Agreement) -> None:
        self._agreement = agreement

    def begin(self, parts: int, samples: int) -> None:
        self._samples, self._small, self._kept = samples, None, False
        self._measuring = self._updates % NOISE_EVERY == 0
        self._updates += 1
        for model in self.gang.models:
            if model.squares is not None:
                model.squares.asked, model.squares.square = self._measuring, 0.0

    def enter(self, index: int, last: bool) -> None:
        self.gang.sync(last)

    def backward(self, loss: torch.Tensor, part: Part, index: int, last: bool) -> None:
        self._check_kept(last)
        (loss if part.weight == 1.0 else loss * part.weight).backward()  # type: ignore[no-untyped-call]
        if self._measuring:
            self._measure(part, last)

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._updates = state.get("updates", 0)

    def _check_kept(self, last: bool) -> None:
        """Gradients of the parts before are still there."""
        if self._kept and all(parameter.grad is None for parameter in self.gang.parameters()):
            raise UserError(
                "the gradients of other parts of this step were cleared",
                where="Training.backward",
                expected="optimizer.zero_grad() after optimizer.step() alone",
                hint="if training.backward(loss): optimizer.step(); optimizer.zero_grad(); training.done()",
            )
        self._kept = not last

    def _measure(self, part: Part, last: bool) -> None:
        """Compare the gradient of our first part with that of the whole update, when it is there."""
        models = self.gang.models
        if self._small is None and part.samples:
            if not last:
                self._small = (square(self.gang.parameters()) / part.weight**2, len(part.samples))
            elif self.gang.world_size > 1 and all(model.squares for model in models):
                squares = sum(model.squares.square for model in models if model.squares)
                self._small = (squares / part.weight**2, len(part.samples))
        if last:
            small, samples = self._small or (0.0, 0.0)
            ours = 1.0 if self._small else 0.0
            large = square(self.gang.parameters()) / self.gang.world_size
            smalls, b, count, large = self._agreement.total(small, samples, ours, large)
            if count:
                self.noise.add(smalls / count, b / count, large, self._samples)


def square(parameters: Iterable[torch.Tensor]) -> float:
    """The squared norm of the gradients."""
    found = [p.grad.detach().float().square().sum() for p in parameters if p.grad is not None]
    return float(torch.stack(found).double().sum()) if found else 0.0
