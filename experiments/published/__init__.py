"""The numbers behind the published figures, and those of an independent replication; see README.md here."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
STORED, REPLICATION = "stored", "replication"
REPLICATED_TRACE = {
    "fig9": "continuous-single",
    "fig10": "continuous-multiple",
    "fig11": "continuous-multiple",
}

Series = dict[float, float]
"""A figure by arrival rate (jobs/h), or by number of jobs."""


class Key(NamedTuple):
    """Which published series: ``policy`` by its published name."""

    source: str
    trace: str
    metric: str
    policy: str


def series(source: str, trace: str, metric: str, policy: str) -> Series:
    """One published series; empty where nothing was published."""
    return _every_series().get(Key(source, trace, metric, policy), {})


@cache
def _every_series() -> dict[Key, Series]:
    every: dict[Key, Series] = defaultdict(dict)
    for row in rows("gavel_osdi20_figures_9_10_11.csv"):
        key = Key(STORED, row["trace"], row["metric"], row["policy"])
        every[key][float(row["jobs_per_hr"])] = float(row["value"])
    for row in rows("gavel_osdi20_makespan.csv"):
        key = Key(STORED, "static-multiple", "makespan_hours", row["policy"])
        every[key][float(row["static_jobs"])] = float(row["makespan_hours"])
    for row in rows("gavel_replication_cs244c_2026.csv"):
        key = Key(REPLICATION, REPLICATED_TRACE[row["fig"]], "avg_jct_hours", row["policy"])
        every[key][float(row["jobs_per_hr"])] = float(row["avg_jct_h"])
    return dict(every)


def rows(name: str) -> Iterator[dict[str, str]]:
    """The rows of a file here, as text."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
