"""Prices: US dollars per hour of one device of an accelerator type."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Prices:
    """Dollars per device-hour by accelerator type (lower case); an absent type has no known price."""

    usd_per_hour: Mapping[str, float]
    name: str = ""

    def of(self, accelerator: str) -> float:
        """Dollars per device-hour of one type; NaN where no price is known."""
        return self.usd_per_hour.get(accelerator, math.nan)

    def array(self, accelerators: Sequence[str]) -> NDArray[np.float64]:
        """usd_per_hour_A in the order of ``accelerators``; NaN where no price is known."""
        return np.array([self.of(name) for name in accelerators], dtype=float)
