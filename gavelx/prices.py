"""Prices: US dollars per hour of one device of an accelerator type."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Prices:
    """Dollars per device-hour by accelerator type (lower case); an absent type has no known price.

    ``as_of`` has the dates of prices that are from a table ("" for one without a date), ``places`` their
    clouds and regions.
    """

    usd_per_hour: Mapping[str, float]
    name: str = ""
    as_of: Mapping[str, str] = field(default_factory=dict, compare=False)
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    def of(self, accelerator: str) -> float:
        """Dollars per device-hour of one type; NaN where no price is known."""
        return self.usd_per_hour.get(accelerator, math.nan)

    def array(self, accelerators: Sequence[str]) -> NDArray[np.float64]:
        """usd_per_hour_A in the order of ``accelerators``; NaN where no price is known."""
        return np.array([self.of(name) for name in accelerators], dtype=float)
