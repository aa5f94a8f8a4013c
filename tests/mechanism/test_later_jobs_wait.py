"""A policy that says so is not asked about jobs that come later, until something changes for them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from gavelx.allocation import Allocation
from gavelx.cluster import Server
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.mechanism.commands import Solve
from gavelx.mechanism.events import Allocated, Event, JobSubmitted, Wake, WorkerJoined
from gavelx.policies import load_policy
from gavelx.snapshot import WAITING, Snapshot
from gavelx.testing.snapshots import snapshots
from tests.mechanism.test_mechanism import ended, job, launched, with_servers

ROUND_S = DEFAULT.round_s


def after(mechanism: Mechanism, *events: Event) -> tuple[int, list[int]]:
    """How often ``fifo`` is asked, and the jobs that are launched."""
    questions, jobs = 0, list[int]()
    for event in events:
        for command in (commands := mechanism.handle(event)):
            if isinstance(command, Solve):
                questions += 1
                commands += mechanism.handle(
                    Allocated(event.time_s, load_policy("fifo").allocate(command.snapshot))
                )
        jobs += [lease.job_id for lease in launched(commands)]
        mechanism.validate()
    return questions, jobs


def busy(rules: Rules = DEFAULT) -> Mechanism:
    """Job 0 has the only device, and job 1 waits for it."""
    mechanism = with_servers(1, rules=rules)
    assert after(mechanism, *(JobSubmitted(0.0, job(i)) for i in (0, 1)), Wake(0.0)) == (1, [0])
    return mechanism


def test_a_later_job_is_no_reason_to_ask() -> None:
    mechanism = busy()
    assert after(mechanism, JobSubmitted(5.0, job(2, arrival_s=5.0)), Wake(5.0), Wake(ROUND_S)) == (0, [])
    lease = mechanism.leasing.leases[0]
    assert after(mechanism, ended(400.0, lease, lease.until_step), Wake(400.0)) == (1, [1])


def test_a_job_that_is_heard_of_late_is() -> None:
    mechanism = busy()
    after(mechanism, JobSubmitted(5.0, job(2, arrival_s=5.0)), Wake(5.0))
    assert after(mechanism, JobSubmitted(9.0, job(3, arrival_s=4.0)), Wake(9.0), Wake(ROUND_S)) == (1, [])


def test_more_devices_are() -> None:
    mechanism = busy()
    after(mechanism, JobSubmitted(5.0, job(2, arrival_s=5.0)), Wake(5.0))
    assert after(mechanism, WorkerJoined(9.0, Server(9, "fast", 1)), Wake(9.0)) == (1, [1])


def test_with_an_interval_between_questions_each_job_counts() -> None:
    mechanism = busy(dataclasses.replace(DEFAULT, solve_interval_s=ROUND_S))
    assert after(mechanism, JobSubmitted(5.0, job(2, arrival_s=5.0)), Wake(5.0), Wake(ROUND_S)) == (1, [])


@pytest.mark.parametrize("name", ["fifo", "gang_fifo"])
@settings(max_examples=60)
@given(snapshot=snapshots(min_jobs=2))
def test_what_is_declared_is_true(name: str, snapshot: Snapshot) -> None:
    """The last job to arrive, if it waits, gets nothing, and what the others get is the same without it."""
    policy = load_policy(name)
    last = max(range(len(snapshot.jobs)), key=lambda j: (snapshot.jobs[j].arrival_s, snapshot.jobs[j].id))
    if snapshot.running_J[last] != WAITING:
        return
    if any(one.arrival_s == snapshot.jobs[last].arrival_s for one in snapshot.jobs if one != snapshot.jobs[last]):
        return
    before, _ = snapshot.of_jobs(np.delete(np.arange(len(snapshot.jobs)), last), snapshot.cluster)
    answer = policy.allocate(before)
    if answer.execution.later_jobs_wait:
        assert shares(policy.allocate(snapshot)) == shares(answer)


def shares(allocation: Allocation) -> dict[object, float]:
    promises = allocation.promises()
    named = promises.configurations.named(promises.accelerators)
    return dict(zip(named, promises.share_P.tolist(), strict=True))
