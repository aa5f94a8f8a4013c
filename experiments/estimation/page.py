"""The scores as a page with a plot."""

import io
from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.estimation.scores import LEVEL, Score
from experiments.experiment import markdown_table
from gavelx.report.plots import COLORS, GRID, STYLE

FIGURES = {"median_error": "median error of hidden pairs", "coverage": "share in 90 % intervals"}


def report(scores: Sequence[Score]) -> str:
    """The scores as a page: one table of errors and coverage for each published table."""
    names = list(dict.fromkeys(one.estimator for one in scores))
    cells = {(one.table, one.regime, one.kind, one.estimator): one for one in scores}
    parts = [
        "# Estimated throughputs",
        "Made by `python -m experiments.estimation`. Median and 90th percentile of the relative error of hidden "
        f"cells that run, and the share of them in {LEVEL:.0%} intervals. Cells of all seeds are taken together.",
        "![Errors and coverage](estimation.png)",
    ]
    for table in dict.fromkeys(one.table for one in scores):
        rows = [
            [regime, kind, f"{cells[table, regime, kind, names[0]].cells:,}"]
            + [_cell(cells[table, regime, kind, name]) for name in names]
            for regime, kind in dict.fromkeys((one.regime, one.kind) for one in scores if one.table == table)
        ]
        parts += [f"## {table}", markdown_table(["known", "hidden", "cells", *(f"`{n}`" for n in names)], rows)]
    return "\n\n".join(parts) + "\n"


def _cell(one: Score) -> str:
    return f"{one.median_error:.1%}, {one.p90_error:.0%}; {one.coverage:.0%}"


def plot(scores: Sequence[Score]) -> bytes:
    """A column for each table: median error above and coverage below, by the share of pairs measured."""
    tables = list(dict.fromkeys(one.table for one in scores))
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(tables), 6.4), layout="constrained")
        axes = figure.subplots(len(FIGURES), len(tables), squeeze=False, sharex=True, sharey="row")
        for column, table in enumerate(tables):
            axes[0, column].set_title(table)
            axes[1, column].set_xlabel("pairs measured, %")
            axes[1, column].axhspan(0.85, 0.95, color=GRID, linewidth=0)
            for row, figure_name in enumerate(FIGURES):
                _curves(axes[row, column], [one for one in scores if one.table == table], figure_name)
        for row, says in enumerate(FIGURES.values()):
            axes[row, 0].set_ylabel(says)
        axes[0, 0].legend(frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        return buffer.getvalue()


def _curves(axes: Axes, scores: Sequence[Score], figure_name: str) -> None:
    axes.grid(True)
    axes.set_axisbelow(True)
    for color, name in zip(COLORS, dict.fromkeys(one.estimator for one in scores), strict=False):
        points = [
            (float(one.regime.partition("%")[0]), getattr(one, figure_name))
            for one in scores
            if one.estimator == name and "%" in one.regime
        ]
        axes.plot(*zip(*points, strict=True), color=color, linewidth=1.8, marker="o", markersize=3, label=name)
