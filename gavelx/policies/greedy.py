"""The skeleton of policies that hand out whole devices: an order of the jobs, and each takes what is free.

A policy of this kind is an order and a sentence. What holds for all of them is here: a gang gets all its devices
on one type or none, never where it cannot run, and what is in use is not handed out again.

Legend: J jobs, A accelerator types, C configurations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.execution import DEFAULT, Execution
from gavelx.job_table import column
from gavelx.snapshot import WAITING, Snapshot
from gavelx.solvers import certified

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NEVER_S = 1e30
"""No job takes longer than that where it can run: infinite means that it cannot, and sums stay finite."""


def usable_throughput_JA(snapshot: Snapshot) -> Floats:
    """Steps/s of each job on each type; 0 where it cannot run, nothing is known, or the type is too small."""
    T_JA = snapshot.configurations.throughput_JA
    return np.where((T_JA > 0) & (snapshot.scale_factor_J[:, None] <= snapshot.devices_A), T_JA, 0.0)


def by_arrival(snapshot: Snapshot, *keys: Floats | Ints) -> list[int]:
    """The jobs, least in the first key first; among equals the oldest, then the one with the lowest id."""
    arrival_s_J = column(snapshot.jobs, "arrival_s")
    order: list[int] = np.lexsort((snapshot.id_J, arrival_s_J, *reversed(keys))).tolist()
    return order


def seconds_JA(steps_left_J: Floats, T_JA: Floats) -> Floats:
    """How long each job would still take on each type; infinite where it cannot run."""
    left_JA = np.full(T_JA.shape, np.inf)
    with np.errstate(over="ignore"):
        np.divide(steps_left_J[:, None], T_JA, out=left_JA, where=T_JA > 0)
    return np.where(T_JA > 0, np.minimum(left_JA, NEVER_S), np.inf)


def soonest_s_J(steps_left_J: Floats, T_JA: Floats) -> Floats:
    """How long each job would still take where it is fastest; infinite where it can run nowhere."""
    return np.asarray(seconds_JA(steps_left_J, T_JA).min(axis=1, initial=np.inf))


class Handout:
    """Devices being handed out, a whole gang at a time."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.T_JA = usable_throughput_JA(snapshot)
        self.type_J: list[int] = [WAITING] * len(snapshot.jobs)
        self.free_A: list[int] = snapshot.devices_A.tolist()
        self._keeps = False
        self._scale_J: list[int] = snapshot.scale_factor_J.tolist()
        self._held_J: list[int] = snapshot.running_J.tolist()
        self._devices_A: list[int] = snapshot.devices_A.tolist()

    @cached_property
    def _speeds(self) -> list[list[float]]:
        speeds: list[list[float]] = self.T_JA.tolist()
        return speeds

    @cached_property
    def _fastest_first(self) -> tuple[list[list[int]], list[bool]]:
        """The n-th fastest type of each job, for every n (``WAITING``: none is left); and whether two are tied."""
        order_AJ = np.argsort(-self.T_JA.T, axis=0, kind="stable")
        speed_AJ = np.take_along_axis(self.T_JA.T, order_AJ, axis=0)
        tied_J = ((speed_AJ[1:] == speed_AJ[:-1]) & (speed_AJ[1:] > 0)).any(axis=0)
        return np.where(speed_AJ > 0, order_AJ, WAITING).tolist(), tied_J.tolist()

    def keep_running(self) -> None:
        """Jobs keep devices on which they can go on; the oldest first, if there are too few by now."""
        self._keeps = True
        for j in by_arrival(self.snapshot):
            if (a := self._held_J[j]) != WAITING and a in self.room(j):
                self.start(j, a)

    def in_order(self, jobs: Iterable[int]) -> None:
        """Each of these jobs that waits takes the fastest type with enough free devices, if there is one."""
        for j in jobs:
            if self.type_J[j] == WAITING and (a := self.choice(j)) != WAITING:
                self.start(j, a)
            if not any(self.free_A):
                return

    def needs(self, j: int) -> int:
        """The fewest devices with which the job can start."""
        return self._scale_J[j]

    def room(self, j: int) -> list[int]:
        """The types on which the job can start now."""
        speed_A, scale = self._speeds[j], self._scale_J[j]
        return [a for a, free in enumerate(self.free_A) if free >= scale and speed_A[a] > 0]

    def fastest(self, j: int, room: Sequence[int]) -> int:
        """The fastest of these types; among equals where it runs now, then the one with the largest free part."""
        speed_A, held = self._speeds[j], self._held_J[j]
        return max(room, key=lambda a: (speed_A[a], a == held, self.free_A[a] / self._devices_A[a]))

    def choice(self, j: int) -> int:
        """The fastest type on which the job can start now, as :meth:`fastest` says; or ``WAITING``."""
        first, tied_J = self._fastest_first
        if tied_J[j]:
            return self.fastest(j, room) if (room := self.room(j)) else WAITING
        free_A, scale = self.free_A, self._scale_J[j]
        for type_J in first:
            if (a := type_J[j]) == WAITING or free_A[a] >= scale:
                return a
        return WAITING

    def emptiest(self, room: Sequence[int]) -> int:
        """Of these types the one with the largest free part, then the most free: for those who know no speeds."""
        return max(room, key=lambda a: (self.free_A[a] / self._devices_A[a], self.free_A[a]))

    def start(self, j: int, a: int) -> None:
        """The job gets its devices on type a."""
        assert self.type_J[j] == WAITING
        assert self.free_A[a] >= self._scale_J[j]
        self.type_J[j] = a
        self.free_A[a] -= self._scale_J[j]

    def move(self, j: int, a: int) -> None:
        """The job gets devices on type a instead of those that it has."""
        self.free_A[self.type_J[j]] += self._scale_J[j]
        self.type_J[j] = WAITING
        self.start(j, a)

    def allocation(self, execution: Execution = DEFAULT, **facts: Any) -> Allocation:
        """What was handed out, as a certified allocation; ``facts`` go to :func:`~gavelx.solvers.certified`."""
        table, type_J = self.snapshot.configurations, np.array(self.type_J, dtype=np.int64)
        share_C = np.zeros(len(table))
        share_C[table.configuration_M] = type_J[table.job_M] == table.accelerator_C[table.configuration_M]
        return self.certified(share_C, execution, **facts)

    def certified(self, share_C: Floats, execution: Execution, **facts: Any) -> Allocation:
        """These shares, which are whole devices, as an allocation."""
        execution = replace(execution, whole_devices=True, may_move=not self._keeps)
        return certified(
            self.snapshot, share_C, execution=execution, **{"path": "greedy", "seconds": 0.0, **facts}
        )
