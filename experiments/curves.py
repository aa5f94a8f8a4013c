"""Curves of one metric over a load on the published cluster: what has to be simulated, and what was published."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from experiments import published
from experiments.experiment import Selection
from experiments.points import Point, Record
from experiments.published import REPLICATION, STORED, Series
from experiments.runner import Task
from gavelx.published import RULES

CLUSTER, SEEDS = "v100=36,p100=36,k80=36", (0, 1, 2)
TINY_SEEDS, TINY_LOADS = (0, 1), 2
"""What ``--tiny`` runs: two loads for each curve."""
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
