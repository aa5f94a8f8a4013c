"""Plots of a sweep: ours as solid lines with a band, the stored figures and the replication in other styles.

Uses the package's own style, and nothing of matplotlib's global state: the same rows give the same bytes.
"""

import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from experiments.compare import Row
from experiments.curves import Curve, Sweep
from experiments.published import REPLICATION, STORED
from gavelx.report.plots import COLORS, GRID, INK, STYLE

MARKERS = "os^Dv*"
NEAR = 24.0
"""Points nearer than this, in pixels, are named together."""
LINES = {STORED: (0, (5, 1.5)), REPLICATION: (0, (1.2, 1.5))}


def curve_plot(sweep: Sweep, rows: Sequence[Row]) -> bytes:
    """A column for each family of policies: completion time above, the published fairness ratio below."""
    rows = _of_one_rule(rows)
    panels = list(dict.fromkeys(curve.panel for curve in sweep.curves if curve.panel))
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(panels), 7.4), layout="constrained")
        figure.suptitle(sweep.title, x=0.01, ha="left", fontsize=11)
        axes = figure.subplots(2, len(panels), squeeze=False, height_ratios=(3, 2), sharex="col")
        for column, panel in enumerate(panels):
            curves = [curve for curve in sweep.curves if curve.panel == panel]
            _completion(axes[0, column], sweep, curves, rows)
            _fairness(axes[1, column], sweep, curves, rows)
            axes[0, column].set_title(panel)
        axes[0, 0].set_ylabel("mean completion time, h")
        axes[1, 0].set_ylabel("completion time / that of isolated, seed 0")
        figure.legend(handles=_sources(), loc="outside lower center", ncols=4, frameon=False)
        return png(figure)


def bar_plot(sweep: Sweep, rows: Sequence[Row]) -> bytes:
    """Bars by number of jobs: ours filled, with the deviation over seeds; a line across for the stored figure."""
    rows = _of_one_rule(rows)
    curves = [curve for curve in sweep.curves if curve.panel]
    loads = sorted({row.load for row in rows} | {load for curve in curves for load in sweep.loads(curve)})
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.set_title(sweep.title)
        axes.set_ylabel("makespan, h")
        axes.set_xticks(range(len(loads)), [f"{load:g}" for load in loads])
        axes.set_xlabel("jobs, all there at the start")
        axes.grid(True, axis="y")
        axes.set_axisbelow(True)
        width = 0.8 / len(curves)
        for number, curve in enumerate(curves):
            left = {load: place - 0.4 + width * number for place, load in enumerate(loads)}
            done = [row for row in rows if row.curve == curve and row.mean_h is not None]
            axes.bar(
                [left[row.load] for row in done],
                [row.mean_h or 0.0 for row in done],
                width * 0.9,
                align="edge",
                yerr=[row.deviation_h for row in done] if done else None,
                error_kw={"ecolor": GRID},
                color=COLORS[number],
            )
            for load, hours in sweep.series(STORED, curve).items():
                ends = left[load], left[load] + width * 0.9
                axes.plot(ends, (hours, hours), color=COLORS[number], linewidth=2.4)
                axes.plot(ends, (hours, hours), color=INK, linewidth=0.8, linestyle=LINES[STORED])
        handles = [Patch(color=COLORS[number], label=curve.label) for number, curve in enumerate(curves)]
        stored = Line2D([], [], color=INK, linestyle=LINES[STORED], label="stored results")
        figure.legend(handles=[*handles, stored], loc="outside lower center", ncols=5, frameon=False)
        return png(figure)


class Line(NamedTuple):
    """One policy in a panel; lines of the same ``group`` have the same colour, and ``published`` beside them.

    ``names`` are written at marks, by their place on the x axis.
    """

    label: str
    group: str
    ours: Mapping[float, float]
    published: Mapping[float, float] = {}
    names: Mapping[float, str] = {}


class Panel(NamedTuple):
    """One figure: what the axes are, and its lines."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    from_zero: bool = True


def panels_plot(title: str, panels: Sequence[Panel]) -> bytes:
    """Panels side by side: ours as marks joined by solid lines, what was published broken."""
    groups = list(dict.fromkeys(line.group for panel in panels for line in panel.lines))
    with rc_context(STYLE):
        figure = Figure(figsize=(max(7.0, 4.4 * len(panels)), 5.0), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        handles: dict[str, Line2D] = {}
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            axes.grid(True)
            seen: list[str] = []
            for line in panel.lines:
                color, marker = COLORS[groups.index(line.group) % len(COLORS)], MARKERS[seen.count(line.group)]
                style = {"color": color, "marker": marker, "markersize": 4.0, "linewidth": 1.4}
                axes.plot(*_line(dict(line.ours)), **style)
                axes.plot(*_line(dict(line.published)), color=color, linewidth=1.2, linestyle=LINES[STORED])
                handles.setdefault(line.label, Line2D([], [], label=line.label, **style))
                seen.append(line.group)
            for line in panel.lines:
                _name_points(axes, line)
            if panel.from_zero:
                axes.set_ylim(bottom=0.0)
        if any(line.published for panel in panels for line in panel.lines):
            handles["published"] = Line2D([], [], color=INK, linestyle=LINES[STORED], label="published")
        columns = 2 if len(panels) == 1 else 3
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=columns, frameon=False)
        return png(figure)


def _name_points(axes: Axes, line: Line) -> None:
    """Write the names beside the points; those of neighbours too near to be told apart in one."""
    axes.autoscale_view()
    last = None
    for x, name in line.names.items():
        at = axes.transData.transform((x, line.ours[x]))
        if last is not None and np.hypot(*(at - last[0])) < NEAR:
            last[1].set_text(f"{last[1].get_text()}, {name}")
        else:
            last = at, axes.annotate(name, (x, line.ours[x]), (3, 4), textcoords="offset points", fontsize=7)


class BarPanel(NamedTuple):
    """A bar for each part of each row."""

    title: str
    rows: Mapping[str, Sequence[float]]


def bars_plot(title: str, parts: Sequence[str], panels: Sequence[BarPanel]) -> bytes:
    """Panels below each other, of the same rows along the x axis."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 1.2 + 1.9 * len(panels)), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        width = 0.8 / len(parts)
        for axes, panel in zip(
            figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0], panels, strict=True
        ):
            axes.set_title(panel.title)
            axes.grid(True, axis="y")
            axes.set_axisbelow(True)
            for number, part in enumerate(parts):
                left = [place - 0.4 + width * number for place in range(len(panel.rows))]
                values = [row[number] for row in panel.rows.values()]
                axes.bar(left, values, width * 0.9, align="edge", color=COLORS[number], label=part)
            axes.set_xticks(range(len(panel.rows)), list(panel.rows), rotation=60, ha="right", fontsize=7)
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(parts), frameon=False
        )
        return png(figure)


def _of_one_rule(rows: Sequence[Row]) -> list[Row]:
    """The rows of each curve under the published rules, or under the only ones that it has."""
    published = {row.curve for row in rows if row.rules == "published"}
    return [row for row in rows if (row.rules == "published") == (row.curve in published)]


def _completion(axes: Axes, sweep: Sweep, curves: Sequence[Curve], rows: Sequence[Row]) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda hours, _: f"{hours:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda hours, _: f"{hours:g}" if f"{hours:e}"[0] in "25" else ""))
    axes.grid(True, which="both")
    for color, curve in zip(COLORS, curves, strict=False):
        ours = [row for row in rows if row.curve == curve]
        done = [row for row in ours if row.mean_h is not None]
        load = np.array([row.load for row in done])
        mean_h = np.array([row.mean_h for row in done], dtype=float)
        deviation_h = np.array([row.deviation_h for row in done])
        axes.plot(load, mean_h, color=color, linewidth=1.8, label=curve.label)
        axes.fill_between(
            load,
            np.maximum(mean_h - deviation_h, mean_h / 10),
            mean_h + deviation_h,
            color=color,
            alpha=0.2,
            linewidth=0,
        )
        for source, dashes in LINES.items():
            axes.plot(*_line(sweep.series(source, curve)), color=color, linewidth=1.2, linestyle=dashes)
        over = [row.load for row in ours if row.mean_h is None]
        axes.plot(over, [0.98] * len(over), "x", color=color, transform=axes.get_xaxis_transform())
    axes.legend(loc="upper left", frameon=False)


def _fairness(axes: Axes, sweep: Sweep, curves: Sequence[Curve], rows: Sequence[Row]) -> None:
    axes.set_xlabel("jobs per hour")
    axes.set_ylim(0, 1.6)
    axes.grid(True)
    for color, curve in zip(COLORS, curves, strict=False):
        ours = {row.load: row.ratio for row in rows if row.curve == curve and row.ratio is not None}
        axes.plot(*_line(ours), color=color, linewidth=1.8)
        axes.plot(*_line(sweep.fairness(curve)), color=color, linewidth=1.2, linestyle=LINES[STORED])


def _line(series: dict[float, float]) -> tuple[list[float], list[float]]:
    loads = sorted(series)
    return loads, [series[load] for load in loads]


def _sources() -> list[Line2D]:
    styles = {
        "ours, mean and deviation over seeds": "-",
        "stored results": LINES[STORED],
        "replication": LINES[REPLICATION],
    }
    lines = [Line2D([], [], color=INK, linestyle=style, label=label) for label, style in styles.items()]
    return [*lines, Line2D([], [], color=INK, linestyle="", marker="x", label="not all jobs completed")]


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()
