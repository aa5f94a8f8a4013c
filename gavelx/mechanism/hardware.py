"""The servers that are here, and which of their devices are free.

A server comes in epochs: each time that it comes, its epoch is a higher one, and news of earlier ones is no news.
"""

from dataclasses import replace

from gavelx.cluster import Cluster, Server
from gavelx.mechanism.commands import Device
from gavelx.mechanism.events import ServerOffers
from gavelx.mechanism.placement import FreeDevices

NO_OFFER = -1, 0, 0


class Hardware:
    """Servers by id, and their accelerator types in the order in which these were first seen."""

    def __init__(self) -> None:
        self.servers: dict[int, Server] = {}
        self.accelerators: list[str] = []
        self.free: list[FreeDevices] = []  # by accelerator type
        self._devices_A: list[int] = []
        self._epochs: dict[int, int] = {}  # of each server, the last that was heard of
        self._offers: dict[int, tuple[int, int, int]] = {}  # and of its last offer the epoch, number and devices
        self._aside: dict[int, int] = {}  # servers that are put aside, and the devices that each offers
        self._cluster: Cluster | None = None  # until servers come or go

    # -- facts ------------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """The servers that are here now, and lend devices."""
        if self._cluster is None:
            lend = tuple(server for server in self.servers.values() if server.device_count)
            self._cluster = Cluster(lend, tuple(self.accelerators))
        return self._cluster

    def devices(self) -> list[int]:
        """Devices of each type."""
        return self._devices_A

    def free_devices(self) -> list[int]:
        """Devices of each type that no job holds."""
        return [len(free) for free in self.free]

    def type_of(self, device: Device) -> int:
        """The accelerator type of a device of a server that is here."""
        return self.accelerators.index(self.servers[device.server_id].accelerator)

    def comes_anew(self, server_id: int, epoch: int) -> bool:
        """Whether it is news that a server has come in this epoch."""
        return epoch > self._epochs.get(server_id, -1)

    def is_epoch(self, server_id: int, epoch: int) -> bool:
        """Whether this is the last epoch of a server that was heard of."""
        return epoch == self._epochs.get(server_id)

    # -- changes ----------------------------------------------------------------------------------------------

    def add_type(self, accelerator: str) -> None:
        """Devices of a type that there were none of."""
        self.accelerators.append(accelerator)
        self.free.append(FreeDevices())
        self._devices_A.append(0)
        self._cluster = None

    def join(self, server: Server, epoch: int) -> None:
        """A server lends all its devices, or as many as an offer of this epoch said that was heard before."""
        self._epochs[server.id] = epoch
        self.servers[server.id], self._cluster = server, None
        a = self.accelerators.index(server.accelerator)
        self.free[a].join(server)
        self._devices_A[a] += server.device_count
        if (offered := self._offers.get(server.id, NO_OFFER))[0] == epoch:
            self.lend(server.id, offered[2])

    def hears_of_end(self, server_id: int, epoch: int) -> bool:
        """Take note that this epoch of a server is over; False if that is no news."""
        last = self._epochs.get(server_id, -1)
        if epoch < last or (epoch == last and server_id not in self.servers):
            return False
        self._epochs[server_id] = epoch
        return True

    def hears_offer(self, offer: ServerOffers) -> bool:
        """Take note of an offer; False if it is no news, or of a server that has not come yet."""
        known, offered = self._epochs.get(offer.server_id, -1), self._offers.get(offer.server_id, NO_OFFER)
        if (offer.epoch, offer.number) <= offered[:2] or offer.epoch < known:
            return False
        self._offers[offer.server_id] = offer.epoch, offer.number, offer.devices
        return offer.epoch == known and offer.server_id in self.servers

    def lend(self, server_id: int, devices: int) -> bool:
        """A server lends just its first so many devices from now on; False if that changes nothing."""
        before = self.servers[server_id]
        if server_id in self._aside:
            self._aside[server_id], devices = devices, 0
        if before.device_count == devices:
            return False
        a = self.accelerators.index(before.accelerator)
        self.servers[server_id], self._cluster = replace(before, device_count=devices), None
        self.free[a].offer(server_id, devices)
        self._devices_A[a] += devices - before.device_count
        return True

    def put_aside(self, server_id: int) -> None:
        """A server lends nothing, whatever it offers, until it is taken back."""
        devices = self.servers[server_id].device_count
        self._aside.setdefault(server_id, devices)
        self.lend(server_id, self._aside[server_id])

    def take_back(self, server_id: int) -> None:
        """A server that was put aside lends what it offers."""
        if (devices := self._aside.pop(server_id, None)) is not None:
            self.lend(server_id, devices)

    def leave(self, server_id: int) -> bool:
        """A server is gone, with all its devices; False if it was not here."""
        if (server := self.servers.pop(server_id, None)) is None:
            return False
        self._aside.pop(server_id, None)
        a = self.accelerators.index(server.accelerator)
        self.free[a].lose(server)
        self._devices_A[a] -= server.device_count
        self._cluster = None
        return True
