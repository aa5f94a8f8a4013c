"""Believed lengths: how much longer a job takes whose user did not say, from the jobs that ended before it.

A length is the time that a job works until it ends, in seconds on its fastest type: time on a slower type counts
by the ratio of the speeds. It needs no steps, and lengths of different types compare.

Logarithms of lengths are taken to be normal. What is believed of all jobs is the prior of those of an owner, and
that is the prior of those of the owner's jobs of one type; each prior counts as ``PRIOR_JOBS`` jobs (normal-
inverse-gamma prior; Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007, section 3). A job
that has worked for a time is longer than that: what is left is the rest of the distribution beyond. So a job that
outlives its kind is believed to have more before it the longer it runs, as lengths of real jobs suggest.

A job may say itself how long it is (``step 120/5000``). It is believed to go on as before until then, within half
of the time left; once it is past its own word, that counts for nothing. Of a job that reports its training
(losses, epochs) there is a second belief, from the reports of the jobs before it
(:mod:`gavelx.mechanism.training_progress`); of the two, the one with the narrower interval is believed.

Legend: J jobs, each of unknown length.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.mechanism.training_progress import TrainingProgress
from gavelx.training_report import TrainingReport

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
PRIOR_S, PRIOR_SD = 900.0, 3.0
"""Before any job has ended: a quarter of an hour, and in nine cases of ten between 2 seconds and 4 days. (The
traces that gavelx ships have geometric means of 16 minutes to 16 hours, and deviations of 0.7 to 1.9.)"""
PRIOR_JOBS = 2.0
LEVEL = 0.9
QUANTILES = 0.5, 0.5 - LEVEL / 2, 0.5 + LEVEL / 2
GROUPS = "of its type", "of its owner", "of other owners"
SAID_WITHIN = 0.5
"""What a job says of its own end is believed within this part of the time left."""
SHORTEST_S = 0.1
Known = Literal["told", "believed", "unknown"]
"""What a simulated scheduler knows of lengths: the truth, what the jobs before showed, or nothing."""
KNOWN: tuple[Known, ...] = get_args(Known)


class Left(NamedTuple):
    """Seconds left on the fastest type: the median, and the ends of the interval at ``LEVEL``."""

    middle: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Belief:
    """What is believed of the logarithm of a length: normal, with this mean, deviation and number of jobs."""

    mean: float = math.log(PRIOR_S)
    sd: float = PRIOR_SD
    jobs: int = 0

    @property
    def next_sd(self) -> float:
        """The deviation of one more length, with what is unknown of the mean."""
        return self.sd * math.sqrt(1.0 + 1.0 / (PRIOR_JOBS + self.jobs))


@dataclass
class _Seen:
    """Jobs that ended: how many, and the mean and the sum of squares of the logarithms of their lengths."""

    jobs: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, log_s: float) -> None:
        """One more (Welford 1962)."""
        self.jobs += 1
        step = log_s - self.mean
        self.mean += step / self.jobs
        self.squares += step * (log_s - self.mean)

    def after(self, prior: Belief) -> Belief:
        """The belief in such jobs, from that in a larger group."""
        n, k = self.jobs, PRIOR_JOBS
        mean = (k * prior.mean + n * self.mean) / (k + n)
        between = k * n / (k + n) * (self.mean - prior.mean) ** 2
        variance = (k * prior.sd**2 + self.squares + between) / (k + n)
        return Belief(mean, math.sqrt(variance), n)


class Lengths:
    """The history of lengths. ``learns``: without that, only the prior is ever believed."""

    def __init__(self, *, learns: bool = True) -> None:
        self.learns = learns
        self._seen: dict[tuple[str, ...], _Seen] = {}
        self._training = TrainingProgress()

    def heard(self, job: Job, report: TrainingReport, steps: float) -> None:
        """A job reports its training, after so many steps."""
        if self.learns:
            self._training.heard(job.id, report, steps)

    def gone(self, job: Job, steps: float | None) -> None:
        """A job is complete after so many steps, or it is gone without being complete."""
        self._training.gone(job.id, steps)

    def ended(self, job: Job, seconds: float) -> None:
        """A job is complete, and worked for so long."""
        if not (self.learns and math.isfinite(seconds)):
            return
        for group in _groups(job):
            self._seen.setdefault(group, _Seen()).add(math.log(max(seconds, SHORTEST_S)))

    def of(self, job: Job) -> Belief:
        """What is believed of jobs of its type and owner."""
        belief = Belief()
        for group in _groups(job):
            if (seen := self._seen.get(group)) is not None:
                belief = seen.after(belief)
        return belief

    def source(self, job: Job) -> str:
        """The jobs whose lengths say most of this job's: ``3 jobs of its type before it``."""
        for group, words in zip(reversed(_groups(job)), GROUPS, strict=True):
            if (seen := self._seen.get(group)) is not None:
                return f"{seen.jobs:,} job{'s' if seen.jobs > 1 else ''} {words} before it"
        return "jobs in general: none ended before it"

    def left(self, jobs: Sequence[Job], worked_s_J: Floats, part_J: Floats) -> Left:
        """How much longer these jobs take, that have worked for so long.

        ``part_J``: how much of itself a job says that it has done, between 0 and 1; NaN where it says nothing, or
        is past its own end.
        """
        of_training, narrower_J = self._of_training(jobs, worked_s_J, of_kind := self._of_kind(jobs, worked_s_J))
        says_J = (part_J > 0.0) & (part_J < 1.0) & (worked_s_J > 0.0)
        said_s_J = np.divide(worked_s_J * (1.0 - part_J), part_J, out=np.zeros(len(jobs)), where=says_J)
        within = (1.0, 1.0 - SAID_WITHIN, 1.0 + SAID_WITHIN)
        found = (np.where(narrower_J, *ends) for ends in zip(of_training, of_kind, strict=True))
        return Left(*(np.where(says_J, said_s_J * part, end_J) for part, end_J in zip(within, found, strict=True)))

    def by_training(self, job: Job, worked_s: float) -> bool:
        """Whether the reports of its training say more of a job than the jobs of its kind do."""
        worked_s_J = np.array([worked_s])
        return bool(self._of_training([job], worked_s_J, self._of_kind([job], worked_s_J))[1][0])

    def _of_kind(self, jobs: Sequence[Job], worked_s_J: Floats) -> Left:
        """What the jobs of the same type and owner tell."""
        known: dict[tuple[str, ...], Belief] = {}
        for job in jobs:
            if (kind := _groups(job)[-1]) not in known:
                known[kind] = self.of(job)
        beliefs = [known[_groups(job)[-1]] for job in jobs]
        mean_J, sd_J = (np.array(column, dtype=float) for column in _columns(beliefs))
        return Left(*(_beyond(worked_s_J, mean_J, sd_J, p) for p in QUANTILES))

    def _of_training(self, jobs: Sequence[Job], worked_s_J: Floats, of_kind: Left) -> tuple[Left, Bools]:
        """What the reports of their training tell, and of which jobs that is the narrower interval of lengths."""
        part_JQ = self._training.part_done([job.id for job in jobs], [1.0 - p for p in QUANTILES])
        left = Left(*(np.maximum(worked_s_J * (1.0 / part_J - 1.0), SHORTEST_S) for part_J in part_JQ.T))
        spread_J, spread_of_kind_J = (_spread(worked_s_J, ends) for ends in (left, of_kind))
        return left, np.asarray((worked_s_J > 0.0) & (spread_J < spread_of_kind_J))


def _groups(job: Job) -> tuple[tuple[str, ...], ...]:
    """The groups to which a job belongs, the largest first."""
    return (), (job.owner,), (job.owner, job.job_type)


def _columns(beliefs: Iterable[Belief]) -> tuple[list[float], list[float]]:
    rows = [(belief.mean, belief.next_sd) for belief in beliefs]
    return [mean for mean, _ in rows], [sd for _, sd in rows]


def _spread(worked_s_J: Floats, left: Left) -> Floats:
    """How many times longer the longest believed length is than the shortest; NaN where there is none."""
    return (worked_s_J + left.upper) / (worked_s_J + left.lower)


def _beyond(worked_s_J: Floats, mean_J: Floats, sd_J: Floats, p: float) -> Floats:
    """The p-quantile of what is left of lengths that are longer than what was worked.

    With S the survival function, S(length) = (1 - p) S(worked); in logarithms, so that far tails keep digits.
    """
    from scipy.special import log_ndtr, ndtri_exp  # noqa: PLC0415  (heavy, and few clusters need it)

    z_J = (np.log(np.maximum(worked_s_J, SHORTEST_S)) - mean_J) / sd_J
    length_s_J = np.exp(np.minimum(mean_J - sd_J * ndtri_exp(np.log1p(-p) + log_ndtr(-z_J)), 600.0))
    return np.asarray(np.maximum(length_s_J - worked_s_J, SHORTEST_S))
