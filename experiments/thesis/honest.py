"""Does fairness in dollars save any? ``shared_cloud_cost_fairness`` against what a cluster would otherwise run.

    python -m experiments.thesis --only honest [--seeds 10 11 ...]

Every policy schedules the same jobs under the same prices; what is reported are the differences of ours to each
other, seed by seed, with their interval and the one-sided p of Wilcoxon's signed ranks. Under load the hourly bill
is nearly fixed and only faster completion saves; at low load the choice of type does. So there are two loads, and
because the cheapest type for a step differs by cloud, four price tables. Then cost against waiting by ``rho_cap``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from experiments.experiment import Selection, markdown_table
from experiments.paired import paired
from experiments.plots import Line, Panel, panels_plot
from experiments.points import Point, Record
from experiments.runner import Task
from experiments.store import Store
from experiments.thesis.floor import floor_usd
from experiments.thesis.settings import PRICES
from gavelx.files.atomic import write_atomically
from gavelx.mechanism import DEFAULT
from gavelx.published import PUBLISHED, AnyRules

CLUSTER, SEEDS = "v100=5,p100=5,k80=5", tuple(range(10, 20))
BILLED = "published, true bill"
RULES: dict[str, AnyRules] = {
    "default": DEFAULT,
    BILLED: replace(PUBLISHED, charge_gaps=False, split_price=True),
}
"""By name. The published schedule, but no job pays for the time before it held a device."""
CAPS = (0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0)
STRICT, PATIENT = 0.8, 3.0
"""Compared over all seeds: a lower cap, and one above most of the worst rhos of Algorithm 5.1."""
FRONTIER_SEEDS = SEEDS[:3]
OURS = "shared_cloud_cost_fairness"


class Contender(NamedTuple):
    """A policy under some rules, and what a table calls it."""

    says: str
    policy: str
    rules: str


class Load(NamedTuple):
    """So many jobs, all at the start or at so many per hour."""

    says: str
    jobs: int
    rate: float


FIRST = Contender("shared_cloud_cost_fairness", OURS, "default")
OTHERS = (
    Contender("finish-time fairness, as published", "finish_time_fairness", BILLED),
    Contender("Algorithm 5.1, as published", "shared_cloud_cost_fairness_alg51", BILLED),
    Contender("finish-time fairness", "finish_time_fairness", "default"),
    Contender("Algorithm 5.1", "shared_cloud_cost_fairness_alg51", "default"),
)
LOADS = (Load("40 jobs at the start", 40, 0.0), Load("70 jobs, one per 4 h", 70, 0.25))


def capped(cap: float) -> Contender:
    """Ours with another cap on waiting."""
    return Contender(f"rho_cap {cap:g}", f"capped({OURS}, {cap:g})", "default")


@dataclass(frozen=True)
class Honest:
    """The comparison under one price table; ``prices`` as on the command line."""

    name: str
    says: str
    prices: str
    cluster: str = CLUSTER

    def tasks(self, selection: Selection) -> list[Task]:
        found = []
        for load in LOADS:
            for contender in (FIRST, *OTHERS, *map(capped, CAPS)):
                frontier = contender in map(capped, CAPS) and contender not in map(capped, (STRICT, PATIENT))
                seeds = FRONTIER_SEEDS if frontier else SEEDS
                for seed in selection.seeds or seeds[: 2 if selection.tiny else None]:
                    task = Task(self.point(contender, load, seed, selection.tiny), RULES[contender.rules])
                    if selection.wants_policy(contender.policy, contender.says) and selection.wants_load(
                        load.rate or load.jobs
                    ):
                        found.append(task)
        return found

    def point(self, contender: Contender, load: Load, seed: int, tiny: bool = False) -> Point:
        return Point(
            policy=contender.policy,
            cluster=self.cluster,
            rate=load.rate,
            jobs=load.jobs // 5 if tiny else load.jobs,
            seed=seed,
            rules=contender.rules,
            prices=self.prices,
        )

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        plot = panels_plot(f"Cost against waiting, {self.says}", list(self._frontiers(store, tiny)))
        write_atomically(folder / f"{self.name}.png", plot)
        wanted = [task.point for task in self.tasks(Selection(tiny=tiny))]
        done = sum(point in store.records for point in wanted)
        return (
            "\n\n".join(
                [
                    f"## Fairness in dollars, {self.says}",
                    f"![cost against waiting, {self.says}]({self.name}.png)",
                    f"Cluster {self.cluster}. {done} of {len(wanted)} points are done. Differences are of "
                    f"`{OURS}` to the policy of the row, seed by seed: mean (least .. largest), the 95 % interval "
                    "of the mean, and the one-sided p of Wilcoxon's signed ranks. Worst rho and mu are over all "
                    "jobs and seeds, *worse off* the part of jobs whose rho is above 1. *The least* is what the "
                    "cheapest schedule costs that completes every job at rho 1 or before, knows all arrivals in "
                    "advance, and loses nothing by rounds (`floor.py`).",
                    markdown_table(TITLES, list(self._rows(store, tiny))),
                    f"Cost against waiting over `rho_cap`, {_said(self._frontier_seeds(store, tiny))}:",
                    markdown_table(FRONTIER_TITLES, list(self._caps(store, tiny))),
                ]
            )
            + "\n"
        )

    def _rows(self, store: Store, tiny: bool) -> Iterator[list[str]]:
        """Ours, then its difference to each other; stricter, and as patient as Algorithm 5.1; and to the least."""
        for load in LOADS:
            ours = self.by_seed(store, FIRST, load, tiny)
            if ours:
                usd = f"{_mean(ours, 'cost_usd'):,.1f}"
                yield [load.says, f"**{FIRST.says}**", str(len(ours)), usd, "", "", "", "", *_worst(ours)]
            for other in OTHERS:
                yield from _difference(load.says, other.says, ours, self.by_seed(store, other, load, tiny))
            fairest, alg51 = (self.by_seed(store, one, load, tiny) for one in OTHERS[-2:])
            for cap, other, records in ((STRICT, OTHERS[-2], fairest), (PATIENT, OTHERS[-1], alg51)):
                capped_at = self.by_seed(store, capped(cap), load, tiny)
                says = f"{other.says}; ours with {capped(cap).says}"
                yield from _difference(load.says, says, capped_at, records)
            least = {seed: floor_usd(self.point(FIRST, load, seed, tiny)) for seed in ours}
            for who, records in ((OURS, ours), (OTHERS[-1].says, alg51)):
                yield from _above(load.says, f"the least with nobody worse off; {who}", records, least)

    def _caps(self, store: Store, tiny: bool) -> Iterator[list[str]]:
        for load in LOADS:
            for contender, records in self._frontier(store, load, tiny).items():
                jct_h, usd = _mark(records)
                yield [
                    load.says,
                    contender.says,
                    str(len(records)),
                    f"{usd:,.1f}",
                    f"{jct_h:.2f}",
                    *_worst(records),
                ]

    def _frontiers(self, store: Store, tiny: bool) -> Iterator[Panel]:
        for load in LOADS:
            marks = {one: _mark(records) for one, records in self._frontier(store, load, tiny).items()}
            ours = {one: mark for one, mark in marks.items() if one not in OTHERS}
            names = {jct_h: one.says.removeprefix("rho_cap ") for one, (jct_h, _) in ours.items()}
            lines = [Line("ours over rho_cap", OURS, dict(ours.values()), names=names)]
            lines += [Line(one.says, one.policy, dict([marks[one]])) for one in OTHERS if one in marks]
            yield Panel(load.says, "mean completion, h", "cost, $", lines, from_zero=False)

    def _frontier(self, store: Store, load: Load, tiny: bool) -> dict[Contender, dict[int, Record]]:
        """Ours over the cap, and the others under the same rules; only who has run all of the seeds."""
        seeds = self._frontier_seeds(store, tiny)
        default = FIRST._replace(says="rho_cap 0.9")
        ours = sorted([*map(capped, CAPS), default], key=lambda one: float(one.says.split()[1]))
        found = {one: self.by_seed(store, one, load, tiny) for one in (*ours, *OTHERS[2:])}
        return {
            one: {seed: records[seed] for seed in seeds}
            for one, records in found.items()
            if records.keys() >= set(seeds)
        }

    def _frontier_seeds(self, store: Store, tiny: bool) -> Sequence[int]:
        """Those of the page; where none of them was run, the first that were."""
        ran = sorted({seed for load in LOADS for seed in self.by_seed(store, FIRST, load, tiny)})
        own = FRONTIER_SEEDS[: 2 if tiny else None]
        return own if not ran or set(own) & set(ran) else ran[: len(own)]

    def by_seed(self, store: Store, contender: Contender, load: Load, tiny: bool = False) -> dict[int, Record]:
        """What is done of a contender under a load."""
        return store.by_seed(self.point(contender, load, SEEDS[0], tiny))


TITLES = (
    *("load", "against", "seeds", "its cost, $", "ours, difference", "95 %", "p", "our mean completion"),
    *("its worst rho", "its worst mu", "its worse off"),
)
FRONTIER_TITLES = (
    "load",
    "policy",
    "seeds",
    "cost, $",
    "mean completion, h",
    "worst rho",
    "worst mu",
    "worse off",
)


def _difference(load: str, says: str, ours: dict[int, Record], theirs: dict[int, Record]) -> Iterator[list[str]]:
    """A row for ours against another, if there are seeds of both."""
    cost, jct = paired("cost_usd", ours, theirs), paired("jct_mean_s", ours, theirs)
    if cost.mean is not None:
        _, change, p = cost.cells()
        interval = "" if cost.interval is None else "{:+.1%} .. {:+.1%}".format(*cost.interval)
        cells = [f"{cost.first:,.1f}", change, interval, p, f"{fmean(jct.changes):+.1%}"]
        yield [load, says, str(len(cost.changes)), *cells, *_worst(theirs)]


def _above(load: str, says: str, records: dict[int, Record], least: dict[int, float]) -> Iterator[list[str]]:
    """A row for a contender's cost against the least."""
    floors = {seed: {**record, "cost_usd": least[seed]} for seed, record in records.items() if seed in least}
    for *cells, _jct, _rho, _mu, _worse in _difference(load, says, records, floors):
        yield [*cells, "", "", "", ""]


def _said(seeds: Sequence[int]) -> str:
    return f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"


def _mark(records: dict[int, Record]) -> tuple[float, float]:
    return _mean(records, "jct_mean_s") / 3600.0, _mean(records, "cost_usd")


def _mean(records: dict[int, Record], figure: str) -> float:
    return fmean(record[figure] for record in records.values())


def _worst(records: dict[int, Record]) -> tuple[str, str, str]:
    rho, mu = (max(record[figure] for record in records.values()) for figure in ("rho_max", "mu_max"))
    return f"{rho:.3f}", f"{mu:.3f}", f"{_mean(records, 'unfair_fraction'):.1%}"


HONEST = (
    Honest("honest", "prices of the thesis", PRICES),
    Honest("honest_gcp", "GCP", "gcp"),
    Honest("honest_azure", "Azure", "azure"),
    Honest("honest_aws", "AWS, which sells no P100", "aws", cluster="v100=8,k80=7"),
    Honest("honest_aws_p100", "AWS, with a P100 at 1.5 K80", "v100=3.06,p100=1.35,k80=0.9"),
)
