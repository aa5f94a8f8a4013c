"""Jobs on several types at once: what they gain if shares are carried out exactly, and what in rounds.

    python -m experiments.several_types [--draws 12] [--policy "elastic(max_min_fairness)"]

Six jobs on 2 V100s, 2 P100s and 4 K80s, whose speeds are drawn. Prints how mixes change the
mean completion time where shares are carried out exactly, and where they are leases in rounds of a minute.

Legend: J jobs.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import markdown_table
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.policies import Policy, load_policy
from gavelx.simulator import simulate
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

CLUSTER = Cluster.of({"v100": 2, "p100": 2, "k80": 4}, 2)
FASTER = {"v100": 4.0, "p100": 3.0, "k80": 1.0}
JOBS, KINDS, PARTS, ROUND_S = 6, 3, 8, 60.0
Floats = NDArray[np.float64]


def drawn(seed: int, *, mixed: bool) -> tuple[Throughputs, list[Job]]:
    """A table, and jobs that are there from the beginning."""
    random, speeds = Random(seed), dict[Setting, float]()
    for kind in range(KINDS):
        for name, base in FASTER.items():
            speed, scaling = base * random.uniform(0.7, 1.4), random.uniform(0.75, 0.95)
            speeds |= {Setting(f"k{kind}", name, n): speed * n**scaling for n in range(1, PARTS + 1)}
    elastic = Elastic.of(f"workers:1-{PARTS}/{PARTS}" + "/mixed" * mixed)
    kinds = [(f"k{random.randrange(KINDS)}", random.uniform(2e3, 4e4), random.choice((1, 2))) for _ in range(JOBS)]
    jobs = [Job(i, *kind) for i, kind in enumerate(kinds)]
    return Throughputs(speeds), [replace(job, elastic=elastic.around(job.scale_factor)) for job in jobs]


def exactly_s(policy: Policy, throughputs: Throughputs, jobs: Sequence[Job]) -> float:
    """The mean completion time, where each job is as fast as its shares say until the next one is complete."""
    left_J, live, now_s, sum_s = np.array([job.total_steps for job in jobs]), list(range(len(jobs))), 0.0, 0.0
    while live:
        there = [jobs[j] for j in live]
        snapshot = Snapshot.of(there, CLUSTER, throughputs, sizes=True, mixes=True)
        ages_s: Floats = np.full(len(live), now_s)
        snapshot = snapshot.replace(steps_left_J=left_J[live], elapsed_s_J=ages_s, time_s=now_s)
        speed_J = policy.allocate(snapshot).throughput_J
        with np.errstate(divide="ignore"):  # a job may wait
            left_s_J = left_J[live] / speed_J
        first, seconds = int(left_s_J.argmin()), float(left_s_J.min())
        left_J[live] -= speed_J * seconds
        now_s += seconds
        sum_s += now_s
        live.pop(first)
    return sum_s / len(jobs)


def in_rounds_s(policy: Policy, throughputs: Throughputs, jobs: Sequence[Job]) -> float:
    """The same in leases, without overheads."""
    result = simulate(policy, jobs, CLUSTER, throughputs, rules=DEFAULT.with_round(ROUND_S))
    return float(np.mean(result.jct_s_J))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.several_types", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--policy", default="elastic(max_min_fairness)")
    options = parser.parse_args(arguments)
    policy, ratios, lines = load_policy(options.policy), [], []
    for seed in range(options.draws):
        without, with_ = (
            [each(policy, *drawn(seed, mixed=mixed)) for each in (exactly_s, in_rounds_s)]
            for mixed in (False, True)
        )
        ratios.append(np.array(with_) / without)
        lost = [f"{rounds / exact - 1:.1%}" for exact, rounds in (without, with_)]
        lines.append([str(seed), *(f"{ratio - 1:+.1%}" for ratio in ratios[-1]), *lost])
    lines.append(["mean", *(f"{ratio - 1:+.1%}" for ratio in np.exp(np.log(ratios).mean(axis=0))), "", ""])
    titles = ["draw", "exactly", "in rounds", "rounds cost without mixes", "and with them"]
    print(markdown_table(titles, lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
