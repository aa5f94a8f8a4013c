"""Policies with one fault each, for the kit to find."""

import dataclasses
import random

import numpy as np

from gavelx.allocation import Allocation, Certificate
from gavelx.policies import (
    Isolated,
    Maximize,
    MaxMinFairness,
    NormalizedThroughput,
    Policy,
    SumThroughput,
    Throughput,
    Worst,
)
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired


class Fair(MaxMinFairness):
    """A good policy, to spoil."""

    name = ""
    promises = ()


class Greedy(Policy):
    """All of every type to everyone, and a certificate that says all is well."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        share_C = np.ones(len(snapshot.configurations))
        return Allocation(snapshot, share_C, Certificate(None, None, 0.0, "greedy", 0, 0.0))


class Boaster(Fair):
    """Claims more than its shares give."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return boasted(super().allocate(snapshot), objective=1.0)


class SureOfItself(Fair):
    """Claims a bound that its own answer passes."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return boasted(super().allocate(snapshot), bound=-1.0)


class Queue(Policy):
    """The first three jobs of the list share the cluster."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, np.arange(len(snapshot.jobs)) < 3)


class Snob(Policy):
    """Prefers accelerators by the sound of their names."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        best = min(snapshot.accelerators)
        liked_C = np.array([snapshot.accelerators[a] == best for a in snapshot.configurations.accelerator_C])
        return masked(snapshot, liked_C)


class Dice(Policy):
    """Another answer every time."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, np.full(len(snapshot.jobs), random.SystemRandom().random()))


class Memory(Policy):
    """Remembers whether it was asked before."""

    asked = False

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part, self.asked = (0.5 if self.asked else 1.0), True
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Warming(Policy):
    """Half of everything the first time it is ever asked."""

    asked = False

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part, Warming.asked = (1.0 if Warming.asked else 0.5), True
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Vandal(Fair):
    """Takes the steps that are left down to nothing in the snapshot itself."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        allocation = super().allocate(snapshot)
        snapshot.steps_left_J.setflags(write=True)
        snapshot.steps_left_J[:] = 0.0
        return allocation


class Parked(Policy):
    """Time everywhere, also where it is of no use."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return Isolated().allocate(snapshot)


class Peeper(Policy):
    """Looks at what was not opened for it: with pairs known, everyone gets half."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part = 0.5 if (snapshot.known.members_C > 1).any() else 1.0
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Dollars(Policy):
    """Half of everything if the first type costs more than a dollar."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part = 0.5 if snapshot.usd_per_hour_A[0] > 4.0 else 1.0
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Steps(Policy):
    """Nothing for jobs with more than 5000 steps to go."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, snapshot.steps_left_J < 5000.0)


class Fragile(Fair):
    """Does not think of an empty cluster."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        snapshot.jobs[0]
        return super().allocate(snapshot)


class Faster(Policy):
    """Answers with speeds of its own."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table = snapshot.known
        better = dataclasses.replace(table, throughput_M=table.throughput_M * 2.0)
        return scaled(snapshot.replace(known=better), np.ones(len(snapshot.jobs)))


class Wasteful(Policy):
    """Half of the cluster stays idle."""

    promises = ("pareto_efficiency",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, np.full(len(snapshot.jobs), 0.5))


class Starving(Maximize):
    """The most steps per second, whoever's they are."""

    promises = ("sharing_incentive",)

    def __init__(self) -> None:
        super().__init__(SumThroughput())


class Envied(Starving):
    """The same, with another promise."""

    promises = ("envy_freeness",)


class Gullible(Fair):
    """Believes everyone, and says that this does not matter."""

    promises = ("strategy_proofness",)


class Vague(Fair):
    """Promises what nobody can check."""

    promises = ("justice",)


class Floor(Maximize):
    """Cannot be met where a job can run nowhere."""

    def __init__(self) -> None:
        super().__init__(Worst(NormalizedThroughput()), [Throughput() >= 1e-3])


def boasted(allocation: Allocation, **shifts: float) -> Allocation:
    """The allocation with the objective, so much better, as some figures of its certificate."""
    seen = allocation.certificate
    changes = {name: (seen.objective or 0.0) + shift for name, shift in shifts.items()}
    return dataclasses.replace(allocation, certificate=dataclasses.replace(seen, **changes))


def scaled(snapshot: Snapshot, part_J: np.ndarray) -> Allocation:
    """A part of an equal share of the types that each job can use."""
    table = snapshot.configurations
    part_C = np.zeros(len(table))
    np.add.at(part_C, table.configuration_M, part_J[table.job_M].astype(float))
    return masked(snapshot, part_C)


def masked(snapshot: Snapshot, part_C: np.ndarray) -> Allocation:
    """A part of an equal share, configuration by configuration."""
    table = snapshot.configurations
    share_C = part_C * snapshot.devices_A[table.accelerator_C] / (table.devices_C * max(1, len(snapshot.jobs)))
    share_C = repaired(snapshot, np.where(snapshot.usable_C, np.minimum(1.0, share_C), 0.0))
    return certified(snapshot, share_C, path="planted", seconds=0.0)
