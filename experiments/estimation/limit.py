"""How well the speeds on one device can be told from those on two others, by who knows nearly everything.

    python -m experiments.estimation.limit

Nothing is hidden here: all jobs alone are known on all three devices. A regression on the logarithms of the two
other speeds, the number of devices and their placement is judged on the very cells that it was fitted to; then
one that has a constant for each model as well. What is left is particular to each job, and hardly to be known of
a device on which two job types were seen.
"""

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import markdown_table
from gavelx.estimator.names import read_name
from gavelx.files.throughput_tables import load_throughputs
from gavelx.throughputs import Throughputs

TABLES, DEVICES = ("simulation", "physical"), ("k80", "p100", "v100")
Floats = NDArray[np.float64]


def cells(table: Throughputs, hidden: str) -> tuple[Floats, Floats, list[str]]:
    """Features, log speed and model of each job that runs alone on all three devices."""
    features, speed, model = list[list[float]](), list[float](), list[str]()
    for way, steps_per_second in table.isolated.items():
        elsewhere = [table.isolated.get(way._replace(accelerator=name), 0.0) for name in DEVICES if name != hidden]
        if way.accelerator == hidden and steps_per_second > 0 and min(elsewhere) > 0:
            features.append([1.0, *np.log(elsewhere), np.log(way.scale_factor), float(way.consolidated)])
            speed.append(np.log(steps_per_second))
            model.append(str(read_name(way.job_type).model))
    return np.array(features), np.array(speed), model


def median_error(features: Floats, y: Floats) -> float:
    """Of a least-squares fit, on what it was fitted to."""
    weights = np.linalg.lstsq(features, y, rcond=None)[0]
    return float(np.median(np.abs(np.expm1(features @ weights - y))))


def main() -> None:
    rows = []
    for name in TABLES:
        table = load_throughputs(name)
        for hidden in DEVICES:
            features, y, model = cells(table, hidden)
            of_model = (np.array(model)[:, None] == np.unique(model)).astype(float)
            each = median_error(np.hstack([features[:, 1:], of_model]), y)
            rows.append([name, hidden, str(len(y)), f"{median_error(features, y):.1%}", f"{each:.1%}"])
    print(markdown_table(["table", "device", "cells", "regression", "and a constant for each model"], rows))


if __name__ == "__main__":
    main()
