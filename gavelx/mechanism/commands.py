"""What the mechanism wants done. A backend carries it out and reports what came of it as events."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gavelx.configuration import Configuration
from gavelx.snapshot import Snapshot


class Device(NamedTuple):
    """One device that can be leased: a server, and the device's place in it."""

    server_id: int
    slot: int


def by_server(devices: Iterable[Device]) -> dict[int, int]:
    """How many of these devices are in each server, in their order; with a few it is quicker than a Counter."""
    count = dict[int, int]()
    for server_id, _ in devices:
        count[server_id] = count.get(server_id, 0) + 1
    return count


class Lease(NamedTuple):
    """The right of a job to run on these devices until a time or a step, whichever comes first.

    ``id`` rises from lease to lease, so a stale one can be told. ``until_step`` counts the job's steps from its
    beginning. ``charged_from_s`` is when billing starts; it is the launch but for rules that charge more.
    ``configuration`` says how the job is launched; its other member, if any, holds the same devices at the same
    time, in a lease of its own. Devices that are still being given up are waited for. ``continues`` is the lease
    that it continues, if the job is to be resized and not restarted.
    """

    id: int
    job_id: int
    configuration: Configuration
    devices: tuple[Device, ...]
    until_s: float
    until_step: float
    charged_from_s: float
    continues: int | None = None

    @property
    def accelerator(self) -> str:
        """The type of its devices; of a mix, the first."""
        return self.configuration.accelerator

    @property
    def shares_with(self) -> int | None:
        """The job that holds the same devices at the same time, or None."""
        members = self.configuration.members
        return next((job_id for job_id in members if job_id != self.job_id), None) if len(members) > 1 else None


@dataclass(frozen=True, slots=True)
class Solve:
    """Ask the policy; the answer comes back as ``Allocated``, now or later."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Launch:
    """Run the job of this lease on its devices, from its last checkpoint."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Resize:
    """Let the job of a lease that it ``continues`` go over to this one: other devices, another batch, no restart.

    The job runs on in the old lease until its new devices are ready; then ``Resized`` reports how far it is. Those
    that both leases have belong to the old one until then. It is always right to stop the old lease and launch the
    new one instead, or to end both: then ``LeaseEnded`` is reported, of the old lease first.
    """

    lease: Lease


@dataclass(frozen=True, slots=True)
class Extend:
    """Let every lease that stands run on, on the same devices, until a later time."""

    until_s: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Checkpoint and stop; ``LeaseEnded`` reports how far the job came."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The job failed too often: it will not be launched again."""

    job_id: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send ``Wake`` at this time; with ``report``, after a `Progress`."""

    time_s: float
    report: bool = False


Command = Solve | Launch | Resize | Extend | Stop | GiveUp | WakeAt
