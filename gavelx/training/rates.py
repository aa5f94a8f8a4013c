"""Rules for the learning rate when the samples of an update change from M0 to M.

An optimizer sees the user's rate times a factor, and only during its step, so schedulers see their own numbers.

| rule          | factor                | for                                                                     |
|---------------|-----------------------|-------------------------------------------------------------------------|
| `linear`      | M/M0                  | SGD (Goyal et al. 2017, section 2.1)                                    |
| `square_root` | sqrt(M/M0)            | Adam and other adaptive methods (Krizhevsky 2014, section 5)            |
| `adascale`    | M/M0 x efficiency(M)  | SGD, with the noise scale measured (Johnson et al. 2020, equation 3)    |
| `none`        | 1                     | rates that the user sets themselves                                     |

The factor grows over a warm-up (Goyal et al. 2017, section 2.2) and shrinks at once. Each doubling takes as
long, so a batch that grows in two steps warms up for as long in all as one that grows in one.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

RULES: dict[str, Callable[[float, float], float]] = {
    "linear": lambda ratio, _efficiency: ratio,
    "square_root": lambda ratio, _efficiency: math.sqrt(ratio),
    "adascale": lambda ratio, efficiency: ratio * efficiency,
    "none": lambda _ratio, _efficiency: 1.0,
}


class Rates:
    """The factor of the learning rate now. ``warmup``: samples over which one twice as large is reached."""

    def __init__(self, rule: str, warmup: float = 0.0) -> None:
        self.rule, self.warmup = rule, warmup
        self.factor = 1.0
        self._ratio, self._from, self._since = 1.0, 1.0, 0.0
        self._kept: dict[int, list[Any]] = {}

    def update(self, ratio: float, efficiency: float, samples: float) -> float:
        """The factor for the next update at M/M0 = ``ratio``, after ``samples`` of training."""
        if ratio != self._ratio:
            self._ratio, self._from, self._since = ratio, self.factor, samples
        goal = RULES[self.rule](ratio, efficiency)
        warmup = self.warmup * math.log2(max(1.0, goal / self._from))
        way = 1.0 if warmup <= 0.0 else min(1.0, (samples - self._since) / warmup)
        self.factor = self._from + way * (goal - self._from)
        return self.factor

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Multiply the rates of an optimizer while it steps."""
        optimizer.register_step_pre_hook(self._scale)
        optimizer.register_step_post_hook(self._restore)

    def _scale(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self.factor != 1.0:
            self._kept[id(optimizer)] = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * self.factor

    def _restore(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, self._kept.pop(id(optimizer), []), strict=False):
            group["lr"] = rate

    def state_dict(self) -> dict[str, float]:
        return {"factor": self.factor, "ratio": self._ratio, "from": self._from, "since": self._since}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.factor, self._ratio = state["factor"], state["ratio"]
        self._from, self._since = state["from"], state["since"]
