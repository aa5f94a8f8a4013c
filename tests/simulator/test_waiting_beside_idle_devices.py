"""A job does not wait beside devices that it can use, and loses no work where another placement serves all."""

from dataclasses import replace
from random import Random

import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.policies import load_policy
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.throughputs import Setting, Throughputs

HOUR_S = 3600.0
TYPES = ("a100", "v100", "t4")


def table(speeds: dict[str, float]) -> Throughputs:
    return Throughputs({Setting("script", name): speed for name, speed in speeds.items()})


def started_s(result: Result, job: int) -> float:
    return float(result.leases.start_s_L[result.leases.job_L == job].min())


@pytest.mark.parametrize("backfill", [None, 0.8, 0.0])
@pytest.mark.parametrize("round_s", [15.0, 360.0])
@pytest.mark.parametrize("policy", ["max_min_fairness", "hierarchical(max_min_fairness)", "isolated"])
def test_two_scripts_on_three_devices_begin_at_once_and_stay(
    policy: str, round_s: float, backfill: float | None
) -> None:
    jobs = [Job(n, "script", HOUR_S, arrival_s=20.0 * n, checkpoints=False) for n in range(2)]
    rules = replace(DEFAULT, round_s=round_s, backfill=backfill)
    speeds = table({"a100": 1.0, "v100": 0.7})
    result = simulate(load_policy(policy), jobs, Cluster.of({"a100": 1, "v100": 2}), speeds, rules=rules)
    assert [started_s(result, job) for job in range(2)] == [0.0, 20.0]
    assert result.lost_device_s == 0.0
    assert result.restarts_J.tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(40))
def test_no_work_is_lost_where_all_scripts_have_a_place(seed: int) -> None:
    random = Random(seed)
    counts = {name: random.randint(1, 4) for name in TYPES}
    speeds = table({name: random.uniform(0.3, 3.0) for name in TYPES})
    jobs = [
        Job(
            n,
            "script",
            random.uniform(600.0, 4 * HOUR_S),
            arrival_s=random.uniform(0.0, HOUR_S),
            checkpoints=False,
        )
        for n in range(random.randint(2, sum(counts.values())))
    ]
    result = simulate(load_policy("max_min_fairness"), jobs, Cluster.of(counts), speeds)
    assert result.lost_device_s == 0.0
    assert not result.unfinished


def test_a_script_makes_way_for_a_job_that_has_no_other_place() -> None:
    jobs = [Job(n, "script", 10 * HOUR_S, arrival_s=600.0 * n, checkpoints=False) for n in range(3)]
    result = simulate(load_policy("max_min_fairness"), jobs, Cluster.of({"a100": 2}), table({"a100": 1.0}))
    assert started_s(result, 2) < 2 * HOUR_S
    assert not result.unfinished
