"""Looking ahead around max-min fairness and Sia's goodput, on jobs of Gavel's recipe that may change their size.

    python -m experiments.dl2.around [--seeds 4] [--jobs 30] [--out experiments/results]

Writes ``dl2_around.md``: the same jobs in the simulator under each policy and under lookahead around it.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.experiment import markdown_table
from experiments.paired import paired
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.files.atomic import write_atomically
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies import Policy, elastic, load_policy, lookahead
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs

CLUSTER, PER_HOUR, SLOT_S = "v100=16,p100=16,k80=16", 8.0, 1800.0
AROUND = ("max_min_fairness", "goodput")
BESIDE = "srtf_program"
ABOUT = """Made by `python -m experiments.dl2.around --seeds {seeds} --jobs {jobs}`: jobs of Gavel's recipe with
several devices each, `workers:1-8`, {per_hour:g} an hour, on {cluster}; restarts are free. Looking ahead is in
slots of {slot_s:g} s. A difference is the mean over seeds (least .. largest) against the policy itself; the
interval is of the mean, at 95 % (Student's t); p is Wilcoxon's, one-sided."""


def jobs_of(seed: int, count: int) -> list[Job]:
    drawn = random_jobs(
        count, load_throughputs("simulation"), seed=seed, arrival_rate_per_hour=PER_HOUR, multi_gpu=True
    )
    return [replace(job, elastic=Elastic.of("workers:1-8").around(job.scale_factor)) for job in drawn]


def figures(policy: Policy, seeds: int, count: int) -> dict[int, dict[str, float]]:
    """The mean completion of each seed."""
    found = {}
    for seed in range(seeds):
        result = simulate(policy, jobs_of(seed, count), Cluster.parse(CLUSTER), load_throughputs("simulation"))
        found[seed] = {
            "jct_mean_s": float(result.jct_s_J.mean()),
            "jobs_total": count,
            "jobs_completed": count - len(result.unfinished),
            "stopped": 0,
        }
        print(f"{policy}, seed {seed}", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dl2.around", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    beside, rows = elastic(load_policy(BESIDE)), []
    for name in AROUND:
        policy = elastic(load_policy(name))
        alone = figures(policy, options.seeds, options.jobs)
        for other in (lookahead(policy, slot_s=SLOT_S), lookahead(policy, beside, slot_s=SLOT_S), beside):
            gain = paired("jct_mean_s", figures(other, options.seeds, options.jobs), alone)
            interval = "" if gain.interval is None else "{:+.1%} .. {:+.1%}".format(*gain.interval)
            rows.append([f"`{name}`", f"`{other}`", *gain.cells()[:2], interval, gain.cells()[2]])
    titles = ["policy", "other", "mean completion of both, h", "difference", "interval", "p"]
    about = ABOUT.format(**vars(options), per_hour=PER_HOUR, cluster=CLUSTER, slot_s=SLOT_S)
    text = f"# Looking ahead around other policies\n\n{about}\n\n{markdown_table(titles, rows)}\n"
    write_atomically(options.out / "dl2_around.md", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
