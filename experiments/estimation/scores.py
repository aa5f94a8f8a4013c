"""Estimators asked for hidden cells, and how well they did."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from experiments.estimation.baselines import estimator_of
from experiments.estimation.hiding import chosen, hidings, truth_of
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Measurement, Way
from gavelx.throughputs import Pairing

SHARES, FEW_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9), (0.3,)
LEVEL = 0.9
Run = tuple[list[float], list[bool], float]
"""Errors, whether the interval held the truth, and seconds."""
Key = tuple[str, str, str, str]
"""Table, regime, kind of cells, estimator."""


@dataclass(frozen=True)
class Score:
    """One estimator, over all seeds of one way to hide, alone or in pairs."""

    table: str
    regime: str
    kind: str
    estimator: str
    cells: int
    median_error: float
    p90_error: float
    coverage: float
    seconds: float


def score(tables: Sequence[str], names: Sequence[str], seeds: Sequence[int], tiny: bool) -> list[Score]:
    """Every estimator in every way to hide; cells of all seeds are taken together."""
    found, together = dict[Key, list[Run]](), dict[Key, list[Run]]()
    for table in tables:
        truth = truth_of(table, tiny)
        drawn = (hidings(truth, seed, FEW_SHARES if tiny else SHARES) for seed in seeds)
        for hidden in chain(*drawn, chosen(truth)):
            for name in names:
                for kind, one in _one(truth, hidden.known, name).items():
                    found.setdefault((table, hidden.regime, kind, name), []).append(one)
                    if hidden.case_of:
                        together.setdefault((table, hidden.case_of, kind, name), []).append(one)
            print(table, hidden.regime, file=sys.stderr, flush=True)
    return [_score(key, runs) for key, runs in (found | together).items()]


def _one(truth: Mapping[Way, float], known: set[Way], name: str) -> dict[str, Run]:
    """Errors and hits of one estimator on one table, of cells alone and in pairs."""
    wanted = [way for way, speed in truth.items() if way not in known and speed > 0]
    began_s = time.perf_counter()
    estimator = estimator_of(name, load_data_sheets())
    estimator.observe(Measurement(way, truth[way]) for way in truth if way in known)
    answers = estimator.estimate(wanted, LEVEL)
    seconds = time.perf_counter() - began_s
    found: dict[str, Run] = {}
    for way, (middle, lower, upper, _) in zip(wanted, answers, strict=True):
        errors, hits, _ = found.setdefault("pairs" if isinstance(way, Pairing) else "alone", ([], [], seconds))
        errors.append(abs(middle / truth[way] - 1.0))
        hits.append(lower <= truth[way] <= upper)
    return found


def _score(key: Key, runs: Sequence[Run]) -> Score:
    table, regime, kind, name = key
    errors, hits = (np.concatenate(column) for column in list(zip(*runs, strict=True))[:2])
    median, p90 = (round(float(np.quantile(errors, share)), 4) for share in (0.5, 0.9))
    seconds = round(max(run[2] for run in runs), 2)
    return Score(table, regime, kind, name, len(errors), median, p90, round(float(np.mean(hits)), 4), seconds)
