"""Capacity that comes and goes: spot servers of a cloud, and devices that servers lend to jobs for a time.

A series says which part is there, for how long. Of spot servers it is the part of what was asked for that a cloud
had: a cluster of other servers of the same type has that part of them, rounded down; the last of them leave, and
come back in the order of their numbers. Of devices it is the part that each server lends to jobs: its first ones,
rounded down; inference, say, has the rest. Or it is a part of so many devices (``of_devices``), which are lent by
each server that has them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gavelx.cluster import Cluster

HORIZON_S = 10 * 365.25 * 86400.0
"""From then on nothing changes any more, so that every run ends."""
NOTICE_S = 120.0
"""AWS warns two minutes before it takes a spot instance back; others give 30 s."""


@dataclass(frozen=True)
class Capacity:
    """Which part of the servers of a type is there: ``shares`` are seconds and that part; then they begin anew.

    ``notice_s`` before it goes a server is drained: its jobs stop with a checkpoint, if they have the time for it.
    ``of``: it is ``servers`` that come and go, or ``devices`` of each of them; jobs that can shrink within the
    notice run on. The part is one ``of_devices``, if that is given, for servers of any size.
    """

    accelerator: str
    shares: Sequence[tuple[float, float]]
    notice_s: float = NOTICE_S
    of: Literal["servers", "devices"] = "servers"
    of_devices: int | None = None

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

    def left(self, servers: int, share: float) -> int:
        """How many of so many servers, or devices of one, are there."""
        return min(servers, servers_left(self.of_devices or servers, share))

    def most(self, servers: int) -> int:
        """How many of so many servers are ever there together for longer than the notice."""
        counts = [(seconds, self.left(servers, share)) for seconds, share in self.shares]
        there = sorted({n for _, n in counts}, reverse=True)
        return next((n for n in there if _longest_s(counts, n) > self.notice_s), 0)


def at_best(cluster: Cluster, capacities: Sequence[Capacity]) -> Cluster:
    """The servers that are there together when the most are, type by type."""
    servers = {server.id: server for server in cluster.servers}
    for capacity in capacities:
        there = [server for server in servers.values() if server.accelerator == capacity.accelerator]
        if capacity.of == "devices":
            lent = (replace(server, device_count=capacity.most(server.device_count)) for server in there)
            servers |= {server.id: server for server in lent}
        for server in there[capacity.most(len(there)) :] if capacity.of == "servers" else ():
            del servers[server.id]
    left = tuple(server for server in servers.values() if server.device_count)
    return Cluster(left, cluster.accelerators)


def diurnal(
    least: float, most: float, *, day_s: float = 86400.0, step_s: float = 1800.0, busiest_s: float = 50400.0
) -> list[tuple[float, float]]:
    """A day in which inference needs most devices at ``busiest_s``, and lends fewest then: shares for `Capacity`.

    The part that is lent follows a cosine between ``least`` and ``most``, constant for ``step_s`` at a time.

    >>> [round(share, 2) for _, share in diurnal(0.2, 1.0, day_s=4.0, step_s=1.0, busiest_s=2.0)]
    [1.0, 0.6, 0.2, 0.6]
    """
    steps = max(1, round(day_s / step_s))
    lent = (0.5 - 0.5 * math.cos(2 * math.pi * (n * step_s - busiest_s) / day_s) for n in range(steps))
    return [(step_s, least + (most - least) * part) for part in lent]


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
