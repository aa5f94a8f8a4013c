"""How wide an interval has to be to hold what it says, read off measured cells that were left out.

The logarithm of a speed is near normal, but its errors have heavier tails than a normal, and a model fitted to few
measurements is not sure of its own variances. So each measured cell is predicted from all others; z is its error
in standard deviations, and the quantile of |z| takes the place of the normal's: split conformal prediction (Vovk,
Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005) with leave-one-out scores.

Cells left out one by one have near neighbours, cells of a device that nobody measured have none. How far devices
differ is known from few examples, so what a wanted cell is less sure of than cells left out is Student's:

    half width^2 = q^2 min(sd^2, u^2) + t^2 (sd^2 - min(sd^2, u^2))

with u the median standard deviation of the cells left out, q their quantile and t Student's. Its degrees of
freedom are the examples that there are: the other devices, the job types that were measured on this one, and two.
Where many job types were measured on a device it is new job types that are unsure there. So each is left out as a
whole, but for two cells, and the more of them there are (beyond EXAMPLES) the nearer t is to the quantile of these
errors.

The errors that count are those on the same device, where there are many: intervals are to hold what they say on
each device, not only on all together ("Mondrian" prediction, ibidem, section 4.5). Few say little: q and u begin
as z, the normal's, and 0, go to those of all devices, then to those of this one; PRIOR cells take them half-way.

The noise of pairs on a device on which few were seen is hardly known itself, and counts for more (``inflation``).
"""

from collections.abc import Iterable
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

from gavelx.estimator.gaussian_process import PRIOR_SHAPE, Errors, Floats

PRIOR = 10
EXAMPLES = 2
"""What is known of devices beforehand counts as so many."""


def half_widths(
    sd_M: Floats, examples: float, left_out: Iterable[Errors], jobs_left_out: tuple[Errors, int], level: float
) -> Floats:
    """Half the width of each wanted interval, in the unit of sd.

    ``left_out`` are errors and standard deviations of cells left out one by one, those that are most alike last;
    ``jobs_left_out`` those of so many whole job types.
    """
    upper = (1 + level) / 2
    q, u = NormalDist().inv_cdf(upper), 0.0
    for errors in left_out:
        if N := len(errors):
            weight = N / (N + PRIOR)
            q += weight * (errors.quantile(level) - q)
            u += weight * (float(np.median(errors.sd_N)) - u)
    errors, jobs = jobs_left_out
    t = float(stdtrit(EXAMPLES + examples, upper))
    if jobs > EXAMPLES:
        t += (jobs - EXAMPLES) / (jobs - EXAMPLES + PRIOR) * (errors.quantile(level) - t)
    like_M = np.minimum(sd_M**2, u**2)
    half_M: Floats = np.sqrt(q**2 * like_M + t**2 * (sd_M**2 - like_M))
    return half_M


def inflation(told_G: Floats, level: float) -> Floats:
    """How many times its most likely value a variance counts in intervals, known from so many cells' worth.

    If a variance is inverse gamma of shape a and mode v, an error is Student's t with 2 a degrees of freedom and a
    scale of sqrt((a + 1) v / a), so this is (a + 1) / a (t / z)^2, where a = PRIOR_SHAPE + cells / 2 (Gelman and
    others, "Bayesian Data Analysis", 2013, section 3.2): 6 times where nothing was seen, at a level of 90 %.
    """
    upper = (1 + level) / 2
    shape_G = PRIOR_SHAPE + told_G / 2
    t_G: Floats = stdtrit(2 * shape_G, upper)
    return (shape_G + 1) / shape_G * (t_G / NormalDist().inv_cdf(upper)) ** 2
