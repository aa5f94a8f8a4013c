"""Simulated jobs that save nothing: they lose their work when they are stopped, and come to their end."""

from dataclasses import replace

import pytest

from gavelx.cluster import Cluster
from gavelx.configuration import Configuration
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.commands import Device, Lease
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.faults import Faults
from gavelx.simulator.ledger import Ledger, LedgerError
from gavelx.simulator.plain_jobs import with_plain_jobs
from gavelx.simulator.random_jobs import random_jobs
from gavelx.throughputs import Setting, Throughputs

TABLE = load_throughputs("simulation")
JOBS = random_jobs(30, TABLE, seed=1, arrival_rate_per_hour=3.0)
CLUSTER = Cluster.parse("v100=2,p100=2,k80=2")
ONE = Throughputs({Setting("net", "v100"): 1.0})


def run(policy: str, *jobs: Job, **more: object) -> Result:
    return simulate(load_policy(policy), jobs, CLUSTER, TABLE, **more)  # type: ignore[arg-type]


def on_one_device(*jobs: Job, **more: object) -> Result:
    return simulate(load_policy("max_min_fairness"), jobs, Cluster.of({"v100": 1}), ONE, **more)  # type: ignore[arg-type]


def speeds_of(job: Job) -> list[float | None]:
    return [TABLE.get(job.job_type, name) for name in CLUSTER.accelerators]


def plain(job_id: int, hours: float) -> Job:
    return Job(job_id, "net", 3600.0 * hours, checkpoints=False)


def test_two_long_jobs_that_save_nothing_end_and_lose_a_turn_each_at_most() -> None:
    result = on_one_device(plain(0, 10.0), plain(1, 10.0))
    assert result.summary()["jobs_completed"] == 2
    assert result.restarts_J.tolist() == [1, 1]
    assert 0 < result.lost_device_s <= 6 * DEFAULT.round_s
    assert result.end_s == pytest.approx(20 * 3600.0 + result.lost_device_s)


def test_a_job_that_saves_loses_nothing_beside_one_that_does_not() -> None:
    result = on_one_device(plain(0, 10.0), Job(1, "net", 36_000.0))
    assert result.summary()["jobs_completed"] == 2
    assert result.restarts_J[0] == 1
    first = result.leases.job_L.tolist().index(0)
    assert result.lost_device_s == result.leases.busy_s_L[first]


def test_a_server_that_fails_takes_all_the_work_of_a_plain_job() -> None:
    faults = Faults(seed=1, server_failures_per_day=24.0, outage_s=60.0, until_s=1e5)
    saves, loses = (
        on_one_device(replace(plain(0, 4.0), checkpoints=each), faults=faults) for each in (True, False)
    )
    assert 0 < saves.lost_device_s < loses.lost_device_s
    assert loses.end_s > saves.end_s
    assert loses.summary()["jobs_completed"] == 1


def test_beginning_anew_takes_no_longer_than_beginning() -> None:
    """There is no checkpoint to write and none to load."""
    rules = replace(DEFAULT, overheads=Overheads(Overhead(checkpoint_s=100.0, restart_s=100.0)))
    result = on_one_device(plain(0, 10.0), plain(1, 10.0), rules=rules)
    assert result.end_s == pytest.approx(20 * 3600.0 + result.lost_device_s)


@pytest.mark.parametrize(
    "policy", ["max_min_fairness", "finish_time_fairness", "srtf", "las_2d", "gandiva", "allox"]
)
def test_under_any_policy_half_of_the_jobs_may_save_nothing(policy: str) -> None:
    """Each is stopped once at most, if it takes less than a week wherever it runs."""
    slowest_s = {job.id: job.total_steps / min(filter(None, speeds_of(job))) for job in JOBS}
    jobs = with_plain_jobs([job for job in JOBS if slowest_s[job.id] < DEFAULT.protect_s], 0.5)
    result = run(policy, *jobs)
    assert result.summary()["jobs_completed"] == len(jobs) > 20
    restarts = dict(zip((job.id for job in result.jobs), result.restarts_J.tolist(), strict=True))
    stopped = [restarts[job.id] for job in jobs if not job.checkpoints]
    assert len(stopped) > 5 and max(stopped) <= 1


def test_the_part_of_jobs_that_saves_nothing_is_drawn_job_by_job() -> None:
    jobs = random_jobs(1000, TABLE)
    few, many = (
        {job.id for job in with_plain_jobs(jobs, part, seed=3) if not job.checkpoints} for part in (0.2, 0.6)
    )
    assert few < many
    assert abs(len(few) - 200) < 60 and abs(len(many) - 600) < 80
    assert with_plain_jobs(jobs, 0.0) == jobs
    assert not any(job.checkpoints for job in with_plain_jobs(jobs, 1.0))
    assert with_plain_jobs(jobs, 0.2, seed=4) != with_plain_jobs(jobs, 0.2, seed=3)


def lease(lease_id: int) -> Lease:
    return Lease(lease_id, 7, Configuration((7,), "v100", 1), (Device(0, 0),), 1e9, 3600.0, 0.0)


def test_the_ledger_knows_what_is_lost_and_that_plain_jobs_save_nothing() -> None:
    ledger, job = Ledger(), plain(7, 1.0)
    ledger.joined(next(iter(Cluster.of({"v100": 1}).servers)))
    ledger.started(0.0, lease(1), job, pace=1.0)
    ledger.ended(100.0, 1, 100.0, 0.0)
    assert ledger.lost_device_s == 100.0
    ledger.started(200.0, lease(2), job, pace=1.0)
    with pytest.raises(LedgerError, match="writes no checkpoints, and 50"):
        ledger.ended(300.0, 2, 100.0, 50.0)
