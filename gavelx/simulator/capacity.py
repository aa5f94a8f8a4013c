"""Spot capacity: servers that the cloud takes away with a notice, and gives back.

A series says which part of what was asked for a cloud had, for how long. A cluster of other servers of the same
type has that part of them, rounded down: the last of them leave, and come back in the order of their numbers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gavelx.cluster import Cluster

HORIZON_S = 10 * 365.25 * 86400.0
"""From then on nothing changes any more, so that every run ends."""
NOTICE_S = 120.0
"""AWS warns two minutes before it takes a spot instance back; others give 30 s."""


@dataclass(frozen=True)
class Capacity:
    """Which part of the servers of a type is there: ``shares`` are seconds and that part; then they begin anew.

    ``notice_s`` before it goes a server is drained: its jobs stop with a checkpoint, if they have the time for it.
    """

    accelerator: str
    shares: Sequence[tuple[float, float]]
    notice_s: float = NOTICE_S

    def changes(self) -> Iterator[tuple[float, float]]:
        """Times, in order, and the part that is there from then on; before the first, all."""
        time_s, last = 0.0, 1.0
        constant = len({share for _, share in self.shares}) == 1
        while time_s < HORIZON_S:
            for seconds, share in self.shares:
                if share != last:
                    yield time_s, share
                time_s, last = time_s + seconds, share
            if constant:
                return

    def most(self, servers: int) -> int:
        """How many of so many servers are ever there together for longer than the notice."""
        counts = [(seconds, servers_left(servers, share)) for seconds, share in self.shares]
        there = sorted({n for _, n in counts}, reverse=True)
        return next((n for n in there if _longest_s(counts, n) > self.notice_s), 0)


def at_best(cluster: Cluster, capacities: Sequence[Capacity]) -> Cluster:
    """The servers that are there together when the most are, type by type."""
    gone: set[int] = set()
    for capacity in capacities:
        there = [server.id for server in cluster.servers if server.accelerator == capacity.accelerator]
        gone.update(there[capacity.most(len(there)) :])
    return Cluster(tuple(server for server in cluster.servers if server.id not in gone), cluster.accelerators)


def servers_left(servers: int, share: float) -> int:
    """How many of so many servers are there.

    >>> [servers_left(5, share) for share in (0.0, 0.5, 0.999, 1.0)]
    [0, 2, 4, 5]
    """
    return math.floor(servers * share + 1e-9)


def _longest_s(counts: Sequence[tuple[float, int]], least: int) -> float:
    """For how long at a stretch at least so many servers are there; infinite where they always are."""
    if all(n >= least for _, n in counts):
        return math.inf
    longest_s = run_s = 0.0
    for seconds, n in [*counts, *counts]:  # the end goes on with the beginning
        run_s = run_s + seconds if n >= least else 0.0
        longest_s = max(longest_s, run_s)
    return longest_s
