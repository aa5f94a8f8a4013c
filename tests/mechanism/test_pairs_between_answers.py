"""A job that runs on while a partner comes or goes, between two answers of the policy."""

import numpy as np
import pytest

from gavelx.allocation import Allocation
from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Solve
from gavelx.mechanism.events import Allocated, JobSubmitted, Wake
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from tests.mechanism.test_mechanism import asked, job, with_servers

Wanted = dict[tuple[int, ...], float]
Story = list[frozenset[int]]


def shares(snapshot: Snapshot, wanted: Wanted) -> Allocation:
    """An allocation of so much to each of these, alone or together."""
    snapshot = snapshot.open("pairs")
    table, ids = snapshot.configurations, [one.id for one in snapshot.jobs]
    members = [frozenset(ids[j] for j in table.job_M[table.configuration_M == c]) for c in range(len(table))]
    share_C = np.zeros(len(members))
    for who, share in wanted.items():
        share_C[members.index(frozenset(who))] = share
    return certified(snapshot, share_C, path="test", seconds=0.0)


def run_rounds(wanted: Wanted, rounds: int) -> tuple[Mechanism, Story]:
    """One device, two jobs; no job comes or goes, so the policy is asked once. Who ran with whom in each round."""
    mechanism = with_servers(1, prices=Prices({"fast": 36.0}), pairs=True)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id, steps=1e9)))
    solve = asked(mechanism, Wake(0.0))
    mechanism.handle(Allocated(0.0, shares(solve.snapshot, wanted)))
    story: Story = []
    for n in range(1, rounds + 1):
        story.append(frozenset(mechanism.leasing.leases))
        commands = mechanism.handle(Wake(360.0 * n))
        assert not [c for c in commands if isinstance(c, Solve)]
    return mechanism, story


def check_bill(mechanism: Mechanism, story: Story) -> None:
    mechanism.accounts.settle_all(360.0 * len(story))
    alone, together = story.count({0}), story.count({0, 1})
    assert alone + together == len(story)
    assert mechanism.live.spent_usd.tolist() == pytest.approx([3.6 * (alone + together / 2), 3.6 * together / 2])
    ways = mechanism.accounts.ways
    owed_s = [360.0 * (share * len(story) - n) for share, n in zip(ways.share, (alone, together), strict=True)]
    assert ways.credit_s.tolist() == pytest.approx(owed_s)


def test_who_ran_alone_before_a_partner_came_pays_in_full_until_then() -> None:
    """And the other way round: whose time counts for what."""
    for rounds in range(1, 12):
        mechanism, story = run_rounds({(0,): 0.6, (0, 1): 0.4}, rounds)
        if len(set(story)) > 1:
            break
    assert story[0] == {0} and story[-1] == {0, 1}
    check_bill(mechanism, story)


def test_time_alone_and_time_in_a_pair_each_count_for_what_was_promised_so() -> None:
    mechanism, story = run_rounds({(0,): 0.3, (0, 1): 0.7}, 40)
    assert story.count({0}) == pytest.approx(0.3 * 40, abs=2)
    check_bill(mechanism, story)
