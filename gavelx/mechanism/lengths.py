"""Believed lengths: how much longer a job takes whose user did not say, from the jobs that ended before it.

A length is the time that a job works until it ends, in seconds on its fastest type: time on a slower type counts
by the ratio of the speeds. It needs no steps, and lengths of different types compare.

Logarithms of lengths are taken to be normal in a group: the jobs of a type of one owner; the types of that owner;
the owners. The larger group is the prior of the smaller, and a member of a group is one observation of it, however
many jobs it had: a hundred runs of one script say little of the next script. What is believed of one more job is
Student's t, which is wider than the normal distribution while few jobs have ended. A job that has worked for a
time is longer than that: what is left is the rest of the distribution beyond. So a job that outlives its kind is
believed to have more before it the longer it runs, as lengths of real jobs suggest.

The mean has a normal prior (Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007, section 2).
Deviations are pooled by their logarithms, not as in the conjugate prior by their squares: so a script that always
takes as long is believed after a few runs, and intervals hold as often.

A job may say itself how long it is (``step 120/5000``). It is believed to go on as before until then, within half
of the time left; once it is past its own word, that counts for nothing. Of a job that reports its training
(losses, epochs) there is a second belief, from the reports of the jobs before it
(:mod:`gavelx.mechanism.training_progress`); of the two, the one with the narrower interval is believed.

Legend: J jobs, each of unknown length.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.mechanism.training_progress import TrainingProgress
from gavelx.training_report import TrainingReport

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
PRIOR_S, PRIOR_SCALE = 900.0, 2.83
"""Before any job has ended: a quarter of an hour, and in nine cases of ten between 2 seconds and 4 days. (The
traces that gavelx ships have geometric means of 16 minutes to 16 hours, and deviations of 0.7 to 1.9.)"""
WITHIN = 0.45
"""How much of the variance in a group is within each of its members, before they show it."""
FREEDOM, FREEDOM_MOST = 4.0, 30.0
"""As how many deviations the larger group counts; and no group of jobs is ever quite normal."""
SD_LEAST = 0.05
"""No script takes just as long again."""
LEVEL = 0.9
QUANTILES = 0.5, 0.5 - LEVEL / 2, 0.5 + LEVEL / 2
GROUPS = "of its type", "of its owner", "of other owners"
SAID_WITHIN = 0.5
"""What a job says of its own end is believed within this part of the time left."""
SHORTEST_S, NO_WORK_S = 0.1, 1e-9
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
    """Of the logarithm of the next length: Student's t. ``within``: what part of its variance a member has."""

    mean: float = math.log(PRIOR_S)
    scale: float = PRIOR_SCALE
    freedom: float = FREEDOM
    within: float = WITHIN


class Moments(NamedTuple):
    """The mean of the logarithms of lengths, and that of their squares."""

    mean: float
    square: float


@dataclass
class _Group:
    """Jobs of a type, types of an owner, or owners: how many, and the sums of the moments of these members."""

    jobs: int = 0
    members: int = 0
    mean: float = 0.0
    square: float = 0.0

    def moments(self) -> Moments | None:
        """Those of a job of any one of the members; None if there is none."""
        return Moments(self.mean / self.members, self.square / self.members) if self.members else None

    def change(self, before: Moments | None, after: Moments) -> None:
        """One more job of a member, which had other moments before, or is new."""
        self.jobs += 1
        self.members += before is None
        self.mean += after.mean - (before.mean if before else 0.0)
        self.square += after.square - (before.square if before else 0.0)

    def without(self, member: Moments | None) -> "_Group":
        """The other members."""
        if member is None:
            return self
        return _Group(self.jobs, self.members - 1, self.mean - member.mean, self.square - member.square)

    def after(self, prior: Belief) -> Belief:
        """The belief in jobs of a new member of this group, from that in a larger group."""
        if (seen := self.moments()) is None:
            return replace(prior, within=prior.within * WITHIN)
        within, between = prior.within * prior.scale**2, (1.0 - prior.within) * prior.scale**2
        freedom, more = min(prior.freedom, FREEDOM), self.members - 1
        if more:
            squares = self.members * (seen.square - seen.mean**2)
            log_seen = math.log(max(squares / more, SD_LEAST**2))
            within = math.exp((freedom * math.log(within) + more * log_seen) / (freedom + more))
        weight = self.members / within + 1.0 / between
        mean = (self.members * seen.mean / within + prior.mean / between) / weight
        return Belief(mean, math.sqrt(within + 1.0 / weight), min(freedom + more, FREEDOM_MOST))


class Lengths:
    """The history of lengths. ``learns``: without that, only the prior is ever believed."""

    def __init__(self, *, learns: bool = True) -> None:
        self.learns = learns
        self._types: dict[tuple[str, str], _Group] = {}
        self._owners: dict[str, _Group] = {}
        self._all = _Group()
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
        log_s = math.log(max(seconds, SHORTEST_S))
        of_type = self._types.setdefault((job.owner, job.job_type), _Group())
        of_owner = self._owners.setdefault(job.owner, _Group())
        before, after = None, Moments(log_s, log_s**2)
        for group in (of_type, of_owner, self._all):
            was = group.moments()
            group.change(before, after)
            before, after = was, group.moments() or after

    def of(self, job: Job) -> Belief:
        """What is believed of jobs of its type and owner."""
        of_type, of_owner, all_owners = self._groups(job)
        belief = all_owners.without(of_owner.moments()).after(Belief())
        return of_type.after(of_owner.without(of_type.moments()).after(belief))

    def source(self, job: Job) -> str:
        """The jobs whose lengths say most of this job's: ``3 jobs of its type before it``."""
        for group, words in zip(self._groups(job), GROUPS, strict=True):
            if group.jobs:
                return f"{group.jobs:,} job{'s' if group.jobs > 1 else ''} {words} before it"
        return "jobs in general: none ended before it"

    def _groups(self, job: Job) -> tuple[_Group, _Group, _Group]:
        """The jobs of its type, the types of its owner, and all owners."""
        none = _Group()
        return (
            self._types.get((job.owner, job.job_type), none),
            self._owners.get(job.owner, none),
            self._all,
        )

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
        known: dict[tuple[str, str], Belief] = {}
        for job in jobs:
            if (kind := (job.owner, job.job_type)) not in known:
                known[kind] = self.of(job)
        beliefs = [known[job.owner, job.job_type] for job in jobs]
        rows = [(belief.mean, belief.scale, belief.freedom) for belief in beliefs]
        mean_J, scale_J, freedom_J = np.array(rows, dtype=float).reshape(-1, 3).T
        return Left(*(_beyond(worked_s_J, mean_J, scale_J, freedom_J, p) for p in QUANTILES))

    def _of_training(self, jobs: Sequence[Job], worked_s_J: Floats, of_kind: Left) -> tuple[Left, Bools]:
        """What the reports of their training tell, and of which jobs that is the narrower interval of lengths."""
        part_JQ = self._training.part_done([job.id for job in jobs], [1.0 - p for p in QUANTILES])
        left = Left(*(np.maximum(worked_s_J * (1.0 / part_J - 1.0), SHORTEST_S) for part_J in part_JQ.T))
        spread_J, spread_of_kind_J = (_spread(worked_s_J, ends) for ends in (left, of_kind))
        return left, np.asarray((worked_s_J > 0.0) & (spread_J < spread_of_kind_J))


def _spread(worked_s_J: Floats, left: Left) -> Floats:
    """How many times longer the longest believed length is than the shortest; NaN where there is none."""
    return (worked_s_J + left.upper) / (worked_s_J + left.lower)


def _beyond(worked_s_J: Floats, mean_J: Floats, scale_J: Floats, freedom_J: Floats, p: float) -> Floats:
    """The p-quantile of what is left of lengths that are longer than what was worked.

    With S the survival function, S(length) = (1 - p) S(worked).
    """
    from scipy.special import stdtr, stdtrit  # noqa: PLC0415  (heavy, and few clusters need it)

    z_J = (np.log(np.maximum(worked_s_J, NO_WORK_S)) - mean_J) / scale_J
    beyond_J = -stdtrit(freedom_J, (1.0 - p) * stdtr(freedom_J, -z_J))
    length_s_J = np.exp(np.minimum(mean_J + scale_J * beyond_J, 600.0))
    return np.asarray(np.maximum(length_s_J - worked_s_J, SHORTEST_S))
