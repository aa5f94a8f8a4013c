"""Placement: which devices a job gets.

A gang goes to one server when it can, to the fullest that still holds it, so that large holes stay for large
gangs; otherwise to as few servers as possible.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from gavelx.cluster import Server, fewest_servers
from gavelx.mechanism.commands import Device


class FreeDevices:
    """The devices of one accelerator type that no job holds, by server."""

    def __init__(self) -> None:
        self._free: dict[int, list[Device]] = {}
        self._offered: dict[int, int] = {}  # by server: its first so many devices are lent to jobs
        self._with: list[dict[int, None]] = [{}]  # servers with so many free devices
        self._sizes = Counter[int]()  # how many servers have so many devices, free or not
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, server: Server) -> None:
        """A server adds its devices."""
        while len(self._with) <= server.device_count:
            self._with.append({})
        self._free[server.id], self._offered[server.id] = [], 0
        self._with[0][server.id] = None
        self.offer(server.id, server.device_count)

    def offer(self, server_id: int, devices: int) -> None:
        """A server lends its first so many devices from now on, of which the new ones are free."""
        before, self._offered[server_id] = self._offered[server_id], devices
        self._sizes[before] -= 1
        self._sizes[devices] += 1
        del self._sizes[0]  # nothing finds a place there
        taken = [device for device in self._free[server_id] if device.slot >= devices]
        self._take_out(server_id, [device for device in self._free[server_id] if device.slot < devices], taken)
        self._put(server_id, [Device(server_id, slot) for slot in range(before, devices)])

    def lose(self, server: Server) -> None:
        """A server takes its devices away."""
        free = self._free.pop(server.id)
        self._sizes[self._offered.pop(server.id)] -= 1
        del self._sizes[0]
        del self._with[len(free)][server.id]
        self._count -= len(free)

    def give_back(self, devices: Iterable[Device]) -> None:
        """A lease ended; devices of a server that is gone are gone too, and so are those that it does not lend."""
        for device in devices:
            free = self._free.get(device.server_id)
            if free is not None and device.slot < self._offered[device.server_id]:
                assert device not in free, device
                self._put(device.server_id, [device])

    def fewest(self, count: int) -> int:
        """In how many of the servers that are here a gang of ``count`` is consolidated."""
        return fewest_servers(count, self._sizes)

    def besides(self, avoid: frozenset[int]) -> int:
        """Free devices of servers other than these."""
        return self._count - sum(map(self.on, avoid))

    def holds_together(self, count: int, avoid: frozenset[int] = frozenset()) -> bool:
        """Whether a gang of ``count`` would be consolidated on free devices, beside servers to ``avoid``."""
        free = {n: len(servers) for n, servers in enumerate(self._with)}
        for server_id in avoid & self._free.keys():
            free[self.on(server_id)] -= 1
        return count <= self.besides(avoid) and fewest_servers(count, free) == self.fewest(count)

    def by_server(self) -> dict[int, int]:
        """How many devices of each server are free."""
        return {server_id: len(devices) for server_id, devices in self._free.items()}

    def on(self, server_id: int) -> int:
        """Free devices of one server."""
        return len(self._free.get(server_id, ()))

    def take(
        self, count: int, near: Sequence[Device] = (), avoid: frozenset[int] = frozenset()
    ) -> tuple[Device, ...]:
        """Devices for a gang of ``count``, those beside the ones that it has first; there must be as many.

        Servers to ``avoid`` are taken last.
        """
        assert count <= self._count, (count, self._count)
        taken: tuple[Device, ...] = ()
        for server_id, _ in Counter(device.server_id for device in near).most_common() if near else ():
            taken += self._take_from(server_id, min(count - len(taken), self.on(server_id)))
        while missing := count - len(taken):
            enough = (
                any(self.on(server_id) for server_id in self._free if server_id not in avoid) if avoid else False
            )
            server_id = self._fitting(missing, avoid if enough else frozenset())
            taken += self._take_from(server_id, min(missing, self.on(server_id)))
        return taken

    def _fitting(self, count: int, avoid: frozenset[int]) -> int:
        """The fullest server that still holds so many, or else the emptiest; none to ``avoid``."""
        for servers in chain(self._with[count:], reversed(self._with[1:count])):
            for server_id in servers:
                if server_id not in avoid:
                    return server_id
        raise AssertionError("no device is free")

    def _put(self, server_id: int, devices: list[Device]) -> None:
        free = self._free[server_id]
        del self._with[len(free)][server_id]
        free.extend(devices)
        self._with[len(free)][server_id] = None
        self._count += len(devices)

    def _take_from(self, server_id: int, count: int) -> tuple[Device, ...]:
        free = sorted(self._free[server_id])
        self._take_out(server_id, free[count:], free[:count])
        return tuple(free[:count])

    def _take_out(self, server_id: int, left: list[Device], taken: list[Device]) -> None:
        """Of the free devices of a server, these are left."""
        del self._with[len(self._free[server_id])][server_id]
        self._free[server_id] = left
        self._with[len(left)][server_id] = None
        self._count -= len(taken)
