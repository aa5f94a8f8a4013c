"""Reasons in words, one for each job, computed from the snapshot and the shares: what limits its speed.

A reason is a fact about the allocation that can be checked: all the time on the fastest type, a type in full use,
free devices. It does not prove that the policy had no other choice. If devices that a job could use stay free, the
cause is the policy's objective, and the reason says that.

Legend: J jobs, A accelerator types, C configurations.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.explain.properties import devices_held_JA, speed_JA, top_speed_J, utility_J
from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NEAR = 1e-6
"""Relative tolerance for shares of time, devices and speeds."""
WANTS_NO_MORE = "the policy wants no more"


def one_more_device(allocation: Allocation) -> dict[str, float]:
    """Relative change of the objective with one more device of each type (0.031: rises by 3.1 %).

    Of a sum of logarithms, it is that of the geometric mean (:meth:`~gavelx.allocation.Certificate.relative`).

    The dual prices of the program over the objective, which is concave in the devices: a whole device changes it
    by at most that, a small part of a device in proportion. Negative if the objective is minimized. The program is
    the one that was solved: a reference of the policy (such as a slice of every type) stays fixed. Empty if the
    solver's path gives no prices (ratios, queues), the objective is 0, or it has logarithms and other parts.
    """
    parts = {name: allocation.certificate.relative(gain) for name, gain in allocation.marginal_A.items()}
    return {name: part for name, part in parts.items() if part is not None}


@dataclass(frozen=True, eq=False)
class Reasons:
    """The reasons of one allocation: types in full use, and the limit of each job."""

    allocation: Allocation

    @cached_property
    def in_use_A(self) -> Floats:
        """Devices of each type in use, averaged over time, in configurations that can run."""
        return np.asarray(self._held_JA.sum(axis=0))

    @cached_property
    def full_A(self) -> Bools:
        """Whether all devices of a type are in use all the time."""
        return np.asarray(self.in_use_A >= self.snapshot.devices_A * (1.0 - NEAR))

    @cached_property
    def idle_A(self) -> Bools:
        """Whether a type has devices, and none of them is ever in use."""
        return np.asarray((self.snapshot.devices_A > 0) & (self.in_use_A <= NEAR))

    @cached_property
    def time_J(self) -> Floats:
        """The share of time in which each job runs."""
        share_C = np.where(self.snapshot.usable_C, self.allocation.share_C, 0.0)
        return np.asarray(self.snapshot.configurations.membership_JC @ share_C)

    def limited_by(self, j: int) -> str:
        """What limits the speed of job j (an index), in words."""
        if not self._top_J[j] > 0:
            return f"can run nowhere: {why_nowhere(self.snapshot, j)}"
        if self._utility_J[j] >= self._top_J[j] * (1.0 - NEAR):
            which = "types at once" if self._mixed_J[j] else "type"
            return f"runs all the time on its fastest {which} ({self._names(self._used_JA[j])})"
        if self.time_J[j] >= 1.0 - NEAR:
            return self._runs_on_several_types(j) if self._mixed_J[j] else self._runs_all_the_time(j)
        return self._has_time_left(j)

    def _runs_all_the_time(self, j: int) -> str:
        """The reason for a job that runs all the time, and that only faster devices would help."""
        slowest = self._speed_JA[j][self._used_JA[j]].min(initial=np.inf)
        faster_A = self._speed_JA[j] > slowest * (1.0 + NEAR)
        if free := self._names(faster_A & self._has_room_A(j)):
            return f"runs all the time; faster types have free devices ({free}), but {WANTS_NO_MORE}"
        if faster := self._names(faster_A):
            why = "are full" if self.full_A[faster_A].all() else "have no room for it"
            return f"runs all the time; faster types {why} ({faster})"
        used = self._names(self._used_JA[j])
        sizes = self.snapshot.jobs[j].elastic is not None and "sizes" in self.snapshot.opened
        less = "not in its fastest size" if sizes else "beside another job or spread"
        return f"runs all the time on its fastest type ({used}), but {less}"

    def _runs_on_several_types(self, j: int) -> str:
        """The same for one that has devices of several types at once, or now and then."""
        table, mine_M = self.snapshot.configurations, self.snapshot.configurations.job_M == j
        mine_C, speed_R = table.configuration_M[mine_M], table.throughput_M[mine_M]
        slowest = speed_R[self.allocation.share_C[mine_C] > NEAR].min()
        faster_C = mine_C[(speed_R > slowest * (1.0 + NEAR)) & self.snapshot.usable_C[mine_C]]
        needed_A = table.devices_AC[:, faster_C].sum(axis=1) > 0
        if full := self._names(needed_A & self.full_A):
            return (
                f"runs all the time, also on several types at once; faster ways need types that are full ({full})"
            )
        return f"runs all the time, also on several types at once; there are faster ways, but {WANTS_NO_MORE}"

    def _has_time_left(self, j: int) -> str:
        """The reason for a job that does not run all the time."""
        waits = self.time_J[j] <= NEAR
        if waits and not self.allocation.execution.backfill:
            return "waits for its turn: jobs before it come first"
        if free := self._names(self._usable_JA[j] & self._has_room_A(j)):
            has = f"{free} {'have' if ',' in free else 'has'} free devices ({WANTS_NO_MORE})"
            return f"no share though {has}" if waits else has
        return f"the devices it can use are in full use: {self._names(self._usable_JA[j])}"

    def _has_room_A(self, j: int) -> Bools:
        """Types on which the job could get more: with free time or, if shares are whole devices, a free gang.

        Of an elastic job that is one in its smallest size.
        """
        if self.allocation.execution.backfill or self.allocation.execution.quota:
            return ~self.full_A
        free_A = self.snapshot.devices_A - self.in_use_A
        table, least_A = self.snapshot.configurations, np.full(len(free_A), np.inf)
        mine_C = table.configuration_M[(table.job_M == j) & self.snapshot.usable_C[table.configuration_M]]
        np.minimum.at(least_A, table.accelerator_C[mine_C], table.devices_C[mine_C])
        return np.asarray(free_A >= least_A - NEAR)

    @property
    def snapshot(self) -> Snapshot:
        return self.allocation.snapshot

    @cached_property
    def _held_JA(self) -> Floats:
        return devices_held_JA(self.allocation)

    @cached_property
    def _used_JA(self) -> Bools:
        return np.asarray(self._held_JA > NEAR)

    @cached_property
    def _mixed_J(self) -> Bools:
        """Whether each job has time on devices of several types at once."""
        table = self.snapshot.configurations
        return np.asarray(table.membership_JC @ (table.mixed_C & (self.allocation.share_C > NEAR)) > 0)

    @cached_property
    def _usable_JA(self) -> Bools:
        usable_C = self.snapshot.usable_C.astype(float)
        return self.snapshot.configurations.by_job_and_type(usable_C) > 0

    @cached_property
    def _speed_JA(self) -> Floats:
        return speed_JA(self.snapshot)

    @cached_property
    def _top_J(self) -> Floats:
        return top_speed_J(self.snapshot)

    @cached_property
    def _utility_J(self) -> Floats:
        return utility_J(self.allocation)

    def _names(self, chosen_A: Bools) -> str:
        """The accelerator types chosen, or nothing."""
        return ", ".join(name for name, chosen in zip(self.snapshot.accelerators, chosen_A, strict=True) if chosen)


def why_nowhere(snapshot: Snapshot, j: int) -> str:
    """For a job that can run nowhere, the reason on each type: speed 0, unknown speed, or too few devices."""
    table, scale_factor = snapshot.configurations, int(snapshot.scale_factor_J[j])
    mine_C = table.configuration_M[table.job_M == j]
    unknown, zero, narrow = [], [], []
    for a, name in enumerate(snapshot.accelerators):
        here_C = mine_C[table.accelerator_C[mine_C] == a]
        if not len(here_C):
            unknown.append(name)
        elif not table.runnable_C[here_C].any():
            zero.append(name)
        else:
            narrow.append(f"{name} has {snapshot.devices_A[a]}")
    reasons = {
        f"it needs {_devices(scale_factor)}": narrow,
        "it does not run on": zero,
        "its speed is unknown on": unknown,
    }
    return "; ".join(
        f"{text} ({', '.join(names)})" if names is narrow else f"{text} {', '.join(names)}"
        for text, names in reasons.items()
        if names
    )


def _devices(count: int) -> str:
    return "a device" if count == 1 else f"{count} devices at once"
