"""Leases that were taken back, and have not reported their end yet: what was accounted for of each."""

from collections.abc import Mapping
from typing import NamedTuple


class Stopped(NamedTuple):
    """A lease that was taken back, and has not reported its end yet.

    ``held_s`` is what was accounted for, since ``from_s``; ``kept`` are devices of it that the lease has which
    continues it, by type. ``servers`` are those of its servers that are not lost; on the others it had ended by
    ``over_s``.
    """

    job_id: int
    type: int
    devices: int
    batch: int
    held_s: float
    price: float
    from_s: float
    servers: frozenset[int]
    others: tuple[int, ...] = ()
    kept: tuple[tuple[int, int], ...] = ()
    over_s: float = 0.0

    @property
    def uses(self) -> dict[int, int]:
        """Devices of each type."""
        return {self.type: self.devices, **{a: devices for a, devices in enumerate(self.others) if devices}}

    def new_of(self, uses: Mapping[int, int]) -> dict[int, int]:
        """Those of these devices that it did not keep for the lease which continues it."""
        kept = dict(self.kept)
        return {a: devices - kept.get(a, 0) for a, devices in uses.items()}

    def lost(self, server_id: int, over_s: float) -> "Stopped":
        """A server is lost. When all are, the lease was held until it had ended on the last of them."""
        now = self._replace(servers=self.servers - {server_id}, over_s=max(self.over_s, over_s))
        return now if now.servers else now._replace(held_s=now.lost_s)

    @property
    def until_s(self) -> float:
        """Until then it was accounted for."""
        return self.from_s + self.held_s

    @property
    def lost_s(self) -> float:
        """For how long it was held on servers that are lost, as far as that is known."""
        return min(self.held_s, max(0.0, self.over_s - self.from_s)) if self.over_s else self.held_s


class StoppedLeases:
    """These leases, by id."""

    def __init__(self) -> None:
        self._by_id: dict[int, Stopped] = {}

    def put(self, lease_id: int, stopped: Stopped) -> None:
        """A lease is taken back."""
        self._by_id[lease_id] = stopped

    def get(self, lease_id: int) -> Stopped | None:
        """What was accounted for of a lease, until it reports its end."""
        return self._by_id.get(lease_id)

    def pop(self, lease_id: int) -> Stopped:
        """It has reported its end."""
        return self._by_id.pop(lease_id)

    def lose(self, server_id: int, over_s: float) -> list[tuple[Stopped, float]]:
        """A server is lost, on which all had ended by then: those that were held for another time, by how much."""
        other = []
        for lease_id, stopped in self._by_id.items():
            if server_id in stopped.servers:
                self._by_id[lease_id] = now = stopped.lost(server_id, over_s)
                other.append((stopped, now.held_s - stopped.held_s))
        return [(stopped, seconds) for stopped, seconds in other if seconds]

    def forget(self, job_ids: set[int]) -> None:
        """Jobs that are gone are not charged any more."""
        if self._by_id and job_ids:
            self._by_id = {i: stopped for i, stopped in self._by_id.items() if stopped.job_id not in job_ids}
