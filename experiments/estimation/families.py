"""Tables of 22 families of another structure than the estimator's: `completion` beside a plain Gaussian process.

    python -m experiments.estimation.families [--draws 5] [--first 400]

Unlike the tables of ``sparse_tables``, which follow a roofline, speeds here are sums of logarithms,

    log speed = model + device + model on device + log(b / (b + half)) + power log(n) [- log samples] + noise

on n devices, with a batch size at which half of the speed is reached, larger on fast devices, and a power of n for
each model. A family is one change of this: in what is known, in noise, in size, or in structure. ``HELD_OUT`` are
families that were written before the estimator was last changed, and looked at only after it.
Writes FAMILIES.md into ``results``: median error, 90th percentile, share of hidden cells in 90 % intervals, and
the ratio of the two median errors.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.estimation.sparse import HIDDEN_MIN, MAKERS, RESULTS, Score, score
from experiments.estimation.sparse_tables import DEVICES, MODELS, Case, Random, share
from experiments.experiment import markdown_table
from gavelx.estimator.names import read_name
from gavelx.files.atomic import write_atomically
from gavelx.files.data_sheets import load_data_sheets
from gavelx.throughputs import Setting

MISFIT_DEVICE = 0.25
"""By how much the logarithm of a device's speed differs from what its bandwidth says (a standard deviation)."""


def drawn(
    random: Random,
    *,
    known: float,
    models: int = 6,
    batches: Sequence[int] = (8, 16, 32, 64, 128),
    devices: int = 6,
    widths: Sequence[int] = (1,),
    noise: float = 0.03,
    heavy_tails: bool = False,
    suits: float = 0.2,
    low_rank: float = 0.0,
    spills: bool = False,
    samples: bool = False,
) -> Case:
    """A table, of which this share is known.

    ``suits``: by how much the logarithms of a model's speeds differ by device at random; ``low_rank``: by two
    hidden properties of device and model. ``spills``: beyond a batch size of its own a model is e times slower.
    ``samples``: speeds are in samples per second, not steps.
    """
    names = [DEVICES[i] for i in random.permutation(len(DEVICES))[:devices]]
    sheets, slope = load_data_sheets(), random.uniform(0.5, 1.2)
    by_bandwidth = [slope * math.log(sheets.find(name).bandwidth_gb_s / 700) for name in names]
    fast_D = np.array(by_bandwidth) + random.normal(0, MISFIT_DEVICE, devices)
    hidden_D2 = random.normal(size=(devices, 2))
    truth = {}
    for model in (MODELS[i] for i in random.permutation(len(MODELS))[:models]):
        level, power, half = random.normal(0, 1.5), random.uniform(0.5, 0.97), math.exp(random.normal(3, 1))
        own_D = random.normal(0, suits, devices) + low_rank * hidden_D2 @ random.normal(size=2)
        most = math.exp(random.normal(5, 1)) if spills else math.inf
        for d, name in enumerate(names):
            for batch in batches:
                filled = math.log(batch / (batch + half * math.exp(0.5 * fast_D[d])))
                for width in widths:
                    log = level + fast_D[d] + own_D[d] + filled + power * math.log(width) - (batch > most)
                    log -= 0.0 if samples else math.log(batch * width)
                    error = random.standard_t(2.5) if heavy_tails else random.normal()
                    truth[Setting(f"{model} (batch size {batch})", name, width)] = math.exp(log + noise * error)
    ways = sorted(truth)
    count = max(6, round(known * len(ways)))
    return Case(truth, frozenset(ways[i] for i in random.permutation(len(ways))[:count]))


FAMILIES: dict[str, Callable[[Random], Case]] = {
    "width 1 (30 %)": partial(drawn, known=0.3),
    "width 1 (60 %)": partial(drawn, known=0.6),
    "widths 1-8 (10 %)": partial(drawn, known=0.1, widths=(1, 2, 4, 8), models=5),
    "widths 1-4 (20 %)": partial(drawn, known=0.2, widths=(1, 2, 4), models=5),
    "widths 1-8 (40 %)": partial(drawn, known=0.4, widths=(1, 2, 4, 8), models=4, devices=5),
    "noise of 12 %, heavy tails (40 %)": partial(drawn, known=0.4, widths=(1, 2), noise=0.12, heavy_tails=True),
    "models of low rank on devices (30 %)": partial(drawn, known=0.3, models=9, low_rank=0.3),
    "spills (40 %)": partial(drawn, known=0.4, spills=True),
    "3 models on 3 devices (50 %)": partial(drawn, known=0.5, models=3, devices=3, batches=(16, 64, 256)),
    "samples per second (30 %)": partial(drawn, known=0.3, samples=True),
    "one batch size of each model (40 %)": partial(drawn, known=0.4, batches=(32,), models=12, devices=8),
    "models that differ much by device (40 %)": partial(drawn, known=0.4, suits=0.45),
}


def twisted(
    random: Random,
    factor: Callable[[float, float, float, int], float],
    *,
    known: float | None,
    **kinds: Any,
) -> Case:
    """A table of ``drawn`` whose speeds are changed by a factor; where that is 0, the table has no cell.

    The factor depends on a hidden property of the model, one of the device, the batch size and the number of
    devices. ``known`` is a share, or None for batch sizes up to 32 and a few of the others.
    """
    whole = drawn(random, known=1.0, **kinds).truth
    names = {way: read_name(way.job_type) for way in whole}
    of_model = {model: random.normal() for model in sorted({name.model for name in names.values()})}
    of_device = {device: random.normal() for device in sorted({way.accelerator for way in whole})}
    truth = {}
    for way, speed in sorted(whole.items()):
        model, batch = names[way]
        times = factor(of_model[model], of_device[way.accelerator], batch, way.scale_factor)
        if times > 0:
            truth[way] = speed * times
    if known is not None:
        return share(random, truth, max(known, 6 / len(truth)))
    small = [way for way in truth if names[way].batch_size <= 32 or random.random() < 0.15]
    return Case(truth, frozenset(way for way in small if random.random() < 0.6))


def _same(model: float, device: float, batch: float, width: int) -> float:
    return 1.0


HELD_OUT: dict[str, Callable[[Random], Case]] = {
    "two clans of models and devices (40 %)": lambda r: twisted(
        r, lambda m, d, b, n: math.exp(math.copysign(0.5, m * d)), known=0.4, models=9
    ),
    "a fast format of some models on some devices (30 %)": lambda r: twisted(
        r, lambda m, d, b, n: 3.0 if m > 0 and d > 0 else 1.0, known=0.3, widths=(1, 2)
    ),
    "gangs grow less beyond four (25 %)": lambda r: twisted(
        r,
        lambda m, d, b, n: max(n / 4, 1.0) ** (-0.5 * abs(m)),
        known=0.25,
        widths=(1, 2, 4, 8, 16),
        models=5,
        devices=4,
    ),
    "large batch sizes hardly known": lambda r: twisted(r, _same, known=None),
    "batch sizes of each model's own (40 %)": lambda r: twisted(
        r,
        lambda m, d, b, n: float(int(1e6 * abs(m) + 7 * math.log2(b)) % 3 == 0),
        known=0.4,
        batches=[2**n for n in range(3, 10)],
        models=8,
    ),
    "one device, widths 1-8 (40 %)": lambda r: twisted(r, _same, known=0.4, devices=1, widths=(1, 2, 4, 8)),
    "small batches wait for the host (30 %)": lambda r: twisted(
        r, lambda m, d, b, n: 1 / (1 + math.exp(m + d) * 16 / b), known=0.3
    ),
    "hardly any noise (30 %)": lambda r: twisted(r, _same, known=0.3, noise=0.001),
    "18 models, two batch sizes (20 %)": lambda r: twisted(
        r, _same, known=0.2, models=18, batches=(16, 64), devices=8
    ),
    "4 models on 3 devices (40 %)": lambda r: twisted(
        r, _same, known=0.4, models=4, devices=3, batches=(16, 64, 256)
    ),
}


def rows(scores: Sequence[Score], families: Iterable[str]) -> list[list[str]]:
    """A row for each family: all hidden cells of all draws together."""
    found = []
    for family in families:
        errors, row = list[np.ndarray](), [family]
        for name in MAKERS:
            some = [one for one in scores if (one.table, one.estimator) == (family, name)]
            errors.append(np.concatenate([one.errors for one in some]))
            held = np.concatenate([one.hits for one in some]).mean()
            row.append(f"{np.median(errors[-1]):.1%}, {np.quantile(errors[-1], 0.9):.0%}; {held:.0%}")
        ours, theirs = (float(np.median(each)) for each in errors)
        found.append([row[0], f"{len(errors[0]):,}", *row[1:], f"{ours / theirs:.2f}"])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Score, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=5, help="tables of each family")
    parser.add_argument("--first", type=int, default=400, help="the first seed")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    scores = [
        one
        for family, make in (FAMILIES | HELD_OUT).items()
        for seed in range(options.first, options.first + options.draws)
        for case in [make(np.random.default_rng([seed, 77]))]
        if len(case.hidden) >= HIDDEN_MIN
        for one in score(family, seed, case)
    ]
    columns = ["family (known)", "hidden cells", *(f"`{name}`" for name in MAKERS), "ratio"]
    page = [
        "# Families of tables",
        f"Made by `python -m experiments.estimation.families --draws {options.draws} --first {options.first}`. "
        "Median error, 90th percentile; share of hidden cells in 90% intervals. Ratio: of the median errors.",
        markdown_table(columns, rows(scores, FAMILIES)),
        "## Families that were not looked at while the estimator was changed",
        markdown_table(columns, rows(scores, HELD_OUT)),
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "FAMILIES.md", "\n\n".join(page) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
