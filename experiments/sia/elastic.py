"""python -m experiments.sia.elastic [--seeds 10] [--write]: Sia's kind of jobs, rigid and elastic, as we simulate.

Workloads are drawn like own-1, jobs follow the models of ``reference.json``, rounds are of a minute, and a restart
takes as long as in Sia's simulator. Rigid jobs have the width and batch that they were
submitted with; elastic ones any width, and any batch up to the application's largest. The noise scale is that of
the middle of the training, all along.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.experiment import markdown_table
from experiments.paired import Paired, paired
from experiments.points import Record
from experiments.sia.__main__ import CLUSTERS, REFERENCE
from experiments.sia.rounds import Application, Servers
from experiments.sia.workload import WIDTHS, drawn
from gavelx.cluster import Cluster, Server
from gavelx.elastic import Elastic
from gavelx.estimator.goodput import Efficiency
from gavelx.estimator.model_table import model_table
from gavelx.files.atomic import write_atomically
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.simulator import simulate
from gavelx.throughputs import Throughputs

RESULTS = Path(__file__).parents[1] / "results" / "sia_elastic.md"
POLICIES = (
    *("max_min_fairness", "finish_time_fairness", "shared_cloud_cost_fairness", "goodput", "pollux", "optimus"),
)
VARIANTS = {"rigid": "{}", "elastic": "elastic({})"}
"""How a policy is asked."""
USD = {"aws": 0.98, "dgx-ext": 4.10, "rtx": 0.50}
"""Of a device-hour: a quarter of g4dn.12xlarge, an eighth of p4d.24xlarge (AWS, us-east-1, 2023), and a guess."""
FIGURES = {
    "jct_mean_s": "mean completion, h",
    "jct_p99_s": "p99, h",
    "rho_mean": "mean rho",
    "cost_usd": "cost of busy devices, $",
}
WIDEST, ROUND_S, SEEDS = 64, 60.0, 10


def kind_of(name: str, width: int) -> str:
    """The job type of an application at a width: a job is judged by the size it was submitted in."""
    return f"{name}-{width}"


@cache
def applications() -> Mapping[str, Application]:
    models = json.loads(REFERENCE.read_text())["models"]
    return {name: Application(name, facts) for name, facts in models.items()}


def noise_scale(application: Application) -> float:
    return application.noise_scale(application.epochs // 2)


def table_of(servers: Servers) -> Throughputs:
    """The speeds of all kinds of jobs in all sizes."""
    kinds = {kind_of(name, width): (one, width) for name, one in applications().items() for width in WIDTHS}
    models = {
        kind: replace(
            one.model,
            steps={name: one.model.steps[name] for name in servers.count},
            efficiency=Efficiency(one.batch * width, noise_scale(one)),
        )
        for kind, (one, width) in kinds.items()
    }
    widths = {
        1,
        2,
        4,
        8,
        *(each * n for each in set(servers.devices.values()) for n in range(1, WIDEST // each + 1)),
    }
    return model_table(
        models,
        {kind: width for kind, (_, width) in kinds.items()},
        {kind: one.batch_most for kind, (one, _) in kinds.items()},
        servers.devices,
        widths,
    )


def jobs_of(seed: int) -> Iterator[Job]:
    """A workload; the steps of a job are steps at its own batch, and as much work at any width."""
    for n, (_, arrival_s, of, width, batch) in enumerate(drawn(seed)):
        one = applications()[of]
        worth = float(Efficiency(one.batch, noise_scale(one)).at(batch))
        elastic = Elastic.of(f"batch:1-{WIDEST}/{one.batch}-{batch}-{one.batch_most}")
        yield Job(n, kind_of(of, width), one.steps / (width * worth), width, arrival_s=arrival_s, elastic=elastic)


def rules() -> Rules:
    restarts = {
        kind_of(name, width): Overhead(restart_s=one.restart_s)
        for name, one in applications().items()
        for width in WIDTHS
    }
    return replace(DEFAULT.with_round(ROUND_S), overheads=Overheads(by_type=restarts))


def cluster_of(servers: Servers) -> Cluster:
    names = [name for name, count in servers.count.items() for _ in range(count)]
    return Cluster(
        tuple(Server(n, name, servers.devices[name]) for n, name in enumerate(names)), tuple(servers.count)
    )


@cache
def record_of(cluster: str, policy: str, variant: str, seed: int, jobs: int | None = None) -> Record:
    """One run."""
    servers = CLUSTERS[cluster]
    prices = Prices({name: USD[name] for name in servers.count})
    result = simulate(
        load_policy(VARIANTS[variant].format(policy)),
        tuple(jobs_of(seed))[:jobs],
        cluster_of(servers),
        table_of(servers),
        prices,
        rules=rules(),
    )
    return {"stopped": "", **result.summary()}


def row_of(cluster: str, policy: str, seeds: Sequence[int], jobs: int | None) -> list[str]:
    """Elastic against rigid, seed by seed."""
    rigid, elastic = ({seed: record_of(cluster, policy, one, seed, jobs) for seed in seeds} for one in VARIANTS)
    changes = fmean(record["restarts"] / record["jobs_total"] for record in elastic.values())
    cells = [cell for figure in FIGURES for cell in _cells(paired(figure, elastic, rigid))]
    return [cluster, f"`{policy}`", f"{changes:.1f}", *cells]


def _cells(one: Paired) -> tuple[str, str]:
    """Both means; and the difference with its 95 % interval."""
    if one.mean is None or one.first is None or one.interval is None:
        return "", ""
    low, high = one.interval
    return f"{one.first:,.2f} → {one.mean:,.2f}", f"{fmean(one.changes):+.1%} ({low:+.1%} .. {high:+.1%})"


def page(seeds: Sequence[int], policies: Sequence[str] = POLICIES, jobs: int | None = None) -> str:
    titles = ["cluster", "policy", "changes of size or type a job"]
    titles += [text for name in FIGURES.values() for text in (name, "difference (95 %)")]
    rows = [row_of(*one, seeds, jobs) for one in product(CLUSTERS, policies)]
    made = f"python -m experiments.sia.elastic --seeds {len(seeds)} --write"
    return "\n\n".join(
        [
            "# Sia's kind of jobs, rigid and elastic",
            f"{len(seeds)} workloads of 40 jobs, 30 an hour, on 64 devices of one type (hom) and of three (het). "
            "Figures are rigid → elastic; a difference is the mean over the workloads, paired.",
            markdown_table(titles, rows),
            f"Python {platform.python_version()}. `{made}`\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.sia.elastic", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many workloads ({SEEDS})")
    parser.add_argument("--write", action="store_true", help="write experiments/results/sia_elastic.md")
    typed: Any = parser.parse_args()
    text = page(range(1, typed.seeds + 1))
    sys.stdout.write(text)
    if typed.write:
        write_atomically(RESULTS, text)


if __name__ == "__main__":
    main()
