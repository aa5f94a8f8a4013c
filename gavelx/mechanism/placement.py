"""Placement: which devices a job gets.

A gang goes to one server when it can, to the fullest that still holds it, so that large holes stay for large
gangs; otherwise to as few servers as possible.
"""

from collections.abc import Iterable

from gavelx.cluster import Server
from gavelx.mechanism.commands import Device


class FreeDevices:
    """The devices of one accelerator type that nobody holds, by server."""

    def __init__(self) -> None:
        self._free: dict[int, list[Device]] = {}
        self._with: list[dict[int, None]] = [{}]  # servers with so many free devices
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, server: Server) -> None:
        """A server adds its devices."""
        while len(self._with) <= server.device_count:
            self._with.append({})
        self._free[server.id] = []
        self._with[0][server.id] = None
        self._put(server.id, [Device(server.id, slot) for slot in range(server.device_count)])

    def lose(self, server_id: int) -> None:
        """A server takes its devices away."""
        free = self._free.pop(server_id)
        del self._with[len(free)][server_id]
        self._count -= len(free)

    def give_back(self, devices: Iterable[Device]) -> None:
        """A lease ended; devices of a server that is gone are gone too."""
        for device in devices:
            if (free := self._free.get(device.server_id)) is not None:
                assert device not in free, device
                self._put(device.server_id, [device])

    def holds_together(self, count: int) -> bool:
        """Whether a gang of ``count`` fits as few servers as it can, as they are."""
        full, rest = divmod(count, max(1, self.widest))
        empty = len(self._with[-1])
        if empty < full:
            return False
        return not rest or empty > full or any(self._with[rest:-1]) or (not full and any(self._with[rest:]))

    @property
    def widest(self) -> int:
        """Devices of the largest server that ever joined: what is wider never fits one."""
        return len(self._with) - 1

    def on(self, server_id: int) -> int:
        """Free devices of one server."""
        return len(self._free.get(server_id, ()))

    def take(self, count: int) -> tuple[Device, ...]:
        """Devices for a gang of ``count``; there must be as many."""
        assert count <= self._count, (count, self._count)
        for servers in self._with[count:]:
            if servers:
                return self._take_from(next(iter(servers)), count)
        taken: list[Device] = []
        for servers in reversed(self._with):
            while servers and len(taken) < count:
                server_id = next(iter(servers))
                taken += self._take_from(server_id, min(count - len(taken), len(self._free[server_id])))
            if len(taken) == count:
                break
        return tuple(taken)

    def _put(self, server_id: int, devices: list[Device]) -> None:
        free = self._free[server_id]
        del self._with[len(free)][server_id]
        free.extend(devices)
        self._with[len(free)][server_id] = None
        self._count += len(devices)

    def _take_from(self, server_id: int, count: int) -> tuple[Device, ...]:
        free = self._free[server_id]
        del self._with[len(free)][server_id]
        free.sort()
        self._free[server_id] = free[count:]
        self._with[len(free) - count][server_id] = None
        self._count -= count
        return tuple(free[:count])
