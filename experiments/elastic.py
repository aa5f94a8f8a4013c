"""What elasticity is worth: the same jobs rigid, restarted in other sizes, and resized while they run.

    python -m experiments --only elastic [--policies max_min_fairness ...] [--seeds 0 1 ...]

Jobs are those of the published recipe with several devices each, and may run on 1 to 8 devices. Reported are the
differences to the rigid run, seed by seed. There are three loads, since no devices are left to give where all
are wanted.
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
from gavelx.overheads import Overhead, Overheads

RESTARTED = replace(DEFAULT, overheads=Overheads(Overhead(checkpoint_s=10.0, restart_s=60.0)))
RESIZED = replace(DEFAULT, overheads=Overheads(Overhead(checkpoint_s=10.0, restart_s=60.0, resize_s=2.0)))
VARIANTS: dict[str, tuple[str, Rules]] = {
    "rigid": ("{}", RESTARTED),
    "restarted": ("elastic({})", RESTARTED),
    "resized": ("elastic({})", RESIZED),
}
"""How a policy is asked, and the rules. The first is what the others are compared with."""
POLICIES = (
    *("max_min_fairness", "finish_time_fairness", "shared_cloud_cost_fairness"),
    *("fifo", "srtf", "optimus", "goodput", "pollux", "srtf_program"),
)
FIGURES = {
    "jct_mean_s": "mean completion, h",
    "jct_p99_s": "p99 completion, h",
    "rho_max": "worst rho",
    "cost_usd": "cost, $",
    "total_usd": "whole bill, $",
}
SEEDS = tuple(range(10))
CLUSTER, PRICES = "v100=16,p100=16,k80=16", "v100=2.48,p100=1.46,k80=0.45"
ELASTICITY = "workers:1-8"
JOBS, RATES = 60, (1.0, 4.0, 16.0)
ABOUT = f"""Cluster {CLUSTER} (servers of 4), {PRICES} $/h, {JOBS} jobs of 1 to 8 devices as submitted,
{ELASTICITY}. A checkpoint takes 10 s, a restart 60 s, a resize 2 s after its new devices have started. A
difference is the mean over seeds (least .. largest), against the rigid run; p is one-sided, for the sign of it."""
TINY_JOBS, TINY_SEEDS, TINY_POLICIES = 10, (0, 1), 1


@dataclass(frozen=True)
class Gain(Paired):
    """One variant against the rigid one in one figure; ``resizes`` and ``restarts`` a job, on average."""

    rate: float
    policy: str
    variant: str
    resizes: float
    restarts: float


class Elasticity:
    """The experiment."""

    name = "elastic"

    def tasks(self, selection: Selection) -> list[Task]:
        seeds = selection.seeds or (TINY_SEEDS if selection.tiny else SEEDS)
        policies = POLICIES[:TINY_POLICIES] if selection.tiny else POLICIES
        return [
            Task(self.point(policy, rate, seed, variant, selection.tiny), rules)
            for policy in policies
            if selection.wants_policy(policy)
            for rate in RATES
            if selection.wants_load(rate)
            for seed in seeds
            for variant, (_, rules) in VARIANTS.items()
        ]

    def point(self, policy: str, rate: float, seed: int, variant: str, tiny: bool) -> Point:
        return Point(
            policy=VARIANTS[variant][0].format(policy),
            cluster=CLUSTER,
            rate=rate,
            jobs=TINY_JOBS if tiny else JOBS,
            multi_gpu=True,
            seed=seed,
            rules=variant,
            prices=PRICES,
            devices_per_server=4,
            elasticity=ELASTICITY,
        )

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        gains = self.gains(store, tiny)
        document = [asdict(one) for one in gains]
        write_atomically(folder / f"{self.name}.json", json.dumps(document, indent=1) + "\n")
        parts = [
            "## Elastic jobs",
            ABOUT,
            _table(gains),
        ]
        parts += [f"* `{policy}` is not here: {reason}" for policy in POLICIES if (reason := why_not(policy))]
        return "\n\n".join(parts) + "\n"

    def gains(self, store: Store, tiny: bool) -> list[Gain]:
        """Every variant against the first, where both were run."""
        first, *others = VARIANTS
        found = []
        for rate in RATES:
            for policy in POLICIES:
                base = store.by_seed(self.point(policy, rate, SEEDS[0], first, tiny))
                for variant in others:
                    there = store.by_seed(self.point(policy, rate, SEEDS[0], variant, tiny))
                    resizes, restarts = (
                        _mean([record[name] / record["jobs_total"] for record in there.values()])
                        for name in ("resizes", "restarts")
                    )
                    for figure in FIGURES if there.keys() & base.keys() else ():
                        change = vars(paired(figure, there, base))
                        found.append(
                            Gain(
                                **change,
                                rate=rate,
                                policy=policy,
                                variant=variant,
                                resizes=resizes,
                                restarts=restarts,
                            )
                        )
        return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _table(gains: Sequence[Gain]) -> str:
    titles = ["jobs/h", "policy", "variant", "resizes a job", "restarts a job", "seeds complete"]
    titles += [text for name in FIGURES.values() for text in (name, "difference", "p")]
    lines: dict[tuple[float, str, str], list[str]] = {}
    for one in gains:
        seeds = f"{len(one.changes)} of {one.seeds}"
        a_job = [f"{one.resizes:.1f}", f"{one.restarts:.1f}"]
        first_cells = [f"{one.rate:g}", f"`{one.policy}`", one.variant, *a_job, seeds]
        lines.setdefault((one.rate, one.policy, one.variant), first_cells).extend(one.cells())
    return markdown_table(titles, list(lines.values()))


ELASTIC = Elasticity()
