"""The literature's baselines on random jobs, from the first arrival to the last completion."""

from functools import cache

import pytest

from gavelx.cluster import Cluster
from gavelx.files.throughput_tables import load_throughputs
from gavelx.policies import load_policy
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs

BASELINES = (
    *("backfill", "drf", "gang_fifo", "las_2d", "las_2d_gittins", "optimus", "random", "srtf", "tetris", "themis"),
)


@cache
def run(policy: str) -> Result:
    """Thirty jobs, gangs among them, more than 24 devices can serve at once."""
    table = load_throughputs("simulation")
    jobs = random_jobs(30, table, seed=4, multi_gpu=True, arrival_rate_per_hour=2.0)
    return simulate(load_policy(policy), jobs, Cluster.parse("v100=8,p100=8,k80=8"), table)


def jct_mean_s(policy: str) -> float:
    return float(run(policy).jct_s_J.mean())


@pytest.mark.parametrize("policy", BASELINES)
def test_every_job_completes(policy: str) -> None:
    assert run(policy).summary()["jobs_completed"] == 30


def test_who_is_not_preempted_starts_once() -> None:
    for policy in ("gang_fifo", "backfill", "tetris"):
        assert not run(policy).restarts_J.any(), policy


def test_overtaking_without_delay_and_preemption_shorten_the_wait() -> None:
    assert jct_mean_s("backfill") < jct_mean_s("gang_fifo")
    assert jct_mean_s("srtf") < jct_mean_s("fifo")
    assert jct_mean_s("srtf") < jct_mean_s("random")


@pytest.mark.parametrize("policy", ["tetris", "optimus", "srtf", "allox"])
def test_a_device_that_falls_free_goes_to_whom_the_policy_names(policy: str) -> None:
    """It is asked at once; whoever came first in the list would lose the device again at the next round."""
    table = load_throughputs("simulation")
    jobs = random_jobs(40, table, seed=1)
    alone = simulate(load_policy(policy), jobs, Cluster.parse("v100=4"), table)
    assert int(alone.restarts_J.sum()) == 0
