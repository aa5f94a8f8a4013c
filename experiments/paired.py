"""Two ways to schedule the same jobs, compared seed by seed: differences, their interval, how likely by chance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.stats import t, wilcoxon

from experiments.points import Record

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Paired:
    """One figure under two conditions: over how many seeds, both means, and each seed's difference.

    ``changes`` are relative, of the seeds in which both completed all jobs; the means are over the same. ``p`` is
    one-sided, for the direction of the mean; None where nothing differs.
    """

    figure: str
    seeds: int
    mean: float | None
    first: float | None
    changes: tuple[float, ...]
    p: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the mean difference lies with a confidence of 95 %, by Student's t; None of a single seed."""
        n = len(self.changes)
        if n < 2:
            return None
        half = stdev(self.changes) / math.sqrt(n) * float(t.ppf((1.0 + CONFIDENCE) / 2.0, n - 1))
        return fmean(self.changes) - half, fmean(self.changes) + half

    def cells(self) -> tuple[str, str, str]:
        """Both means, the difference (least .. largest) and p, as a table shows them; empty of no seed."""
        if self.mean is None or self.first is None:
            return "", "", ""
        spread = f"{fmean(self.changes):+.1%} ({min(self.changes):+.1%} .. {max(self.changes):+.1%})"
        return f"{self.mean:,.1f} / {self.first:,.1f}", spread, "" if self.p is None else f"{self.p:.2g}"


def paired(figure: str, ours: Mapping[int, Record], first: Mapping[int, Record]) -> Paired:
    """The difference in one figure between records by seed, over the seeds that completed every job under both."""
    pairs = [(ours[seed], first[seed]) for seed in sorted(ours.keys() & first.keys())]
    complete = [(a[figure], b[figure]) for a, b in pairs if _is_complete(a) and _is_complete(b)]
    changes = tuple(round(a / b - 1.0, 9) for a, b in complete)  # less is rounding
    unit = 3600.0 if figure.endswith("_s") else 1.0
    mean, mean_first = (fmean(side) / unit for side in zip(*complete, strict=True)) if complete else (None, None)
    return Paired(figure, len(pairs), mean, mean_first, changes, _p(changes))


def _is_complete(record: Record) -> bool:
    return record["jobs_completed"] == record["jobs_total"] and not record["stopped"]


def _p(changes: Sequence[float]) -> float | None:
    """Wilcoxon's signed ranks, for the direction of the mean; None where nothing differs."""
    if not any(changes):
        return None
    return float(wilcoxon(changes, alternative="less" if fmean(changes) < 0 else "greater").pvalue)
