"""Figures 6.2 to 6.7 and tables 4.1 and 4.2 of the thesis: its policies under its loads, ours beside published."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from experiments.experiment import Selection, markdown_table
from experiments.plots import Line, Panel, panels_plot
from experiments.points import Record
from experiments.published import thesis
from experiments.published.thesis import Setting
from experiments.runner import Task
from experiments.store import Store
from experiments.thesis.settings import (
    BRANCH,
    CLUSTERS,
    COST_CLUSTER,
    COST_JOBS,
    RATES,
    RULES,
    SEEDS,
    SERIES,
    STATIC_JOBS,
    Series,
    point,
)
from gavelx.files.atomic import write_atomically

PRINTED = {"utilization": 6e-4, "jct_mean_s": 0.06, "makespan_s": 0.06, "cost_usd": 0.011}
"""Half of the last printed digit of each metric, and of the mean of three numbers so printed."""
TITLES = {
    "utilization": "utilization",
    "jct_mean_s": "mean completion, h",
    "makespan_s": "makespan, h",
    "cost_usd": "cost, $",
}


class Figure(NamedTuple):
    """One published figure: a metric over the load, on one cluster for all policies, or over all for one."""

    number: str
    metric: str
    clusters: Sequence[str]
    policy: str = ""


class Row(NamedTuple):
    """One policy at one setting: means over the seeds that are done, and what was published.

    The seeds are of those published, or, if any of them are ``others``, of none of those.
    """

    series: Series
    setting: Setting
    seeds: int
    ours: dict[str, float]
    published: dict[str, float]
    others: tuple[int, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether ours is of the same seeds as published; else the two means are not of the same jobs."""
        return self.seeds == len(SEEDS) and not self.others

    @property
    def seeds_said(self) -> str:
        return ", ".join(map(str, self.others)) if self.others else f"{self.seeds} of {len(SEEDS)}"

    def change(self, metric: str) -> float | None:
        """How much larger ours is, relative to what was published; 0 where they agree as printed."""
        if not self.whole or metric not in self.published or metric not in self.ours:
            return None
        if metric == "makespan_s" and self.setting.trace == "continuous":
            return None  # theirs begins with the measured jobs, ours with the first
        ours, published = self.ours[metric], self.published[metric]
        return 0.0 if abs(ours - published) <= PRINTED[metric] else ours / published - 1.0


@dataclass(frozen=True)
class Evaluation:
    """One sweep of the thesis: a trace, clusters and loads; and the figures that it is behind."""

    name: str
    title: str
    trace: str
    clusters: Sequence[str]
    loads: Sequence[float]
    figures: Sequence[Figure]
    table: str = ""
    series: Sequence[Series] = tuple(one for one in SERIES if one is not BRANCH)

    @property
    def load_name(self) -> str:
        return "jobs" if self.trace == "static" else "jobs/h"

    def tasks(self, selection: Selection) -> list[Task]:
        """AlloX and the smaller loads first."""
        seeds = selection.seeds or (SEEDS[:1] if selection.tiny else SEEDS)
        loads = [load for load in self.loads if selection.wants_load(load)]
        return [
            Task(
                point(series, Setting(self.trace, series.published, cluster, load), seed, tiny=selection.tiny),
                rules,
            )
            for series in self.series
            if selection.wants_policy(series.policy, series.label, series.published)
            for rules in [RULES[series.rules]]
            for load in loads[: 1 if selection.tiny else None]
            for cluster in self.clusters[: 1 if selection.tiny else None]
            for seed in seeds
        ]

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        rows = self.rows(store, tiny)
        write_atomically(folder / f"{self.name}.png", panels_plot(self.title, list(self._panels(rows))))
        total = len(self.series) * len(self.loads) * len(self.clusters) * len(SEEDS)
        numbers = ", ".join(figure.number for figure in self.figures)
        parts = [
            f"## {self.title}",
            f"![{self.title}]({self.name}.png)",
            f"Figures {numbers}. {sum(row.seeds for row in rows if not row.others)} of {total} points are done. "
            "Differences are of rows with all three seeds, for a mean over some is not of the same jobs; "
            "*equal*: as printed.",
        ]
        parts += [_summary(rows), *self._table(rows), self._all(rows)] if rows else []
        return "\n\n".join(parts) + "\n"

    def rows(self, store: Store, tiny: bool = False) -> list[Row]:
        """All that is done, policy by policy: of the published seeds, and of others."""
        found = []
        for series in self.series:
            for cluster in self.clusters:
                for load in self.loads:
                    setting = Setting(self.trace, series.published, cluster, load)
                    records = store.by_seed(point(series, setting, SEEDS[0], tiny=tiny))
                    done = {seed: record for seed, record in records.items() if _complete(record)}
                    for seeds in ([s for s in done if s in SEEDS], [s for s in done if s not in SEEDS]):
                        if seeds:
                            means = _means(done[seed] for seed in seeds)
                            others = tuple(seed for seed in seeds if seed not in SEEDS)
                            published = thesis.figures(setting)
                            found.append(Row(series, setting, len(seeds), means, published, others))
        return found

    def _panels(self, rows: Sequence[Row]) -> Iterator[Panel]:
        for figure in self.figures:
            lines = []
            for series in self.series:
                for cluster in figure.clusters:
                    label = f"{series.label}, {cluster}" if figure.policy else series.label
                    mine = [
                        row
                        for row in rows
                        if row.series == series and row.setting.cluster == cluster and row.whole
                    ]
                    if figure.policy not in ("", series.published):
                        continue
                    ours = {row.setting.load: _shown(row.ours, figure.metric) for row in mine}
                    settings = [Setting(self.trace, series.published, cluster, load) for load in self.loads]
                    published = {
                        setting.load: _shown(there, figure.metric)
                        for setting in settings
                        if figure.metric in (there := thesis.figures(setting))
                    }
                    group = cluster if figure.policy else series.published
                    lines.append(Line(label, group, ours, published))
            where = "" if figure.policy else f", {figure.clusters[0]}"
            yield Panel(f"figure {figure.number}{where}", self.load_name, TITLES[figure.metric], lines)

    def _table(self, rows: Sequence[Row]) -> list[str]:
        """The printed table, if there is one: means over the clusters at the highest load."""
        lines = []
        for printed in thesis.tables():
            if printed.table != self.table:
                continue
            for series in (one for one in self.series if one.published == printed.policy):
                mine = [r for r in rows if r.series == series and r.setting.load == self.loads[-1] and r.whole]
                line = [series.label, f"{printed.utilization:.3f}", "", f"{printed.jct_mean_h:.1f}", "", ""]
                if len(mine) == len(self.clusters):
                    jct_h = fmean(row.ours["jct_mean_s"] for row in mine) / 3600.0
                    line[2] = f"{fmean(row.ours['utilization'] for row in mine):.3f}"
                    line[4:] = [f"{jct_h:.1f}", f"{jct_h / printed.jct_mean_h - 1.0:+.1%}"]
                lines.append(line)
        titles = [
            "policy",
            "utilization published",
            "ours",
            "mean completion published, h",
            "ours, h",
            "difference",
        ]
        head = f"Table {self.table}: means over {', '.join(self.clusters)} at {self.loads[-1]:g} {self.load_name}."
        return [head, markdown_table(titles, lines)] if lines else []

    def _all(self, rows: Sequence[Row]) -> str:
        """Every row: ours, and the difference to published."""
        metrics = [metric for metric in PRINTED if any(metric in row.ours for row in rows)]
        titles = ["policy", "cluster", self.load_name, "seeds"]
        titles += [title for metric in metrics for title in (TITLES[metric], "published", "")]
        lines = []
        for row in rows:
            line = [row.series.label, row.setting.cluster, f"{row.setting.load:g}", row.seeds_said]
            for metric in metrics:
                line += [_number(row.ours, metric), _number(row.published, metric), _percent(row.change(metric))]
            lines.append(line)
        return markdown_table(titles, lines)


def _summary(rows: Sequence[Row]) -> str:
    """For each policy how far it is from what was published: median and largest of all settings."""
    lines = []
    for series in dict.fromkeys(row.series for row in rows):
        mine = [row for row in rows if row.series == series]
        line = [series.label, f"`{_plain(series)}`", str(sum(row.whole for row in mine))]
        for metric in PRINTED:
            changes = [change for row in mine if (change := row.change(metric)) is not None]
            line.append(_spread(changes))
        lines.append([*line, series.note])
    titles = [
        "policy",
        "ours",
        "settings",
        *(f"{title.partition(',')[0]}: median, largest" for title in TITLES.values()),
    ]
    return markdown_table([*titles, "what to know"], lines)


def _plain(series: Series) -> str:
    return series.policy.rpartition(":")[2]


def _spread(changes: Sequence[float]) -> str:
    if not changes:
        return ""
    if not any(changes):
        return f"all {len(changes)} equal" if len(changes) > 1 else "equal"
    return f"{median(changes):+.2%}, {max(changes, key=abs):+.2%}"


def _complete(record: Record) -> bool:
    return not record["stopped"] and record["jobs_completed"] == record["jobs_total"]


def _means(records: Iterable[Record]) -> dict[str, float]:
    records = list(records)
    return {name: fmean(record[name] for record in records) for name in PRINTED}


def _shown(figures: dict[str, float], metric: str) -> float:
    return figures[metric] / (3600.0 if metric.endswith("_s") else 1.0)


def _number(figures: dict[str, float], metric: str) -> str:
    if metric not in figures:
        return ""
    value = _shown(figures, metric)
    return f"{value:.3f}" if metric == "utilization" else f"{value:,.2f}"


def _percent(change: float | None) -> str:
    return "" if change is None else "equal" if change == 0.0 else f"{change:+.2%}"


CONTINUOUS = Evaluation(
    name="continuous",
    title="Jobs that keep coming (figures 6.2 and 6.4, table 4.1)",
    trace="continuous",
    clusters=CLUSTERS,
    loads=RATES,
    figures=(Figure("6.2", "utilization", CLUSTERS[:1]), Figure("6.4", "jct_mean_s", CLUSTERS[:1])),
    table="4.1",
)
STATIC = Evaluation(
    name="static",
    title="Jobs that are all there at the start (figures 6.3, 6.5 and 6.7, table 4.2)",
    trace="static",
    clusters=CLUSTERS,
    loads=STATIC_JOBS,
    figures=(
        Figure("6.3", "utilization", CLUSTERS[:1]),
        Figure("6.5", "jct_mean_s", CLUSTERS[:1]),
        Figure("6.7", "cost_usd", CLUSTERS, policy="shared_cloud_cost_fairness"),
    ),
    table="4.2",
)
COST = Evaluation(
    name="cost",
    title="What it costs (figure 6.6)",
    trace="static",
    clusters=(COST_CLUSTER,),
    loads=COST_JOBS,
    figures=(Figure("6.6", "cost_usd", (COST_CLUSTER,)),),
    series=SERIES,
)
