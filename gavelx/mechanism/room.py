"""Room: which narrower jobs would have to move for a gang to find as few servers as can hold it.

It goes by how many devices are free or could be; which devices a job then gets is up to `placement`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Tenant(NamedTuple):
    """A job (a row) that may move: its devices on one server, and the seconds that each of them would lose."""

    job: int
    devices: int
    loss_s: float


def make_room(
    width: int, servers: int, free: Mapping[int, int], tenants: Mapping[int, Sequence[Tenant]]
) -> list[Tenant] | None:
    """Who moves so that a gang of this width fits so many servers, or fewer; None where these cannot be cleared.

    ``free`` says how many devices of each server no job holds, ``tenants`` which jobs could move from it. Servers
    are chosen one by one: of those with which the rest can still be found, the one whose tenants lose least.
    """
    if _most(free, servers) >= width:
        return []
    room = {server: count + sum(one.devices for one in tenants.get(server, ())) for server, count in free.items()}
    chosen, missing = list[int](), width
    while missing > 0:
        left = servers - len(chosen)
        if _most(room, left) < missing:
            return None
        others_leave = _most(room, left - 1)
        costs = {
            server: _cost(_leave(tenants.get(server, ()), min(missing, count) - free[server]))
            for server, count in room.items()
            if count + others_leave >= missing
        }
        chosen.append(min(costs, key=lambda server: (costs[server], -room[server])))
        missing -= room.pop(chosen[-1])
    held = [one for server in chosen for one in tenants.get(server, ())]
    return _leave(held, width - sum(free[server] for server in chosen))


def _most(devices: Mapping[int, int], servers: int) -> int:
    """The devices of so many servers that have most."""
    return sum(sorted(devices.values(), reverse=True)[:servers])


def _leave(tenants: Sequence[Tenant], wanted: int) -> list[Tenant]:
    """The tenants who leave so many devices and lose little; of those who lose the same, few wide ones."""
    going: list[Tenant] = []
    for tenant in sorted(tenants, key=lambda one: (one.loss_s, -one.devices)):
        if wanted > 0:
            going.append(tenant)
            wanted -= tenant.devices
    for tenant in sorted(going, key=lambda one: (-one.loss_s, one.devices)):
        if wanted + tenant.devices <= 0:  # the others leave enough
            going.remove(tenant)
            wanted += tenant.devices
    return going


def _cost(tenants: Sequence[Tenant]) -> tuple[float, int]:
    """Device-seconds that they lose, and how many they are."""
    return sum(one.loss_s * one.devices for one in tenants), len(tenants)
