"""A plan that changes much is carried out in portions, so that a service hears other events in between."""

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.files.throughput_tables import load_throughputs
from gavelx.mechanism import Mechanism, leasing
from gavelx.mechanism.commands import Command, Launch, Stop
from gavelx.mechanism.events import Event
from gavelx.policies import load_policy
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from tests.swarm.run import outcome

TABLE = load_throughputs("simulation")
TYPES = ("v100", "p100", "k80")


def simulated(policy: str, *, gangs: bool = False) -> Result:
    jobs = random_jobs(40, TABLE, seed=0, multi_gpu=gangs)
    return simulate(load_policy(policy), jobs, Cluster.of(dict.fromkeys(TYPES, 8), 4), TABLE)


@pytest.mark.parametrize("policy", ["max_min_fairness", "packed(max_min_fairness)", "fifo"])
@pytest.mark.parametrize("portion", [1, 3])
def test_jobs_on_one_device_run_when_they_would_all_at_once(
    monkeypatch: pytest.MonkeyPatch, policy: str, portion: int
) -> None:
    at_once = simulated(policy)
    monkeypatch.setattr(leasing, "PORTION", portion)
    in_portions = simulated(policy)
    assert in_portions.completion_s_J.tolist() == at_once.completion_s_J.tolist()
    assert len(in_portions.leases) == len(at_once.leases)


@pytest.mark.parametrize("policy", ["max_min_fairness", "packed(max_min_fairness)"])
def test_no_event_is_followed_by_more_than_a_portion(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    most = {Launch: 0, Stop: 0}
    handle = Mechanism.handle

    def counted(self: Mechanism, event: Event) -> list[Command]:
        commands = handle(self, event)
        for kind, before in most.items():
            most[kind] = max(before, sum(isinstance(command, kind) for command in commands))
        return commands

    monkeypatch.setattr(Mechanism, "handle", counted)
    simulated(policy)
    assert min(most.values()) > 2 * 3  # a pair is two leases
    most.update(dict.fromkeys(most, 0))
    monkeypatch.setattr(leasing, "PORTION", 3)
    simulated(policy)
    assert 3 <= most[Launch] <= 6
    assert most[Stop] == 3


@pytest.mark.parametrize("policy", ["max_min_fairness", "packed(max_min_fairness)", "fifo"])
def test_gangs_beside_single_devices_find_their_place_in_portions_too(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setattr(leasing, "PORTION", 1)
    result = simulated(policy, gangs=True)  # the ledger checks each lease
    assert not np.isnan(result.completion_s_J).any()
    assert {1, 2, 4} <= set(result.leases.devices_L.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("portion", [1, 2])
def test_in_portions_too_every_job_is_done_and_the_books_add_up(
    monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(leasing, "PORTION", portion)
    seeds = (678, 1197) if portion == 1 else range(15)  # a job ended between two portions
    problems = [outcome(seed) for seed in seeds]
    assert not [problem for problem in problems if problem[1]]
