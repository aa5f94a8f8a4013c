"""How training goes, for reports: epochs done, samples of an epoch, first and present loss, accuracy.

A scheduler that is not told how long a job is judges by these how much is left of it
(`gavelx.mechanism.training_progress`).
"""

import math
from typing import Any

import torch


class Curve:
    """The first and the last values of a job. Losses stay where they are until a report is due."""

    def __init__(self) -> None:
        self._first: Any = None
        self._loss: Any = None
        self._accuracy: float | None = None
        self._samples: int | None = None
        self._batches: int | None = None

    def reads(self, loader: Any) -> None:
        """An epoch of this loader begins; it may know how large it is."""
        self._batches, self._samples = _length(loader), _length(getattr(loader, "dataset", None))

    def step(self, loss: Any, accuracy: float | None) -> None:
        """A step is done. What it does not say is as before."""
        if loss is not None:
            self._loss = loss.detach() if isinstance(loss, torch.Tensor) else loss
            self._first = self._loss if self._first is None else self._first
        self._accuracy = self._accuracy if accuracy is None else float(accuracy)

    def report(self, epoch: int, batches: int, samples: int) -> dict[str, float | None]:
        """The values of a report, after so many batches or samples of this epoch."""
        size, done = (self._samples, samples) if samples else (self._batches, batches)
        return {
            "epochs": epoch + min(1.0, done / size) if size else None,
            "epoch_samples": self._samples,
            "first_loss": finite(self._first),
            "loss": finite(self._loss),
            "accuracy": finite(self._accuracy),
        }

    def state_dict(self) -> dict[str, float | None]:
        """What a later launch has to know."""
        return {"first": finite(self._first), "accuracy": finite(self._accuracy)}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        self._first, self._accuracy = state.get("first"), state.get("accuracy")


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except TypeError:
        return None


def finite(value: Any) -> float | None:
    """A number for JSON: a finite one, or None."""
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None
