"""Plots of ONES's workload: beliefs of progress (its figure 6), completion (15), clusters and loads (17, 18)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from experiments.experiment import markdown_table
from experiments.ones.curves import Curve
from experiments.ones.jobs import draw
from experiments.ones.ways import FULL, WAYS, Point, Setting, simulated
from experiments.plots import png
from gavelx.mechanism.training_progress import BetaModel, TrainingProgress, features
from gavelx.report.plots import COLORS, GRID, STYLE, policy_style
from gavelx.training_report import TrainingReport

Floats = NDArray[np.float64]
SHOWN = (
    "ones",
    "srtf_program",
    "goodput",
    "ones_published",
    "optimus, the same, free devices at once",
    "las_2d 8000",
)
"""Policies of the plots; in the one of single jobs, the first seed's."""
LEVEL = 0.9
NEAREST = 0.5
"""Epochs that are left at least by the mean length of others."""


class Told(NamedTuple):
    """The reports of a job, one an epoch, and how much of it was done then."""

    epochs_N: Floats
    x_NF: Floats
    part_N: Floats


def told(curve: Curve) -> Told:
    """What a job says on its way."""
    epochs_N = np.arange(1.0, np.ceil(curve.epochs))
    reports = [curve.report(curve.steps * epoch / curve.epochs) for epoch in epochs_N.tolist()]
    return Told(epochs_N, features(reports), epochs_N / curve.epochs)


def after(curves: Sequence[Curve]) -> BetaModel:
    """What is believed when these jobs have ended."""
    progress = TrainingProgress()
    for job_id, curve in enumerate(curves):
        for epoch in range(1, int(np.ceil(curve.epochs))):
            steps = curve.steps * epoch / curve.epochs
            progress.heard(job_id, TrainingReport(*curve.report(steps)), steps)
        progress.gone(job_id, curve.steps)
    model = progress.model()
    assert model is not None
    return model


def left_out(seeds: Sequence[int]) -> str:
    """A table: each job judged by the others of its seed, with a concentration and as printed."""
    names = ("Beta with a concentration", "Beta as printed", "mean length of the others")
    held: dict[str, list[bool]] = {name: [] for name in names[:2]}
    errors: dict[str, list[float]] = {name: [] for name in names}
    for curves in (list(draw(seed).curves.values()) for seed in seeds):
        for n, curve in enumerate(curves):
            others, one = curves[:n] + curves[n + 1 :], told(curve)
            left_N = one.epochs_N * (1.0 / one.part_N - 1.0)
            model = after(others)
            for name, trusted in zip(names, (model, replace(model, concentration=1.0)), strict=False):
                lower, middle, upper = (
                    trusted.quantile(*one[:2], p) for p in (0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2)
                )
                held[name] += ((lower <= one.part_N) & (one.part_N <= upper)).tolist()
                errors[name] += np.abs(np.log(one.epochs_N * (1.0 / middle - 1.0) / left_N)).tolist()
            mean_N = np.maximum(fmean(other.epochs for other in others) - one.epochs_N, NEAREST)
            errors[names[2]] += np.abs(np.log(mean_N / left_N)).tolist()
    rows = [
        [
            name,
            f"{np.mean(held[name]):.1%}" if name in held else "",
            f"{np.mean(errors[name]):.2f}",
            f"{np.median(errors[name]):.2f}",
        ]
        for name in names
    ]
    return markdown_table(["belief", f"intervals of {LEVEL:.0%} hold", "mean error", "median error"], rows)


def beliefs(seed: int = 0, jobs: Sequence[int] = (3, 17, 28, 41)) -> bytes:
    """What is believed of some jobs on their way, from the other jobs of the seed, beside the truth."""
    curves = list(draw(seed).curves.values())
    with rc_context(STYLE):
        figure = Figure(figsize=(10.0, 3.0), layout="constrained")
        figure.suptitle(
            "Part of a job that is done, as believed from its losses (90 %)", x=0.01, ha="left", fontsize=11
        )
        for axes, n in zip(figure.subplots(1, len(jobs), sharey=True), jobs, strict=True):
            one, model = told(curves[n]), after(curves[:n] + curves[n + 1 :])
            lower, middle, upper = (model.quantile(*one[:2], p) for p in (0.05, 0.5, 0.95))
            axes.fill_between(one.epochs_N, lower, upper, color=COLORS[0], alpha=0.2, linewidth=0)
            axes.plot(one.epochs_N, middle, color=COLORS[0], label="believed")
            axes.plot(one.epochs_N, one.part_N, color=COLORS[1], linestyle="--", label="true")
            axes.set_xlabel("epochs done")
            axes.grid(True, color=GRID, alpha=0.3)
        axes.legend(frameon=False)
        return png(figure)


def completions(seeds: Sequence[int]) -> bytes:
    """Which part of the jobs is complete after a time, and has begun; at efficiency 1 and with a noise scale."""
    with rc_context(STYLE):
        figure = Figure(figsize=(10.0, 6.0), layout="constrained")
        for column, noise in zip(figure.subplots(2, 2).T, (False, True), strict=True):
            setting = Setting(FULL, noise, 1.0)
            for position, name in enumerate(SHOWN):
                results = [simulated(setting, WAYS[name], seed) for seed in seeds]
                waits_s = np.concatenate([one.start_s_J - [job.arrival_s for job in one.jobs] for one in results])
                jct_s = np.concatenate([one.jct_s_J for one in results])
                for axes, times_s in zip(column, (jct_s, waits_s), strict=True):
                    _distribution(axes, times_s, name, position)
            column[0].set_title("with a noise scale" if noise else "efficiency 1")
            column[0].set_xlabel("completion time, s")
            column[1].set_xlabel("time until the first lease, s")
            column[0].set_ylabel("part of the jobs")
        figure.legend(*column[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        return png(figure)


def _distribution(axes: Axes, times_s: Floats, name: str, position: int) -> None:
    color, dashes = policy_style(position)
    at_s = np.sort(np.maximum(times_s, 1.0))
    axes.step(
        at_s, np.arange(1, len(at_s) + 1) / len(at_s), where="post", color=color, linestyle=dashes, label=name
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:,g}"))
    axes.grid(True, color=GRID, alpha=0.3)


def clusters(records: Mapping[Point, dict[str, float]]) -> bytes:
    """Mean completion by devices, and by the gap between jobs, over all seeds that each policy has."""
    with rc_context(STYLE):
        figure = Figure(figsize=(10.0, 6.0), layout="constrained")
        for row, noise in zip(figure.subplots(2, 2), (False, True), strict=True):
            mine = {point: one for point, one in records.items() if point.setting.noise == noise}
            mine = {point: one for point, one in mine.items() if point.setting.change_s == 1.0}
            by_devices = {point: point.setting.devices for point in mine if point.setting.gap_s == 30.0}
            by_gap = {point: point.setting.gap_s for point in mine if point.setting.devices == FULL}
            for axes, places, label in zip(row, (by_devices, by_gap), ("devices", "s between jobs"), strict=True):
                for position, name in enumerate(SHOWN):
                    _line(axes, {p: at for p, at in places.items() if p.way == name}, mine, name, position)
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:,g}"))
                axes.yaxis.set_minor_formatter(NullFormatter())
                axes.set_xticks(sorted(set(places.values())))
                axes.set_xlabel(label)
                axes.set_title("with a noise scale" if noise else "efficiency 1")
                axes.grid(True, which="both", color=GRID, alpha=0.3)
            row[0].set_ylabel("mean completion, s")
        figure.legend(*row[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        return png(figure)


def _line(
    axes: Axes,
    places: Mapping[Point, float],
    records: Mapping[Point, dict[str, float]],
    name: str,
    position: int,
) -> None:
    color, dashes = policy_style(position)
    at = sorted(set(places.values()))
    means = [fmean(records[point]["jct_mean_s"] for point, place in places.items() if place == x) for x in at]
    axes.plot(at, means, color=color, linestyle=dashes, marker="o", markersize=3, label=name)
