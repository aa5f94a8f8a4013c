"""EasyScale beside others on its own workload: completion and makespan, seed by seed (figures 14 and 15).

    python -m experiments.easyscale [--seeds 10] [--jobs 2] [--out experiments/results]

Writes ``easyscale.md``, ``easyscale.json``, ``easyscale.png`` (figure 14) and ``easyscale_devices.png``
(figure 15).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.easyscale.jobs import DEVICES, PER_SERVER, On, draw
from experiments.easyscale.plots import bars, over_time
from experiments.experiment import markdown_table
from experiments.paired import Paired, paired
from gavelx.cluster import Cluster
from gavelx.files.atomic import write_atomically
from gavelx.mechanism import DEFAULT, Rules
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import EasyScale, Policy, elastic, load_policy
from gavelx.result import Result
from gavelx.simulator import simulate

INTERVAL_S, RESTART_S, RESIZE_S = 60.0, 20.0, 2.0
ABOUT = """Made by `python -m experiments.easyscale --seeds {seeds}`. 62 jobs a seed, drawn with the proportions of
the published trace (`experiments/easyscale/jobs.py`), on 32 V100, 16 P100 and 16 T4; all is simulated. Seconds are
means over {seeds} seeds. *Against `easyscale`* is how many times as long the mean completion (makespan) of a row
is as that of `easyscale`: the mean of the ratios of the seeds (least .. largest). p is one-sided (Wilcoxon, by
seed). *On* says whether a job runs on the accelerator type that it asks for alone, as in the paper's homogeneous
runs, on any one type at a time, or on several types at once (mixed), as in its heterogeneous runs. All but
`serial_fifo`, `gang_fifo` and `backfill` are inside `elastic(...)`.

**The published baseline runs one job at a time.** What the paper calls YARN-CS stops after the head of the queue
in the simulator of its artifact, so most devices idle: that is `serial_fifo`. The paper publishes mean completions
of 8905 s for it, 1071 s for EasyScale on one type and 677 s on several types in one job (8.3 and 13.2 times), and
makespans of 16560, 6720 and 6000 s. `gang_fifo` and `backfill` are what clusters do. `backfill` is EASY, and knows
how long every job takes, which flatters it."""


@dataclass(frozen=True)
class Way:
    """A policy, and on which types jobs may run."""

    policy: Policy
    on: On


WAYS: Mapping[str, Way] = {
    "serial_fifo": Way(load_policy("serial_fifo"), "asked"),
    "gang_fifo": Way(load_policy("gang_fifo"), "asked"),
    "backfill": Way(load_policy("backfill"), "asked"),
    "easyscale, type asked for": Way(load_policy("elastic(easyscale)"), "asked"),
    "easyscale, one proposal a minute": Way(elastic(EasyScale(once=True)), "any"),
    "easyscale": Way(load_policy("elastic(easyscale)"), "any"),
    "easyscale, several types at once": Way(load_policy("elastic(easyscale)"), "mixed"),
    "max_min_fairness": Way(load_policy("elastic(max_min_fairness)"), "any"),
    "srtf": Way(load_policy("elastic(srtf)"), "any"),
    "goodput": Way(load_policy("elastic(goodput)"), "any"),
    "srtf_program": Way(load_policy("elastic(srtf_program)"), "any"),
}
BASE = "easyscale"
"""What every other row is compared with."""
SHOWN = (
    *("serial_fifo", "gang_fifo", "backfill"),
    *("easyscale, type asked for", "easyscale", "easyscale, several types at once"),
)
"""In the plots."""


def _rules(interval_s: float, resize_s: float | None) -> Rules:
    overheads = Overheads(Overhead(checkpoint_s=0.0, restart_s=RESTART_S, resize_s=resize_s))
    return replace(DEFAULT.with_round(INTERVAL_S), solve_interval_s=interval_s, overheads=overheads)


@dataclass(frozen=True)
class Setting:
    """What is the same for all policies that are compared."""

    name: str
    rules: Rules
    exchange: bool = False


SETTINGS = (
    Setting("A decision each minute, 20 s for each change of size (as published)", _rules(INTERVAL_S, None)),
    Setting("The same, and jobs resize while they run, in 2 s", _rules(INTERVAL_S, RESIZE_S)),
    Setting("The same, and devices exchange gradients", _rules(INTERVAL_S, RESIZE_S), exchange=True),
    Setting("A decision at each event, resizes in 2 s", _rules(0.0, RESIZE_S)),
)


@dataclass(frozen=True)
class Point:
    setting: int
    way: str
    seed: int


def points(seeds: int) -> Iterator[Point]:
    for setting in range(len(SETTINGS)):
        for way in WAYS:
            for seed in range(seeds):
                yield Point(setting, way, seed)


def simulated(point: Point, jobs: int = 62) -> Result:
    """One policy on the jobs of one seed."""
    setting, way = SETTINGS[point.setting], WAYS[point.way]
    workload = draw(point.seed, jobs=jobs, exchange=setting.exchange)
    cluster = Cluster.of(DEVICES, PER_SERVER)
    return simulate(way.policy, workload.jobs_on(way.on), cluster, workload.on(way.on), rules=setting.rules)


def run(point: Point, jobs: int = 62) -> dict[str, float]:
    """Completion and makespan in seconds, and how often a job changed its size or was restarted."""
    result = simulated(point, jobs)
    return {
        "jobs_total": jobs,
        "jobs_completed": jobs - len(result.unfinished),
        "stopped": 0,
        "jct_mean_s": float(result.jct_s_J.mean()),
        "makespan_s": float(result.completion_s_J.max()),
        "changes": float((result.resizes_J + result.restarts_J).sum()) / jobs,
    }


Records = Mapping[Point, dict[str, float]]


def by_seed(records: Records, setting: int, way: str) -> dict[int, dict[str, float]]:
    return {p.seed: record for p, record in records.items() if (p.setting, p.way) == (setting, way)}


def against(records: Records, setting: int, way: str, figure: str) -> Paired:
    """A row beside ``easyscale``, seed by seed."""
    return paired(figure, by_seed(records, setting, way), by_seed(records, setting, BASE))


def table(records: Records, setting: int) -> str:
    """A row for each policy."""
    titles = [
        "policy",
        "on",
        "mean completion, s",
        "against `easyscale`",
        "p",
        "makespan, s",
        "against `easyscale`",
    ]
    titles.append("changes a job")
    lines = []
    for name, way in WAYS.items():
        mine = list(by_seed(records, setting, name).values())
        jct, makespan = (against(records, setting, name, figure) for figure in ("jct_mean_s", "makespan_s"))
        mean = {figure: fmean(one[figure] for one in mine) for figure in ("jct_mean_s", "makespan_s", "changes")}
        p = "" if jct.p is None else f"{jct.p:.1g}"
        cells = [f"{mean['jct_mean_s']:,.0f}", _times(jct), p, f"{mean['makespan_s']:,.0f}", _times(makespan)]
        lines.append([f"`{name}`" if name.isidentifier() else name, way.on, *cells, f"{mean['changes']:.1f}"])
    return markdown_table(titles, lines)


def _times(one: Paired) -> str:
    if not any(one.changes):
        return ""
    ratios = [1.0 + change for change in one.changes]
    return f"{fmean(ratios):.2f}x ({min(ratios):.2f} .. {max(ratios):.2f})"


def report(records: Records, seeds: int) -> str:
    """The page."""
    parts = ["# EasyScale on its own workload", ABOUT.format(seeds=seeds)]
    parts += ["![Mean completion and makespan](easyscale.png)", "![Devices in use](easyscale_devices.png)"]
    for number, setting in enumerate(SETTINGS):
        parts += [f"## {setting.name}", table(records, number)]
    return "\n\n".join(parts) + "\n"


def document(records: Records) -> list[dict[str, Any]]:
    """A row for each policy in each setting, with a figure for each seed in order."""
    return [
        {"setting": setting.name, "policy": way}
        | {
            name: " ".join(f"{one[name]:.7g}" for one in by_seed(records, number, way).values())
            for name in ("jct_mean_s", "makespan_s", "changes")
        }
        for number, setting in enumerate(SETTINGS)
        for way in WAYS
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.easyscale", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    every, records = list(points(options.seeds)), dict[Point, dict[str, float]]()
    with ProcessPoolExecutor(options.jobs) as processes:
        for point, record in zip(every, processes.map(run, every, chunksize=4), strict=True):
            records[point] = record
            if len(records) % 50 == 0:
                print(f"{len(records)} of {len(every)}", file=sys.stderr, flush=True)
    write_atomically(options.out / "easyscale.json", json.dumps(document(records), indent=1) + "\n")
    write_atomically(options.out / "easyscale.md", report(records, options.seeds))
    first = {way: list(by_seed(records, 0, way).values()) for way in SHOWN}
    write_atomically(options.out / "easyscale.png", bars(first))
    runs = {way: simulated(Point(0, way, 0)) for way in SHOWN}
    write_atomically(options.out / "easyscale_devices.png", over_time(runs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
