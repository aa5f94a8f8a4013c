"""Run a benchmark: pairs of answers to fresh instances, ours after theirs after ours, and what they amount to.

A pair counts only if both answers are feasible and their objectives, recomputed by one function, agree.
"""

import gc
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.families import Benchmark, Size
from benchmarks.instances import Instance
from benchmarks.sides import Answer, Side
from gavelx.errors import PolicyError

AGREE = 1e-5
"""Relative difference of the objectives beyond which a pair is wrong."""
FEASIBLE = 1e-6
"""Relative violation beyond which an answer is no answer; interior points keep constraints to about 1e-8."""


@dataclass(frozen=True)
class Pair:
    """One instance answered by both sides.

    ``difference`` is (ours - published) / published, of objectives; ``freedom`` how much better (relative) the
    objective would be with unlimited devices: 0 would mean that capacity does not bind. ``wrong`` says why the
    pair does not count.
    """

    seed: int
    published_s: float
    ours_s: float
    published_objective: float
    ours_objective: float
    difference: float
    freedom: float | None
    used: float | None
    violation: float
    gap: float | None
    peak_mb: float | None
    warnings: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.published_s / self.ours_s


@dataclass
class Row:
    """A benchmark at one size; ``failed`` says why there is no (further) pair."""

    name: str
    says: str
    size: str
    against: str
    published: str
    ours: str
    target: float | None
    exact: bool
    pairs: list[Pair] = field(default_factory=list)
    failed: str = ""

    @property
    def wrong(self) -> list[str]:
        """What is wrong with the pairs, each complaint once."""
        return sorted({text for pair in self.pairs for text in pair.wrong})

    def median(self, figure: str) -> float:
        return float(median(getattr(pair, figure) for pair in self.pairs))

    def to_json(self) -> dict[str, Any]:
        summary: dict[str, Any] = {}
        if self.pairs:
            ratios = [pair.ratio for pair in self.pairs]
            summary = {f"{figure}_median": self.median(figure) for figure in ("published_s", "ours_s", "ratio")}
            summary |= {"ratio_min": min(ratios), "ratio_max": max(ratios), "wrong": self.wrong}
            summary["pairs"] = [{**asdict(pair), "ratio": pair.ratio} for pair in self.pairs]
        return {**asdict(self), **summary}


def run(benchmark: Benchmark, size: Size, pairs: int, budget_s: float, first_seed: int = 1) -> Row:
    """So many pairs, or as many as are begun within the budget; at least one."""
    row = Row(
        name=benchmark.name,
        says=benchmark.says,
        size=text_of(size),
        against=text_of(benchmark.against(size)),
        published=benchmark.published.name,
        ours=benchmark.ours.name,
        target=benchmark.targets.get(size),
        exact=benchmark.exact,
    )
    begin = time.perf_counter()
    try:
        benchmark = replace(benchmark, ours=_within(benchmark.ours, budget_s))
        _warm_up(benchmark)
        for seed in range(first_seed, first_seed + pairs):
            if row.pairs and time.perf_counter() - begin > budget_s:
                say(f"  budget of {budget_s:g} s is spent after {len(row.pairs)} pairs")
                break
            row.pairs.append(_pair(benchmark, size, seed))
            say(f"  pair {seed}: {_in_short(row.pairs[-1])}")
    except PolicyError as error:  # there is no such policy (yet)
        row.failed = f"skipped: {error}".partition(";")[0]
    except subprocess.TimeoutExpired as error:
        row.failed = f"not done in {error.timeout:g} s"
    except Exception as error:  # a benchmark that fails must not end the others
        row.failed = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    if row.failed:
        say(f"  {row.failed}")
    return row


def _within(side: Side, budget_s: float) -> Side:
    return side if side.within is None else side.within(budget_s)


def _warm_up(benchmark: Benchmark) -> None:
    """One untimed answer each to a small instance: imports and first uses are no part of the comparison."""
    instance = benchmark.make(benchmark.warm, 0)
    for side in (benchmark.published, benchmark.ours):
        _answer(side, instance)


def _answer(side: Side, instance: Instance) -> tuple[Answer, float, tuple[str, ...]]:
    """The answer, its seconds, and what the side warned of."""
    ready = side.ready(instance)
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        raw = side.solve(ready)
        seconds = time.perf_counter() - start
    answer = side.read(instance, raw)
    warned = tuple(sorted({str(warning.message).partition(".")[0] for warning in caught}))
    return answer, seconds if answer.seconds is None else answer.seconds, warned


def _pair(benchmark: Benchmark, size: Size, seed: int) -> Pair:
    smaller = benchmark.against(size)
    theirs_of, ours_of = (benchmark.make(smaller, seed), benchmark.make(size, seed))
    theirs, published_s, warned = _answer(benchmark.published, theirs_of)
    ours, ours_s, _ = _answer(benchmark.ours, ours_of)
    same = ours if smaller == size else _answer(benchmark.ours, theirs_of)[0]
    there = benchmark.objective(theirs_of, theirs.value)
    here = benchmark.objective(theirs_of, same.value)
    difference = (here - there) / max(1e-300, abs(there))
    freedom = None if benchmark.speed is None else _freedom(benchmark, theirs_of, there)
    violation = max(ours.violation, same.violation)
    return Pair(
        seed=seed,
        published_s=published_s,
        ours_s=ours_s,
        published_objective=there,
        ours_objective=here,
        difference=difference,
        freedom=freedom,
        used=theirs.used,
        violation=violation,
        gap=ours.gap,
        peak_mb=ours.peak_mb,
        warnings=warned,
        wrong=_complaints(benchmark, difference, freedom, max(violation, theirs.violation), ours),
    )


def _freedom(benchmark: Benchmark, instance: Instance, objective: float) -> float:
    """How far the objective is from that with every job alone on its best type: more than 0 if capacity binds."""
    assert benchmark.speed is not None
    speed_JA = benchmark.speed(instance)
    best_JA = np.zeros_like(speed_JA)
    best_JA[np.arange(len(speed_JA)), speed_JA.argmax(axis=1)] = 1.0
    return abs(benchmark.objective(instance, best_JA) - objective) / max(1e-300, abs(objective))


def _complaints(
    benchmark: Benchmark, difference: float, freedom: float | None, violation: float, ours: Answer
) -> tuple[str, ...]:
    found = {
        f"objectives differ by {difference:.1e}": benchmark.exact and not abs(difference) <= AGREE,
        "capacity does not bind": freedom is not None and freedom <= AGREE,
        f"a constraint is violated by {violation:.1e}": violation > FEASIBLE,
        "no proven gap, or too wide a one": benchmark.gap_max is not None
        and not (ours.gap is not None and ours.gap <= benchmark.gap_max),
        f"{ours.peak_mb} MB of memory": benchmark.peak_mb_max is not None
        and not (ours.peak_mb is not None and ours.peak_mb <= benchmark.peak_mb_max),
    }
    return tuple(text for text, is_so in found.items() if is_so)


def _in_short(pair: Pair) -> str:
    wrong = f" WRONG: {'; '.join(pair.wrong)}" if pair.wrong else ""
    return f"{pair.published_s:.4g} s / {pair.ours_s:.4g} s = {pair.ratio:.1f}x, {pair.difference:+.1e}{wrong}"


def text_of(size: Size) -> str:
    return "x".join(str(number) for number in size)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
