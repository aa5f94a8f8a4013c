"""What is recorded of leases: who was restarted, and how many devices were busy."""

from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.report.series import busy_shares, device_hours
from gavelx.simulator import simulate
from gavelx.simulator.faults import Faults
from gavelx.throughputs import Pairing, Setting, Throughputs


def test_a_failed_job_that_goes_on_where_it_was_was_restarted() -> None:
    rules = replace(DEFAULT, overheads=Overheads(Overhead(0.0, 100.0)))
    result = simulate(
        load_policy("fifo"),
        [Job(0, "net", 20_000.0)],
        Cluster.parse("v100=1"),
        Throughputs({Setting("net", "v100"): 1.0}),
        rules=rules,
        faults=Faults(seed=1, job_failures_per_hour=1.0),
    )
    idle_s = (result.leases.end_s_L - result.leases.start_s_L - result.leases.busy_s_L).sum()
    assert idle_s >= 200.0  # at least twice it loaded its checkpoint
    assert result.summary()["restarts"] >= idle_s // 100.0 >= 2


def test_a_shared_device_is_busy_once() -> None:
    speeds = Throughputs({Setting("net", "v100"): 1.0}, {Pairing("net", "net", "v100"): 0.9})
    jobs = [Job(n, "net", 3600.0) for n in range(2)]
    result = simulate(load_policy("packed(max_sum_throughput)"), jobs, Cluster.parse("v100=1"), speeds)
    _, busy_KA = result.busy_devices()
    assert busy_KA.max() == pytest.approx(1.0)
    edges_h, share_BA = busy_shares(result, result.end_s, 4)
    assert share_BA[:, 0].tolist() == pytest.approx([1.0] * 4)
    assert (share_BA[:, 0] * np.diff(edges_h)).sum() == pytest.approx(device_hours(result)[0])


def test_a_device_that_is_shared_for_a_while_is_busy_once_all_the_time() -> None:
    speeds = Throughputs({Setting("net", "v100"): 1.0}, {Pairing("net", "net", "v100"): 0.9})
    jobs = [Job(0, "net", 3600.0), Job(1, "net", 1800.0, arrival_s=1000.0)]
    result = simulate(load_policy("packed(max_sum_throughput)"), jobs, Cluster.parse("v100=1"), speeds)
    time_s_K, busy_KA = result.busy_devices()
    assert busy_KA[:-1, 0].tolist() == pytest.approx([1.0] * (len(time_s_K) - 1))
