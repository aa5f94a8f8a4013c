"""Devices that fall free are looked at again at once if a job waits, and else when the round ends."""

from gavelx.mechanism import DEFAULT
from gavelx.mechanism.commands import WakeAt
from gavelx.mechanism.events import JobSubmitted, Wake
from tests.mechanism.test_later_jobs_wait import after
from tests.mechanism.test_mechanism import ended, job, with_servers

ROUND_S = DEFAULT.round_s


def wakes_at(servers: int, jobs: int) -> list[float]:
    """When the mechanism wants to be woken after the first of the jobs is complete, 100 s into a round."""
    mechanism = with_servers(servers)
    after(mechanism, *(JobSubmitted(0.0, job(i)) for i in range(jobs)), Wake(0.0))
    lease = mechanism.leasing.leases[0]
    commands = mechanism.handle(ended(100.0, lease, lease.until_step))
    mechanism.validate()
    return [command.time_s for command in commands if isinstance(command, WakeAt)]


def test_at_once_where_a_job_waits() -> None:
    assert wakes_at(servers=2, jobs=3) == [100.0]


def test_at_once_where_the_next_job_begins_a_round() -> None:
    assert wakes_at(servers=1, jobs=1) == [100.0]


def test_at_the_end_of_the_round_where_none_does() -> None:
    assert wakes_at(servers=3, jobs=2) == [ROUND_S]
    assert wakes_at(servers=3, jobs=3) == [ROUND_S]


def test_at_once_for_a_job_that_is_not_let_in_yet() -> None:
    mechanism = with_servers(2)
    after(mechanism, *(JobSubmitted(0.0, job(i)) for i in range(2)), Wake(0.0))
    lease = mechanism.leasing.leases[0]
    mechanism.handle(JobSubmitted(100.0, job(2, arrival_s=100.0)))
    commands = mechanism.handle(ended(100.0, lease, lease.until_step))
    assert [command.time_s for command in commands if isinstance(command, WakeAt)] == [100.0]
