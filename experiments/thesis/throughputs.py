"""The throughput analysis of the thesis: how fast each job type is on each accelerator, and for how much money.

No simulation: figures of the throughput table and of price tables alone.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.experiment import Selection, markdown_table
from experiments.plots import BarPanel, bars_plot
from experiments.runner import Task
from experiments.store import Store
from experiments.thesis.honest import HONEST
from gavelx.files.atomic import write_atomically
from gavelx.files.price_tables import load_prices
from gavelx.files.throughput_tables import load_throughputs
from gavelx.simulator.random_jobs import JOB_TYPES

TYPES = ("k80", "p100", "v100")


class ThroughputAnalysis:
    """A plot and two tables: steps per second, and per dollar, of every job type on one device."""

    name = "throughputs"

    def tasks(self, selection: Selection) -> list[Task]:
        """Nothing has to be simulated."""
        return []

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        speeds = _speeds()
        panels = [
            BarPanel("steps/s, relative to a V100", speeds),
            *(
                BarPanel(f"steps per dollar, relative to the best: {one.says}", _per_dollar(one.prices))
                for one in HONEST
            ),
        ]
        write_atomically(folder / f"{self.name}.png", bars_plot("Throughput of one device", TYPES, panels))
        return (
            "\n\n".join(
                [
                    "## Throughput of each job type",
                    f"![throughput by job type]({self.name}.png)",
                    f"The table `simulation`, {len(JOB_TYPES)} job types on one device: for how many of them a "
                    "step is cheapest on which type.",
                    markdown_table(["prices", "$/h", *TYPES], list(_winners())),
                ]
            )
            + "\n"
        )


def _speeds() -> dict[str, tuple[float, ...]]:
    table = load_throughputs("simulation")
    speeds = {name: [table.get(name, accelerator, 1) or 0.0 for accelerator in TYPES] for name in JOB_TYPES}
    return {name: tuple(speed / row[-1] for speed in row) for name, row in speeds.items()}


def _per_dollar(prices: str) -> dict[str, tuple[float, ...]]:
    usd = np.nan_to_num(load_prices(prices, TYPES, strict=False).array(TYPES), nan=np.inf)
    worth = {
        name: [speed / dollars for speed, dollars in zip(row, usd, strict=True)] for name, row in _speeds().items()
    }
    return {name: tuple(value / max(row) for value in row) for name, row in worth.items()}


def _winners() -> Iterator[list[str]]:
    for one in HONEST:
        usd = load_prices(one.prices, TYPES, strict=False).usd_per_hour
        wins = Counter(TYPES[row.index(max(row))] for row in _per_dollar(one.prices).values())
        yield [
            one.says,
            ", ".join(f"{usd[name]:g}" if name in usd else "none" for name in TYPES),
            *(str(wins[name]) for name in TYPES),
        ]


THROUGHPUTS = ThroughputAnalysis()
