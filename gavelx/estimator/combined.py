"""The estimator of missing speeds: completion where a job type was measured, the roofline where it was not.

Job types that were measured somewhere are estimated by :class:`~gavelx.estimator.completion.Completion`. A type
that was never measured and has the name of one of today's jobs (``job_names``) is estimated by the roofline, with
efficiencies fitted to the measured types whose names can be read. Where both can say something, it is their mean.
Whether such a job fits into memory is decided by
the roofline in both cases, unless it was measured there, or on devices that together have no more memory.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from statistics import NormalDist

import numpy as np

from gavelx.accelerators import NO_DATA_SHEETS, DataSheets, Specification
from gavelx.estimator.base import LEVEL, Estimator
from gavelx.estimator.completion import Completion
from gavelx.estimator.job_names import JobNameError, NamedJob, read_job
from gavelx.estimator.known import UNKNOWN
from gavelx.estimator.names import read_name
from gavelx.estimator.one_thread import one_thread
from gavelx.estimator.roofline import Efficiency, fit_efficiency, step_seconds, why_not
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.throughputs import Setting

NEW_THERE, NEW_SD = 1.6, 0.3
"""Where a model is new on a device: the factor of completion's intervals, and the least standard deviation of the
logarithm. The shipped modern speeds are mostly of one family of language models, which differ less from device to
device than other models; figures of ten others on 12 devices (of a vendor, not shipped) differ by 0.36."""


class Combined(Estimator):
    """Completion of job types that were measured somewhere, and the roofline of named jobs that were not."""

    name = "combined"

    def __init__(self, data_sheets: DataSheets = NO_DATA_SHEETS) -> None:
        self.data_sheets = data_sheets
        self._device, self._sheet = cache(data_sheets.device), cache(data_sheets.find)
        self.completion = Completion(data_sheets)

    def observe(self, measurements: Iterable[Measurement]) -> None:
        one_name = (self._measured(one) for one in measurements)
        self.completion.observe(one_name)
        for cached in ("efficiency", "_models_on", "_ran_in_gb"):
            self.__dict__.pop(cached, None)

    @one_thread
    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        known_types = {way.job_type for way in self.completion.speed_of}
        completed, answers = list[int](), dict[int, Estimate]()
        for n, way in enumerate(wanted):
            if self.why_not(way):
                answers[n] = Estimate(0.0, 0.0, 0.0, "estimated")
            elif way.job_type in known_types:
                completed.append(n)
            else:
                answers[n] = self._roofline(way, level)
        said = (
            self.completion.estimate([self._on_device(wanted[n]) for n in completed], level) if completed else []
        )
        for n, estimate in zip(completed, said, strict=True):
            honest = _wider(estimate, level) if self._new_there(wanted[n]) else estimate
            answers[n] = _both(honest, self._roofline(wanted[n], level))
        return [answers[n] for n in range(len(wanted))]

    def _new_there(self, way: Way) -> bool:
        """Whether the device was not measured with this model."""
        return read_name(way.job_type).model not in self._models_on.get(self._device(way.accelerator), ())

    @cached_property
    def _models_on(self) -> dict[str, set[str]]:
        """The models that were measured on each device."""
        models: dict[str, set[str]] = {}
        for way in self.completion.speed_of:
            models.setdefault(way.accelerator, set()).add(read_name(way.job_type).model)
        return models

    def why_not(self, way: Way) -> str:
        job = _named(way)
        if job is None or not isinstance(way, Setting) or self._on_device(way) in self.completion.speed_of:
            return ""
        sheet = self._sheet(way.accelerator)
        if way.scale_factor * sheet.memory_gb >= self._ran_in_gb.get(way.job_type, math.inf):
            return ""
        return why_not(job, way, sheet)

    @cached_property
    def _ran_in_gb(self) -> dict[str, float]:
        """The least memory, of all devices together, in which each named job type was measured."""
        least: dict[str, float] = {}
        for way, speed in self.completion.speed_of.items():
            if isinstance(way, Setting) and speed > 0 and _named(way):
                gb = way.scale_factor * self._sheet(way.accelerator).memory_gb
                least[way.job_type] = min(gb, least.get(way.job_type, math.inf))
        return least

    @cached_property
    def efficiency(self) -> Efficiency:
        """The efficiency of measured job types whose names can be read."""
        cells, logs = list[tuple[NamedJob, Setting, str, Specification]](), list[float]()
        for way, speed in self.completion.speed_of.items():
            job = _named(way)
            if job is not None and isinstance(way, Setting) and speed > 0:
                specification = self._sheet(way.accelerator)
                ideal_s = step_seconds(job, way, specification)
                if math.isfinite(ideal_s):
                    cells.append((job, way, way.accelerator, specification))
                    logs.append(math.log(speed * ideal_s))
        return fit_efficiency(cells, np.array(logs))

    def _roofline(self, way: Way, level: float) -> Estimate:
        job, way = _named(way), self._on_device(way)
        if job is None or not isinstance(way, Setting):
            return UNKNOWN
        specification = self._sheet(way.accelerator)
        ideal_s = step_seconds(job, way, specification)
        if not math.isfinite(ideal_s):
            return UNKNOWN
        mean, sd = self.efficiency.ask(job, way, way.accelerator, specification)
        half = NormalDist().inv_cdf((1 + level) / 2) * sd
        middle, lower, upper = (float(f"{math.exp(mean + x) / ideal_s:.6g}") for x in (0.0, -half, half))
        return Estimate(middle, lower, upper, "estimated")

    def _measured(self, one: Measurement) -> Measurement:
        way = self._on_device(one.way)
        return Measurement(way, one.steps_per_second, one.relative_error, one.seconds, one.measured_at, one.source)

    def _on_device(self, way: Way) -> Way:
        """The same way to run under the canonical name of its device, so that two names are one device."""
        return way._replace(accelerator=self._device(way.accelerator))


def _wider(estimate: Estimate, level: float) -> Estimate:
    """The estimate of a model on a device where it is new, with an interval that is wide enough for that."""
    middle, lower, upper, origin = estimate
    if origin != "estimated" or not 0 < lower < upper:
        return estimate
    half = max(NEW_THERE * math.log(upper / lower) / 2, NEW_SD * NormalDist().inv_cdf((1 + level) / 2))
    lower, upper = (float(f"{middle * math.exp(x):.6g}") for x in (-half, half))
    return Estimate(middle, lower, upper, origin)


def _both(a: Estimate, b: Estimate) -> Estimate:
    """Two estimates as one: the mean of logarithms, weighted by precision, and no narrower than their mean width.

    They are not independent, as both follow from the same measurements.
    """
    if a.origin != "estimated" or b.origin != "estimated" or not (0 < a.lower < a.upper and 0 < b.lower < b.upper):
        return a
    widths = math.log(a.upper / a.lower) / 2, math.log(b.upper / b.lower) / 2
    share = widths[1] ** 2 / (widths[0] ** 2 + widths[1] ** 2)
    middle = a.steps_per_second**share * b.steps_per_second ** (1 - share)
    half = share * widths[0] + (1 - share) * widths[1]
    mid, lower, upper = (float(f"{middle * math.exp(x):.6g}") for x in (0.0, -half, half))
    return Estimate(mid, lower, upper, "estimated")


def _named(way: Way) -> NamedJob | None:
    """The job of a name that can be read."""
    try:
        return read_job(way.job_type)
    except JobNameError:
        return None
