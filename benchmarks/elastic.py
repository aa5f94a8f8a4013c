"""python -m benchmarks.elastic [--jobs 10000] [--types 8] [--sizes 8]: an allocation of elastic jobs, all unlike.

Every job is faster in each larger size, so that no size is left out. Seconds are processor time.
"""

import argparse
import sys
import time

import numpy as np

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

PARTS = 840
"""Logical workers: one to eight devices have equal numbers of them."""


def snapshot_of(jobs: int, types: int, sizes: int, devices: float, seed: int = 0) -> Snapshot:
    """So many elastic jobs, each on one to so many devices of each type. ``devices``: how many there are a job."""
    chance = np.random.default_rng(seed)
    names = [f"type-{a}" for a in range(types)]
    speed_J = 10.0 ** chance.uniform(0.0, 2.0, jobs)
    type_JA = chance.uniform(0.2, 5.0, (jobs, types))
    bend_JA = chance.uniform(0.3, 0.95, (jobs, types))
    width_S = np.arange(1.0, sizes + 1.0)
    speeds = (speed_J[:, None] * type_JA)[..., None] * width_S ** bend_JA[..., None]
    table = Throughputs(
        {
            Setting(f"job-{j}", names[a], n + 1): float(speeds[j, a, n])
            for j in range(jobs)
            for a in range(types)
            for n in range(sizes)
        }
    )
    own_J = chance.integers(1, sizes + 1, jobs)
    elastic = Elastic("workers", 1, sizes, parts=PARTS)
    found = [Job(j, f"job-{j}", 1e6, int(own_J[j]), elastic=elastic) for j in range(jobs)]
    cluster = Cluster.of(dict.fromkeys(names, max(sizes, round(jobs * devices / types))))
    return Snapshot.of(found, cluster, table, sizes=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.elastic", description=(__doc__ or "").splitlines()[0]
    )
    for name, value in (("jobs", 10_000), ("types", 8), ("sizes", 8), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--devices", type=float, nargs="+", default=[0.25, 1.0, 3.0, 5.0], help="for each job")
    parser.add_argument("--policy", nargs="+", default=["max_min_fairness", "finish_time_fairness"])
    typed = parser.parse_args()
    for devices in typed.devices:
        snapshot = snapshot_of(typed.jobs, typed.types, typed.sizes, devices)
        each = len(snapshot.open("sizes").configurations) / typed.jobs / typed.types
        what = f"{typed.jobs:,} jobs, {typed.types} types, {each:g} sizes on each, {devices:g} devices a job"
        sys.stdout.write(f"{what}\n")
        for name in typed.policy:
            for _ in range(typed.repeats):
                sys.stdout.write(f"    {timed(name, snapshot)}\n")
                sys.stdout.flush()


def timed(name: str, snapshot: Snapshot) -> str:
    """Processor time of one allocation, how far its objective may be from the best, and its mean size."""
    policy = load_policy(f"elastic({name})")
    begin_s = time.process_time()
    answer = policy.allocate(snapshot)
    taken_s = time.process_time() - begin_s
    proof, table = answer.certificate, answer.snapshot.configurations
    assert proof.objective is not None
    assert proof.bound is not None
    gap = abs(proof.bound - proof.objective) / abs(proof.objective)
    size = float(table.devices_C @ answer.share_C / answer.share_C.sum())
    return f"{policy}: {taken_s:.3f} s, gap {gap:.1e}, violation {proof.violation:.1e}, mean size {size:.2f}"


if __name__ == "__main__":
    main()
