"""Facts of a report that are not in the results. Light: no matplotlib."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gavelx.report.speeds import SpeedsOfType


@dataclass(frozen=True)
class About:
    """Sources of the run in words, prices, the command that repeats it, and the speeds if some are estimated."""

    jobs: str
    throughputs: str
    prices: str
    round_s: float
    prices_usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
    speeds: tuple[SpeedsOfType, ...] = ()
