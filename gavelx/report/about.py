"""Facts of a report that are not in the results. Light: no matplotlib."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class About:
    """Sources of the run in words, the prices, and the command that repeats it."""

    jobs: str
    throughputs: str
    prices: str
    round_s: float
    prices_usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
