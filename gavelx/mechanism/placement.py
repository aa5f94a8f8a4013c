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
        self._free: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._free.values()))

    def join(self, server: Server) -> None:
        """A server adds its devices."""
        self._free[server.id] = list(range(server.device_count))

    def lose(self, server_id: int) -> None:
        """A server takes its devices away."""
        self._free.pop(server_id, None)

    def give_back(self, devices: Iterable[Device]) -> None:
        """A lease ended; devices of a server that is gone are gone too."""
        for device in devices:
            if device.server_id in self._free:
                assert device.slot not in self._free[device.server_id], device
                self._free[device.server_id].append(device.slot)

    def take(self, count: int) -> tuple[Device, ...]:
        """Devices for a gang of ``count``; there must be as many."""
        assert count <= len(self), (count, len(self))
        enough = [server for server, free in self._free.items() if len(free) >= count]
        if enough:
            return self._take_from(min(enough, key=lambda server: (len(self._free[server]), server)), count)
        taken: tuple[Device, ...] = ()
        for server in sorted(self._free, key=lambda server: (-len(self._free[server]), server)):
            taken += self._take_from(server, min(count - len(taken), len(self._free[server])))
        return taken

    def _take_from(self, server: int, count: int) -> tuple[Device, ...]:
        free = sorted(self._free[server])
        self._free[server] = free[count:]
        return tuple(Device(server, slot) for slot in free[:count])
