"""Sia's integer program and Pollux's fitness: the best of all that is possible.

Legend: J jobs, C configurations.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.configuration import ConfigurationSet
from gavelx.elastic import Elastic
from gavelx.errors import PolicyError
from gavelx.jobs import Job
from gavelx.policies import Goodput, Pollux
from gavelx.policies.baselines.pollux import UNSERVED
from gavelx.promises import Promises
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

SPEEDS = {1: 1.0, 2: 1.8, 3: 2.4, 4: 3.0, 8: 4.0}


def snapshot_of(
    factors: list[float], cluster: dict[str, int], age_s: float = 1e6, weights: list[float] | None = None
) -> Snapshot:
    """Jobs for 1 to 8 devices; on a k80 each is slower by its factor."""
    table = Throughputs(
        {Setting(f"job {j}", "v100", n): speed for j in range(len(factors)) for n, speed in SPEEDS.items()}
        | {Setting(f"job {j}", "k80", n): speed / f for j, f in enumerate(factors) for n, speed in SPEEDS.items()}
    )
    jobs = [
        Job(j, f"job {j}", 1e6, weight=(weights or [1.0] * len(factors))[j], elastic=Elastic.of("workers:1-8/8"))
        for j in range(len(factors))
    ]
    snapshot = Snapshot.of(jobs, Cluster.of(cluster), table, sizes=True)
    return snapshot.replace(opened=frozenset({"sizes"}), elapsed_s_J=np.full(len(jobs), age_s))


def best_by_trying(snapshot: Snapshot, cost: Callable[[int, int], float], idle: float) -> float:
    """The least cost of any way to give each job one configuration or none."""
    table = snapshot.configurations
    of_job = [[None, *np.flatnonzero(table.job_M == j).tolist()] for j in range(len(snapshot.jobs))]
    found = np.inf
    for chosen in product(*of_job):
        used = np.zeros(len(snapshot.accelerators))
        for c in chosen:
            if c is not None:
                used[table.accelerator_C[c]] += table.devices_C[c]
        if (used <= snapshot.devices_A).all():
            found = min(found, sum(idle if c is None else cost(j, c) for j, c in enumerate(chosen)))
    return found


@given(
    st.lists(st.floats(1.0, 8.0), min_size=1, max_size=3),
    st.integers(1, 8),
    st.integers(1, 4),
    st.sampled_from([-0.5, -1.0, -2.0]),
)
def test_no_other_answer_costs_less(factors: list[float], v100s: int, k80s: int, power: float) -> None:
    snapshot = snapshot_of(factors, {"v100": v100s, "k80": k80s})
    table, speed_C = snapshot.configurations, snapshot.configurations.throughput_M
    allocation = Goodput(power).allocate(snapshot)
    assert set(allocation.share_C.tolist()) <= {0.0, 1.0}
    even_C = [n in (1, 2, 4) or n % max(v100s if a == 0 else k80s, 1) == 0 for a, n in _places(table)]
    may_C = np.array(even_C) & snapshot.usable_C
    least_J = [speed_C[(table.job_M == j) & may_C].min() for j in range(len(factors))]

    def cost(j: int, c: int) -> float:
        return float((speed_C[c] / least_J[j]) ** power) if may_C[c] else 1e9

    saved = 1.1 * len(factors) - best_by_trying(snapshot, cost, 1.1)
    assert allocation.certificate.objective == pytest.approx(saved, rel=1e-5)


def _places(table: Any) -> list[tuple[int, int]]:
    return list(zip(table.accelerator_C.tolist(), table.devices_C.tolist(), strict=True))


@given(st.lists(st.floats(1.0, 8.0), min_size=1, max_size=3), st.sampled_from([2, 4, 8]))
def test_pollux_has_the_best_harmonic_mean(factors: list[float], v100s: int) -> None:
    snapshot = snapshot_of(factors, {"v100": v100s})
    table, speed_C = snapshot.configurations, snapshot.configurations.throughput_M
    fair = -(-v100s // len(factors))
    fair_speed = max(speed for n, speed in SPEEDS.items() if n <= fair and n in (1, 2, 4, 8))
    allocation = Pollux().allocate(snapshot)

    def cost(j: int, c: int) -> float:
        even = int(table.devices_C[c]) in (1, 2, 4, 8)
        return float(1.0 / (speed_C[c] / fair_speed + UNSERVED)) if even else 1e9

    best = best_by_trying(snapshot, cost, 1.0 / UNSERVED)
    assert allocation.certificate.objective == pytest.approx(len(factors) / UNSERVED - best, rel=1e-5)


def test_a_young_job_keeps_its_size_and_an_old_one_grows() -> None:
    snapshot = snapshot_of([1.0], {"v100": 4}, age_s=40.0)
    now = ConfigurationSet.alone(np.array([0]), np.array([0]), np.array([2]))
    held = {"promised": Promises(("v100",), now, np.ones(1)), "running_J": np.array([0])}
    young, old = snapshot.replace(**held), snapshot.replace(**held, elapsed_s_J=np.array([1e5]))
    assert devices(Goodput().allocate(young)) == [2]
    assert devices(Goodput().allocate(old)) == [4]


def test_a_job_begins_on_one_device_and_doubles() -> None:
    snapshot = snapshot_of([1.0], {"v100": 8})
    now = ConfigurationSet.alone(np.array([0]), np.array([0]), np.array([2]))
    later = snapshot.replace(promised=Promises(("v100",), now, np.ones(1)), running_J=np.array([0]))
    assert devices(Goodput(doubling=True).allocate(snapshot)) == [1]
    assert devices(Goodput(doubling=True).allocate(later)) == [4]
    assert devices(Goodput().allocate(snapshot)) == [8]


def test_a_job_that_counts_more_has_more() -> None:
    snapshot = snapshot_of([1.0, 1.0], {"v100": 6}, weights=[1.0, 2.0])
    assert devices(Goodput().allocate(snapshot)) == [2, 4]


def test_a_power_that_rewards_the_fast_is_refused() -> None:
    with pytest.raises(PolicyError, match="a power below 0"):
        Goodput(power=0.5)
    with pytest.raises(PolicyError, match="idle=0"):
        Goodput(idle=0.0)


@given(st.lists(st.floats(1.0, 8.0), min_size=1, max_size=3), st.integers(1, 8))
def test_its_gain_is_what_its_certificate_says(factors: list[float], v100s: int) -> None:
    snapshot = snapshot_of(factors, {"v100": v100s})
    allocation = Goodput().allocate(snapshot)
    assert allocation.certificate.objective is not None
    gain = Goodput().gain(snapshot, allocation.share_C)
    assert gain == pytest.approx(allocation.certificate.objective)


def devices(allocation: Any) -> list[int]:
    """Of each job that has some."""
    table = allocation.snapshot.configurations
    found = [(table.job_M[c], int(table.devices_C[c])) for c in np.flatnonzero(allocation.share_C)]
    return [count for _, count in sorted(found)]
