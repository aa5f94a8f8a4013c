"""Votes between two steps: when they are due, and when a process wants to leave."""

import time
from typing import Any

import pytest

from gavelx.training.gang import Vote
from gavelx.training.lease import Lease
from gavelx.training.progress import Progress
from gavelx.training.votes import Votes


class Agreed:
    """So many processes, which all want the same."""

    def __init__(self, world_size: int = 1) -> None:
        self.world_size = world_size

    def vote(self, mine: Vote) -> Vote:
        return mine


def take(votes: Votes, world_size: int = 1, save_s: float = 0.0) -> Vote:
    agreement: Any = Agreed(world_size)
    return votes.take(agreement, save=False, save_s=save_s)


@pytest.mark.parametrize(
    ("left_s", "save_s", "leaves"), [(60.0, 10.0, False), (60.0, 50.0, True), (0.5, 0.0, True)]
)
def test_a_job_leaves_while_there_is_time_to_save(left_s: float, save_s: float, leaves: bool) -> None:
    lease = Lease(None)
    lease.until_s = time.monotonic() + left_s
    assert take(Votes(Progress(step=1), lease, None), save_s=save_s).stop == leaves


def test_one_process_votes_at_every_step_and_several_about_once_a_second() -> None:
    lease, at = Lease(None), Progress()
    votes = Votes(at, lease, None)
    assert votes.due
    at.step = 1_000_000  # so a step takes next to no time
    assert take(votes).within == 1
    at.step += 1
    assert votes.due
    at.step += 1_000_000
    assert take(votes, world_size=2).within == 1000
    at.step += 999
    assert not votes.due
    at.step += 1
    assert votes.due


def test_several_processes_vote_at_the_last_step_of_their_lease() -> None:
    lease, at = Lease(None), Progress()
    votes = Votes(at, lease, None)
    at.step, lease.until_step = 1_000_000, 1_000_007
    assert take(votes, world_size=2).within == 7
    votes.begin()
    assert votes.due, "other processes have come, and ask at once"
