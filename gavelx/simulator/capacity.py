"""Spot capacity: servers that the cloud takes away with a notice, and gives back.

A series says which part of what was asked for a cloud had, for how long. A cluster of other servers of the same
type has that part of them, rounded down: the last of them leave, and come back in the order of their numbers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HORIZON_S = 10 * 365.25 * 86400.0
"""From then on all servers are there, so that every run ends."""
NOTICE_S = 120.0
"""AWS warns two minutes before it takes a spot instance back; others give 30 s."""


@dataclass(frozen=True)
class Capacity:
    """Which part of the servers of a type is there: ``shares`` are seconds and that part; then it begins anew.

    ``notice_s`` before it goes a server is drained: its jobs stop with a checkpoint, if they have the time for it.
    """

    accelerator: str
    shares: Sequence[tuple[float, float]]
    notice_s: float = NOTICE_S

    def changes(self) -> Iterator[tuple[float, float]]:
        """Times, in order, and the part that is there from then on; before the first and after the last, all."""
        time_s, last = 0.0, 1.0
        constant = len({share for _, share in self.shares}) == 1
        while time_s < HORIZON_S:
            for seconds, share in self.shares:
                if share != last:
                    yield time_s, share
                time_s, last = time_s + seconds, share
            if constant:
                return
        if last != 1.0:
            yield time_s, 1.0


def servers_left(servers: int, share: float) -> int:
    """How many of so many servers are there.

    >>> [servers_left(5, share) for share in (0.0, 0.5, 0.999, 1.0)]
    [0, 2, 4, 5]
    """
    return math.floor(servers * share + 1e-9)
