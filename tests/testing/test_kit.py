"""The kit catches what it should, and only that: each planted fault breaks exactly its own checks."""

import dataclasses
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from gavelx.allocation import Allocation, Certificate
from gavelx.cluster import Cluster
from gavelx.errors import ProgramError
from gavelx.files.snapshots import snapshot_from_json
from gavelx.policies import (
    Cost,
    Fifo,
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
from gavelx.testing import NonConformance, PolicyConformance, snapshots
from gavelx.testing.changes import PER_JOB, permuted
from gavelx.testing.checks import short_json
from gavelx.testing.plain import in_the_order_of
from tests.testing.snapshots_alike import assert_alike

CASES = {
    *("test_no_job", "test_one_job", "test_more_jobs_than_devices", "test_jobs_that_can_run_nowhere"),
    *("test_identical_jobs", "test_gangs_wider_than_a_type", "test_types_without_devices"),
}
COMPARISONS = {
    *("test_the_same_snapshot_gets_the_same_answer", "test_a_saved_snapshot_gets_the_same_answer"),
    *("test_the_order_of_jobs_does_not_matter", "test_the_names_of_types_do_not_matter"),
    *("test_the_unit_of_steps_does_not_matter", "test_the_currency_does_not_matter"),
    "test_configurations_that_are_not_opened_do_not_matter",
}


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


FAULTS = [
    (Greedy, {"test_allocations_are_feasible", "test_no_share_where_a_job_cannot_run",
        "test_the_certificate_is_honest"} | CASES - {"test_no_job"}),
    (Boaster, {"test_the_certificate_is_honest"} | CASES - {"test_no_job"}),
    (SureOfItself, {"test_the_certificate_is_honest"} | CASES - {"test_no_job"}),
    (Queue, {"test_the_order_of_jobs_does_not_matter"}),
    (Snob, {"test_the_names_of_types_do_not_matter"}),
    (Dice, COMPARISONS),
    (Memory, {"test_the_same_snapshot_gets_the_same_answer"}),
    (Vandal, {"test_the_snapshot_is_left_as_it_was"}),
    (Parked, {"test_no_share_where_a_job_cannot_run", "test_jobs_that_can_run_nowhere",
        "test_gangs_wider_than_a_type", "test_types_without_devices"}),
    (Peeper, {"test_configurations_that_are_not_opened_do_not_matter"}),
    (Dollars, {"test_the_currency_does_not_matter"}),
    (Steps, {"test_the_unit_of_steps_does_not_matter"}),
    (Faster, {"test_allocations_are_feasible"} | CASES - {"test_no_job"}),
    (Wasteful, {"test_pareto_efficiency"}),
    (Starving, {"test_sharing_incentive"}),
    (Envied, {"test_envy_freeness"}),
    (Gullible, {"test_strategy_proofness"}),
    (Vague, {"test_promises_are_known_words"}),
]  # fmt: skip


@pytest.fixture(autouse=True)
def unshrunk() -> Iterator[None]:
    """Failures as they are found: making them small takes most of the time and is tried once, below."""
    before = settings.default
    settings.register_profile("unshrunk", parent=before, phases=[Phase.generate, Phase.target])
    settings.load_profile("unshrunk")
    yield
    settings.register_profile("as before", parent=before)
    settings.load_profile("as before")


def failures(kind: type[PolicyConformance]) -> dict[str, str]:
    """The checks that fail, with their messages; run as plain methods."""
    found = {}
    for name in sorted(name for name in dir(kind) if name.startswith("test_")):
        try:
            getattr(kind(), name)()
        except (NonConformance, pytest.fail.Exception) as failure:
            found[name] = str(failure)
        except pytest.skip.Exception:
            pass
    return found


def conformance(policy: Policy | type[Policy], **attributes: object) -> type[PolicyConformance]:
    attributes = {"unique": True, **attributes, "policy": policy}
    return type("Planted", (PolicyConformance,), attributes)


@pytest.mark.parametrize(("policy", "expected"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_fault_breaks_its_own_checks(policy: type[Policy], expected: set[str]) -> None:
    kind = conformance(policy, unique=not issubclass(policy, Starving))
    found = failures(kind)
    assert set(found) == expected, found
    for message in found.values():
        assert str(policy()) in message
