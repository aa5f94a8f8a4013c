"""python -m experiments.ones.search: the constants of `OneShot` that are best on seeds used for nothing else."""

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from statistics import fmean

from experiments.ones.one_shot import OneShot
from experiments.ones.ways import FULL, KEPT, Setting, Way, figures, simulated
from gavelx.policies import elastic

SEEDS = range(1000, 1004)
PARTS, LEAST, MOST = (0.25, 0.35, 0.5, 0.7), (1, 4, 8), (8, 12, 16)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.ones.search", description=str(__doc__))
    parser.parse_args(arguments)
    for batch, noise in product((KEPT, "elastic"), (False, True)):
        found = []
        for constants in product(PARTS, LEAST, MOST):
            way = Way(lambda _, of=constants: elastic(OneShot(*of)), batch)
            runs = (figures(simulated(Setting(FULL, noise, 1.0), way, seed)) for seed in SEEDS)
            found.append((fmean(run["jct_mean_s"] for run in runs), constants))
        for jct_s, (part, least, most) in sorted(found)[:3]:
            worth = "noise scale" if noise else "efficiency 1"
            sys.stdout.write(f"batch {batch}, {worth}: part {part:g}, {least} to {most} devices: {jct_s:.0f} s\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
