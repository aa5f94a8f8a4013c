"""A gang as wide as the cluster runs though small jobs keep coming."""

from dataclasses import replace

import pytest

from gavelx.cluster import Cluster
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.policies import load_policy
from gavelx.simulator import simulate

TABLE = load_throughputs("simulation")
CLUSTER = Cluster.parse("v100=8", 8)
GANG = 999


def stream(gap_s: float, *, checkpoints: bool = True) -> list[Job]:
    """Small jobs of a quarter of an hour, one each gap, and among the first a gang as wide as the cluster."""
    small = [
        Job(n, "ResNet-18 (batch size 32)", 25_000.0, arrival_s=n * gap_s, checkpoints=checkpoints)
        for n in range(80)
    ]
    return [*small, Job(GANG, "ResNet-50 (batch size 64)", 30_000.0, scale_factor=8, arrival_s=600.5)]


def waited_s(policy: str, jobs: list[Job], round_s: float = 360.0) -> float:
    result = simulate(load_policy(policy), jobs, CLUSTER, TABLE, rules=replace(DEFAULT, round_s=round_s))
    assert not result.unfinished
    row = next(n for n, job in enumerate(result.jobs) if job.id == GANG)
    return float(result.leases.start_s_L[result.leases.job_L == row].min()) - 600.5


@pytest.mark.parametrize("gap_s", [300.0, 180.0, 130.0])
@pytest.mark.parametrize("round_s", [60.0, 360.0, 1200.0])
def test_the_gang_starts_within_a_few_rounds(gap_s: float, round_s: float) -> None:
    """It is furthest behind within two rounds, and waits for two more at most."""
    assert waited_s("max_min_fairness", stream(gap_s), round_s) <= 4 * round_s


@pytest.mark.parametrize(
    "policy",
    ["max_sum_throughput", "finish_time_fairness", "makespan", "themis", "drf", "hierarchical(max_min_fairness)"],
)
def test_no_policy_that_promises_it_a_share_starves_it(policy: str) -> None:
    assert waited_s(policy, stream(300.0)) <= 3 * 360.0


def test_small_jobs_that_save_nothing_hold_it_up_for_a_round_more() -> None:
    assert waited_s("max_min_fairness", stream(300.0, checkpoints=False)) <= 4 * 360.0
