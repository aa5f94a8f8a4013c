"""Sparse, narrow and small tables of jobs alone: `completion` beside a plain Gaussian process.

    python -m experiments.estimation.sparse [--profiles FOLDER] [--draws 5] [--random 300] [--first 0] [--tiny]

FOLDER has ``modern.csv`` and ``profiles_elastic.csv``: public measurements that are not shipped, because some
state no licence; without it, only made and shipped tables are used. ``sparse_tables`` has the tables,
``SimpleProcess`` the process.

Writes sparse.json and SPARSE.md into ``results``: of each table, over all draws, the median error, the 90th
percentile and the share of hidden cells in 90 % intervals; of tables drawn at random, the mean over tables and the
ratio of the two estimators' median errors. Processor time is that of one table, on one core.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from experiments.estimation.baselines.simple_process import SimpleProcess
from experiments.estimation.sparse_tables import Case, cases, drawn_at_random
from experiments.experiment import markdown_table
from gavelx.accelerators import DataSheets
from gavelx.estimator import Estimator
from gavelx.estimator.completion import Completion
from gavelx.files.atomic import write_atomically
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Measurement

RESULTS = Path(__file__).parent / "results"
LEVEL, HIDDEN_MIN = 0.9, 5
MAKERS: Mapping[str, Callable[[DataSheets], Estimator]] = {
    "completion": Completion,
    "simple_process": SimpleProcess,
}
SIZES = ((0, 20), (20, 60), (60, 200), (200, 10**6))


@dataclass(frozen=True)
class Score:
    """One estimator on one table: errors and hits of its hidden cells."""

    table: str
    draw: int
    estimator: str
    known: int
    errors: list[float]
    hits: list[bool]
    seconds: float


def score(table: str, draw: int, case: Case) -> list[Score]:
    """Both estimators on one table."""
    hidden, found = case.hidden, []
    for name, make in MAKERS.items():
        began_s = time.process_time()
        estimator = make(load_data_sheets())
        estimator.observe(Measurement(way, case.truth[way]) for way in sorted(case.known))
        answers = estimator.estimate(hidden, LEVEL)
        seconds = time.process_time() - began_s
        errors = [
            abs(one.steps_per_second / case.truth[way] - 1) for way, one in zip(hidden, answers, strict=True)
        ]
        hits = [one.lower <= case.truth[way] <= one.upper for way, one in zip(hidden, answers, strict=True)]
        found.append(Score(table, draw, name, len(case.known), errors, hits, seconds))
    return found


def named_rows(scores: Sequence[Score]) -> list[list[str]]:
    """A row for each table, cells of all draws together."""
    rows = []
    for table in dict.fromkeys(one.table for one in scores):
        row = [table]
        for name in MAKERS:
            some = [one for one in scores if (one.table, one.estimator) == (table, name)]
            errors, hits = (np.concatenate([getattr(one, key) for one in some]) for key in ("errors", "hits"))
            if len(row) == 1:
                row.append(f"{len(errors):,}")
            seconds = np.mean([one.seconds for one in some])
            row.append(
                f"{np.median(errors):.1%}, {np.quantile(errors, 0.9):.0%}; {hits.mean():.0%}; {seconds:.2f} s"
            )
        rows.append(row)
    return rows


def random_rows(scores: Sequence[Score]) -> list[list[str]]:
    """A row for tables of each size, and one for all."""
    rows = []
    for low, high in (*SIZES, (0, 10**6)):
        of = {
            name: [one for one in scores if one.estimator == name and low <= one.known < high] for name in MAKERS
        }
        if not of["completion"]:
            continue
        medians = {name: np.array([np.median(one.errors) for one in some]) for name, some in of.items()}
        ratio = np.log(np.maximum(medians["completion"], 1e-4) / np.maximum(medians["simple_process"], 1e-4))
        title = f"{low} to {high - 1}" if high < 10**6 else (f"{low} and more" if low else "all")
        row = [title, str(len(ratio))]
        for name, some in of.items():
            cells = np.concatenate([one.hits for one in some]).mean()
            held = np.mean([np.mean(one.hits) for one in some])
            row.append(f"{np.median(medians[name]):.1%}; {held:.0%} ({cells:.0%})")
        rows.append([*row, f"{np.exp(ratio.mean()):.2f}"])
    return rows


def report(named: Sequence[Score], drawn: Sequence[Score]) -> str:
    """The page."""
    names = [f"`{name}`" for name in MAKERS]
    parts = [
        "# Sparse, narrow and small tables",
        "Made by `python -m experiments.estimation.sparse`. Median error, 90th percentile; share of hidden "
        "cells in 90% intervals; processor time of a table. Hidden cells are of job types "
        "that are known somewhere.",
        markdown_table(["table (known)", "hidden cells", *names], named_rows(named)),
        "## Tables drawn at random",
        "By the number of known cells. The median over tables of the median error; the share in 90% intervals, as "
        "the mean over tables (over cells); the ratio of the two median errors, as the geometric mean over "
        "tables.",
        markdown_table(["known cells", "tables", *names, "ratio"], random_rows(drawn)),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Score, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profiles", type=Path, metavar="FOLDER", help="of modern.csv and profiles_elastic.csv")
    parser.add_argument("--draws", type=int, default=5, help="draws of each table by name")
    parser.add_argument("--random", type=int, default=300, help="number of tables drawn at random")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--tiny", action="store_true", help="one draw of two tables and four at random")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    folder, by_name, seeds = (
        options.profiles,
        cases(options.profiles),
        range(options.first, options.first + options.draws),
    )
    if options.tiny:
        by_name, seeds, options.random = dict(list(by_name.items())[5:7]), range(1), 4
    named = [
        one
        for table, make in by_name.items()
        for seed in seeds
        for one in score(table, seed, make(_random(seed, 1)))
    ]
    drawn = [
        one
        for seed in range(options.first, options.first + options.random)
        for case in [drawn_at_random(_random(seed, 2), folder)]
        if len(case.hidden) >= HIDDEN_MIN
        for one in score("at random", seed, case)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "sparse.json", _lines([*named, *drawn]))
    write_atomically(options.out / "SPARSE.md", report(named, drawn))
    return 0


def _random(seed: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose])


def _lines(scores: Sequence[Score]) -> str:
    """A JSON list with a score on each line."""
    return "[\n" + ",\n".join(json.dumps(_summary(one)) for one in scores) + "\n]\n"


def _summary(one: Score) -> dict[str, object]:
    """A score with its median error and coverage in place of single cells."""
    figures = {
        "cells": len(one.errors),
        "median_error": round(float(np.median(one.errors)), 4),
        "coverage": round(float(np.mean(one.hits)), 4),
    }
    kept = {key: value for key, value in asdict(one).items() if key not in ("errors", "hits", "seconds")}
    return {**kept, **figures, "seconds": round(one.seconds, 3)}


if __name__ == "__main__":
    raise SystemExit(main())
