"""Three plots of a comparison: completion times, busy devices, and cost.

Each draws into a given figure, so that a PNG can hold all three and a page can hold them apart. Nothing here
changes matplotlib's global state, and the same results give the same bytes.

Colours: a policy has one of the six colours of Okabe and Ito that are visible on light and dark, then the same
with dashes; an accelerator type has a step of viridis. Both are safe for colour blindness.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gavelx.report.series import busy_shares, completion_curve
from gavelx.report.words import dollars, number, percent, short
from gavelx.result import Result

Canvas = Figure | SubFigure
INK, GRID = "#1a1c20", "#8c929b"
"""Colours of text, which a page replaces by its own, and of lines, which are visible on light and dark."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
WIDTH_IN = 9.0
BINS = 360
STYLE: dict[Any, Any] = {
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
    "font.size": 9.0,
    "grid.color": GRID,
    "grid.alpha": 0.3,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "gavelx",
    "text.color": INK,
    "text.parse_math": False,  # a policy may be called "$x^$"
    "xtick.color": INK,
    "ytick.color": INK,
}


class Plot(NamedTuple):
    """A plot: its name, the function that draws it, and its height in inches for given results."""

    name: str
    draw: Callable[[Canvas, Sequence[Any]], None]
    height_in: Callable[[Sequence[Any]], float]


def policy_style(position: int) -> tuple[str, Any]:
    """The colour and dashes of the policy at this position; they never depend on the others."""
    return COLORS[position % len(COLORS)], DASHES[position // len(COLORS) % len(DASHES)]


def type_colors(count: int) -> list[str]:
    """A colour for each accelerator type, dark to light."""
    return [to_hex(color) for color in colormaps["viridis"](np.linspace(0.3, 0.86, count))]


def draw_completion(figure: Canvas, results: Sequence[Result]) -> None:
    """Draw the cumulative share of jobs by completion time, one curve for each policy, on a logarithmic axis."""
    axes = figure.subplots()
    curves = [completion_curve(result) for result in results]
    every_h = np.concatenate([jct_h for jct_h, _ in curves])
    every_h = every_h[every_h > 0]
    axes.set_title("Job completion time")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axes.set_xlabel("hours from arrival to completion")
    axes.grid(True)
    _legend(figure, results)
    if not len(every_h):
        _say(axes, "no job completed")
        return
    low, high = float(every_h.min()), float(every_h.max())
    _log_hours(axes, low / 1.15, high * 1.15)
    for position, (jct_h, share) in enumerate(curves):
        color, dashes = policy_style(position)
        x = np.concatenate([[low / 1.15], np.maximum(jct_h, low / 1.15)])
        axes.step(
            x,
            np.concatenate([[0.0], share]),
            where="post",
            color=color,
            linestyle=dashes,
            linewidth=1.8,
            alpha=0.9,
        )


def draw_busy(figure: Canvas, results: Sequence[Result]) -> None:
    """Draw a panel for each policy, with a lane for each accelerator type, filled to its busy part."""
    end_s = max(result.end_s for result in results)
    panels = figure.subplots(len(results), 1, sharex=True, squeeze=False)[:, 0]
    for axes, result in zip(panels, results, strict=True):
        _lanes(axes, result, end_s)
    panels[-1].set_xlabel("hours from the start")
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda hours, _: f"{hours:,.12g}"))


def draw_cost(figure: Canvas, results: Sequence[Result]) -> None:
    """Draw the dollars billed under each policy, by accelerator type, with a note if a price is unknown."""
    axes = figure.subplots()
    axes.set_title("Cost of the devices held by jobs")
    axes.set_xlabel("US dollars")
    axes.set_yticks(range(len(results)), [short(result.policy) for result in results])
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda usd, _: f"{usd:,.12g}"))
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    costs = [result.cost_usd_A for result in results]
    high = max((float(cost_A.sum()) for cost_A in costs if np.isfinite(cost_A).all()), default=0.0)
    axes.set_xlim(0, high * 1.16 or 1.0)
    for row, (result, cost_A) in enumerate(zip(results, costs, strict=True)):
        _bar(axes, row, result, cost_A)
    _type_legend(axes, results)


PLOTS = (
    Plot("completion", draw_completion, lambda results: 2.6 + 0.2 * len(results)),
    Plot("busy", draw_busy, lambda results: 0.7 + sum(0.5 + 0.24 * len(_types(result)) for result in results)),
    Plot("cost", draw_cost, lambda results: 1.3 + 0.32 * len(results)),
)


def png_plot(results: Sequence[Result]) -> bytes:
    """All plots below each other, as a PNG. There is at least one result."""
    return png_of(PLOTS, results)


def png_of(plots: Sequence[Plot], results: Sequence[Any]) -> bytes:
    """These plots below each other, as a PNG."""
    heights = [plot.height_in(results) for plot in plots]
    with _style():
        figure = _figure(sum(heights))
        parts = figure.subfigures(len(plots), 1, height_ratios=heights, squeeze=False)[:, 0]
        for plot, part in zip(plots, parts, strict=True):
            plot.draw(part, results)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def svg_plots(results: Sequence[Result]) -> dict[str, str]:
    """Each plot by name, as an SVG element for a page, with the page's text colour and font."""
    return {plot.name: svg_of(plot, results) for plot in PLOTS}


def svg_of(plot: Plot, results: Sequence[Any]) -> str:
    """One plot as such an element."""
    with _style():
        figure = _figure(plot.height_in(results))
        plot.draw(figure, results)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", re.sub(r' height="[^"]*"', "", text, count=1), count=1)
    # Several plots share a page, so each needs ids of its own.
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{plot.name}-", text)
    return text.replace(INK, "currentColor")


def _figure(height_in: float) -> Figure:
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, rect=(0.01, 0.0, 0.98, 1.0))
    return Figure(figsize=(WIDTH_IN, height_in), layout=layout)


@contextmanager
def _style() -> Iterator[None]:
    with rc_context(STYLE), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box, without a warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _types(result: Result) -> list[int]:
    """The accelerator types of which there are devices."""
    return [int(a) for a in np.flatnonzero(result.cluster.devices_A)]


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GRID)


def _legend(figure: Canvas, results: Sequence[Result]) -> None:
    handles, labels = [], []
    for position, result in enumerate(results):
        color, dashes = policy_style(position)
        handles.append(Line2D([], [], color=color, linestyle=dashes, linewidth=2.2))
        # matplotlib leaves out labels that begin with an underscore; a thin space hides it.
        labels.append("\N{THIN SPACE}" + short(result.policy))
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, handlelength=2.8)


def _log_hours(axes: Axes, low: float, high: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    narrow = high / low < 30
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,), numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda hours, _: f"{hours:,.12g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _lanes(axes: Axes, result: Result, end_s: float) -> None:
    types, devices_A = _types(result), result.cluster.devices_A
    colors = type_colors(len(result.cluster.accelerators))
    edges_h, share_BA = busy_shares(result, end_s, BINS)
    end_h = result.end_s / 3600.0
    for lane, a in enumerate(types):
        floor = len(types) - 1 - lane
        axes.fill_between([0.0, end_h], floor, floor + 0.88, color=GRID, alpha=0.18, linewidth=0)
        top = floor + 0.88 * np.minimum(1.0, share_BA[:, a])
        axes.stairs(top, edges_h, baseline=floor, fill=True, color=colors[a], linewidth=0)
    labels = [f"{devices_A[a]:,} {short(result.cluster.accelerators[a], 14)}" for a in types]
    axes.set_yticks([len(types) - 0.56 - lane for lane in range(len(types))], labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.05, max(1, len(types)))
    axes.set_xlim(0, end_s / 3600.0 or 1.0)
    axes.set_title(short(result.policy, 60))
    busy = f"{percent(result.utilization)} of device time busy, {number(end_h)} h"
    axes.set_title(busy, loc="right", fontsize=8.5, color=GRID)


def _bar(axes: Axes, row: int, result: Result, cost_A: np.ndarray) -> None:
    names = result.cluster.accelerators
    if missing := [short(names[a], 14) for a in np.flatnonzero(np.isnan(cost_A))]:
        axes.annotate(
            f"not known: no price for {', '.join(missing)}",
            (0, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=GRID,
        )
        return
    left = 0.0
    for a, (cost, color) in enumerate(zip(cost_A, type_colors(len(names)), strict=True)):
        axes.barh(row, cost, left=left, height=0.62, color=color, linewidth=0)
        left += float(cost_A[a])
    axes.annotate(dollars(left), (left, row), xytext=(4, 0), textcoords="offset points", va="center", color=INK)


def _type_legend(axes: Axes, results: Sequence[Result]) -> None:
    """Squares for the accelerator types, above the bars; all results are of one cluster."""
    names, colors = results[0].cluster.accelerators, type_colors(len(results[0].cluster.accelerators))
    types = _types(results[0])
    handles = [Line2D([], [], color=colors[a], marker="s", linestyle="", markersize=7) for a in types]
    labels = ["\N{THIN SPACE}" + short(names[a], 14) for a in types]
    if len(types) <= 6:
        axes.legend(
            handles, labels, loc="lower right", bbox_to_anchor=(1, 1), ncols=6, frameon=False, handletextpad=0.2
        )
    else:
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1, 1), frameon=False, handletextpad=0.2)
