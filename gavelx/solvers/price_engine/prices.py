"""What prices of the accelerator types prove: a level that no shares exceed.

Legend: G rows, A accelerator types.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gavelx.solvers.price_engine.replies import Floats, Need
from gavelx.solvers.program.errors import UnsolvedError

EXACT = 1e-14
DUST = 1e-3
"""Part of the mean price that is the least width of a price: zero prices can rise, too."""


@dataclass(frozen=True, eq=False)
class Start:
    """Prices to begin a search with, up to a factor; and a level near the one that they prove, and its width, if
    these are known."""

    price_A: Floats
    level: float | None = None
    level_width: float | None = None


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices (all devices are worth 1), the level above which they prove that nothing is, and cost per level."""

    price_A: Floats
    upper: float
    rise: float

    @property
    def level_width(self) -> float:
        """The change of the level that changes the cost by all that the devices are worth."""
        return 1.0 / self.rise if self.rise > 0 else 1.0 + abs(self.upper)

    @property
    def scale(self) -> float:
        """What gaps are measured by: the level, or a thousandth of its width where that is more."""
        return max(abs(self.upper), 1e-3 / self.rise if self.rise > 0 else 0.0)

    @property
    def start(self) -> Start:
        return Start(self.price_A, self.upper, self.level_width)


def widths(price_A: Floats, devices_A: Floats) -> Floats:
    """By how much each price changes in a step of one width."""
    return np.asarray(np.maximum(price_A, DUST / devices_A.sum()))


class Costed(Protocol):
    """Rows, as far as a proof looks at them."""

    @property
    def need(self) -> Need: ...

    def worth(self, price_A: Floats) -> float: ...

    def excess(self, price_A: Floats, level: float) -> tuple[float, float]: ...


def prove(
    rows: Costed, price_A: Floats, start: float, level_width: float = np.inf, tolerance: float = EXACT
) -> Prices:
    """The level above which these prices, scaled to a worth of 1, prove that nothing is.

    Newton's method, kept between levels known to be too low and too high. The cost is convex in the level but for
    the kinks where rows saturate, so between kinks each tangent gives a bound: one is taken that is near enough.
    """
    price_A = price_A / rows.worth(price_A)
    cap_G = rows.need.cap_G
    highest = float(cap_G[np.isfinite(cap_G)].max())
    low, high, bound, level, rise = -np.inf, np.inf, np.inf, min(start, highest), 0.0
    for _ in range(100):
        excess, rise = rows.excess(price_A, level)
        step = -excess / rise if rise > 0 else np.inf
        if rise > 0 and abs(excess) <= tolerance and abs(step) <= tolerance * level_width:
            ends = sorted((level, level + step))
            if not ((cap_G > ends[0]) & (cap_G < ends[1])).any():
                return Prices(price_A, min(level + step, highest), rise)
        if excess > 0:
            if rise == 0 and not (cap_G < level).any():
                raise UnsolvedError("infeasible")
            high, bound = level, level + step if rise > 0 else level
        elif level >= highest:
            return Prices(price_A, highest, rise)
        else:
            low = level
        bent = ((cap_G > low) & (cap_G < high)).any()
        if (not bent and bound <= low + EXACT * abs(low)) or high <= low + EXACT * abs(low):
            return Prices(price_A, max(low, bound), rise)
        level = _between(low, high, min(level + step, highest), level)
    return Prices(price_A, high, rise)


def _between(low: float, high: float, level: float, last: float) -> float:
    """The level, or the middle if it is outside; a long way down where nothing is known below."""
    if low < level < high:
        return level
    if np.isinf(low):
        return last - 2.0 * (abs(last) + 1.0)
    return (low + high) / 2.0
