"""ONES beside others on its own workload: mean completion, seed by seed, and what each of its rules costs.

    python -m experiments.ones [--seeds 20] [--devices 16 32 48 64] [--jobs 2] [--out experiments/results]

Writes ``ones.md`` and ``ones.json``.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.experiment import markdown_table
from experiments.ones.curves import Reporting
from experiments.ones.jobs import DEVICE, PER_SERVER, draw
from experiments.paired import Paired, paired
from gavelx.cluster import Cluster
from gavelx.files.atomic import write_atomically
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.lengths import Known
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import Goodput, Las2d, Ones, Optimus, Policy, Pollux, SrtfProgram, elastic, load_policy
from gavelx.policies.baselines.ones import OnesPublished
from gavelx.policies.size_limits import Limits
from gavelx.simulator import simulate

ROUND_S = 10.0
FULL = 64
BASE = "ones"
"""What every other row is compared with."""
THRESHOLDS = ((1000.0,), (3200.0,), (8000.0,), (1000.0, 8000.0))
"""Of Tiresias, in device-seconds: the best of these for each setting is reported."""
ABOUT = """Made by `python -m experiments.ones --seeds {seeds}`. Mean completion of 50 jobs in seconds
over {seeds} seeds. All is simulated, on a job model of ours (`experiments/ones/jobs.py`). *Changes* are resizes
and restarts, a job. p is one-sided (Wilcoxon, by seed). *Batch* says whether a policy may change the batch that
a user asked for."""
Make = Callable[[float], Policy]


@dataclass(frozen=True)
class Way:
    """A policy, told what a change of size costs, and what it knows and may do."""

    make: Make
    batch: str
    lengths: Known = "told"
    reports: bool = False
    request: int | None = None


def _ones(
    *, start: bool = False, up: str = "free", down: str = "none", halve: bool = False, **options: object
) -> Make:
    limits = Limits(start=start, up=up, down=down, halve=halve)  # type: ignore[arg-type]
    return lambda cost_s: elastic(Ones(limits=limits, **{"restart_s": cost_s} | options))  # type: ignore[arg-type]


RULES_OF_ONES: Mapping[str, Way] = {
    "ones": Way(_ones(), "elastic"),
    "ones, lengths believed": Way(_ones(), "elastic", "believed"),
    "ones, training reported": Way(_ones(), "elastic", "believed", reports=True),
    "ones, evolution": Way(_ones(search="evolution"), "elastic"),
    "ones, first epoch on one device": Way(_ones(start=True), "elastic"),
    "ones, the same and doubling": Way(_ones(start=True, up="double"), "elastic"),
    "ones, halving": Way(_ones(halve=True), "elastic"),
    "ones, limit of the largest falls": Way(_ones(down="largest"), "elastic"),
    "ones, printed limit": Way(_ones(start=True, down="paper"), "elastic"),
    "ones, Beta draw": Way(_ones(left="draw"), "elastic"),
    "ones, changes thought free": Way(_ones(restart_s=0.0), "elastic"),
    "ones_published": Way(lambda cost_s: elastic(OnesPublished()), "elastic"),
    "ones_published, training reported": Way(
        lambda cost_s: elastic(OnesPublished()), "elastic", "believed", reports=True
    ),
}
TIRESIAS: Mapping[str, Way] = {
    f"las_2d {' '.join(f'{one:g}' for one in thresholds)}": Way(lambda _, t=thresholds: Las2d(t), "as asked")
    for thresholds in THRESHOLDS
}
OTHERS: Mapping[str, Way] = {
    "srtf_program, power 1": Way(lambda cost_s: elastic(SrtfProgram(1.0, restart_s=cost_s)), "elastic"),
    "srtf_program": Way(lambda cost_s: elastic(SrtfProgram(restart_s=cost_s)), "elastic"),
    "srtf_program, lengths believed": Way(
        lambda cost_s: elastic(SrtfProgram(restart_s=cost_s)), "elastic", "believed"
    ),
    "srtf_program, training reported": Way(
        lambda cost_s: elastic(SrtfProgram(restart_s=cost_s)), "elastic", "believed", reports=True
    ),
    "goodput": Way(lambda cost_s: elastic(Goodput(restart_s=cost_s)), "elastic"),
    "pollux": Way(lambda cost_s: elastic(Pollux(restart_s=cost_s)), "elastic"),
    "max_min_fairness": Way(lambda _: elastic(load_policy("max_min_fairness")), "elastic"),
    "srtf, elastic": Way(lambda _: elastic(load_policy("srtf")), "elastic"),
    "optimus, each minute": Way(lambda _: elastic(Optimus(60.0)), "elastic"),
    "optimus, each ten minutes": Way(lambda _: elastic(Optimus(600.0)), "elastic"),
    **TIRESIAS,
    "las_2d 1000, all ask for 16": Way(lambda _: Las2d((1000.0,)), "as asked", request=16),
    "gang_fifo": Way(lambda _: load_policy("gang_fifo"), "as asked"),
}
WAYS: Mapping[str, Way] = {**RULES_OF_ONES, **OTHERS}
NARROW = ("ones", "ones_published", "srtf_program", "goodput", "pollux", "max_min_fairness", *TIRESIAS)
"""What is run on smaller clusters as well."""


@dataclass(frozen=True)
class Setting:
    """What is the same for all policies that are compared."""

    devices: int
    noise: bool
    change_s: float
    gap_s: float = 30.0

    def __str__(self) -> str:
        worth = "noise scale" if self.noise else "efficiency 1"
        gap = "" if self.gap_s == 30.0 else f", a job each {self.gap_s:g} s"
        return f"{self.devices} devices, {worth}, {self.change_s:g} s a change{gap}"


@dataclass(frozen=True)
class Point:
    setting: Setting
    way: str
    seed: int


def points(devices: Sequence[int], seeds: int, gaps: Sequence[float]) -> Iterator[Point]:
    """Everything at the full size; a part of it on smaller clusters, and with other gaps between jobs."""
    for noise, change_s in product((False, True), (1.0, 20.0)):
        for way, seed in product(WAYS, range(seeds)):
            yield Point(Setting(FULL, noise, change_s), way, seed)
    others = [(n, 30.0) for n in devices if n != FULL] + [(FULL, gap_s) for gap_s in gaps]
    for (n, gap_s), noise in product(others, (False, True)):
        for way, seed in product(NARROW, range(seeds)):
            yield Point(Setting(n, noise, 1.0, gap_s), way, seed)


def run(point: Point, count: int = 50) -> dict[str, float]:
    """Mean completion of the jobs, and how often they changed their size or were restarted."""
    setting, way = point.setting, WAYS[point.way]
    workload = draw(point.seed, jobs=count, gap_s=setting.gap_s, noise=setting.noise, request=way.request)
    overhead = Overhead(checkpoint_s=0.0, restart_s=setting.change_s, resize_s=setting.change_s)
    rules = replace(DEFAULT.with_round(ROUND_S), overheads=Overheads(overhead))
    cluster = Cluster.of({DEVICE: setting.devices}, PER_SERVER)
    result = simulate(
        way.make(setting.change_s),
        workload.jobs,
        cluster,
        workload.table,
        rules=rules,
        lengths=way.lengths,
        watch=(lambda _, backend: Reporting(backend, workload.curves)) if way.reports else None,
    )
    return {
        "jobs_total": count,
        "jobs_completed": count - len(result.unfinished),
        "stopped": 0,
        "jct_mean_s": float(result.jct_s_J.mean()),
        "jct_max_s": float(result.jct_s_J.max()),
        "changes": float((result.resizes_J + result.restarts_J).sum()) / count,
    }


def row(setting: Setting, way: str, records: Mapping[Point, dict[str, float]], base: str) -> Paired:
    """One policy beside another, seed by seed."""
    by_seed = [
        {point.seed: record for point, record in records.items() if (point.setting, point.way) == (setting, name)}
        for name in (way, base)
    ]
    return paired("jct_mean_s", *by_seed)


def table(settings: Sequence[Setting], names: Sequence[str], records: Mapping[Point, dict[str, float]]) -> str:
    """A row for each policy: mean completion, changes a job, the difference of `ones` to it, in each setting."""
    titles = ["policy", "batch"]
    for setting in settings:
        titles += [f"{setting}: s", "changes", "`ones` against it", "p"]
    lines = []
    for name in names:
        line = [f"`{name}`" if name in load_names() else name, WAYS[name].batch]
        for setting in settings:
            mine = [r for point, r in records.items() if (point.setting, point.way) == (setting, name)]
            if not mine:
                line += ["", "", "", ""]
                continue
            gain = row(setting, BASE, records, name)
            change = f"{fmean(gain.changes):+.0%}" if gain.changes and name != BASE else ""
            p = "" if gain.p is None else f"{gain.p:.1g}"
            changes = fmean(one["changes"] for one in mine)
            line += [f"{fmean(one['jct_mean_s'] for one in mine):,.0f}", f"{changes:.1f}", change, p]
        lines.append(line)
    return markdown_table(titles, lines)


def load_names() -> set[str]:
    """Rows whose names are policies as they are spelled."""
    return {"ones", "ones_published", "srtf_program", "goodput", "pollux", "max_min_fairness", "gang_fifo"}


def report(records: Mapping[Point, dict[str, float]], seeds: int) -> str:
    """The page."""
    settings = list(dict.fromkeys(point.setting for point in records))
    full = [one for one in settings if one.devices == FULL and one.gap_s == 30.0]
    parts = [
        "# ONES on its own workload",
        ABOUT.format(seeds=seeds),
    ]
    for change_s in (1.0, 20.0):
        chosen = [one for one in full if one.change_s == change_s]
        if chosen:
            parts += [
                f"## {FULL} devices, {change_s:g} s for each resize and restart",
                table(chosen, tuple(WAYS), records),
            ]
    others = [one for one in settings if one not in full]
    if others:
        parts += ["## Other clusters and loads, 1 s a change"]
        parts += [f"### {other}\n\n{table([other], NARROW, records)}" for other in others]
    return "\n\n".join(parts) + "\n"


def document(records: Mapping[Point, dict[str, float]]) -> list[dict[str, Any]]:
    """A row for each policy in each setting, with a figure for each seed in order."""
    rows: dict[tuple[Setting, str], list[dict[str, float]]] = {}
    for point, record in records.items():
        rows.setdefault((point.setting, point.way), []).append(record)
    return [
        {"setting": str(setting), "policy": way}
        | {name: " ".join(f"{one[name]:.7g}" for one in found) for name in ("jct_mean_s", "jct_max_s", "changes")}
        for (setting, way), found in rows.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.ones", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--devices", type=int, nargs="*", default=[16, 32, 48, 64], help="sizes of the cluster")
    parser.add_argument("--gaps", type=float, nargs="*", default=[15.0, 60.0], help="other seconds between jobs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    every = list(points(options.devices, options.seeds, options.gaps))
    records: dict[Point, dict[str, float]] = {}
    with ProcessPoolExecutor(options.jobs) as processes:
        for n, (point, record) in enumerate(zip(every, processes.map(run, every, chunksize=4), strict=True), 1):
            records[point] = record
            if n % 100 == 0 or n == len(every):
                print(f"{n} of {len(every)}", file=sys.stderr, flush=True)
    write_atomically(options.out / "ones.json", json.dumps(document(records), indent=1) + "\n")
    write_atomically(options.out / "ones.md", report(records, options.seeds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
