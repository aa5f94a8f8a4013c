"""What is always true of a mechanism, whatever events came: its books agree with one another.

How far jobs are is what events said, and not looked at.

Legend: J live jobs.
"""

from collections import Counter

import numpy as np

from gavelx.configuration import ALONE
from gavelx.mechanism.commands import Device, Lease
from gavelx.mechanism.entitlements import Entitlements
from gavelx.mechanism.leasing import Leasing
from gavelx.mechanism.live import NO_WAY, LiveJobs
from gavelx.sizes import permits
from gavelx.snapshot import WAITING


def validate(live: LiveJobs, leasing: Leasing, ways: Entitlements) -> None:
    """Raises AssertionError, which says what is wrong, if the books do not agree."""
    here = np.flatnonzero(~live.gone).tolist()
    assert live.index == {live.jobs[j].id: j for j in here}, "rows of jobs are mixed up"
    _rows_hold_what_leases_say(live, leasing)
    _devices_are_free_or_held_once(leasing)
    _entitlements_are_of_live_jobs(live, ways)
    for name in ("share", "promised_s", "failures", "lost_s"):
        assert (getattr(live, name) >= 0).all(), f"{name} is negative"


def _rows_hold_what_leases_say(live: LiveJobs, leasing: Leasing) -> None:
    assert leasing.leases.keys() == {live.jobs[j].id for j in live.holders().tolist()}, "leases and rows differ"
    for job_id, lease in leasing.leases.items():
        j = live.index[job_id]
        assert lease.job_id == job_id, (lease, job_id)
        assert int(live.lease[j]) == lease.id, (lease, int(live.lease[j]))
        assert leasing.hardware.accelerators[live.type[j]] == lease.accelerator, (lease, int(live.type[j]))
        how = lease.configuration
        held = {leasing.hardware.accelerators[a]: n for a, n in enumerate(live.others[j].tolist()) if n}
        assert (int(live.held_devices[j]), held) == (how.devices, dict(how.others)), lease
        assert len(lease.devices) == how.devices_in_all, lease
        assert permits(live.jobs[j], how.devices_in_all, how.batch, mixed=bool(how.others)), lease
    waits_J = live.type == WAITING
    for name, nothing in (
        ("held_devices", 0),
        ("held_batch", 0),
        ("partner", ALONE),
        ("way", NO_WAY),
        ("spread", False),
        ("others", 0),
    ):
        assert (getattr(live, name)[waits_J] == nothing).all(), f"a job that waits has {name}"


def _devices_are_free_or_held_once(leasing: Leasing) -> None:
    held: dict[Device, list[Lease]] = {}
    for lease in leasing.leases.values():
        for device in lease.devices:
            held.setdefault(device, []).append(lease)
    for device, leases in held.items():
        assert device.server_id in leasing.hardware.servers, f"{device} is held, and its server is gone"
        assert len(leases) == 1 or _are_a_pair(leases), f"{device} is in leases {[lease.id for lease in leases]}"
    held_on = Counter(device.server_id for device in held)
    for server in leasing.hardware.servers.values():
        free = leasing.hardware.free[leasing.hardware.accelerators.index(server.accelerator)].on(server.id)
        assert free + held_on[server.id] == server.device_count, (
            f"server {server.id}: {free} free and {held_on[server.id]} held of {server.device_count}"
        )


def _are_a_pair(leases: list[Lease]) -> bool:
    """Whether these are the leases of two jobs that share the same devices."""
    return len(leases) == 2 and leases[0].devices == leases[1].devices and leases[0].job_id != leases[1].job_id


def _entitlements_are_of_live_jobs(live: LiveJobs, ways: Entitlements) -> None:
    J, partner = len(live), ways.partner
    assert ((ways.job >= 0) & (ways.job < J)).all(), "a job that is gone is entitled to something"
    assert ((partner == ALONE) | ((partner > ways.job) & (partner < J))).all(), "partners are mixed up"
    assert not live.gone[ways.job].any(), "a job that is gone is entitled to something"
    way_J = live.way
    assert (way_J < len(ways)).all(), "a job runs in a way that is gone"
    runs = np.flatnonzero(way_J != NO_WAY)
    own = (ways.job[way_J[runs]] == runs) | (partner[way_J[runs]] == runs)
    assert own.all(), "a job runs by the entitlement of another one"
