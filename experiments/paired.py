"""Two ways to schedule the same jobs, compared seed by seed: differences, their interval, and how likely by chance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.stats import t, wilcoxon

from experiments.points import Record
from experiments.store import Store

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Paired:
    """One figure under two conditions: over how many seeds, both means, and each seed's relative difference.

    ``changes`` are of the seeds in which both completed all jobs; the means are over the same. ``p`` is one-sided,
    by Wilcoxon's signed ranks, for the direction of the mean; None where nothing differs.
    """

    figure: str
    seeds: int
    mean: float | None
    first: float | None
    changes: tuple[float, ...]
    p: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the mean difference lies with a confidence of 95 %, by Student's t; None of less than two seeds."""
        if len(self.changes) < 2:
            return None
        half = (
            stdev(self.changes)
            / math.sqrt(len(self.changes))
            * float(t.ppf((1 + CONFIDENCE) / 2, len(self.changes) - 1))
        )
        return fmean(self.changes) - half, fmean(self.changes) + half


def paired(figure: str, ours: Mapping[int, Record], first: Mapping[int, Record]) -> Paired:
    """The difference in a figure of records by seed, over the seeds in which both completed every job."""
    both = [(ours[seed], first[seed]) for seed in sorted(ours.keys() & first.keys())]
    complete = [(a[figure], b[figure]) for a, b in both if all(_is_complete(one) for one in (a, b))]
    changes = tuple(round(a / b - 1.0, 9) for a, b in complete)  # less is rounding
    unit = 3600.0 if figure.endswith("_s") else 1.0
    mean, mean_first = (fmean(side) / unit for side in zip(*complete, strict=True)) if complete else (None, None)
    return Paired(figure, len(both), mean, mean_first, changes, _p(changes))


def by_seed(store: Store, point_of_seed: object, seeds: Sequence[int]) -> dict[int, Record]:
    raise NotImplementedError


def _is_complete(record: Record) -> bool:
    return record["jobs_completed"] == record["jobs_total"] and not record["stopped"]


def _p(changes: Sequence[float]) -> float | None:
    if not any(changes):
        return None
    return float(wilcoxon(changes, alternative="less" if fmean(changes) < 0 else "greater").pvalue)
