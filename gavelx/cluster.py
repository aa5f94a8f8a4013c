"""A cluster: servers, each holding some devices of one accelerator type.

Legend: A accelerator types.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.errors import OptionError
from gavelx.fixed import Fixed, fixed_property


@dataclass(frozen=True, slots=True)
class Server:
    """A machine that holds ``device_count`` devices of one accelerator type."""

    id: int
    accelerator: str
    device_count: int
    region: str = ""
    instance_type: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "accelerator", self.accelerator.lower())


def fewest_servers(width: int, servers: Mapping[int, int]) -> int:
    """The fewest servers that can hold a gang, which is consolidated there. ``servers`` maps a size to a count.

    Throughput tables know two placements, consolidated and spread. A gang that is wider than any server counts as
    consolidated on the fewest servers that hold it, because spread was measured with each device in a server of
    its own. The servers must have at least as many devices as the gang needs.

    >>> [fewest_servers(width, {4: 1, 2: 2}) for width in (3, 4, 5, 8)]
    [1, 1, 2, 3]
    """
    needed, missing = 0, width
    for size in sorted(servers, reverse=True):
        taken = min(servers[size], -(-missing // size))
        needed, missing = needed + taken, missing - taken * size
        if missing <= 0:
            return needed
    raise AssertionError((width, servers))


@dataclass(frozen=True)
class Cluster(Fixed):
    """The servers that jobs may run on. Any name may be a type's; names are compared in lower case.

    ``accelerators`` lists the types in the order in which the user named them; every array with an ``A`` axis
    follows this order.
    """

    servers: tuple[Server, ...]
    accelerators: tuple[str, ...]

    @staticmethod
    def of(device_counts: Mapping[str, int], devices_per_server: int = 4) -> "Cluster":
        """A cluster with these numbers of devices by type, filled into servers; the last server may be smaller.

        >>> [s.device_count for s in Cluster.of({"V100": 6}).servers]
        [4, 2]

        Raises :class:`OptionError` for names that differ only in case.
        """
        assert devices_per_server >= 1, devices_per_server
        servers: list[Server] = []
        accelerators = tuple(name.lower() for name in device_counts)
        if len(set(accelerators)) < len(accelerators):
            raise OptionError(f"a type is named twice in different cases: {', '.join(device_counts)}")
        for accelerator, count in zip(accelerators, device_counts.values(), strict=True):
            assert count >= 0, (accelerator, count)
            for first in range(0, count, devices_per_server):
                size = min(devices_per_server, count - first)
                servers.append(Server(len(servers), accelerator, size))
        return Cluster(tuple(servers), accelerators)

    @staticmethod
    def parse(text: str, devices_per_server: int = 4) -> "Cluster":
        """Read ``v100=5,p100=5,k80=0``. Raises :class:`OptionError` that names the part that does not parse."""
        form = "TYPE=COUNT[,TYPE=COUNT...], for example v100=5,p100=5,k80=5"
        counts: dict[str, int] = {}
        for part in text.split(","):
            name, _, count = (piece.strip() for piece in part.partition("="))
            if not name or not (count.isascii() and count.isdigit()):
                raise OptionError(f"cannot read {part!r} in {text!r}", where="--cluster", expected=form)
            if len(count) > 7:
                raise OptionError(f"{count} devices of {name}", where="--cluster", expected="at most 9999999")
            if name.lower() in counts:
                raise OptionError(f"{name!r} is named twice in {text!r}", where="--cluster", expected=form)
            counts[name.lower()] = int(count)
        if not any(counts.values()):
            raise OptionError(f"{text!r} has no device at all", where="--cluster", expected=form)
        return Cluster.of(counts, devices_per_server)

    @fixed_property
    def devices_A(self) -> NDArray[np.int64]:
        """Devices of each accelerator type."""
        index = {name: a for a, name in enumerate(self.accelerators)}
        counts_A = np.zeros(len(index), dtype=np.int64)
        for server in self.servers:
            counts_A[index[server.accelerator]] += server.device_count
        return counts_A

    @fixed_property
    def server_A(self) -> NDArray[np.int64]:
        """Devices of the largest server of each accelerator type."""
        sizes = dict.fromkeys(self.accelerators, 0)
        for server in self.servers:
            sizes[server.accelerator] = max(sizes[server.accelerator], server.device_count)
        return np.array(list(sizes.values()), dtype=np.int64)

    def __repr__(self) -> str:
        return f"<Cluster {self}: {len(self.servers):,} servers>"

    def __str__(self) -> str:
        return ",".join(f"{n}={c}" for n, c in zip(self.accelerators, self.devices_A, strict=True))
