"""python -m benchmarks.elastic [--jobs 10000] [--types 8] [--sizes 8]: an allocation of elastic jobs, all unlike.

Every job is faster in each larger size, so that no size is left out. Seconds are processor time. With
``--decisions``, instead: 40 jobs on 48 devices of three types, by looking ahead and by a network.
"""

import argparse
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.policies import Learned, Policy, elastic, load_policy, lookahead
from gavelx.policies.network import Network
from gavelx.slots.moves import FEATURES
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
    parser.add_argument("--decisions", action="store_true", help="time lookahead and a network, at 40 jobs")
    parser.add_argument("--policy", nargs="+", default=["max_min_fairness", "finish_time_fairness"])
    typed = parser.parse_args()
    if typed.decisions:
        sys.stdout.writelines(f"{line}\n" for line in decisions(typed.repeats))
        return
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


def decisions(repeats: int, jobs: int = 40, types: int = 3) -> list[str]:
    """Processor time of one decision with devices for all jobs and a fifth more: the least of some."""
    snapshot = snapshot_of(jobs, types, 8, 1.2)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "drawn.npz"
        weights.write_bytes(greedy_network().to_bytes())
        learned = Learned(weights)
    found = []
    alone = elastic(load_policy("srtf_program"))
    for policy in (alone, lookahead(alone), elastic(learned)):
        taken_s = min(_decision_s(policy, snapshot) for _ in range(1 + repeats))
        found.append(f"{policy}: {1e3 * taken_s:.1f} ms")
    return [*found[:-1], f"{found[-1]}, of which the network is asked {times_asked(learned, snapshot)} times"]


def times_asked(policy: Learned, snapshot: Snapshot) -> int:
    """How often a network is asked for one allocation."""
    network, asked = policy.network, []

    def noted(features: np.ndarray) -> np.ndarray:
        asked.append(len(features))
        return network(features)

    policy.network = noted
    elastic(policy).allocate(snapshot)
    policy.network = network
    return len(asked)


def greedy_network(hidden: int = 64) -> Network:
    """A network of the size that is learned, by chance, that would rather take any move than stop."""
    chance, wide = np.random.default_rng(0), (FEATURES, hidden, hidden, 1)
    weights = tuple((chance.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for shape in pairwise(wide))
    biases = (*(np.zeros(hidden, dtype=np.float32) for _ in wide[1:-1]), np.full(1, 1e3, dtype=np.float32))
    ones_F = np.ones(FEATURES, dtype=np.float32)
    return Network(0.0 * ones_F, ones_F, weights, biases)


def _decision_s(policy: Policy, snapshot: Snapshot) -> float:
    begin_s = time.process_time()
    policy.allocate(snapshot)
    return time.process_time() - begin_s


if __name__ == "__main__":
    main()
