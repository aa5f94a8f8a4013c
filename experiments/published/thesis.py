"""The figures of the thesis on cluster scheduling with prices, as numbers; see README.md here."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from experiments.published import rows

METRICS = ("utilization", "jct_mean_s", "makespan_s", "cost_usd")


class Setting(NamedTuple):
    """What one published figure is of: ``cluster`` as V100:P100:K80, ``load`` in jobs, or jobs per hour."""

    trace: str
    policy: str
    cluster: str
    load: float


class TableRow(NamedTuple):
    """One row of a printed table: means over three clusters and three seeds."""

    table: str
    trace: str
    policy: str
    utilization: float
    jct_mean_h: float


def figures(setting: Setting) -> dict[str, float]:
    """The published means over seeds by metric, those that there are; none where the setting was not published."""
    return _figures().get(setting, {})


def settings(trace: str) -> tuple[Setting, ...]:
    """Every published setting of a trace, in the order of the file."""
    return tuple(setting for setting in _figures() if setting.trace == trace)


def seeds(setting: Setting) -> int:
    """Over how many seeds a published mean is."""
    return int(_figures()[setting]["seeds"])


def tables() -> Iterator[TableRow]:
    """The rows of tables 4.1 and 4.2."""
    for row in rows("thesis_tables.csv"):
        numbers = float(row["utilization"]), float(row["jct_mean_h"])
        yield TableRow(row["table"], row["trace"], row["policy"], *numbers)


@cache
def _figures() -> dict[Setting, dict[str, float]]:
    return {
        Setting(row["trace"], row["policy"], row["cluster"], float(row["load"])): {
            name: float(row[name]) for name in (*METRICS, "seeds") if row[name]
        }
        for row in rows("thesis_cluster_scheduling.csv")
    }
