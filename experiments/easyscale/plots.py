"""Figures 14 and 15 of EasyScale: completion and makespan, and devices in use over time."""

import io
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gavelx.report.plots import COLORS, GRID, STYLE
from gavelx.result import Result

FIGURES = {"jct_mean_s": "mean completion, s", "makespan_s": "makespan, s"}


def bars(records: Mapping[str, Sequence[Mapping[str, float]]]) -> bytes:
    """Two panels with a bar for each policy: the mean over seeds, and the deviation between them."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.4), layout="constrained")
        for axes, (name, label) in zip(figure.subplots(1, 2), FIGURES.items(), strict=True):
            values = [[one[name] for one in of_seeds] for of_seeds in records.values()]
            means = [fmean(each) for each in values]
            spread = [stdev(each) if len(each) > 1 else 0.0 for each in values]
            places = range(len(records))
            axes.barh(places, means, xerr=spread, error_kw={"ecolor": GRID}, color=COLORS[: len(records)])
            axes.set_yticks(places, list(records))
            axes.invert_yaxis()
            axes.set_xlabel(label)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.grid(True, axis="x")
            axes.set_axisbelow(True)
        return png(figure)


def over_time(results: Mapping[str, Result]) -> bytes:
    """Devices in use, of all types together, a panel for each policy."""
    total = int(np.sum(next(iter(results.values())).cluster.devices_A))
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 1.1 * len(results) + 0.6), layout="constrained")
        panels = figure.subplots(len(results), sharex=True, squeeze=False)[:, 0]
        for number, (axes, (name, result)) in enumerate(zip(panels, results.items(), strict=True)):
            time_s_K, busy_KA = result.busy_devices()
            axes.fill_between(time_s_K, busy_KA.sum(axis=1), step="post", color=COLORS[number], linewidth=0)
            axes.set_ylim(0, total)
            axes.set_yticks([0, total // 2, total])
            axes.set_title(name, loc="right", fontsize=8)
        axes.set_xlim(left=0)
        axes.set_xlabel("time, s")
        figure.supylabel(f"devices in use, of {total}", fontsize=9)
        return png(figure)


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
