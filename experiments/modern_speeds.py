"""How good estimates of modern speeds are: cells of the shipped table are hidden, and estimated from the rest.

    python -m experiments.modern_speeds             # two minutes on one core; prints a page

Three ways to hide, by what a user may have:

* ``a new device``: one accelerator type has no measurement; its job types were measured on others;
* ``a job on a device``: a model has no measurement on one type, and both have others;
* ``a new model``: a model has no measurement at all, and a name that can be read.

``combined`` is what gavelx uses for missing speeds. ``ratio`` multiplies a job's speed on another type with the
ratio of their tensor TFLOP/s (the mean over types where it was measured at this width). ``plain roofline`` is the
roofline with one efficiency for all, the median of the known ones; it is asked only where the name can be read.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import numpy as np

from experiments.experiment import markdown_table
from gavelx.estimator.combined import Combined
from gavelx.estimator.job_names import JobNameError, read_job
from gavelx.estimator.names import read_name
from gavelx.estimator.roofline import step_seconds
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.shipped_speeds import shipped_measurements
from gavelx.measurements import Measurement
from gavelx.throughputs import Setting

FOLDS, SEED, CELLS_MIN = 10, 0, 20
SHEETS = load_data_sheets()
Truth = dict[Setting, float]
Answers = Mapping[Setting, tuple[float, float, float]]
Errors = dict[str, list[tuple[float, bool, Setting, float]]]
"""By estimator: relative error, whether the interval holds the truth, the cell, and its standardised error."""


def truth() -> Truth:
    """Every shipped modern speed."""
    return {one.way: one.steps_per_second for one in shipped_measurements() if isinstance(one.way, Setting)}


def model_of(way: Setting) -> str:
    """The model of a job type, whatever its batch, sequence and method."""
    try:
        job = read_job(way.job_type)
    except JobNameError:
        job = None
    return job.model if job is not None else read_name(way.job_type).model


def hidden_sets(cells: Truth) -> Iterable[tuple[str, Set[Setting]]]:
    """Each way to hide, with the hidden cells."""
    on: dict[str, set[Setting]] = defaultdict(set)
    of: dict[str, set[Setting]] = defaultdict(set)
    for way in cells:
        on[way.accelerator].add(way)
        of[model_of(way)].add(way)
    for hidden in on.values():
        if len(hidden) >= CELLS_MIN:
            yield "a new device", hidden
    pairs = sorted({(model_of(way), way.accelerator) for way in cells})
    order = np.random.default_rng(SEED).permutation(len(pairs))
    for fold in range(FOLDS):
        some = {pairs[n] for n in order[fold::FOLDS].tolist()}
        yield "a job on a device", {way for way in cells if (model_of(way), way.accelerator) in some}
    for model, hidden in of.items():
        if any(_ideal(way) for way in hidden):
            yield f"a new model/{model}", hidden


def combined(known: Truth, wanted: Sequence[Setting]) -> Answers:
    """What gavelx uses for missing speeds."""
    estimator = Combined(SHEETS)
    estimator.observe(Measurement(way, speed) for way, speed in known.items())
    return {
        way: (one.steps_per_second, one.lower, one.upper)
        for way, one in zip(wanted, estimator.estimate(wanted), strict=True)
        if one.steps_per_second > 0
    }


def ratio(known: Truth, wanted: Sequence[Setting]) -> Answers:
    """Speeds in the ratio of tensor TFLOP/s."""
    of: dict[tuple[str, int], list[float]] = defaultdict(list)
    for way, speed in known.items():
        of[way.job_type, way.scale_factor].append(math.log(speed / SHEETS.find(way.accelerator).tensor_tflops))
    found = {}
    for way in wanted:
        if logs := of.get((way.job_type, way.scale_factor)):
            speed = math.exp(float(np.mean(logs))) * SHEETS.find(way.accelerator).tensor_tflops
            found[way] = (speed, math.nan, math.nan)
    return found


def plain_roofline(known: Truth, wanted: Sequence[Setting]) -> Answers:
    """The roofline with one efficiency."""
    ideals = {way: _ideal(way) for way in (*known, *wanted)}
    usual = float(np.median([speed * ideals[way] for way, speed in known.items() if ideals[way]]))
    return {way: (usual / ideals[way], math.nan, math.nan) for way in wanted if ideals[way]}


ESTIMATORS: dict[str, Callable[[Truth, Sequence[Setting]], Answers]] = {
    "combined": combined,
    "ratio": ratio,
    "plain roofline": plain_roofline,
}


def _ideal(way: Setting) -> float:
    """Seconds of a step at full efficiency; 0 if the name cannot be read."""
    try:
        job = read_job(way.job_type)
    except JobNameError:
        return 0.0
    return 0.0 if job is None else step_seconds(job, way, SHEETS.find(way.accelerator))


def score(cells: Truth) -> dict[str, Errors]:
    """The errors of every estimator in every way to hide."""
    scores: dict[str, Errors] = defaultdict(lambda: defaultdict(list))
    for regime, hidden in hidden_sets(cells):
        known = {way: speed for way, speed in cells.items() if way not in hidden}
        wanted = [way for way in cells if way in hidden]
        for name, ask in ESTIMATORS.items():
            for way, (speed, low, high) in ask(known, wanted).items():
                z = math.log(cells[way] / speed) / math.log(high / speed) if high > speed else math.nan
                held = low <= cells[way] <= high
                scores[regime.partition("/")[0]][name].append((abs(speed / cells[way] - 1), held, way, z))
    return scores


def rows(scores: Mapping[str, Errors]) -> list[list[str]]:
    """A row for each way to hide and rival: both on the cells that the rival estimates too."""
    found = []
    for regime, errors in scores.items():
        for rival in ("ratio", "plain roofline"):
            theirs = {way: error for error, _, way, _ in errors.get(rival, [])}
            ours = [(error, held) for error, held, way, _ in errors["combined"] if way in theirs]
            if ours:
                mine, other = np.median([error for error, _ in ours]), np.median(list(theirs.values()))
                p90 = np.quantile([error for error, _ in ours], 0.9)
                held = np.mean([held for _, held in ours])
                found.append(
                    [regime, rival, f"{len(ours):,}", f"{mine:.1%}", f"{p90:.0%}", f"{held:.0%}", f"{other:.1%}"]
                )
    return found


def shares(scores: Mapping[str, Errors]) -> tuple[float, float]:
    """What errors have in common: shares of their variance by accelerator type, and by job type on it.

    A nested analysis of variance of the standardised errors, where a device is new or a model is new on it.
    """
    of: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for regime in ("a new device", "a job on a device"):
        for _, _, way, z in scores[regime]["combined"]:
            if math.isfinite(z):
                of[f"{regime} {way.accelerator}"][model_of(way)].append(z)
    within = float(
        np.mean([np.var(zs, ddof=1) for models in of.values() for zs in models.values() if len(zs) > 1])
    )
    means = {device: [float(np.mean(zs)) for zs in models.values()] for device, models in of.items()}
    between = float(np.mean([np.var(each, ddof=1) for each in means.values() if len(each) > 1]))
    devices = float(np.mean([np.mean(each) ** 2 - np.var(each) / len(each) for each in means.values()]))
    total = within + between + max(devices, 0.0)
    return max(devices, 0.0) / total, between / total


def on_all_devices(errors: Iterable[tuple[float, bool, Setting, float]]) -> float:
    """The part of the variance of standardised errors of new models that a job has in common on all devices.

    A one-way analysis of variance; jobs that were measured on one device count for nothing.
    """
    of: dict[tuple[str, int], list[float]] = defaultdict(list)
    for _, _, way, z in errors:
        if math.isfinite(z):
            of[way.job_type, way.scale_factor].append(z)
    many = [zs for zs in of.values() if len(zs) > 1]
    within = float(np.mean([np.var(zs, ddof=1) for zs in many]))
    between = float(np.mean([np.mean(zs) ** 2 - np.var(zs, ddof=1) / len(zs) for zs in many]))
    return max(between, 0.0) / (max(between, 0.0) + within)


def main() -> None:
    cells = truth()
    scores = score(cells)
    print(f"{len(cells)} speeds of {len({way.job_type for way in cells})} job types.\n")
    titles = ["hidden", "rival", "cells", "combined: median", "p90", "in 90 % intervals", "rival: median"]
    print(markdown_table(titles, rows(scores)))
    device, job = shares(scores)
    print(f"\nWhat errors have in common: {device:.0%} by accelerator type, {job:.0%} by model on it;")
    print(
        f"where the model is new, {on_all_devices(scores['a new model']['combined']):.0%} by job on all devices."
    )


if __name__ == "__main__":
    main()
