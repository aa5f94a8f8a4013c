"""Deadlines: met where they can be, urgent work first."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.errors import SolverError
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.pricing.mix import RULES
from gavelx.simulator import simulate
from gavelx.snapshot import Snapshot
from gavelx.solvers import using
from tests.policies.small import PRICES, SPEEDS

DEADLINES = load_policy("deadlines")
HOUR_S = 3600.0


def job(job_id: int, hours: float, due_h: float | None, arrival_h: float = 0.0, job_type: str = "b") -> Job:
    """A job that needs so many hours on any device (b runs at 3 steps/s on both types)."""
    slo = None if due_h is None else 1.0
    duration_s = None if due_h is None else (due_h - arrival_h) * HOUR_S
    return Job(
        job_id, job_type, 3.0 * HOUR_S * hours, arrival_s=arrival_h * HOUR_S, slo=slo, duration_s=duration_s
    )


def share_J(cluster: str, *jobs: Job) -> np.ndarray:
    return DEADLINES.allocate(Snapshot.of(jobs, Cluster.parse(cluster), SPEEDS, PRICES)).share_JA.sum(axis=1)


def late_h(cluster: str, *jobs: Job) -> float:
    result = simulate(DEADLINES, jobs, Cluster.parse(cluster), SPEEDS, PRICES, rules=RULES)
    return max(
        (float(t) - job.deadline_s) / HOUR_S
        for t, job in zip(result.completion_s_J, result.jobs, strict=True)
        if job.deadline_s is not None
    )


def test_the_urgent_job_goes_first_and_a_job_without_a_deadline_last() -> None:
    assert share_J("fast=1", job(0, 1, None), job(1, 1, 30), job(2, 2, 3)) == pytest.approx([0, 0, 1], abs=1e-6)
    assert share_J("fast=1", job(0, 1, None)) == pytest.approx([1])


def test_a_long_job_may_wait_while_a_short_one_is_urgent() -> None:
    """At an even pace the two would need 1.5 devices."""
    jobs = (job(0, 0.9, 1), job(1, 1, 2.2))
    assert len(
        load_policy("min_cost_slo").allocate(Snapshot.of(jobs, Cluster.parse("fast=1"), SPEEDS, PRICES)).notes
    )
    assert late_h("fast=1", *jobs) <= 0


def test_the_fast_type_goes_to_whom_it_helps() -> None:
    snapshot = Snapshot.of(
        [job(0, 8, 9, job_type="b"), job(1, 10, 9, job_type="a")], Cluster.parse("fast=1,slow=1"), SPEEDS, PRICES
    )
    assert DEADLINES.allocate(snapshot).share_JA == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0]]))


def test_one_that_is_lost_does_not_take_the_others_with_it() -> None:
    """Together they cannot be met; one alone is missed."""
    result = simulate(
        DEADLINES, [job(0, 4, 5), job(1, 4, 5)], Cluster.parse("fast=1"), SPEEDS, PRICES, rules=RULES
    )
    late = [t > job.deadline_s for t, job in zip(result.completion_s_J, result.jobs, strict=True)]
    assert sum(late) == 1


def test_a_gang_that_fits_nowhere_gets_nothing() -> None:
    wide = Job(0, "b", 100.0, scale_factor=4, slo=1.0, duration_s=HOUR_S)
    assert share_J("fast=1", wide, job(1, 2, 3)).tolist() == [0.0, pytest.approx(1.0)]


@pytest.mark.parametrize("left", [1e-6, 1e-9, 1e-12])
def test_what_rounding_leaves_of_a_job_does_not_stop_the_others(left: float) -> None:
    """The last of it takes less of a long interval than a solver can tell from nothing."""
    jobs = (job(0, 1, 3000), job(1, 2, 3), job(2, 1, None))
    snapshot = Snapshot.of(jobs, Cluster.parse("fast=1"), SPEEDS, PRICES)
    snapshot = snapshot.replace(steps_left_J=snapshot.steps_left_J * [left, 1.0, 1.0])
    assert DEADLINES.allocate(snapshot).share_JA.sum(axis=1) == pytest.approx([0, 1, 0], abs=1e-6)


def test_nobody_there() -> None:
    assert DEADLINES.allocate(Snapshot.of([], Cluster.parse("fast=1"), SPEEDS, PRICES)).share_C.size == 0


def test_a_plan_that_takes_too_long_is_a_failure_of_ours() -> None:
    with using(budget_s=1e-9), pytest.raises(SolverError, match="no plan for the deadlines"):
        share_J("fast=1", job(0, 1, 3), job(1, 1, 5))


@pytest.mark.slow
@settings(max_examples=25)
@given(rows=st.lists(st.tuples(st.floats(0.3, 4.0), st.floats(1.3, 4.0), st.floats(0, 6)), min_size=1, max_size=8))
def test_with_a_device_for_each_every_deadline_is_met(rows: list[tuple[float, float, float]]) -> None:
    jobs = [
        job(i, hours, arrival_h + hours * slack, arrival_h)
        for i, (hours, slack, arrival_h) in enumerate(sorted(rows, key=lambda row: row[2]))
    ]
    assert late_h(f"fast={len(jobs)}", *jobs) <= 0
