"""A sweep: curves of one metric over a load, laid over the published ones.

The load is an arrival rate in jobs per hour (:class:`Continuous`) or a number of jobs that are all there at the
start (:class:`Static`).
"""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

from experiments.compare import Row, compare
from experiments.curves import Curve, Sweep
from experiments.experiment import Selection
from experiments.plots import bar_plot, curve_plot
from experiments.points import Point, Record
from experiments.results import section
from experiments.store import Store
from gavelx.files.atomic import write_atomically

WINDOW, TINY_WINDOW = (4000, 5000), (5, 15)
TINY_JOBS = 0.1
"""Of the jobs, where all are there at the start: what ``--tiny`` runs."""


@dataclass(frozen=True)
class Reported(Sweep):
    """A sweep with its plot and their section of RESULTS.md."""

    @abstractmethod
    def plot(self, rows: list[Row]) -> bytes:
        """A PNG of all curves."""

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        rows = compare(self, store, tiny)
        write_atomically(folder / f"{self.name}.png", self.plot(rows))
        points = [task.point for task in self.tasks(Selection(tiny=tiny))]
        done = sum(point in store.records for point in points)
        return section(self, rows, f"{done} of {len(points)} points under the published rules are done.")


@dataclass(frozen=True)
class Continuous(Reported):
    """Mean completion time of the window's jobs over the arrival rate; arrivals go on until they are complete."""

    metric = "avg_jct_hours"
    load_name = "jobs/h"

    def point(self, curve: Curve, load: float, seed: int, rules: str, tiny: bool) -> Point:
        return Point(
            policy=curve.policy,
            cluster=curve.cluster.replace("36", "8") if tiny else curve.cluster,
            rate=load,
            window=TINY_WINDOW if tiny else WINDOW,
            multi_gpu=self.multi_gpu,
            seed=seed,
            rules=rules,
        )

    def load(self, point: Point, tiny: bool) -> float:
        return point.rate

    def value_h(self, record: Record) -> float | None:
        mean_s = record.get("jct_mean_s")
        return None if mean_s is None or record["jobs_completed"] < record["jobs_total"] else mean_s / 3600.0

    def plot(self, rows: list[Row]) -> bytes:
        return curve_plot(self, rows)


@dataclass(frozen=True)
class Static(Reported):
    """Makespan over the number of jobs, all of which are there at the start."""

    metric = "makespan_hours"
    load_name = "jobs"

    def point(self, curve: Curve, load: float, seed: int, rules: str, tiny: bool) -> Point:
        return Point(
            policy=curve.policy,
            cluster=curve.cluster.replace("36", "8") if tiny else curve.cluster,
            rate=0.0,
            jobs=round(load * TINY_JOBS if tiny else load),
            multi_gpu=self.multi_gpu,
            seed=seed,
            rules=rules,
        )

    def load(self, point: Point, tiny: bool) -> float:
        return (point.jobs or 0) / (TINY_JOBS if tiny else 1)

    def value_h(self, record: Record) -> float | None:
        complete = not record["stopped"] and record["jobs_completed"] == record["jobs_total"]
        return record["makespan_s"] / 3600.0 if complete else None

    def plot(self, rows: list[Row]) -> bytes:
        return bar_plot(self, rows)
