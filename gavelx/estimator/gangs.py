"""Speeds of gangs of widths that a throughput table does not know, estimated from the table's own speeds."""

import math
from collections.abc import Iterable, Sequence

from gavelx.estimator.base import LEVEL, Estimator
from gavelx.estimator.missing_speeds import filled
from gavelx.measurements import Measurement
from gavelx.throughputs import Setting, Throughputs


class GangSpeeds:
    """Estimates steps/s of job types of a table at other scale factors, as ``import_trace`` wants them.

    Estimated speeds of the table itself count as unknown, unless it has no others.
    """

    def __init__(self, throughputs: Throughputs, estimator: Estimator) -> None:
        self.throughputs, self.estimator = throughputs, estimator
        known = throughputs.isolated
        measured = {way: speed for way, speed in known.items() if way not in throughputs.ranges} or known
        estimator.observe(Measurement(way, speed) for way, speed in measured.items())

    def __call__(self, settings: Sequence[Setting]) -> list[float | None]:
        """Steps/s of each setting; 0 where the job type cannot run, None if nothing is known of it."""
        speeds = (estimate.steps_per_second for estimate in self.estimator.estimate(settings))
        return [None if math.isnan(speed) else speed for speed in speeds]

    def table(self, widths: Iterable[tuple[str, int]], level: float = LEVEL) -> Throughputs:
        """The table, with estimates for these job types and scale factors on all its accelerators.

        Both for gangs in one server and for spread ones; with ranges at this confidence level.
        """
        settings = (
            Setting(job_type, accelerator, n, together)
            for job_type, n in widths
            for accelerator in self.throughputs.accelerators
            for together in (True, False)
        )
        missing = [setting for setting in settings if setting not in self.throughputs.isolated]
        return filled(self.throughputs, missing, self.estimator, level)
