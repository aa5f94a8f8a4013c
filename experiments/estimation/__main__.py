"""python -m experiments.estimation: score every estimator on hidden cells, and write the results."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import experiments.estimation
from experiments.estimation.baselines import NAMES
from experiments.estimation.page import plot, report
from experiments.estimation.scores import score
from gavelx.files.atomic import write_atomically

TABLES = ("simulation", "physical")
SEEDS, FEW_SEEDS = (0, 1, 2), (0,)
RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Score, and write the results."""
    parser = argparse.ArgumentParser(description=(experiments.estimation.__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--estimators", nargs="+", default=list(NAMES))
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--tiny", action="store_true", help="few job types and one seed: what the tests run")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    seeds = options.seeds or (FEW_SEEDS if options.tiny else SEEDS)
    scores = score(options.tables, options.estimators, seeds, options.tiny)
    options.out.mkdir(parents=True, exist_ok=True)
    document = [asdict(one) for one in scores]
    write_atomically(options.out / "estimation.json", json.dumps(document, indent=1) + "\n")
    write_atomically(options.out / "RESULTS.md", report(scores))
    write_atomically(options.out / "estimation.png", plot(scores))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
