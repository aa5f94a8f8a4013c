"""Intervals of a run's figures, from repetitions with speeds drawn from the ranges of the estimated ones."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from gavelx.estimator.base import LEVEL
from gavelx.result import Intervals

USAGE = "usage"
"""The device time of a repetition, beside its figures."""
NOT_FIGURES = {"jobs_total", "rounds", "policy_seconds", "wall_seconds", "speed_samples"}


def intervals_of(
    figures: Mapping[tuple[int, int], Mapping[str, Any]], level: float = LEVEL
) -> dict[int, Intervals]:
    """The intervals of each policy by its position, from the figures of (position, sample).

    The ends are quantiles at (1 - level) / 2 from either side, the k-th least of n values counting as the quantile
    k / (n + 1); so 19 samples are the fewest whose least and largest value are a 90 % interval. Of fewer, these
    two are given, and the level that they have.
    """
    of: dict[int, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for (position, sample), summary in figures.items():
        of[position][sample] = summary
    best = _best(of)
    return {
        position: Intervals(
            _bounds(list(runs.values()), level),
            len(runs),
            min(level, (len(runs) - 1) / (len(runs) + 1)),
            best.get(position),
            tuple(run[USAGE] for _, run in sorted(runs.items()) if USAGE in run),
        )
        for position, runs in of.items()
    }


def _bounds(summaries: list[Mapping[str, Any]], level: float) -> dict[str, tuple[float, float]]:
    ends = (1 - level) / 2, (1 + level) / 2
    found = {}
    for name in summaries[0]:
        values = [summary.get(name) for summary in summaries]
        numbers = [value for value in values if isinstance(value, int | float)]
        if name not in NOT_FIGURES and len(numbers) == len(values):
            low, high = np.quantile(numbers, ends, method="weibull").tolist()
            found[name] = (float(low), float(high))
    return found


def _best(of: Mapping[int, Mapping[int, Mapping[str, Any]]]) -> dict[int, float]:
    """The part of the samples in which each policy has the lowest mean JCT; ties count for each."""
    if len(of) < 2:
        return {}
    samples = set.intersection(*(set(runs) for runs in of.values()))
    won = dict.fromkeys(of, 0)
    for sample in samples:
        means = {position: runs[sample]["jct_mean_s"] for position, runs in of.items()}
        least = min((mean for mean in means.values() if mean is not None), default=None)
        for position, mean in means.items():
            won[position] += mean is not None and mean == least
    return {position: count / len(samples) for position, count in won.items()} if samples else {}
