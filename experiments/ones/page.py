"""The page of ONES's experiment: a row for each policy, seed by seed beside `ones`."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from experiments.experiment import markdown_table
from experiments.ones.ways import BASE, FULL, NARROW, WAYS, Point, Setting
from experiments.paired import Paired, paired

ABOUT = """Made by `python -m experiments.ones --seeds {seeds}`. Mean completion of 50 jobs in seconds
over {seeds} seeds, of some rows fewer, as they say. All is simulated, on a job model of ours
(`experiments/ones/jobs.py`). *Changes* are resizes and restarts, a job. p is that of the one-sided signed-rank
test of Wilcoxon, paired by seed (table 4 of ONES). *Batch* says whether a policy may change the batch that a user
asked for: `kept` is any number of devices with that batch. Plots: `ones_completion.png` (figure 15) and
`ones_clusters.png` (figures 17 and 18; each policy over the seeds that it has). Losses under changes of the batch
(figures 3, 13, 14) are in `live_resize_losses.md`, pauses (figure 16) in `live_resize.md`."""
BELIEFS = """## What losses tell of lengths (figure 6)

A job that reports its epochs, losses and accuracy is believed to be done in part, by a Beta distribution
(`gavelx/mechanism/training_progress.py`). Each of the 50 jobs of a seed is left out in turn and judged by the
others. An error is that of the logarithm of the epochs left. Jobs of the rows *training reported* are judged so
while the run goes on, by the jobs that ended before; those of *lengths believed* report nothing. Plot:
`ones_training.png`."""
STORED = ("jct_mean_s", "jct_max_s", "changes")
"""Of points all of whose jobs were completed."""


def row(setting: Setting, way: str, records: Mapping[Point, dict[str, float]], base: str) -> Paired:
    """One policy beside another, seed by seed."""
    by_seed = [
        {point.seed: record for point, record in records.items() if (point.setting, point.way) == (setting, name)}
        for name in (way, base)
    ]
    return paired("jct_mean_s", *by_seed)


def table(
    settings: Sequence[Setting], names: Sequence[str], records: Mapping[Point, dict[str, float]], seeds: int
) -> str:
    """A row for each policy: mean completion, changes a job, the difference of `ones` to it, in each setting."""
    titles = ["policy", "batch"]
    for setting in settings:
        titles += [f"{setting}: s", "changes", "`ones` against it", "p"]
    lines = []
    there = {(point.setting, point.way) for point in records}
    for name in (one for one in names if any((setting, one) in there for setting in settings)):
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
            mean_s = f"{fmean(one['jct_mean_s'] for one in mine):,.0f}"
            line += [
                mean_s if len(mine) == seeds else f"{mean_s} ({len(mine)} seeds)",
                f"{changes:.1f}",
                change,
                p,
            ]
        lines.append(line)
    return markdown_table(titles, lines)


def load_names() -> set[str]:
    """Rows whose names are policies as they are spelled."""
    return {"ones", "ones_published", "srtf_program", "goodput", "pollux", "max_min_fairness", "gang_fifo"}


def report(records: Mapping[Point, dict[str, float]], seeds: int, beliefs: str = "") -> str:
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
                table(chosen, tuple(WAYS), records, seeds),
            ]
    others = [one for one in settings if one not in full]
    if others:
        parts += ["## Other clusters and loads, 1 s a change"]
        parts += [f"### {other}\n\n{table([other], NARROW, records, seeds)}" for other in others]
    if beliefs:
        parts += [BELIEFS, beliefs]
    return "\n\n".join(parts) + "\n"


def document(records: Mapping[Point, dict[str, float]]) -> list[dict[str, Any]]:
    """A row for each policy in each setting, with a figure for each seed in order, from seed 0 on."""
    rows: dict[tuple[Setting, str], list[dict[str, float]]] = {}
    for point, record in records.items():
        rows.setdefault((point.setting, point.way), []).append(record)
    return [
        {"setting": str(setting), "policy": way}
        | {name: " ".join(f"{one[name]:.7g}" for one in found) for name in STORED}
        for (setting, way), found in rows.items()
    ]


def stored(document: list[dict[str, Any]], every: Sequence[Point]) -> dict[Point, dict[str, float]]:
    """Of these points, those that a document has."""
    found = dict[tuple[str, str, int], dict[str, float]]()
    for one in document:
        columns = zip(*(one[name].split() for name in STORED), strict=True)
        for seed, values in enumerate(columns):
            record = dict(zip(STORED, map(float, values), strict=True))
            found[one["setting"], one["policy"], seed] = {
                "jobs_total": 1,
                "jobs_completed": 1,
                "stopped": 0,
            } | record
    keys = {point: (str(point.setting), point.way, point.seed) for point in every}
    return {point: found[key] for point, key in keys.items() if key in found}
