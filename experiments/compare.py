"""Ours beside the published figures: one row for each load of a curve."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from experiments.curves import Curve, Sweep
from experiments.points import Record
from experiments.published import REPLICATION, STORED
from experiments.store import Store

Runs = dict[tuple[Curve, float, str], dict[int, Record]]
"""Finished points by curve, load and rules, and then by seed."""


@dataclass(frozen=True)
class Row:
    """One load of a curve under one set of rules.

    * ``value_h``: the metric of each seed; None where the measured jobs were not all completed;
    * ``completed``: the share of the measured jobs that were, over all seeds;
    * ``stored_h``, ``replication_h``: the published means, where there are any;
    * ``ratio``, ``ratio_stored``: the mean over jobs of completion time / that under the baseline, in seed 0;
    * ``rho``: the mean of our finish-time fairness, which simulates no other run.
    """

    curve: Curve
    load: float
    rules: str
    value_h: tuple[float | None, ...]
    completed: float
    stopped: str
    stored_h: float | None
    replication_h: float | None
    ratio: float | None
    ratio_stored: float | None
    rho: float | None

    @property
    def mean_h(self) -> float | None:
        """The mean over seeds; None where a seed has no value: a mean over the others would flatter."""
        values = [value for value in self.value_h if value is not None]
        return fmean(values) if len(values) == len(self.value_h) else None

    @property
    def deviation_h(self) -> float:
        """The standard deviation over seeds; 0 for a single one."""
        values = [value for value in self.value_h if value is not None]
        return stdev(values) if len(values) > 1 else 0.0

    def change(self, other_h: float | None) -> float | None:
        """How much larger ours is than a published figure, relative to that."""
        return self.mean_h / other_h - 1.0 if self.mean_h is not None and other_h else None


def compare(sweep: Sweep, store: Store, tiny: bool) -> list[Row]:
    """A row for all that is done of a sweep, in the order of its curves, rules and loads."""
    runs = _runs(sweep, store, tiny)
    rows = [_row(sweep, curve, load, rules, runs) for curve, load, rules in runs if curve.panel]
    position = {curve: number for number, curve in enumerate(sweep.curves)}
    return sorted(rows, key=lambda row: (position[row.curve], row.rules != "published", row.rules, row.load))


def _runs(sweep: Sweep, store: Store, tiny: bool) -> Runs:
    runs: Runs = {}
    for point, record in store:
        load = sweep.load(point, tiny)
        for curve in sweep.curves:
            if point == sweep.point(curve, load, point.seed, point.rules, tiny):
                runs.setdefault((curve, load, point.rules), {})[point.seed] = record
    return runs


def _row(sweep: Sweep, curve: Curve, load: float, rules: str, runs: Runs) -> Row:
    seeds = runs[curve, load, rules]
    records = list(seeds.values())
    alone = next((runs.get((c, load, rules), {}).get(0) for c in sweep.curves if not c.panel), None)
    rho = [record.get("rho_mean") for record in records]
    return Row(
        curve=curve,
        load=load,
        rules=rules,
        value_h=tuple(sweep.value_h(record) for record in records),
        completed=sum(r["jobs_completed"] for r in records) / sum(r["jobs_total"] for r in records),
        stopped=next((record["stopped"] for record in records if record["stopped"]), ""),
        stored_h=sweep.series(STORED, curve).get(load),
        replication_h=sweep.series(REPLICATION, curve).get(load),
        ratio=_ratio(seeds.get(0), alone),
        ratio_stored=sweep.fairness(curve).get(load),
        rho=None if None in rho else fmean(rho),
    )


def _ratio(record: Record | None, alone: Record | None) -> float | None:
    """The mean over jobs of their completion time over that in the other run."""
    ours, theirs = ((one or {}).get("jct_s_J", []) for one in (record, alone))
    pairs: Sequence[tuple[float | None, float | None]] = (
        list(zip(ours, theirs, strict=True)) if ours and theirs else []
    )
    known = [a / b for a, b in pairs if a is not None and b]
    return fmean(known) if known and len(known) == len(pairs) else None
