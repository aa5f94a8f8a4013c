"""What checkpoints and restarts mean in rounds of whole steps, which the published simulator has without them."""

from dataclasses import replace

import pytest

from gavelx.cluster import Cluster
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.published import PUBLISHED
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("net", "v100"): 1.0})
A_DOLLAR_A_SECOND = Prices({"v100": 3600.0})


def run(jobs: int, overhead: Overhead, steps: float = 3600.0) -> Result:
    """So many equal jobs that take turns on one device, round by round."""
    rules = replace(PUBLISHED, overheads=Overheads(overhead))
    many = [Job(i, "net", steps) for i in range(jobs)]
    policy = load_policy("max_min_fairness")
    return simulate(policy, many, Cluster.parse("v100=1"), SPEEDS, A_DOLLAR_A_SECOND, rules=rules)


def test_a_job_that_stays_pays_nothing() -> None:
    assert run(1, Overhead(10.0, 20.0)).end_s == 3600.0


def test_a_restart_takes_its_time_from_the_round_and_is_billed() -> None:
    """A round lasts as long as before, and has as many steps less as the restart takes."""
    result = run(2, Overhead(0.0, 20.0))
    restarts = result.summary()["restarts"]
    assert restarts >= 18, "they take turns"
    assert result.end_s == pytest.approx(7200.0 + 20.0 * restarts)
    assert result.summary()["cost_usd"] == pytest.approx(result.end_s)
    lengths = (result.leases.end_s_L - result.leases.start_s_L).tolist()
    assert max(lengths) == pytest.approx(360.0)


def test_the_next_job_waits_for_a_checkpoint_and_is_charged_for_it() -> None:
    result = run(2, Overhead(10.0, 0.0))
    assert result.end_s == pytest.approx(7200.0 + 10.0 * result.summary()["restarts"])
    assert result.summary()["cost_usd"] == pytest.approx(result.end_s)
    first, second = result.leases.start_s_L[:2].tolist()
    assert (first, second) == (0.0, pytest.approx(370.0))


@pytest.mark.parametrize("overhead", [Overhead(0.0, 20.0), Overhead(400.0, 20.0), Overhead(30.0, 5000.0)])
def test_jobs_whose_last_steps_are_shorter_than_a_restart_are_done(overhead: Overhead) -> None:
    """In a round of only their steps they would load, and then make way for the other for ever."""
    result = run(2, overhead, steps=365.0)
    assert result.summary()["jobs_completed"] == 2


@pytest.mark.parametrize("seed", range(6))
def test_every_job_is_done_whatever_it_costs(seed: int) -> None:
    table = load_throughputs("simulation")
    jobs = random_jobs(8, table, arrival_rate_per_hour=4.0 * (seed % 2), seed=seed, multi_gpu=True)
    jobs = tuple(replace(job, total_steps=max(1.0, job.total_steps * 0.01)) for job in jobs)
    name = ("fifo", "max_min_fairness", "isolated", "packed(max_min_fairness)", "srtf", "gandiva")[seed]
    overheads = Overheads(Overhead((0.0, 5.0, 60.0)[seed % 3], (20.0, 300.0, 1000.0)[seed % 3]))
    rules = replace(PUBLISHED, overheads=overheads, seed=seed)
    result = simulate(load_policy(name), jobs, Cluster.parse("v100=8,k80=8"), table, rules=rules)
    assert result.summary()["jobs_completed"] == len(jobs)
