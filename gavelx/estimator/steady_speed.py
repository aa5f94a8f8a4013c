"""From step counts to a speed: warm-up removed, steady state checked, interval by batch means; or a rejection.

A job reports its number of steps from time to time. Its speed is the steady rate after the warm-up:

1. impossible samples are rejected; if the count goes back, the job was restarted, and the longest stretch is used;
2. the time until the first step is part of the start, and is left out;
3. the rest is divided into blocks of equal time, whose speeds are r_1 .. r_n; of these the first d are warm-up,
   d <= n/2 being what minimises the standard error of the mean of the rest, S²(d) / (n - d)²  (MSER, White 1997,
   "An effective truncation heuristic for bias reduction in simulation output"; batches of time instead of its
   five observations);
4. the rest is steady unless its two halves differ, by Welch's test and by more than ``DRIFT``;
5. the standard error is that of at most ``BATCHES`` batch means (Schmeiser 1982, "Batch size effects in the
   analysis of simulation output": between 10 and 30 batches), with Student's t for their small number.

Blocks of one run do not show the variation between starts; :func:`together` does (Kalibera and Jones 2013,
"Rigorous benchmarking in reasonable time": repeat at the highest level that varies).
"""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from scipy.special import ndtri, stdtrit

LEVEL = 0.9
BLOCKS = 60
BLOCKS_MIN = 5
BATCHES = 20
DRIFT = 0.1
"""Halves whose relative difference is smaller count as steady, even if the difference is significant."""
SURE = 0.999
"""Confidence level at which the halves must differ."""
STALLED = 0.5
"""A job without a step for this part of the time is stalled."""
JUMP = 10.0
"""A gap this many times the usual one, at a speed this far from the usual one: the clock jumped."""
RUN_TO_RUN = 0.02
"""Relative variation between starts of one job, if it was not measured by repeating."""


class Sample(NamedTuple):
    """Total steps done at a time on a monotonic clock."""

    time_s: float
    steps: float


class SteadySpeed(NamedTuple):
    """A steady speed in steps/s, its relative standard error, and the stretch that it was measured in."""

    steps_per_second: float
    relative_error: float
    seconds: float
    steps: float
    warm_up_s: float


class Rejected(NamedTuple):
    """No speed could be measured, with a reason that the user can act on."""

    reason: str


def measure(samples: Sequence[Sample], seconds_min: float = 0.0) -> SteadySpeed | Rejected:
    """The steady speed of a run of a job; a steady stretch shorter than ``seconds_min`` is rejected."""
    try:
        _check_possible(samples)
        warm = _from_first_step(samples)
        rates, block_s = _blocks(warm)
        cut = _warm_up(rates)
        kept = rates[cut:]
        _check_steady(kept)
        seconds = len(kept) * block_s
        if seconds < seconds_min:
            raise _UnusableError(f"too short: steady for {seconds:.3g} s; {seconds_min:.3g} s are needed")
        mean = statistics.fmean(kept)
        relative_error = _standard_error(_batches(kept)) / mean
    except _UnusableError as error:
        return Rejected(str(error))
    except ArithmeticError:  # a job may report anything
        return Rejected("the counts are too small or too large to compute with")
    warm_up_s = warm[0].time_s - samples[0].time_s + cut * block_s
    return SteadySpeed(mean, relative_error, seconds, mean * seconds, warm_up_s)


def together(runs: Sequence[SteadySpeed]) -> SteadySpeed:
    """One speed from several starts of the same job: their mean, with an error that includes their variation."""
    speeds = [run.steps_per_second for run in runs]
    mean = statistics.fmean(speeds)
    within = math.sqrt(sum((run.relative_error * run.steps_per_second) ** 2 for run in runs)) / len(runs)
    between = RUN_TO_RUN * mean if len(runs) == 1 else _standard_error(speeds)
    return SteadySpeed(
        mean,
        max(within, between) / mean if len(runs) > 1 else math.hypot(within, between) / mean,
        sum(run.seconds for run in runs),
        sum(run.steps for run in runs),
        statistics.fmean(run.warm_up_s for run in runs),
    )


def interval(speed: float, relative_error: float, level: float = LEVEL) -> tuple[float, float]:
    """The confidence interval of a speed, on a logarithmic scale, so never below 0."""
    factor = math.exp(float(ndtri(0.5 + level / 2)) * relative_error)
    return speed / factor, speed * factor


class _UnusableError(Exception):
    """Why there is no speed."""


def _check_possible(samples: Sequence[Sample]) -> None:
    """Raise :class:`_UnusableError` for samples that no running job can have."""
    for time_s, steps in samples:
        if not (math.isfinite(time_s) and math.isfinite(steps)):
            raise _UnusableError(f"a report is not a number: {steps} steps at {time_s} s")
        if steps < 0:
            raise _UnusableError(f"a negative count: {steps:g} steps")
    for before, after in pairwise(samples):
        if after.time_s < before.time_s:
            raise _UnusableError(f"the clock went back by {before.time_s - after.time_s:.3g} s")
        if after.time_s == before.time_s and after.steps > before.steps:
            raise _UnusableError(f"the clock stood still while {after.steps - before.steps:g} steps were done")


def _from_first_step(samples: Sequence[Sample]) -> list[Sample]:
    """The reports of progress in the longest stretch without a restart."""
    stretch = max(_stretches(samples), key=lambda s: s[-1].time_s - s[0].time_s, default=[])
    warm = [after for before, after in pairwise(stretch) if after.steps > before.steps]
    if not warm:
        raise _UnusableError("no step was done" if stretch else "no step was reported")
    total_s, idle_s = stretch[-1].time_s - warm[0].time_s, stretch[-1].time_s - warm[-1].time_s
    if len(warm) > 1 and idle_s >= STALLED * total_s:
        raise _UnusableError(f"stalled: no step in the last {idle_s:.3g} of {total_s:.3g} s")
    if len(warm) <= BLOCKS_MIN:
        seen = f"{len(warm)} reports of progress in {total_s:.3g} s"
        raise _UnusableError(f"too short: {seen}; {BLOCKS_MIN + 1} are needed")
    _check_uninterrupted(warm)
    return warm


def _stretches(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The samples between restarts: where the count goes back, the job was restarted from its checkpoint."""
    stretches = list[list[Sample]]()
    for sample in samples:
        if not stretches or sample.steps < stretches[-1][-1].steps:
            stretches.append([])
        stretches[-1].append(sample)
    return stretches


def _check_uninterrupted(warm: Sequence[Sample]) -> None:
    """Raise :class:`_UnusableError` if the job was stalled for most of the time, or the clock jumped."""
    gaps = [(after.time_s - before.time_s, after.steps - before.steps) for before, after in pairwise(warm)]
    usual_s, total_s = statistics.median(gap_s for gap_s, _ in gaps), warm[-1].time_s - warm[0].time_s
    usual = statistics.median(steps / gap_s for gap_s, steps in gaps)
    gap_s, steps = max(gaps)
    if gap_s >= max(STALLED * total_s, JUMP * usual_s) and steps * JUMP <= usual * gap_s:
        why = f"{steps:g} steps in {gap_s:.3g} s of {total_s:.3g} s"
        raise _UnusableError(f"stalled, or the clock jumped: {why}")
    gap_s, steps = max(gaps, key=lambda gap: gap[1])
    if steps >= JUMP * max(1.0, usual * max(gap_s, usual_s)):
        why = f"{steps:g} steps in {gap_s:.3g} s, at {usual:.3g} steps/s otherwise"
        raise _UnusableError(f"the clock jumped: {why}")


def _blocks(warm: Sequence[Sample]) -> tuple[list[float], float]:
    """Speeds in blocks of equal time, at most as many as gaps between reports; and a block's length."""
    first_s, last_s = warm[0].time_s, warm[-1].time_s
    n = min(BLOCKS, len(warm) - 1)
    block_s = (last_s - first_s) / n
    edges = [first_s + k * block_s for k in range(n)] + [last_s]
    counts, i = list[float](), 0
    for edge_s in edges:
        while i + 2 < len(warm) and warm[i + 1].time_s < edge_s:
            i += 1
        (a_s, a), (b_s, b) = warm[i], warm[i + 1]
        counts.append(a + (b - a) * min(1.0, max(0.0, (edge_s - a_s) / (b_s - a_s))))
    return [(after - before) / block_s for before, after in pairwise(counts)], block_s


def _warm_up(rates: Sequence[float]) -> int:
    """The number of warm-up blocks: leaving these out, the standard error of the mean of the rest is least."""
    best, best_error = 0, math.inf
    total = squares = 0.0
    center = statistics.median(rates)  # sums of small numbers keep their digits
    for n, rate in enumerate(reversed(rates), 1):
        total, squares = total + (rate - center), squares + (rate - center) ** 2
        error = max(0.0, squares - total**2 / n) / n**2
        if 2 * n >= len(rates) and n >= min(BLOCKS_MIN, len(rates)) and error <= best_error:
            best, best_error = len(rates) - n, error
    return best


def _check_steady(kept: Sequence[float]) -> None:
    """Raise :class:`_UnusableError` if the two halves differ significantly and by more than ``DRIFT``."""
    half = len(kept) // 2
    first, second = kept[:half], kept[half:]
    a, b = statistics.fmean(first), statistics.fmean(second)
    error = math.hypot(*(statistics.stdev(part) / math.sqrt(len(part)) for part in (first, second)))
    if abs(b - a) > max(DRIFT * max(a, b), float(stdtrit(half - 1, SURE)) * error):
        raise _UnusableError(f"no steady state: {a:.3g} steps/s in the first half, {b:.3g} in the second")


def _batches(rates: Sequence[float]) -> list[float]:
    """Means of neighbours, ``BATCHES`` at most."""
    n = min(BATCHES, len(rates))
    edges = [k * len(rates) // n for k in range(n + 1)]
    return [statistics.fmean(rates[a:b]) for a, b in pairwise(edges)]


def _standard_error(values: Sequence[float]) -> float:
    """Standard error of the mean, scaled so that a normal interval is as wide as Student's."""
    tail = 0.5 + LEVEL / 2
    wider = float(stdtrit(len(values) - 1, tail) / ndtri(tail))
    return wider * statistics.stdev(values) / math.sqrt(len(values))
