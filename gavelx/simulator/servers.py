"""The servers of a simulated cluster: which are here, what they lend, and what the scheduler heard of that.

An event that a method returns has happened; whether and when the scheduler hears of it is the backend's concern.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from gavelx.cluster import Server, fewest_servers
from gavelx.mechanism.commands import Device, Lease
from gavelx.mechanism.events import Event, ServerOffers, WorkerDrained, WorkerJoined, WorkerLost

OF_SERVERS = (WorkerJoined, WorkerLost, WorkerDrained, ServerOffers)


class Servers:
    """Those that are ``here``, by id; each lends its first so many devices."""

    def __init__(self) -> None:
        self.here: dict[int, Server] = {}
        self._epoch_of: dict[int, int] = {}  # of each server, here or not, how often it has come back
        self._lent: dict[int, int] = {}  # by server that is here
        self._offers: dict[int, ServerOffers] = {}  # the last of each server

    def of_type(self, accelerator: str) -> list[Server]:
        """Those that are here, in the order in which they came."""
        return [server for server in self.here.values() if server.accelerator == accelerator]

    def joins(self, server: Server, time_s: float) -> WorkerJoined:
        """It is here, and lends all its devices."""
        self.here[server.id], self._lent[server.id] = server, server.device_count
        self._epoch_of[server.id] = epoch = self._epoch_of.get(server.id, -1) + 1
        return WorkerJoined(time_s, server, epoch)

    def leaves(self, server_id: int) -> Server:
        """It is not here any more."""
        del self._lent[server_id]
        return self.here.pop(server_id)

    def lost(self, server_id: int, time_s: float) -> WorkerLost:
        """The news that it is gone."""
        return WorkerLost(time_s, server_id, self._epoch_of[server_id])

    def drained(self, server_id: int, time_s: float) -> WorkerDrained:
        """The news that it will go."""
        return WorkerDrained(time_s, server_id, self._epoch_of[server_id])

    def lends(self, server: Server) -> int:
        """How many of its devices jobs may be on."""
        return self._lent[server.id]

    def lend(self, server: Server, devices: int) -> bool:
        """From now on it lends its first so many devices; whether that is another number than before."""
        before, self._lent[server.id] = self._lent[server.id], devices
        return devices != before

    def offered(self, server: Server) -> int:
        """How many devices it lends by its own word, which comes before it takes any back."""
        last = self._offers.get(server.id)
        return server.device_count if last is None or last.epoch < self._epoch_of[server.id] else last.devices

    def offer(self, server: Server, devices: int, notice_s: float, time_s: float) -> ServerOffers | None:
        """Its word that it will lend so many; None if that was its last word already."""
        if devices == self.offered(server):
            return None
        last = self._offers.get(server.id)
        number = last.number + 1 if last else 1
        offer = ServerOffers(time_s, server.id, devices, self._epoch_of[server.id], number, notice_s)
        self._offers[server.id] = offer
        return offer

    def news_of(self, devices: Iterable[Device], time_s: float) -> list[Event]:
        """Why no job can run on these devices, if so: all that turns to them sees it, reported or not."""
        news, lent = list[Event](), self._lent
        if all(slot < lent.get(server_id, 0) for server_id, slot in devices):
            return news
        for server_id in sorted({device.server_id for device in devices}):
            if (server := self.here.get(server_id)) is None:
                news.append(self.lost(server_id, time_s))
            elif any(d.server_id == server_id and d.slot >= self.lends(server) for d in devices):
                news.append(replace(self._offers[server_id], time_s=time_s))
        return news


class Heard:
    """The servers as the scheduler knows them: events may come to it late, twice, or not in order."""

    def __init__(self) -> None:
        self._servers: dict[int, Server] = {}  # with as many devices as they lend
        self._epoch_of: dict[int, int] = {}
        self._offers: dict[int, ServerOffers] = {}  # the last of each, also of one whose news is still to come

    def hears(self, event: Event) -> None:
        """One of these events has come to the scheduler."""
        if isinstance(event, WorkerJoined):
            server = event.server
            if event.epoch > self._epoch(server.id):
                self._servers[server.id], self._epoch_of[server.id] = server, event.epoch
                self._lends(server.id)
        elif isinstance(event, ServerOffers):
            before = self._offers.get(event.server_id)
            if before is None or (event.epoch, event.number) > (before.epoch, before.number):
                self._offers[event.server_id] = event
                self._lends(event.server_id)
        elif isinstance(event, WorkerLost | WorkerDrained) and event.epoch >= self._epoch(event.server_id):
            self._epoch_of[event.server_id] = event.epoch
            self._servers.pop(event.server_id, None)

    def _epoch(self, server_id: int) -> int:
        return self._epoch_of.get(server_id, -1)

    def servers(self) -> list[Server]:
        """Those that are here, each with as many devices as it lends."""
        return list(self._servers.values())

    def _lends(self, server_id: int) -> None:
        """As many devices as its last offer says, if that is of its present time here."""
        offer, server = self._offers.get(server_id), self._servers.get(server_id)
        if offer and server and offer.epoch == self._epoch_of[server_id]:
            self._servers[server_id] = replace(server, device_count=offer.devices)

    def is_spread(self, lease: Lease) -> bool:
        """Whether its gang is over more servers than can hold it; one on several types is not called so."""
        if len(lease.devices) == 1 or len(servers := {device.server_id for device in lease.devices}) == 1:
            return False
        if lease.configuration.others:  # always, and its speed counts that
            return False
        sizes = Counter(
            server.device_count for server in self.servers() if server.accelerator == lease.accelerator
        )
        del sizes[0]
        return len(servers) > fewest_servers(len(lease.devices), sizes)
