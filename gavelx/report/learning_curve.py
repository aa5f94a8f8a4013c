"""A plot of a course of learning: mean completion on validation traces after each round."""

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from gavelx.report.plots import COLORS, Canvas, Plot, png_of


def curve_plot(rounds: Sequence[dict[str, Any]]) -> bytes:
    """A PNG of rounds as `gavelx learn imitate --json` prints them."""
    return png_of([Plot("curve", _draw, lambda _: 3.4)], rounds)


def _draw(figure: Canvas, rounds: Sequence[dict[str, Any]]) -> None:
    axes = figure.subplots()
    numbers = [one["round"] for one in rounds]
    lines = (("network", "o-"), ("teacher", "--"), ("greedy", ":"))
    for color, (name, style) in zip(COLORS, lines, strict=False):
        hours = [one[f"{name}_jct_mean_s"] / 3600.0 for one in rounds]
        axes.plot(numbers, hours, style, color=color, label=name, linewidth=1.8)
    axes.set_title("Mean completion on validation traces")
    axes.set_xlabel("round")
    axes.set_ylabel("hours")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, axis="y")
    axes.legend(frameon=False)
