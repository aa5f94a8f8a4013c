"""ONES beside others on its own workload: mean completion, seed by seed, and what each of its rules costs.

    python -m experiments.ones [--seeds 20] [--devices 16 32 48 64] [--jobs 2] [--out FOLDER] [--fresh]

Writes ``ones.md``, ``ones.json`` and plots. Points that ``ones.json`` has already are not simulated again, unless
``--fresh`` is given; after an interruption it goes on where it was.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from experiments.ones.figures import beliefs, clusters, completions, left_out
from experiments.ones.page import document, report, stored
from experiments.ones.ways import Point, points, run
from gavelx.files.atomic import write_atomically

AT_ONCE = 10
"""Points between two writes."""
LEFT_OUT_SEEDS, PLOT_SEEDS = 3, 2
"""Of which jobs are left out one by one, and whose single jobs are plotted."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.ones", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--devices", type=int, nargs="*", default=[16, 32, 48, 64], help="sizes of the cluster")
    parser.add_argument("--gaps", type=float, nargs="*", default=[15.0, 60.0], help="other seconds between jobs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    parser.add_argument("--fresh", action="store_true", help="simulate every point anew")
    options = parser.parse_args(arguments)
    every = list(points(options.devices, options.seeds, options.gaps))
    file = options.out / "ones.json"
    records = {} if options.fresh or not file.exists() else stored(json.loads(file.read_text()), every)
    missing = [point for point in every if point not in records]
    with ProcessPoolExecutor(options.jobs) as processes:
        for first in range(0, len(missing), AT_ONCE):
            batch = missing[first : first + AT_ONCE]
            records |= dict(zip(batch, processes.map(run, batch), strict=True))
            write_atomically(file, json.dumps(document(_in_order(records, every)), indent=1) + "\n")
            print(f"{len(records)} of {len(every)}", file=sys.stderr, flush=True)
    found = _in_order(records, every)
    write_atomically(options.out / "ones.md", report(found, options.seeds, left_out(range(LEFT_OUT_SEEDS))))
    plots = {"training": beliefs(), "completion": completions(range(PLOT_SEEDS)), "clusters": clusters(found)}
    for name, png in plots.items():
        write_atomically(options.out / f"ones_{name}.png", png)
    return 0


def _in_order(records: dict[Point, dict[str, float]], every: Sequence[Point]) -> dict[Point, dict[str, float]]:
    return {point: records[point] for point in every if point in records}


if __name__ == "__main__":
    raise SystemExit(main())
