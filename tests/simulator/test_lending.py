"""Devices that servers lend by a series: jobs shrink within the notice, and nothing runs on what is not lent."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism.rules import DEFAULT
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.capacity import Capacity, at_best, diurnal
from gavelx.simulator.ledger import LedgerError
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("net", "v100", n): float(n) for n in range(1, 9)})
SMOOTH = replace(
    DEFAULT.with_round(60.0), overheads=Overheads(Overhead(checkpoint_s=5.0, restart_s=30.0, resize_s=1.0))
)
FOUR_THEN_ALL = ((1000.0, 1.0), (1000.0, 0.5), (1e9, 1.0))


def run(
    shares=FOUR_THEN_ALL, policy: str = "elastic(easyscale)", steps: float = 20_000.0, notice_s: float = 30.0
) -> Result:
    jobs = [Job(0, "net", steps, 8, elastic=Elastic.of("workers:1-8/8"))]
    lends = Capacity("v100", shares, notice_s, of="devices")
    cluster = Cluster.of({"v100": 8}, devices_per_server=8)
    return simulate(load_policy(policy), jobs, cluster, SPEEDS, rules=SMOOTH, capacities=[lends])


def test_a_job_shrinks_within_the_notice_and_grows_again() -> None:
    result = run()
    assert result.resizes_J.tolist() == [2]
    assert result.restarts_J.tolist() == [0]
    time_s, busy = result.busy_devices()[0], result.busy_devices()[1][:, 0]
    at = np.searchsorted(time_s, [500.0, 980.0, 1500.0, 2200.0], side="right") - 1
    assert busy[at].tolist() == [8, 4, 4, 8]
    assert result.up_s_KA.sum() == pytest.approx(8 * result.end_s - 4 * 1000.0)
    assert result.end_s < 20_000.0 / 8 + 530.0 + 90.0


def test_a_policy_without_sizes_stops_it() -> None:
    result = run(policy="easyscale")
    assert result.resizes_J.tolist() == [0]
    assert result.restarts_J.tolist() == [1]
    assert result.leases.end_s_L[0] == 975.0


def test_without_notice_it_shrinks_at_the_very_moment_and_one_that_cannot_falls_back() -> None:
    assert run(notice_s=0.0).restarts_J.tolist() == [0]
    late = run(notice_s=0.0, policy="easyscale")
    assert late.restarts_J.tolist() == [1]
    assert late.lost_device_s > 0.0


def test_a_ledger_finds_a_job_on_a_device_that_is_not_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedCluster, "_offer", lambda *_: None)
    monkeypatch.setattr(SimulatedCluster, "_end", lambda *_, **__: None)
    with pytest.raises(LedgerError, match="not lent any more"):
        run()


@given(st.lists(st.tuples(st.floats(50.0, 900.0), st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0])), max_size=6))
@settings(max_examples=30, deadline=None)
def test_every_job_is_done_whatever_is_lent_and_when(parts: list[tuple[float, float]]) -> None:
    result = run((*parts, (1e9, 1.0)), steps=8_000.0)
    assert not len(result.unfinished)


def test_a_day_of_inference() -> None:
    shares = diurnal(0.25, 1.0, step_s=3600.0, busiest_s=14 * 3600.0)
    assert len(shares) == 24
    assert sum(seconds for seconds, _ in shares) == 86400.0
    assert min(shares, key=lambda one: one[1]) == shares[14] == (3600.0, 0.25)
    assert shares[2][1] == 1.0


def test_what_is_lent_at_best() -> None:
    cluster = Cluster.of({"v100": 12, "k80": 2}, devices_per_server=8)
    lends = Capacity("v100", ((600.0, 0.75), (600.0, 0.3)), of="devices")
    assert [server.device_count for server in at_best(cluster, [lends]).servers] == [6, 3, 2]


def test_servers_of_any_size_lend_so_many_devices_as_they_have() -> None:
    cluster, jobs = Cluster.of({"v100": 7}, devices_per_server=4), [Job(0, "net", 1000.0, 1)]
    for parts, lent in ((0.25, 2), (0.5, 4), (0.75, 6), (1.0, 7)):
        lends = Capacity("v100", ((1e9, parts),), of="devices", of_devices=4)
        result = simulate(load_policy("fifo"), jobs, cluster, SPEEDS, capacities=[lends])
        assert result.up_s_KA is not None
        assert result.up_s_KA.sum() == pytest.approx(lent * result.end_s)
        assert at_best(cluster, [lends]).devices_A.tolist() == [lent]
