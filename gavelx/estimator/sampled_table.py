"""Throughput tables drawn at random from the ranges of estimated speeds: how much do figures depend on them?

The logarithm of an estimated speed is Normal, and its range is the interval of the given level. Errors of
estimates are not independent: a device that is faster than estimated for one job is faster for others too.
The standardised error of a speed is therefore a sum of three:

    z  =  sqrt(DEVICE) z(accelerator type)  +  sqrt(JOB) z(accelerator type, job type)  +  sqrt(OWN) z(way to run)

``experiments.modern_speeds`` measures the shares on held-out speeds; for the device more is taken than it finds.
"""

import math
import zlib
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from gavelx.estimator.base import LEVEL
from gavelx.measurements import Way
from gavelx.throughputs import Pairing, Setting, Throughputs

DEVICE, JOB = 0.2, 0.5
"""Shares of an error's variance: common to all jobs on an accelerator type, and to all widths of a job there."""
OWN = 1.0 - DEVICE - JOB


def sampled(table: Throughputs, seed: int, level: float = LEVEL) -> Throughputs:
    """The table with each estimated speed drawn from its range, and no ranges; the same for the same seed.

    A draw depends on names and seed alone, so the same job type gets the same speed in every run.
    """
    half_width = NormalDist().inv_cdf((1 + level) / 2)
    speed_of = {}
    for way, (lower, upper) in table.ranges.items():
        middle = table.isolated[way] if isinstance(way, Setting) else table.colocated[way]
        z = _error(way, seed)
        end = upper if z > 0 else lower
        if middle > 0 and end > 0:
            speed_of[way] = middle * math.exp(abs(z) / half_width * math.log(end / middle))
    isolated = {way: speed_of.get(way, speed) for way, speed in table.isolated.items()}
    colocated = {way: speed_of.get(way, speed) for way, speed in table.colocated.items()}
    return replace(table, isolated=isolated, colocated=colocated, ranges={})


def _error(way: Way, seed: int) -> float:
    job = f"{way.job_type} beside {way.partner}" if isinstance(way, Pairing) else way.job_type
    shares = ((DEVICE, way.accelerator), (JOB, f"{way.accelerator}/{job}"), (OWN, repr(way)))
    return sum(math.sqrt(share) * _normal(seed, name) for share, name in shares)


def _normal(seed: int, name: str) -> float:
    return float(np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal())
