"""Widths of intervals with the right coverage, from measured cells that were left out.

The logarithm of a speed is near normal, but its errors have heavier tails than a normal, and the variances of a
model fitted to few measurements are uncertain. So each measured cell is predicted from all others; z is its error
in standard deviations, and the quantile of |z| replaces the normal's: split conformal prediction (Vovk, Gammerman
and Shafer, "Algorithmic Learning in a Random World", 2005) with leave-one-out scores.

Cells left out one by one have near neighbours, cells of an unmeasured device have none. The variance between
devices is known from few examples, so the additional uncertainty of such a cell is Student's:

    half width^2 = q^2 min(sd^2, u^2) + t^2 (sd^2 - min(sd^2, u^2))

with u the median standard deviation of the cells left out, q their quantile and t Student's. Its degrees of
freedom are two and the number of examples: the other devices and the job types that were measured on this one, or
a tenth of all measured cells where these are fewer.

If many job types were measured on a device, only new job types are uncertain there. So each job type is left out
as a whole, except two cells, and the more there are (beyond EXAMPLES), the nearer t is to the quantile of these
errors.

If there are many errors on the same device, these are used: intervals should have the right coverage on each
device, not only on all together ("Mondrian" prediction, ibidem, section 4.5). q and u start from Student's t, with
two degrees of freedom and a tenth of all measured cells (variances fitted to few cells are uncertain), and from 0;
they move to those of all devices, then to those of this one; PRIOR cells take them half-way.

The noise of pairs on a device with few pairs is uncertain itself, and enters larger (``inflation``).
"""

from collections.abc import Iterable
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

from gavelx.estimator.gaussian_process import Errors, Floats

PRIOR = 10
CELLS = 10
"""The number of measured cells that tell as much of variances as one example."""
PRIOR_SHAPE = 1.0
"""Of the inverse gamma that a variance of noise is taken to have before any measurement."""
EXAMPLES = 2
"""The weight of prior knowledge of devices, as a number of examples."""


def half_widths(
    sd_M: Floats,
    examples_and_cells: tuple[float, float],
    left_out: Iterable[Errors],
    jobs_left_out: tuple[Errors, int],
    level: float,
) -> Floats:
    """Half the width of each wanted interval, in the unit of sd.

    ``examples_and_cells`` are the number of examples for the device, and that of all measured cells, alone and in
    pairs.
    ``left_out`` are errors and standard deviations of cells left out one by one, the most similar cells last;
    ``jobs_left_out`` are those of whole job types, with their number.
    """
    upper, (examples, cells) = (1 + level) / 2, examples_and_cells
    q, u = float(stdtrit(EXAMPLES + cells / CELLS, upper)), 0.0
    for errors in left_out:
        if N := len(errors):
            weight = N / (N + PRIOR)
            q += weight * (errors.quantile(level) - q)
            u += weight * (float(np.median(errors.sd_N)) - u)
    errors, jobs = jobs_left_out
    t = float(stdtrit(EXAMPLES + min(examples, cells / CELLS), upper))
    if jobs > EXAMPLES:
        t += (jobs - EXAMPLES) / (jobs - EXAMPLES + PRIOR) * (errors.quantile(level) - t)
    like_M = np.minimum(sd_M**2, u**2)
    half_M: Floats = np.sqrt(q**2 * like_M + t**2 * (sd_M**2 - like_M))
    return half_M


def inflation(told_G: Floats, level: float) -> Floats:
    """The factor by which a variance counts in intervals, given the number of cells that it is known from.

    If a variance is inverse gamma of shape a and mode v, an error is Student's t with 2 a degrees of freedom and a
    scale of sqrt((a + 1) v / a), so this is (a + 1) / a (t / z)^2, where a = PRIOR_SHAPE + cells / 2 (Gelman and
    others, "Bayesian Data Analysis", 2013, section 3.2): 6 without any cell, at a level of 90 %.
    """
    upper = (1 + level) / 2
    shape_G = PRIOR_SHAPE + told_G / 2
    t_G: Floats = stdtrit(2 * shape_G, upper)
    return (shape_G + 1) / shape_G * (t_G / NormalDist().inv_cdf(upper)) ** 2
