"""What is said of the sizes of elastic jobs: each with its share, and why none is larger."""

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.execution import Execution
from gavelx.explain.properties import NO_JOB, envy_JJ, equal_share_gain_J, worst_envy_J
from gavelx.explain.reasons import WANTS_NO_MORE, Reasons
from gavelx.explain.sizes import SizeShare, size_shares, why_no_larger
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.throughputs import Setting, Throughputs

SPEEDS = {1: 10.0, 2: 18.0, 4: 30.0, 8: 29.0}
TABLE = Throughputs({Setting("net", "v100", n): steps_per_s for n, steps_per_s in SPEEDS.items()})


def reasons(policy: str, jobs: int, devices: int) -> Reasons:
    every = [Job(i, "net", 1000.0, elastic=Elastic("workers", 1, 8)) for i in range(jobs)]
    snapshot = Snapshot.of(every, Cluster.of({"v100": devices}), TABLE, sizes=True)
    return Reasons(load_policy(policy).allocate(snapshot))


def test_a_job_in_its_fastest_size() -> None:
    found = reasons("elastic(max_min_fairness)", 1, 8)
    assert size_shares(found, 0) == [SizeShare("v100", 4, 0, pytest.approx(1.0))]
    assert why_no_larger(found, 0) == "no larger size is faster, as far as is known"


def test_jobs_that_compete() -> None:
    found = reasons("elastic(max_min_fairness)", 3, 4)
    for j in range(3):
        shares = size_shares(found, j)
        assert sum(size.devices * size.share for size in shares) == pytest.approx(4 / 3)
        assert {size.devices for size in shares} <= {1, 2}
        assert why_no_larger(found, j) == "larger sizes are faster, but all devices are in use: v100"


def test_a_policy_that_knows_no_sizes() -> None:
    found = reasons("max_min_fairness", 1, 8)
    assert size_shares(found, 0) == [SizeShare("v100", 1, 0, pytest.approx(1.0))]
    assert why_no_larger(found, 0).startswith("the policy keeps to the sizes as submitted")


def test_free_devices_that_are_not_given() -> None:
    snapshot = reasons("elastic(max_min_fairness)", 1, 8).snapshot
    share_C = 1.0 * (snapshot.configurations.devices_C == 2)
    found = Reasons(certified(snapshot, share_C, path="by hand", seconds=0.0))
    assert why_no_larger(found, 0) == f"larger sizes are faster, and v100 has free devices, but {WANTS_NO_MORE}"


def test_a_job_of_one_size_has_none() -> None:
    snapshot = Snapshot.of([Job(0, "net", 1000.0)], Cluster.of({"v100": 4}), TABLE)
    found = Reasons(load_policy("max_min_fairness").allocate(snapshot))
    assert size_shares(found, 0) == []
    assert why_no_larger(found, 0) == ""


def test_an_elastic_job_is_compared_in_the_size_as_submitted_and_envies_none_that_has_as_much() -> None:
    """Two jobs of one device, as submitted, that have two each."""
    allocation = reasons("elastic(max_min_fairness)", 2, 4).allocation
    speed_J = allocation.throughput_J
    assert speed_J[0] == pytest.approx(speed_J[1])
    one = TABLE.get("net", "v100", 1)
    assert one is not None
    np.testing.assert_allclose(equal_share_gain_J(allocation), speed_J / one - 1.0)
    np.testing.assert_allclose(envy_JJ(allocation), 0.0, atol=1e-9)
    assert worst_envy_J(allocation)[1].tolist() == [NO_JOB, NO_JOB]
    assert Reasons(allocation).limited_by(0).endswith("but not in its fastest size")


def test_an_elastic_job_envies_one_with_more_devices() -> None:
    """One device and four: with those it would be as fast as the other."""
    allocation = reasons("elastic(max_min_fairness)", 2, 8).allocation
    table = allocation.snapshot.configurations
    share_C = np.zeros(len(table))
    for j, devices in ((0, 1), (1, 4)):
        share_C[(table.rows.job == j) & (table.devices_C == devices)] = 1.0
    uneven = certified(allocation.snapshot, share_C, path="by hand", seconds=0.0)
    fast_J = uneven.throughput_J
    assert envy_JJ(uneven)[0, 1] == pytest.approx(fast_J[1] / fast_J[0] - 1.0)
    assert envy_JJ(uneven)[1, 0] <= 0.0


def test_devices_that_are_free_for_a_smaller_size_are_not_called_full() -> None:
    """A job of eight devices, as submitted, beside six free ones; no idle device is filled."""
    jobs = [Job(0, "net", 1000.0, 2), Job(1, "net", 1000.0, 8, elastic=Elastic("workers", 1, 8))]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 8}), TABLE, sizes=True).open("sizes")
    table = snapshot.configurations
    share_C = np.where((table.rows.job == 0) & (table.devices_C == 2), 1.0, 0.0)
    few_C = np.where((table.rows.job == 1) & (table.devices_C == 1), 0.5, 0.0)
    held = certified(snapshot, share_C + few_C, path="by hand", seconds=0.0, execution=Execution(backfill=False))
    assert Reasons(held).limited_by(1) == f"v100 has free devices ({WANTS_NO_MORE})"
