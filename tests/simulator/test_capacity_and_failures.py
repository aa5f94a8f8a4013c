"""Servers that a cloud takes away and gives back do not fail as well (`SimulatedCluster`)."""

import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.faults import Faults
from gavelx.throughputs import Setting, Throughputs


def test_servers_that_come_and_go_do_not_fail_and_others_do() -> None:
    speeds = Throughputs({Setting("net", "v100"): 1.0, Setting("net", "k80"): 1.0})
    result = simulate(
        load_policy("max_min_fairness"),
        [Job(n, "net", 40_000.0) for n in range(4)],
        Cluster.parse("v100=2,k80=2", 1),
        speeds,
        faults=Faults(server_failures_per_day=24.0),
        capacities=[Capacity("v100", ((1000.0, 0.5), (1000.0, 1.0)))],
    )
    assert result.summary()["jobs_completed"] == 4
    end_s = result.end_s
    v100_s, k80_s = result.up_s_KA.sum(axis=0).tolist()
    assert 1.5 * end_s - 1000.0 <= v100_s <= 1.5 * end_s + 1000.0
    assert k80_s < 2 * end_s


def test_devices_that_were_away_were_not_idle() -> None:
    speeds = Throughputs({Setting("net", "v100"): 1.0})
    capacities = [Capacity("v100", ((1000.0, 1.0), (1000.0, 0.5)))]
    jobs = [Job(n, "net", 40_000.0) for n in range(2)]
    result = simulate(load_policy("fifo"), jobs, Cluster.parse("v100=2", 1), speeds, capacities=capacities)
    assert result.idle_s_A.sum() < 0.3 * result.device_s_JA.sum()
    used = result.device_s_JA.sum() / (result.device_s_JA.sum() + result.idle_s_A.sum())
    assert result.utilization == pytest.approx(used)
