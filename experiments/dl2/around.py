"""Looking ahead around max-min fairness and goodput, on elastic jobs of Gavel's recipe and of Sia's.

    python -m experiments.dl2.around [--seeds 10] [--out experiments/results]

Writes ``dl2_around.md``: the same jobs in the simulator under each policy and under lookahead around it.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.experiment import markdown_table
from experiments.paired import paired
from experiments.sia import elastic as sia
from experiments.sia.__main__ import CLUSTERS
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.files.atomic import write_atomically
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.policies import Policy, elastic, load_policy, lookahead
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.throughputs import Throughputs

GAVEL, PER_HOUR, JOBS = "v100=16,p100=16,k80=16", 8.0, 30
AROUND = ("max_min_fairness", "goodput")
BESIDE = "srtf_program"
ABOUT = f"""Made by `python -m experiments.dl2.around --seeds {{seeds}}`. A difference is the mean over seeds
(least .. largest) against the policy itself; the interval is of the mean, at 95 % (Student's t); p is Wilcoxon's,
one-sided.

* Gavel: {JOBS} jobs of its recipe with several devices each, `workers:1-8`, {PER_HOUR:g} an hour, on {GAVEL};
  restarts are free;
* Sia, hom and het: 40 jobs, 30 an hour, on 64 devices of one type and of three (`experiments.sia.elastic`); a
  restart takes 25 to 120 s."""


@dataclass(frozen=True)
class Workload:
    """Jobs by seed, and where they run; ``slot_s``: of looking ahead."""

    name: str
    jobs: Callable[[int], Sequence[Job]]
    cluster: Cluster
    table: Throughputs
    rules: Rules
    slot_s: float


def workloads() -> list[Workload]:
    table = load_throughputs("simulation")

    def of_gavel(seed: int) -> list[Job]:
        drawn = random_jobs(JOBS, table, seed=seed, arrival_rate_per_hour=PER_HOUR, multi_gpu=True)
        return [replace(job, elastic=Elastic.of("workers:1-8").around(job.scale_factor)) for job in drawn]

    return [
        Workload("Gavel", of_gavel, Cluster.parse(GAVEL), table, DEFAULT, 1800.0),
        *(
            Workload(
                f"Sia, {name}",
                lambda seed: list(sia.jobs_of(seed)),
                sia.cluster_of(servers),
                sia.table_of(servers),
                sia.rules(),
                300.0,
            )
            for name, servers in CLUSTERS.items()
        ),
    ]


def figures(workload: Workload, policy: Policy, seeds: int) -> dict[int, dict[str, float]]:
    """The mean completion of each seed."""
    found = {}
    for seed in range(seeds):
        jobs = workload.jobs(seed)
        result = simulate(policy, jobs, workload.cluster, workload.table, rules=workload.rules)
        found[seed] = {
            "jct_mean_s": float(result.jct_s_J.mean()),
            "jobs_total": len(jobs),
            "jobs_completed": len(jobs) - len(result.unfinished),
            "stopped": 0,
        }
        print(f"{workload.name}, {policy}, seed {seed}", file=sys.stderr, flush=True)
    return found


def compared(workload: Workload, seeds: int) -> list[list[str]]:
    """The rows of a workload."""
    beside, rows = elastic(load_policy(BESIDE)), []
    of_beside = figures(workload, beside, seeds)
    for name in AROUND:
        policy, slot_s = elastic(load_policy(name)), workload.slot_s
        alone = figures(workload, policy, seeds)
        ahead = (lookahead(policy, slot_s=slot_s), lookahead(policy, beside, slot_s=slot_s))
        others = {**{str(one): figures(workload, one, seeds) for one in ahead}, str(beside): of_beside}
        for other, found in others.items():
            gain = paired("jct_mean_s", found, alone)
            interval = "" if gain.interval is None else "{:+.1%} .. {:+.1%}".format(*gain.interval)
            rows.append([workload.name, f"`{name}`", f"`{other}`", *gain.cells()[:2], interval, gain.cells()[2]])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dl2.around", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    titles = ["workload", "policy", "other", "mean completion of both, h", "difference", "interval", "p"]
    rows = [row for workload in workloads() for row in compared(workload, options.seeds)]
    about = ABOUT.format(seeds=options.seeds)
    text = f"# Looking ahead around other policies\n\n{about}\n\n{markdown_table(titles, rows)}\n"
    write_atomically(options.out / "dl2_around.md", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
