"""A scheduler that is not told how long jobs are: all end, and no policy sees the truth."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gavelx import Cluster, load_policy, load_throughputs, random_jobs, simulate
from gavelx.allocation import Allocation
from gavelx.errors import GavelxError, OptionError
from gavelx.jobs import Job
from gavelx.published import PUBLISHED
from gavelx.simulator.faults import Faults
from gavelx.snapshot import Snapshot

TABLE, CLUSTER = load_throughputs("simulation"), Cluster.parse("v100=2,p100=2,k80=2")
POLICIES = ("max_min_fairness", "srtf", "finish_time_fairness", "makespan", "allox", "fifo", "robust(srtf)")


class Spy:
    """A policy that remembers what it was shown."""

    def __init__(self, name: str) -> None:
        self.policy, self.seen = load_policy(name), list[Snapshot]()

    def allocate(self, snapshot: Snapshot) -> Allocation:
        self.seen.append(snapshot)
        return self.policy.allocate(snapshot)


def jobs(count: int = 12, seed: int = 3, **changes: Any) -> tuple[Job, ...]:
    return tuple(
        replace(job, owner=f"o{job.id % 2}", **changes)
        for job in random_jobs(count, TABLE, arrival_rate_per_hour=2.0, seed=seed)
    )


@pytest.mark.parametrize("lengths", ["believed", "unknown"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_ends(policy: str, lengths: Any) -> None:
    result = simulate(load_policy(policy), jobs(), CLUSTER, TABLE, lengths=lengths)
    assert not len(result.unfinished)
    assert np.isfinite(result.completion_s_J).all()


def test_no_policy_sees_a_length() -> None:
    """Longer jobs look the same until the first one ends."""
    short, long = Spy("srtf"), Spy("srtf")
    one = simulate(short, jobs(), CLUSTER, TABLE, lengths="believed")
    longer = tuple(replace(job, total_steps=3.0 * job.total_steps) for job in jobs())
    simulate(long, longer, CLUSTER, TABLE, lengths="believed")
    first_s = float(one.completion_s_J.min())
    before = [snapshot for snapshot in short.seen if snapshot.time_s < first_s]
    assert len(before) > 3
    for here, there in zip(before, long.seen, strict=False):
        assert here.time_s == there.time_s
        assert not any(job.has_length for job in here.jobs)
        np.testing.assert_array_equal(here.steps_left_J, there.steps_left_J)
        assert here.left_range_JE is not None
        assert (here.left_range_JE[:, 0] <= here.steps_left_J).all()
        assert (here.steps_left_J <= here.left_range_JE[:, 1]).all()


def test_history_teaches_and_unknown_does_not() -> None:
    """Of jobs of one type and length the later ones are believed to be as long as those before."""
    alike = tuple(Job(n, "A3C", 1e5, arrival_s=400_000.0 * n, owner="ada") for n in range(8))
    spies = {}
    for lengths in ("believed", "unknown"):
        spies[lengths] = Spy("srtf")
        simulate(spies[lengths], alike, CLUSTER, TABLE, lengths=lengths)
    last = {
        lengths: next(s for s in spy.seen if len(s.jobs) == 1 and s.jobs[0].id == 7)
        for lengths, spy in spies.items()
    }
    true = 1e5
    error = {lengths: abs(np.log(snapshot.steps_left_J[0] / true)) for lengths, snapshot in last.items()}
    assert error["believed"] < 0.5 < error["unknown"]


def test_told_is_as_ever() -> None:
    told, plain = (
        simulate(load_policy("srtf"), jobs(), CLUSTER, TABLE, **options) for options in ({"lengths": "told"}, {})
    )
    np.testing.assert_array_equal(told.completion_s_J, plain.completion_s_J)


@pytest.mark.parametrize("seed", range(6))
def test_with_faults_every_job_ends_too(seed: int) -> None:
    faults = Faults(seed=seed, lost=0.2, late=0.2, doubled=0.2, speed_noise=0.2, job_failures_per_hour=0.05)
    some = tuple(replace(job, checkpoints=bool(job.id % 3)) for job in jobs(seed=seed))
    result = simulate(load_policy("max_min_fairness"), some, CLUSTER, TABLE, faults=faults, lengths="believed")
    assert not result.unfinished, "but for those that failed too often"


def test_gangs_of_plain_jobs_do_not_starve() -> None:
    """Protected jobs of unknown length do not begin before a gang that waits."""
    narrow = [Job(n, "A3C", 3e5, arrival_s=10.0 * n, checkpoints=False) for n in range(6)]
    gang = Job(9, "ResNet-18 (batch size 32)", 1e4, 2, arrival_s=100.0, checkpoints=False)
    cluster = Cluster.parse("v100=2")
    result = simulate(load_policy("max_min_fairness"), [*narrow, gang], cluster, TABLE, lengths="believed")
    assert not len(result.unfinished)
    assert result.completion_s_J[result.jobs.index(gang)] < np.max(result.completion_s_J)


def test_the_published_rules_know_all_lengths() -> None:
    with pytest.raises(OptionError, match="lengths"):
        simulate(load_policy("fifo"), jobs(2), CLUSTER, TABLE, rules=PUBLISHED, lengths="believed")


def test_a_simulated_job_has_a_length() -> None:
    with pytest.raises(GavelxError, match="nothing says how long job 0 is"):
        simulate(load_policy("fifo"), [Job(0, "A3C")], CLUSTER, TABLE)
