"""The cost objective of Gavel (OSDI'20, section 7.3): cheap, in time, or both.

    python -m experiments.cost_objective [--seeds 0 1 ...]

500 jobs, ResNet-50 and A3C in equal parts, half a day to eight days long on a V100, due after 1.2, 2 or 10 times
that; 36 V100, 36 P100 and 36 K80 at the spot prices that the published code has. Published: the least cost is 1.4
times less than at most throughput, but deadlines are missed; with deadlines as constraints 1.2 times less, and
none is. How fast jobs arrive is not published: here so that the V100s alone could just do all that comes.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev

from experiments.experiment import Selection, markdown_table
from experiments.points import Point, Record
from experiments.runner import Task
from experiments.store import Store
from gavelx.files.atomic import write_atomically
from gavelx.published import RULES

CLUSTER, PRICES, JOBS, RATE = "v100=36,p100=36,k80=36", "v100=0.74,p100=0.43,k80=0.135", 500, 0.45
POLICIES: Mapping[str, tuple[str, float]] = {
    "max_sum_throughput": ("most throughput", 1.0),
    "min_cost": ("least cost", 1.4),
    "min_cost_slo": ("least cost, deadlines as constraints", 1.2),
}
"""What each is for, and how many times cheaper than the first it was published to be."""
SEEDS = (0, 1, 2)
TINY_JOBS = 20
TITLES = ("policy", "", "seeds", "cost, $", "times cheaper", "published", "deadlines missed", "mean completion, h")


class CostObjective:
    """The experiment, under our rules."""

    name = "cost_objective"

    def tasks(self, selection: Selection) -> list[Task]:
        seeds = selection.seeds or (SEEDS[:1] if selection.tiny else SEEDS)
        return [
            Task(self.point(policy, seed, selection.tiny), RULES["default"])
            for seed in seeds
            for policy in POLICIES
            if selection.wants_policy(policy) and selection.wants_load(RATE)
        ]

    def point(self, policy: str, seed: int, tiny: bool = False) -> Point:
        jobs = TINY_JOBS if tiny else JOBS
        return Point(policy, CLUSTER, RATE, jobs, seed=seed, rules="default", prices=PRICES, mix="cost")

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        rows = list(self._rows(store, tiny))
        document = [dict(zip(TITLES, row, strict=True)) for row in rows]
        write_atomically(folder / f"{self.name}.json", json.dumps(document, indent=1) + "\n")
        about = (
            f"{JOBS} jobs, {RATE:g} per hour, {CLUSTER}, {PRICES} $/h. *Times cheaper* than the first: the mean "
            "over seeds of its cost over that of the row, ± deviation."
        )
        return "\n\n".join(["## The cost objective", about, markdown_table(TITLES, rows)]) + "\n"

    def _rows(self, store: Store, tiny: bool) -> Iterator[list[str]]:
        first = self._by_seed(store, next(iter(POLICIES)), tiny)
        for policy, (says, published) in POLICIES.items():
            records = self._by_seed(store, policy, tiny)
            times = [first[s]["cost_usd"] / record["cost_usd"] for s, record in records.items() if s in first]
            if times:
                due = sum(record["deadlines"] for record in records.values())
                yield [
                    f"`{policy}`",
                    says,
                    str(len(times)),
                    f"{fmean(record['cost_usd'] for record in records.values()):,.0f}",
                    f"{fmean(times):.2f}" + (f" ± {stdev(times):.2f}" if len(times) > 1 else ""),
                    f"{published:g}",
                    f"{sum(record['deadlines_missed'] for record in records.values()):,} of {due:,}",
                    f"{fmean(record['jct_mean_s'] for record in records.values()) / 3600.0:.1f}",
                ]

    def _by_seed(self, store: Store, policy: str, tiny: bool) -> dict[int, Record]:
        records = store.by_seed(self.point(policy, SEEDS[0], tiny))
        return {seed: record for seed, record in records.items() if not record["stopped"]}


COST_OBJECTIVE = CostObjective()
