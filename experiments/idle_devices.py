"""What to do with devices that no promise wants: rules for idle devices, compared job list by job list.

    python -m experiments.idle_devices [--policies max_min_fairness ...] [--seeds 10 11 ...]

Every rule runs the same jobs; what is reported are the differences to the first rule, seed by seed, with the
one-sided p of Wilcoxon's signed ranks (how likely so large a saving is by chance). Under load the hourly bill is
fixed and only faster completion saves; at low load the choice of type does. So there are three loads.

To compare one more rule, add a line to ``RULES``.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from experiments.experiment import Selection, markdown_table
from experiments.paired import Paired, paired
from experiments.points import Point, why_not
from experiments.runner import Task
from experiments.store import Store
from gavelx.files.atomic import write_atomically
from gavelx.mechanism import DEFAULT, Rules

RULES: dict[str, Rules] = {
    "no backfill": replace(DEFAULT, backfill=None),
    "any type": replace(DEFAULT, backfill=0.0),
    "half as fast": replace(DEFAULT, backfill=0.5),
    "0.8 as fast (default)": DEFAULT,
    "as fast": replace(DEFAULT, backfill=1.0),
    "any type, after an hour": replace(DEFAULT, backfill=0.0, backfill_after_s=3600.0),
    "half as fast, after an hour": replace(DEFAULT, backfill=0.5, backfill_after_s=3600.0),
}
"""The first is what the others are compared with. A new definition needs a new name: points are kept by name."""

POLICIES = ("max_min_fairness", "finish_time_fairness", "max_sum_throughput")
"""Not shared_cloud_cost_fairness, which says itself that idle devices are not to be filled."""
FIGURES = {"cost_usd": "cost, $", "jct_mean_s": "mean completion, h", "makespan_s": "makespan, h"}
SEEDS = tuple(range(10, 22))
CLUSTER, PRICES = "v100=5,p100=5,k80=5", "v100=1.6,p100=1.35,k80=0.9"
TINY_JOBS, TINY_SEEDS, TINY_POLICIES = 0.2, (10, 11), 1


@dataclass(frozen=True)
class Load:
    """So many jobs, all at the start or at so many per hour."""

    says: str
    jobs: int
    rate: float = 0.0


LOADS = (
    Load("40 jobs at the start", 40),
    Load("70 jobs, one per 4 h", 70, 1 / 4),
    Load("90 jobs, one per 1.5 h", 90, 1 / 1.5),
)


@dataclass(frozen=True)
class Difference(Paired):
    """One rule against the first one in one figure."""

    load: str
    policy: str
    rule: str


class IdleDevices:
    """The experiment, with the rules of ``RULES`` under its own prices."""

    name = "idle_devices"

    def tasks(self, selection: Selection) -> list[Task]:
        seeds = selection.seeds or (TINY_SEEDS if selection.tiny else SEEDS)
        policies = POLICIES[:TINY_POLICIES] if selection.tiny else POLICIES
        return [
            Task(self.point(policy, load, seed, name, selection.tiny), rules)
            for policy in policies
            if selection.wants_policy(policy)
            for load in LOADS
            if selection.wants_load(load.rate or load.jobs)
            for seed in seeds
            for name, rules in RULES.items()
        ]

    def point(self, policy: str, load: Load, seed: int, rules: str, tiny: bool) -> Point:
        return Point(
            policy=policy,
            cluster=CLUSTER,
            rate=load.rate,
            jobs=round(load.jobs * TINY_JOBS) if tiny else load.jobs,
            seed=seed,
            rules=rules,
            prices=PRICES,
        )

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        differences = self.differences(store, tiny)
        document = [asdict(one) for one in differences]
        write_atomically(folder / f"{self.name}.json", json.dumps(document, indent=1) + "\n")
        parts = [
            "## Rules for idle devices",
            f"Cluster {CLUSTER}, {PRICES} $/h. A difference is the mean over seeds (least .. largest), against "
            f"*{next(iter(RULES))}*; p is one-sided, for the sign that the mean has.",
            _table(differences),
        ]
        parts += [f"* `{policy}` is not here: {reason}" for policy in POLICIES if (reason := why_not(policy))]
        return "\n\n".join(parts) + "\n"

    def differences(self, store: Store, tiny: bool) -> list[Difference]:
        """Every rule against the first, where both were run."""
        first, *others = RULES
        found = []
        for load in LOADS:
            for policy in POLICIES:
                base = store.by_seed(self.point(policy, load, SEEDS[0], first, tiny))
                for rule in others:
                    there = store.by_seed(self.point(policy, load, SEEDS[0], rule, tiny))
                    for figure in FIGURES if there.keys() & base.keys() else ():
                        change = paired(figure, there, base)
                        found.append(Difference(**vars(change), load=load.says, policy=policy, rule=rule))
        return found


def _table(differences: Sequence[Difference]) -> str:
    titles = ["load", "policy", "rule", "seeds complete"]
    titles += [text for name in FIGURES.values() for text in (name, "difference", "p")]
    lines: dict[tuple[str, str, str], list[str]] = {}
    for one in differences:
        first_cells = [one.load, f"`{one.policy}`", one.rule, f"{len(one.changes)} of {one.seeds}"]
        lines.setdefault((one.load, one.policy, one.rule), first_cells).extend(one.cells())
    return markdown_table(titles, list(lines.values()))


IDLE_DEVICES = IdleDevices()
