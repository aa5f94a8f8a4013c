"""Runs end: also those in which a job starves, or is owed less than it takes to load its checkpoint."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.events import Event
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.faults import NO_FAULTS, Faults
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("net", "v100"): 1.0})


class Counted:
    """The simulated cluster, that gives up after a thousand events."""

    def __init__(self, backend: SimulatedCluster) -> None:
        self.backend, self.execute, self.post = backend, backend.execute, backend.post
        self.now_s = 0.0

    def events(self) -> Iterator[Event]:
        for count, event in enumerate(self.backend.events()):
            self.now_s = event.time_s
            assert count < 1000, f"no end at {event.time_s} s"
            yield event


def counted(mechanism: Mechanism, backend: SimulatedCluster) -> Counted:
    return Counted(backend)


@pytest.mark.parametrize(
    ("faults", "capacities"),
    [
        (Faults(server_failures_per_day=1.0), ()),
        (NO_FAULTS, (Capacity("v100", ((36_000.0, 1.0), (36_000.0, 0.0))),)),
    ],
    ids=["failures", "spot"],
)
def test_a_run_in_which_a_job_starves_ends(faults: Faults, capacities: tuple[Capacity, ...]) -> None:
    result = simulate(
        load_policy("budgeted(max_min_fairness, poor=0)"),
        [Job(0, "net", 3600.0, owner="poor"), Job(1, "net", 3600.0)],
        Cluster.parse("v100=1"),
        SPEEDS,
        Prices({"v100": 1.0}),
        faults=faults,
        capacities=capacities,
        watch=counted,
    )
    assert result.summary()["jobs_completed"] == 1


def test_a_run_in_which_nobody_gets_any_further_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart takes longer than any server lasts."""
    monkeypatch.setattr("gavelx.simulator.backend.IN_VAIN", 50)
    result = simulate(
        load_policy("max_min_fairness"),
        [Job(0, "net", 100_000.0)],
        Cluster.parse("v100=1"),
        SPEEDS,
        rules=replace(DEFAULT, overheads=Overheads(Overhead(restart_s=100_000.0))),
        faults=Faults(server_failures_per_day=24.0, checkpoint_every_s=1e9),
    )
    assert result.summary()["jobs_completed"] == 0


def test_who_gets_further_all_the_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job cannot even load its checkpoint before its server goes; the other needs one long lease."""
    monkeypatch.setattr("gavelx.simulator.backend.IN_VAIN", 20)
    speeds = Throughputs({Setting("short", "v100"): 1.0, Setting("long", "k80"): 1.0})
    overheads = Overheads(Overhead(), {"short": Overhead(restart_s=10_000.0)})
    result = simulate(
        load_policy("max_min_fairness"),
        [Job(0, "short", 9000.0), Job(1, "long", 1e6)],
        Cluster.parse("v100=1,k80=1"),
        speeds,
        rules=replace(DEFAULT, overheads=overheads),
        capacities=(Capacity("v100", ((5000.0, 1.0), (5000.0, 0.0))),),
    )
    assert np.isfinite(result.completion_s_J).tolist() == [False, True]


def test_late_jobs_end_however_coarse_their_clock_is() -> None:
    """At 3e11 s a double tells 60 microseconds apart: the last steps of a job may take less."""
    for n in range(20):
        jobs = [Job(0, "net", 100.0), Job(1, "net", 11_131.391 + n / 7, arrival_s=3e11 + n * 1e9 / 3)]
        speeds = Throughputs({Setting("net", "v100"): 3.7})
        result = simulate(load_policy("fifo"), jobs, Cluster.parse("v100=2"), speeds, watch=counted)
        assert result.completion_s_J[1] > 3e11


@pytest.mark.slow
def test_a_server_whose_loss_is_reported_late_is_not_tried_for_ever() -> None:
    """Whoever is sent there says at once that it is gone: else the same lease is given out again and again."""
    jobs = [Job(n, "net", 9000.0, arrival_s=500.0 * n) for n in range(4)]
    faults = Faults(until_s=8000.0, late=0.5, late_s=2000.0, server_failures_per_day=50.0)
    for seed in range(60):
        result = simulate(
            load_policy("max_min_fairness"),
            jobs,
            Cluster.parse("v100=4", 2),
            SPEEDS,
            faults=replace(faults, seed=seed),
            watch=counted,
        )
        assert not result.unfinished


def test_who_waits_for_a_server_to_come_back_is_waited_for() -> None:
    result = simulate(
        load_policy("fifo"),
        [Job(0, "net", 3600.0)],
        Cluster.parse("v100=1"),
        SPEEDS,
        capacities=[Capacity("v100", ((36_000.0, 0.0), (36_000.0, 1.0)))],
    )
    assert result.completion_s_J.tolist() == [39_600.0]


@pytest.mark.parametrize("restart_s", [0.0, 100.0, 350.0, 360.0, 400.0, 1000.0])
def test_within_a_budget_at_least_a_round_of_each_start_is_work(restart_s: float) -> None:
    result = simulate(
        load_policy("budgeted(max_min_fairness, total=1)"),
        [Job(0, "net", 3600.0)],
        Cluster.parse("v100=1"),
        SPEEDS,
        Prices({"v100": 2.0}),
        rules=replace(DEFAULT, overheads=Overheads(Overhead(10.0, restart_s))),
        watch=lambda mechanism, backend: Counted(backend),
    )
    summary = result.summary()
    assert summary["jobs_completed"] == 1
    assert summary["restarts"] <= 10  # 3,600 s in rounds of 360
    assert summary["cost_usd"] <= 1.02 * summary["makespan_s"] / 3600.0  # the budget
