"""A job: one training run that a user submitted."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gavelx.elastic import Elastic
from gavelx.errors import UserError

ARRIVAL_S_MAX = 1e12
"""The latest arrival: beyond it, floating-point seconds are too coarse for a simulation."""
WEIGHT_MIN, WEIGHT_MAX = 1e-9, 1e12
"""Of priorities: solvers do not compute with 1e-300."""
RETRIES_MAX = 1000
"""Of a failing job."""
Preemptible = Literal["auto", "yes", "no"]
PREEMPTIBLE: tuple[Preemptible, ...] = get_args(Preemptible)


@dataclass(frozen=True, slots=True)
class Job:
    """A training run: its type, length, scale factor, priority, deadline and owner.

    * ``total_steps``: optimizer steps; may be fractional, as in generated traces; infinity where the user does
      not say: then the job ends by itself;
    * ``scale_factor``: number of devices that the job needs at once; of an elastic one, those that its user would
      take if it were not;
    * ``arrival_s``: seconds on the trace's clock;
    * ``weight``: priority (5 gets five times the share of 1);
    * ``duration_s``: seconds that the job needs on the reference device;
    * ``slo``: deadline as a multiple of ``duration_s``, counted from arrival;
    * ``owner``: a path such as ``team/user``;
    * ``elastic``: the other sizes in which the job may run; None: it runs as submitted. A step is a step of the
      job as submitted, in whatever size it runs: an update with twice the samples counts as two steps, or as less
      where larger batches are worth less;
    * ``recorded_start_s``: when a recorded job first started, on the trace's clock; None if it is not known;
    * ``requested_accelerator``: the accelerator type that a recorded job asked for, as its log spells it.

    No policy and no simulation reads the last two: they say what happened, to compare with what would have.

    ``preemptible`` says whether the job may be stopped for others and started again later: ``yes``, always;
    ``no``, never; ``auto``, until a preemption has lost all the work of a lease (see
    :mod:`gavelx.mechanism.protection`). ``checkpoints`` says whether the job is expected to save its state: a
    simulated job without begins anew after each stop, and is moved only for a job that has no other place. On a
    cluster nothing is expected of a job before it has saved something. ``retries``: how often the job is launched
    again after failures in a row without a saved step; None: as the rules of the scheduler say.

    Raises :class:`UserError` for a value that no job can have.
    """

    id: int
    job_type: str
    total_steps: float = math.inf
    scale_factor: int = 1
    weight: float = 1.0
    arrival_s: float = 0.0
    slo: float | None = None
    duration_s: float | None = None
    owner: str = ""
    preemptible: Preemptible = "auto"
    checkpoints: bool = True
    elastic: Elastic | None = None
    recorded_start_s: float | None = None
    requested_accelerator: str = ""
    retries: int | None = None

    def __post_init__(self) -> None:
        if not self.total_steps > 0:
            raise self._mistake("total_steps", self.total_steps, "a number above 0")
        if self.scale_factor < 1:
            raise self._mistake("scale_factor", self.scale_factor, "a whole number of at least 1")
        if not WEIGHT_MIN <= self.weight <= WEIGHT_MAX:
            raise self._mistake("priority_weight", self.weight, f"a number from {WEIGHT_MIN:g} to {WEIGHT_MAX:g}")
        if not 0 <= self.arrival_s <= ARRIVAL_S_MAX:
            raise self._mistake("arrival_s", self.arrival_s, f"seconds from 0 to {ARRIVAL_S_MAX:g}")
        for name, value in (("slo", self.slo), ("duration_s", self.duration_s)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise self._mistake(name, value, "a finite number above 0, or nothing")
        if self.recorded_start_s is not None and not 0 <= self.recorded_start_s <= ARRIVAL_S_MAX:
            expected = f"seconds from 0 to {ARRIVAL_S_MAX:g}, or nothing"
            raise self._mistake("recorded_start_s", self.recorded_start_s, expected)
        if (elastic := self.elastic) is not None:
            if not elastic.least <= self.scale_factor <= elastic.most:
                expected = f"{elastic.least} to {elastic.most} devices, as its elasticity says"
                raise self._mistake("scale_factor", self.scale_factor, expected)
            if elastic.parts % self.scale_factor:
                raise self._mistake("parts", elastic.parts, f"a multiple of its {self.scale_factor} devices")
        if self.retries is not None and not 0 <= self.retries <= RETRIES_MAX:
            raise self._mistake("retries", self.retries, f"a whole number from 0 to {RETRIES_MAX}, or nothing")
        if self.preemptible not in PREEMPTIBLE:
            raise self._mistake("preemptible", self.preemptible, "one of " + ", ".join(PREEMPTIBLE))

    def _mistake(self, field: str, seen: object, expected: str) -> UserError:
        return UserError(f"{field} is {seen!r}", where=f"job {self.id}", expected=expected)

    @property
    def has_length(self) -> bool:
        """Whether its user says how long it is."""
        return math.isfinite(self.total_steps)

    @property
    def deadline_s(self) -> float | None:
        """The time by which the job should be complete, in seconds on the trace's clock; None without an SLO."""
        if self.slo is None or self.duration_s is None:
            return None
        return self.arrival_s + self.slo * self.duration_s
