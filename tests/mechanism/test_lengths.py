"""What is believed of lengths: honest on average, from the nearest jobs, and never the truth."""

import math

import numpy as np
import pytest

from gavelx.jobs import Job
from gavelx.mechanism.lengths import PRIOR_S, Belief, Lengths

NOTHING = np.array([np.nan])


def job(job_type: str = "train.py", owner: str = "ada") -> Job:
    return Job(0, job_type, owner=owner)


def left(lengths: Lengths, worked_s: float, part: float = math.nan, of: Job | None = None) -> list[float]:
    found = lengths.left([of or job()], np.array([worked_s]), np.array([part]))
    return [float(end[0]) for end in found]


def test_before_any_job_ends_all_is_possible() -> None:
    middle, lower, upper = left(Lengths(), 0.0)
    assert middle == pytest.approx(PRIOR_S, rel=0.05)
    assert lower < 10.0
    assert upper > 86400.0


def test_the_jobs_before_it_count() -> None:
    lengths = Lengths()
    for seconds in (95.0, 100.0, 105.0) * 4:
        lengths.ended(job(), seconds)
    middle, lower, upper = left(lengths, 0.0)
    assert middle == pytest.approx(100.0, rel=0.5)
    assert 10.0 < lower < 100.0 < upper < 1000.0
    other_type = left(lengths, 0.0, of=job("other.py"))[0]
    other_owner = left(lengths, 0.0, of=job("other.py", "bob"))[0]
    assert middle < other_type < other_owner < PRIOR_S, "those of its owner, and of all, count for less"


def test_it_is_said_which_jobs_those_are() -> None:
    lengths = Lengths()
    assert lengths.source(job()) == "jobs in general: none ended before it"
    lengths.ended(job(), 1.0)
    lengths.ended(job("other.py"), 1.0)
    assert lengths.source(job()) == "1 job of its type before it"
    assert lengths.source(job("third.py")) == "2 jobs of its owner before it"
    assert lengths.source(job("train.py", "bob")) == "2 jobs of other owners before it"


def test_without_learning_only_the_prior_is_believed() -> None:
    lengths = Lengths(learns=False)
    lengths.ended(job(), 1.0)
    assert lengths.of(job()) == Belief()


def test_a_job_that_outlives_its_kind_has_more_before_it() -> None:
    lengths = Lengths()
    for _ in range(20):
        lengths.ended(job(), 100.0)
    ends = [left(lengths, worked_s)[0] for worked_s in (200.0, 1e3, 1e4, 1e6, 1e12)]
    assert ends == sorted(ends)
    assert all(0 < end < math.inf for end in ends)


def test_what_a_job_says_itself_is_believed_until_it_is_past_it() -> None:
    middle, lower, upper = left(Lengths(), 60.0, 0.25)
    assert (middle, lower, upper) == (180.0, 90.0, 270.0)
    for part in (0.0, 1.0, 1.5, -1.0, math.nan, math.inf):
        assert left(Lengths(), 60.0, part) == left(Lengths(), 60.0), part


@pytest.mark.parametrize("jobs", [0, 1, 3, 30])
@pytest.mark.parametrize("outlived", [0.0, 1.0])
def test_intervals_are_honest(jobs: int, outlived: float) -> None:
    """Owners differ, and the jobs of each: nine in ten of those to come are within."""
    chance, held = np.random.default_rng(jobs), list[bool]()
    for _ in range(400):
        mean, sd = chance.normal(math.log(PRIOR_S), 2.5), chance.uniform(0.3, 1.5)
        lengths, drawn = Lengths(), np.exp(chance.normal(mean, sd, jobs + 1))
        for seconds in drawn[:-1].tolist():
            lengths.ended(job(), seconds)
        worked_s = outlived * 0.5 * float(drawn[-1])
        _, lower, upper = left(lengths, worked_s)
        held.append(lower <= drawn[-1] - worked_s <= upper)
    assert 0.82 <= sum(held) / len(held) <= 0.99


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan, 1e300, 1e-300])
def test_lengths_that_cannot_be(seconds: float) -> None:
    lengths = Lengths()
    lengths.ended(job(), seconds)
    assert all(0 < end < math.inf for end in left(lengths, 10.0))
