"""What every policy says with the first solvers alone, where there is little or nothing to share.

With cvxpy a program that one solver gives up has another one to go to, which hides that the first one did.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import (
    Linear,
    Maximize,
    NormalizedThroughput,
    Policy,
    SumThroughput,
    Throughput,
    TimeShare,
    View,
    Worst,
    catalog,
    load_policy,
)
from gavelx.published.policies import as_published
from gavelx.published.solver import solve_interior
from gavelx.solvers import portfolio, using
from gavelx.solvers.program.answer import Answer
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Affine
from gavelx.testing import snapshot_of

UNKNOWN = float("nan")
MODIFIED = (
    "agnostic(max_min_fairness)",
    "budgeted(max_min_fairness, total=4)",
    "hierarchical(max_min_fairness, a=2)",
    "packed(nash_welfare)",
    "partitioned(makespan, 2)",
    "placed(nash_welfare)",
    "robust(max_min_fairness)",
    "with_constraints(max_min_fairness, Cost() <= 4)",
)
CASES: dict[str, tuple[list[list[float]], dict[str, int]]] = {
    "no job": ([], {"v100": 2, "k80": 4}),
    "no job and no device": ([], {"v100": 0, "k80": 0}),
    "no device": ([[2.0, 1.0], [1.0, 3.0]], {"v100": 0, "k80": 0}),
    "no job can run": ([[0.0, UNKNOWN], [0.0, 0.0]], {"v100": 2, "k80": 4}),
    "nothing is known": ([[UNKNOWN, UNKNOWN]], {"v100": 2, "k80": 4}),
    "one job": ([[2.0, 1.0]], {"v100": 2, "k80": 4}),
    "one job, one way to run": ([[2.0, 1.0]], {"v100": 2, "k80": 0}),
    "one of three": ([[UNKNOWN, 0.0], [2.0, 1.0], [0.0, 0.0]], {"v100": 1, "k80": 1}),
    "the same five": ([[4.0, 1.0]] * 5 + [[3.0, 3.0]], {"v100": 2, "k80": 2}),
    "a step in 3,000 years": ([[2e-11, 1e-11], [1e-11, 3e-11], [1e-11, 1e-11]], {"v100": 1, "k80": 1}),
}


@pytest.fixture(autouse=True)
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if cvxpy solved nothing."""

    def gives_up(*_: object) -> Answer:
        raise UnsolvedError("it is not asked here")

    monkeypatch.setattr(portfolio, "solve_reference", gives_up)


def case(name: str) -> Any:
    speeds, devices = CASES[name]
    jobs = [Job(j, f"kind {row}", 1000.0, owner="ab"[j % 2]) for j, row in enumerate(speeds)]
    return snapshot_of(jobs, Cluster.of(devices), np.array(speeds).reshape(len(jobs), len(devices)))


def first_path(policy: Policy, name: str, **settings: Any) -> Iterator[str]:
    """Nothing, if the first way to an answer was as good as any."""
    with using(**settings):
        allocation = policy.allocate(case(name))
    if "failed" in allocation.certificate.path:
        yield allocation.certificate.path


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", [*catalog(), *MODIFIED])
def test_the_first_solver_answers(policy: str, name: str) -> None:
    assert not list(first_path(load_policy(policy), name))


@pytest.mark.parametrize("policy", ["max_min_fairness", "nash_welfare", "strategy_proof", "makespan"])
@pytest.mark.parametrize("name", ["no job", "no device", "no job can run", "one job"])
def test_so_it_does_under_the_published_rules(policy: str, name: str) -> None:
    assert not list(first_path(as_published(load_policy(policy)), name, first=solve_interior))


class Dollars(Linear):
    """What each job pays, dollars per hour."""

    def linear(self, view: View) -> Affine:
        return view.usd_per_hour_of_job


@pytest.mark.parametrize(
    "policy",
    [
        Maximize(Worst(TimeShare())),
        Maximize(Worst(Throughput()), [TimeShare() <= 0.5]),
        Maximize(SumThroughput(), [TimeShare() >= 0.5]),
        Maximize(Worst(Throughput() - 0.5 * Dollars())),
        Maximize(Worst(NormalizedThroughput()), [Dollars() <= 1.0]),
    ],
    ids=repr,
)
def test_identical_jobs_are_told_apart_by_throughput_alone(policy: Maximize) -> None:
    """Members of a class may mix types differently where only throughput counts, not where time or cost does."""
    certificate = policy.allocate(case("the same five")).certificate
    assert "failed" not in certificate.path
    assert certificate.objective == pytest.approx(certificate.bound, rel=1e-6)
