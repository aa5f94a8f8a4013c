"""Speeds of a job type that no table knows: from data sheets alone, then from its first measurements.

The logarithm of the speed on a device a is taken to be

    log T_a = level + b x_a + e_a,      b ~ N(0.75, 0.4²),   e_a ~ N(0, doubt_a²)

where x_a is the logarithm of the device's rate, which is what data sheets say of its speed relative to a V100. A
job that does nothing but compute has b = 1. One that does not use the device has b = 0: then all types are equal.
Without a measurement, level is 0: a step is what a V100 does in a second, so that wall time stands for steps. From
measurements on some devices, level and b follow, and so do the other devices (Bayesian linear regression; Bishop,
"Pattern Recognition and Machine Learning", 2006, section 3.3).

Of a type that has the name of one of today's jobs, or that the table knows on other devices, data sheets and
shipped speeds say more (:func:`foretold_speeds`). The logarithm is foretold_a + level + e_a instead, with a level
that all devices have in common, because most of what is wrong with a roofline is wrong everywhere.

(:mod:`gavelx.estimator.completion` estimates better where other job types were measured on the same devices, and
takes seconds. This takes microseconds, so the scheduler can do it for each event, and again in each replay.)
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from scipy.special import ndtri

from gavelx.accelerators import UNSPECIFIED, DataSheets
from gavelx.estimator.base import LEVEL
from gavelx.estimator.effects import Space
from gavelx.measurements import Estimate
from gavelx.throughputs import Setting

REFERENCE = "v100"
BOUND, BOUND_SD = 0.75, 0.4
"""How much of a job's speed is the device's: of a job that only computes all, of one that only waits nothing."""
LEVEL_SD = 20.0
"""Of the logarithm of a speed in steps/s, before any is measured: it may be anything."""
KNOWN_DOUBT, UNKNOWN_DOUBT = 0.3, 1.0
"""Of the logarithm of a speed, on a device with a data sheet and on one without."""
PROCESSOR = 0.05
"""The rate of a processor's slot."""
MEASURED_ERROR = 0.03
COMMON = 0.75
"""The part of the variance of foretold speeds that a job has in common on all devices, as was measured
(experiments/modern_speeds.py)."""


class Rate(NamedTuple):
    """How fast an accelerator type is, relative to a V100, and the doubt of its logarithm."""

    speed: float = 1.0
    doubt: float = UNKNOWN_DOUBT


def rate_of(accelerator: str, data_sheets: DataSheets) -> Rate:
    """What data sheets say of an accelerator type; 1 with much doubt where they do not know it."""
    if accelerator == "cpu":
        return Rate(PROCESSOR, UNKNOWN_DOUBT)
    if data_sheets.find(accelerator) == UNSPECIFIED:
        return Rate()
    ways = [Setting("any", name) for name in (accelerator, REFERENCE)]
    here, there = Space(ways, data_sheets).cells(ways).prior_N.tolist()
    return Rate(math.exp(here - there), KNOWN_DOUBT)


def untold_speeds(
    rates: Mapping[str, Rate],
    measured: Mapping[str, tuple[float, float]],
    *,
    exact: bool = True,
    before: "_Fit | None" = None,
) -> dict[str, Estimate]:
    """The speed of a job type on each device with a rate, from ``measured`` ones: steps/s and relative error.

    Measured ones stay as they are and are left out, unless they are not ``exact``: then they count by their
    errors, beside what the others say. Speeds of 0 say where the job cannot run, and nothing of how fast it is.
    """
    known = {name: value for name, value in measured.items() if value[0] > 0 and name in rates}
    missing = rates.keys() - (measured.keys() if exact else measured.keys() - known.keys())
    before = before or _Fit(0.0, BOUND, LEVEL_SD**2 if known else 0.0, 0.0, BOUND_SD**2)
    fit = _fitted(before, rates, known)
    return {
        name: (_fitted(before, rates, known, without=name) if name in known else fit).estimate(
            rate, known.get(name)
        )
        for name, rate in rates.items()
        if name in missing
    }


def foretold_speeds(
    rates: Mapping[str, Rate],
    measured: Mapping[str, tuple[float, float]],
    foretold: Mapping[str, Estimate],
) -> dict[str, Estimate]:
    """The same as :func:`untold_speeds`, of a job type of which data sheets say more (``foretold``), and exact.

    Devices of which they say nothing follow from the others, as if those were measured with large errors.
    """
    running = {name: one for name, one in foretold.items() if name in rates and one.steps_per_second > 0}
    sd = {name: _sd(one) for name, one in running.items()}
    own = {name: Rate(one.steps_per_second, sd[name] * math.sqrt(1 - COMMON)) for name, one in running.items()}
    common = COMMON * max(sd.values(), default=0.0) ** 2
    found = untold_speeds(own, measured, before=_Fit(0.0, 1.0, common, 0.0, 0.0))
    rough = {name: (one.steps_per_second, sd[name]) for name, one in running.items()}
    others = untold_speeds(rates, rough | dict(measured))
    never = {name: one for name, one in foretold.items() if name not in running and name in rates}
    return {**others, **found, **{name: one for name, one in never.items() if name not in measured}}


def _sd(one: Estimate) -> float:
    """The standard deviation of the logarithm of an estimated speed; a measured one has a little."""
    return max(MEASURED_ERROR, math.log(one.upper / one.lower) / 2 / float(ndtri(0.5 + LEVEL / 2)))


def _fitted(
    before: "_Fit", rates: Mapping[str, Rate], known: Mapping[str, tuple[float, float]], without: str = ""
) -> "_Fit":
    fit = before
    for name, (speed, error) in known.items():
        if name != without:
            fit = fit.after(rates[name], speed, max(error, MEASURED_ERROR))
    return fit


class _Fit(NamedTuple):
    """Level and b: their means, their variances and their covariance."""

    level: float
    bound: float
    level_variance: float
    both: float
    bound_variance: float

    def after(self, rate: Rate, speed: float, error: float) -> "_Fit":
        """The fit after one more measurement."""
        x = math.log(rate.speed)
        with_level, with_bound = self.level_variance + x * self.both, self.both + x * self.bound_variance
        total = with_level + x * with_bound + rate.doubt**2 + error**2
        surprise = (math.log(speed) - self.level - x * self.bound) / total
        return _Fit(
            self.level + with_level * surprise,
            self.bound + with_bound * surprise,
            self.level_variance - with_level**2 / total,
            self.both - with_level * with_bound / total,
            self.bound_variance - with_bound**2 / total,
        )

    def estimate(self, rate: Rate, seen: tuple[float, float] | None = None) -> Estimate:
        """The speed on a device, which was ``seen`` there with a relative error or not at all."""
        x = math.log(rate.speed)
        middle = self.level + x * self.bound
        variance = max(0.0, self.level_variance + 2 * x * self.both + x**2 * self.bound_variance) + rate.doubt**2
        if seen is not None:
            weight = variance / (variance + seen[1] ** 2)
            middle += weight * (math.log(seen[0]) - middle)
            variance *= 1.0 - weight
        half = float(ndtri(0.5 + LEVEL / 2)) * math.sqrt(variance)
        return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half), "estimated")
