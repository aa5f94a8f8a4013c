"""Rounds in which nothing can change are slept through, and that changes nothing."""

from dataclasses import replace

import numpy as np
import pytest

from gavelx.asking import policy_opens
from gavelx.cluster import Cluster, Server
from gavelx.drive import drive
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.mechanism.commands import Command, Launch, Solve, WakeAt
from gavelx.mechanism.events import Allocated, Event, JobSubmitted, LeaseEnded, Wake, WorkerJoined
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.faults import NO_FAULTS, Faults
from gavelx.simulator.random_jobs import random_jobs
from gavelx.simulator.simulate import SLEEP_S

TABLE = load_throughputs("simulation")
CLUSTER = Cluster.parse("v100=4,p100=4,k80=4")
COSTLY = replace(DEFAULT, overheads=Overheads(Overhead(checkpoint_s=20.0, restart_s=40.0)))


def run(
    policy: str, seed: int, rules: Rules, faults: Faults = NO_FAULTS
) -> tuple[SimulatedCluster, Mechanism, int]:
    """A run that `simulate` would make; also how often the mechanism was woken."""
    jobs = random_jobs(12, TABLE, seed=seed, multi_gpu=True, arrival_rate_per_hour=1.0)
    backend = SimulatedCluster(jobs, CLUSTER, TABLE, rules, faults=faults)
    asked = load_policy(policy)
    mechanism = Mechanism(TABLE, None, rules, policy_opens(asked))
    handled = 0
    handle = mechanism.handle

    def counting(event: object) -> list[object]:
        nonlocal handled
        handled += 1
        return handle(event)

    mechanism.handle = counting  # type: ignore[method-assign,assignment]
    drive(mechanism, asked.allocate, backend)
    return backend, mechanism, handled


@pytest.mark.slow
@pytest.mark.parametrize("rules", [DEFAULT, COSTLY], ids=["free", "costly"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "policy", ["max_min_fairness", "fifo", "gang_fifo", "makespan", "packed(max_min_fairness)", "isolated"]
)
def test_sleeping_changes_nothing(policy: str, seed: int, rules: Rules) -> None:
    """Times add up in another order, so they agree to rounding; who ran where when is the same."""
    awake, by_hand, events = run(policy, seed, rules)
    asleep, sleeper, fewer = run(policy, seed, replace(rules, sleep_s=SLEEP_S))
    assert fewer <= events
    assert by_hand.rounds == sleeper.rounds
    assert awake.recorder.completion_s.keys() == asleep.recorder.completion_s.keys()
    for job_id, completion_s in awake.recorder.completion_s.items():
        assert asleep.recorder.completion_s[job_id] == pytest.approx(completion_s, rel=1e-9)
    rows = {job.id: j for j, job in enumerate(awake.submitted)}
    expected, leases = (b.recorder.leases(rows, CLUSTER.accelerators) for b in (awake, asleep))
    for column in ("job_L", "accelerator_L", "devices_L", "moved_L"):
        np.testing.assert_array_equal(getattr(leases, column), getattr(expected, column))
    for column in ("start_s_L", "end_s_L", "billed_s_L", "busy_s_L"):
        np.testing.assert_allclose(getattr(leases, column), getattr(expected, column), rtol=1e-9, atol=1e-6)


def test_a_job_that_fails_wakes_the_sleeper() -> None:
    faults = Faults(job_failures_per_hour=0.02)
    awake, _, events = run("max_min_fairness", 3, DEFAULT, faults)
    asleep, _, fewer = run("max_min_fairness", 3, replace(DEFAULT, sleep_s=SLEEP_S), faults)
    assert fewer < events / 2
    assert awake.ledger.failures
    assert asleep.ledger.failures == awake.ledger.failures
    assert asleep.recorder.completion_s == pytest.approx(awake.recorder.completion_s)


@pytest.mark.parametrize("policy", ["max_min_fairness", "gang_fifo"])
def test_all_sleeps_of_a_run_share_one_wake(policy: str) -> None:
    jobs = random_jobs(12, TABLE, seed=1, multi_gpu=True, arrival_rate_per_hour=1.0)
    rules = replace(DEFAULT, sleep_s=1e9)
    mechanism, asked = Mechanism(TABLE, None, rules), load_policy(policy)
    wanted = set[float]()
    handle = mechanism.handle

    def noting(event: Event) -> list[Command]:
        commands = handle(event)
        far_s = event.time_s + 1e8
        wanted.update(each.time_s for each in commands if isinstance(each, WakeAt) and each.time_s > far_s)
        return commands

    mechanism.handle = noting  # type: ignore[method-assign]
    drive(mechanism, asked.allocate, SimulatedCluster(jobs, CLUSTER, TABLE, rules))
    assert len(wanted) == 1


def asleep() -> tuple[Mechanism, list[Command]]:
    """A mechanism that sleeps while its only job runs, and the commands that led there."""
    rules = replace(DEFAULT, sleep_s=1e6)
    mechanism, commands = Mechanism(TABLE, None, rules), list[Command]()
    mechanism.handle(WorkerJoined(0.0, Server(0, "v100", 1)))
    mechanism.handle(JobSubmitted(0.0, Job(0, TABLE.job_types[0], 1e9)))
    snapshot = next(each.snapshot for each in mechanism.handle(Wake(0.0)) if isinstance(each, Solve))
    commands += mechanism.handle(Allocated(0.0, load_policy("max_min_fairness").allocate(snapshot)))
    assert WakeAt(1e6) in commands
    return mechanism, commands


def test_an_old_wake_does_not_end_a_sleep() -> None:
    mechanism, _ = asleep()
    assert mechanism.handle(Wake(720.0)) == []
    assert [each for each in mechanism.handle(Wake(1e6)) if isinstance(each, WakeAt)]


def test_the_last_word_on_a_former_lease_does_not_end_a_sleep() -> None:
    mechanism, commands = asleep()
    (lease,) = (each.lease for each in commands if isinstance(each, Launch))
    former = LeaseEnded(720.0, lease.id - 1, 0, steps_done=0.0, held_s=1.0)
    assert mechanism.handle(former) == []
    present = LeaseEnded(721.0, lease.id, 0, steps_done=10.0, held_s=721.0)
    assert [each for each in mechanism.handle(present) if isinstance(each, WakeAt)]
