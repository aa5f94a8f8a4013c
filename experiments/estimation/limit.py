"""How well the speeds on one device can be told from those on two others, by who knows nearly everything.

    python -m experiments.estimation.limit             # a minute or two on one core

Two kinds of evidence, of jobs alone. *On the very cells that they were fitted to*, with nothing hidden:

* a regression on the logarithms of the two other speeds, the number of devices and their placement, of least
  squares and of least absolute errors; of least squares with a constant for each model; and with how much a job
  suffers beside others on the two other devices and how much they suffer from it, as evidence of how busy it
  keeps a device;
* step times: seconds of a step are a weighted sum of those on the two others (Amdahl's law: part of a step takes
  as long on every device), the weights being the best of a grid.

*Of cells that are hidden*: `completion`, for one model at a time, when all other models are known on the device;
and for one job type at a time, when even its model is known there at other batch sizes. What is left is particular
to each model, and hardly to be known of a device on which two job types were seen.
"""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from experiments.estimation.hiding import truth_of
from experiments.experiment import markdown_table
from gavelx.estimator.completion import Completion
from gavelx.estimator.names import read_name
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Measurement, Way
from gavelx.throughputs import Pairing, Setting

TABLES, DEVICES = ("simulation", "physical"), ("k80", "p100", "v100")
FACTORS, SHARES = np.exp(np.linspace(-2.5, 2.5, 101)), np.linspace(-1.0, 2.0, 61)
STEPS = 60
TITLES = (
    *("table", "device", "cells", "regression", "least absolute", "a constant for each model", "busyness"),
    *("step times", "but for one model", "but for one job type"),
)
Floats = NDArray[np.float64]
Truth = Mapping[Way, float]


def others(hidden: str) -> list[str]:
    return [name for name in DEVICES if name != hidden]


def cells(truth: Truth, hidden: str) -> list[Setting]:
    """Jobs alone on a device that run on all three."""
    alone = [way for way in truth if isinstance(way, Setting) and way.accelerator == hidden]
    return [way for way in alone if min(truth.get(way._replace(accelerator=name), 0.0) for name in DEVICES) > 0]


def elsewhere(truth: Truth, ways: list[Setting], hidden: str) -> Floats:
    """Log speeds on the two other devices (N x 2)."""
    return np.log([[truth[way._replace(accelerator=name)] for name in others(hidden)] for way in ways])


def busyness(truth: Truth, ways: list[Setting], hidden: str) -> Floats:
    """How much each job suffers, and makes others suffer, on the two other devices (N x 4): mean logarithms."""
    suffered: dict[tuple[str, str, str], list[float]] = {}
    for way, speed in truth.items():
        alone = truth.get(Setting(way.job_type, way.accelerator), 0.0)
        if isinstance(way, Pairing) and min(speed, alone) > 0:
            for name, side in ((way.job_type, "own"), (way.partner, "others'")):
                suffered.setdefault((name, way.accelerator, side), []).append(np.log(speed / alone))
    keys = list(product(others(hidden), ("own", "others'")))
    mean_of = {key: float(np.mean(logs)) for key, logs in suffered.items()}
    usual = [np.mean([mean for key, mean in mean_of.items() if key[1:] == one]) for one in keys]
    return np.array(
        [[mean_of.get((way.job_type, *one), mean) for one, mean in zip(keys, usual, strict=True)] for way in ways]
    )


def median_error(log_error_N: Floats) -> float:
    return float(np.median(np.abs(np.expm1(log_error_N))))


def fitted(features: Floats, y: Floats) -> float:
    """Median error of a least-squares fit, on what it was fitted to."""
    return median_error(features @ np.linalg.lstsq(features, y, rcond=None)[0] - y)


def fitted_absolute(features: Floats, y: Floats) -> float:
    """Median error of a fit of least absolute errors, by least squares with weights; on what it was fitted to."""
    error_N = np.ones(len(y))
    for _ in range(STEPS):
        root_N = np.maximum(np.abs(error_N), 1e-3) ** -0.5
        error_N = features @ np.linalg.lstsq(features * root_N[:, None], y * root_N, rcond=None)[0] - y
    return median_error(error_N)


def step_times(elsewhere_NX: Floats, y: Floats) -> float:
    """Median error of the best weighted sum of the two other step times, on what it was fitted to."""
    relative_NX = np.exp(y[:, None] - elsewhere_NX)
    weights = (factor * np.array([1 - share, share]) for factor, share in product(FACTORS, SHARES))
    return min(median_error(-np.log(np.maximum(relative_NX @ weight, 1e-9))) for weight in weights)


def hidden_groups(truth: Truth, hidden: str, group_of: Callable[[str], str]) -> float:
    """Median error of `completion` where one group of job types at a time is hidden on the device, alone."""
    alone = {way: speed for way, speed in truth.items() if isinstance(way, Setting)}
    errors: list[float] = []
    for group in sorted({group_of(way.job_type) for way in alone}):
        gone = {way for way in alone if way.accelerator == hidden and group_of(way.job_type) == group}
        wanted = [way for way in gone if alone[way] > 0]
        estimator = Completion(load_data_sheets())
        estimator.observe(Measurement(way, speed) for way, speed in alone.items() if way not in gone)
        answers = estimator.estimate(wanted)
        errors += [abs(one.steps_per_second / alone[way] - 1) for way, one in zip(wanted, answers, strict=True)]
    return float(np.median(errors))


def row(table: str, hidden: str) -> list[str]:
    truth = truth_of(table, tiny=False)
    ways = cells(truth, hidden)
    y, elsewhere_NX = np.log([truth[way] for way in ways]), elsewhere(truth, ways, hidden)
    shape_NX = np.array([[np.log(way.scale_factor), float(way.consolidated)] for way in ways])
    model = np.array([read_name(way.job_type).model for way in ways])
    of_model_NX = (model[:, None] == np.unique(model)).astype(float)
    known_NX, one_N = np.hstack([elsewhere_NX, shape_NX]), np.ones((len(ways), 1))
    figures = [
        fitted(np.hstack([known_NX, one_N]), y),
        fitted_absolute(np.hstack([known_NX, one_N]), y),
        fitted(np.hstack([known_NX, of_model_NX]), y),
        fitted(np.hstack([known_NX, one_N, busyness(truth, ways, hidden)]), y),
        step_times(elsewhere_NX, y),
        hidden_groups(truth, hidden, lambda name: read_name(name).model),
        hidden_groups(truth, hidden, lambda name: name),
    ]
    return [table, hidden, str(len(ways)), *(f"{figure:.1%}" for figure in figures)]


def main() -> None:
    print(markdown_table(TITLES, [row(table, hidden) for table in TABLES for hidden in DEVICES]))


if __name__ == "__main__":
    main()
