"""Proportional fairness and its strategy-proof form, worked by hand and against a general solver.

Legend: J jobs, A accelerator types.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from scipy.optimize import minimize

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import Cost, Log, Maximize, NormalizedThroughput, Sum, Throughput, Worst, load_policy
from gavelx.snapshot import Snapshot
from tests.policies.reference import Instance
from tests.policies.strategies import POSITIVE, snapshot_of, snapshots


def given_speeds(rows: list[list[float]], weights: list[float] | None = None, **devices: int) -> Snapshot:
    jobs = tuple(
        Job(j, f"net {row}", 1000.0, weight=(weights or [1.0] * len(rows))[j]) for j, row in enumerate(rows)
    )
    return snapshot_of(jobs, Cluster.of(devices), np.array(rows))


def test_equal_jobs_share_equally_and_weights_divide() -> None:
    allocation = load_policy("nash_welfare").allocate(given_speeds([[2.0], [2.0], [2.0]], v100=1))
    assert allocation.share_JA[:, 0] == pytest.approx([1 / 3] * 3, rel=1e-6)
    allocation = load_policy("nash_welfare").allocate(given_speeds([[2.0], [8.0]], [3.0, 1.0], v100=1))
    assert allocation.share_JA[:, 0] == pytest.approx([3 / 4, 1 / 4], rel=1e-6)  # whatever their speeds


def test_each_goes_where_it_gains_most() -> None:
    # a is 4 times as fast on the v100, b as fast on both: product 4 * 1
    allocation = load_policy("nash_welfare").allocate(given_speeds([[4.0, 1.0], [1.0, 1.0]], v100=1, k80=1))
    assert allocation.share_JA == pytest.approx(np.eye(2), abs=1e-5)
    assert allocation.certificate.objective == pytest.approx(np.log(4.0), abs=1e-7)
    assert allocation.certificate.bound == pytest.approx(np.log(4.0), abs=1e-6)


@settings(max_examples=25)
@given(snapshot=snapshots(max_jobs=4, max_types=3, throughputs=POSITIVE))
def test_no_small_change_makes_the_product_larger(snapshot: Snapshot) -> None:
    """First-order optimality: sum_j p_j e_j(any other feasible shares) / e_j <= sum_j p_j."""
    instance = Instance.of(snapshot)
    assume(snapshot.jobs and instance.usable_JA.any(axis=1).all())
    allocation = load_policy("nash_welfare").allocate(snapshot)
    slope_JA = instance.weight_J[:, None] * instance.throughput_JA / allocation.throughput_J[:, None]
    none_J = np.zeros(len(snapshot.jobs))
    best, _ = instance.best(slope_JA, none_J.astype(bool), none_J)
    assert best <= instance.weight_J.sum() * (1 + 1e-5)


def test_logarithms_stand_beside_other_terms_and_constraints() -> None:
    snapshot = given_speeds([[2.0, 1.0], [3.0, 2.0], [1.0, 1.0]], [1.0, 2.0, 1.0], v100=1, k80=1)
    policy = Maximize(Sum(Log(Throughput())) + 0.5 * Worst(NormalizedThroughput()) - 0.1 * Cost(), [Cost() <= 3.0])
    allocation = policy.allocate(snapshot)
    statement = policy.state(snapshot)
    C = len(snapshot.configurations)
    table, W = snapshot.configurations, snapshot.devices_A
    limits = [
        {"type": "ineq", "fun": lambda x: 1.0 - table.membership_JC @ x},
        {"type": "ineq", "fun": lambda x: W - table.devices_AC @ x},
        {"type": "ineq", "fun": lambda x: 3.0 - (table.devices_AC @ x) @ snapshot.usd_per_hour_A},
    ]
    start = np.full(C, 0.2)
    slow = minimize(
        lambda x: -statement.objective(x), start, bounds=[(0, 1)] * C, constraints=limits, method="SLSQP"
    )
    assert allocation.certificate.objective >= -slow.fun - 1e-6
    assert allocation.certificate.objective == pytest.approx(-slow.fun, abs=1e-3)


def test_a_job_alone_keeps_everything() -> None:
    allocation = load_policy("strategy_proof").allocate(given_speeds([[4.0, 1.0]], v100=1, k80=1))
    assert allocation.throughput_J == pytest.approx([4.0], rel=1e-6)


def test_what_is_withheld_is_what_the_others_lose() -> None:
    # two equal jobs on one device: each has 1/2, and the other would have 1 without it: 1/2 of 1/2 is kept
    allocation = load_policy("strategy_proof").allocate(given_speeds([[1.0], [1.0]], v100=1))
    assert allocation.share_JA[:, 0] == pytest.approx([1 / 4, 1 / 4], rel=1e-5)
    # three: 1/3 each; without one the others have 1/2: (2/3)^2 of 1/3
    allocation = load_policy("strategy_proof").allocate(given_speeds([[1.0]] * 3, v100=1))
    assert allocation.share_JA[:, 0] == pytest.approx([4 / 27] * 3, rel=1e-5)
    # weights 2 and 1: 2/3 and 1/3; the heavy one keeps (1/3)^(1/2) of its part, the light one (2/3)^(2/1)
    allocation = load_policy("strategy_proof").allocate(given_speeds([[1.0], [1.0]], [2.0, 1.0], v100=1))
    assert allocation.share_JA[:, 0] == pytest.approx([2 / 3 * 3**-0.5, 1 / 3 * 4 / 9], rel=1e-5)


def test_equal_jobs_cost_one_program_more() -> None:
    snapshot = given_speeds([[1.0, 2.0]] * 6 + [[2.0, 1.0]] * 5, v100=2, k80=1)
    allocation = load_policy("strategy_proof").allocate(snapshot)
    assert allocation.certificate.path.startswith("3 programs")
    order = list(reversed(range(11)))
    backwards = snapshot_of(
        tuple(dataclasses.replace(snapshot.jobs[j], id=j) for j in order),
        snapshot.cluster,
        snapshot.configurations.throughput_JA[order],
    )
    other = load_policy("strategy_proof").allocate(backwards)
    np.testing.assert_allclose(other.throughput_J, allocation.throughput_J[order], rtol=1e-5)
