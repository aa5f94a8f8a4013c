"""A sweep: curves of one metric over a load, laid over the published ones.

The load is an arrival rate in jobs per hour (:class:`Continuous`) or a number of jobs that are all there at the
start (:class:`Static`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from experiments import published
from experiments.compare import Row, compare
from experiments.experiment import Selection
from experiments.plots import bar_plot, curve_plot
from experiments.points import Point, Record
from experiments.published import REPLICATION, STORED, Series
from experiments.results import section
from experiments.runner import Task
from experiments.store import Store
from gavelx.files.atomic import write_atomically
from gavelx.mechanism import RULES

CLUSTER, WINDOW, SEEDS = "v100=36,p100=36,k80=36", (4000, 5000), (0, 1, 2)
TINY_WINDOW, TINY_SEEDS, TINY_LOADS, TINY_JOBS = (5, 15), (0, 1), 2, 0.1
"""What ``--tiny`` runs: two loads for each curve, and a tenth of the jobs where all are there at the start."""
FAIRNESS = "avg_ftf"


@dataclass(frozen=True)
class Curve:
    """A policy: what plots call it, ours, its published name, the panel it is drawn in, and the cluster.

    Without a panel it is a baseline that ratios are taken to, in seed 0 only, and not drawn.
    """

    label: str
    policy: str
    published: str
    panel: str
    cluster: str = CLUSTER


@dataclass(frozen=True)
class Sweep(ABC):
    """Curves over a load on the published cluster, with the published trace's name and metric."""

    name: str
    title: str
    trace: str
    curves: tuple[Curve, ...]
    multi_gpu: bool
    metric = ""
    load_name = ""

    @abstractmethod
    def point(self, curve: Curve, load: float, seed: int, rules: str, tiny: bool) -> Point:
        """The simulation behind one load of a curve."""

    @abstractmethod
    def load(self, point: Point, tiny: bool) -> float:
        """The load of a point, if it is one of ours."""

    @abstractmethod
    def value_h(self, record: Record) -> float | None:
        """The metric of a finished point in hours; None where it has no meaning."""

    @abstractmethod
    def plot(self, rows: list[Row]) -> bytes:
        """A PNG of all curves."""

    def series(self, source: str, curve: Curve) -> Series:
        """The published metric of a curve."""
        return published.series(source, self.trace, self.metric, curve.published)

    def fairness(self, curve: Curve) -> Series:
        """The published mean ratio of completion times to those under ``isolated``, in seed 0."""
        return published.series(STORED, self.trace, FAIRNESS, curve.published)

    def loads(self, curve: Curve) -> list[float]:
        """Every load at which there is a published figure."""
        if not curve.panel:
            return sorted({load for other in self.curves if other.panel for load in self.fairness(other)})
        return sorted({*self.series(STORED, curve), *self.series(REPLICATION, curve)})

    def tasks(self, selection: Selection) -> list[Task]:
        return [
            Task(self.point(curve, load, seed, rules, selection.tiny), RULES[rules])
            for curve in self.curves
            if selection.wants_policy(curve.policy, curve.label)
            for load in self._loads(curve, selection)
            for seed in self._seeds(curve, selection)
            for rules in selection.rules
        ]

    def _loads(self, curve: Curve, selection: Selection) -> list[float]:
        loads = self.loads(curve)[: TINY_LOADS if selection.tiny else None]
        return [load for load in loads if selection.wants_load(load)]

    def _seeds(self, curve: Curve, selection: Selection) -> tuple[int, ...]:
        seeds = selection.seeds or (TINY_SEEDS if selection.tiny else SEEDS)
        return seeds if curve.panel else tuple(seed for seed in seeds if seed == 0)

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        rows = compare(self, store, tiny)
        write_atomically(folder / f"{self.name}.png", self.plot(rows))
        points = [task.point for task in self.tasks(Selection(tiny=tiny))]
        done = sum(point in store.records for point in points)
        return section(self, rows, f"{done} of {len(points)} points under the published rules are done.")


@dataclass(frozen=True)
class Continuous(Sweep):
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
class Static(Sweep):
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
