"""``python -m tests.simulator.processors`` prints runs that must be the same on every processor, to the byte.

Logs of simulations with every event and command in them; and answers to single instants: of every policy, and with
so many different jobs that no simulation of them is short. The first line says which kernels BLAS uses.
"""

import sys
from dataclasses import replace
from random import Random

import numpy as np
from threadpoolctl import threadpool_info

from gavelx.cluster import Cluster
from gavelx.estimated_speeds import with_estimates
from gavelx.estimator import make_estimator
from gavelx.estimator.estimated_table import Believed, ways_of
from gavelx.estimator.sampled_table import sampled
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.price_tables import load_prices
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.policies import catalog, load_policy
from gavelx.policies.base import Policy
from gavelx.published import PUBLISHED
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs
from tests.swarm.run import Watched

TABLE, CLUSTER = load_throughputs("simulation"), Cluster.parse("v100=8,p100=8,k80=8")
PRICES = load_prices("gcp", CLUSTER.accelerators)
SIMULATED = ("agnostic(max_min_fairness)", "packed(max_min_fairness)", "finish_time_fairness")
SIMULATED += ("shared_cloud_cost_fairness",)
DIFFERENT = 400


def run_published(policy: str) -> None:
    """When each job of a short run by the published rules was complete, and what it cost."""
    jobs = random_jobs(12, TABLE, seed=1, multi_gpu=True)
    result = simulate(load_policy(policy), jobs, CLUSTER, TABLE, PRICES, rules=PUBLISHED)
    sys.stdout.write(f"{list(result.completion_s_J)} {list(result.cost_usd_J)}\n")


def run(policy: str, *, estimated: bool = False) -> None:
    """The log of a short run, in which half of the speeds may be ``estimated`` from the other half."""
    simulate(
        load_policy(policy),
        random_jobs(12, TABLE, seed=1, multi_gpu=True),
        CLUSTER,
        TABLE,
        PRICES,
        believed=_half_of_it() if estimated else None,
        watch=lambda mechanism, backend: Watched(mechanism, backend, sys.stdout.write),
    )


def run_estimated(policy: str) -> None:
    """Runs on types that the table lacks, at speeds estimated from data sheets and at speeds drawn from ranges."""
    cluster = Cluster.parse("a100=8,h100=8")
    jobs = [*random_jobs(8, TABLE, seed=1, multi_gpu=True), Job(100, "llama-7b-lora-bs16", 2000.0)]
    table = with_estimates(TABLE, jobs, cluster.accelerators)
    for each in (table, sampled(table, 1)):
        result = simulate(load_policy(policy), jobs, cluster, each)
        sys.stdout.write(f"{list(each.isolated.values())} {list(result.completion_s_J)}\n")


def _half_of_it() -> Believed:
    """What an estimator makes of half the table, measured, job types alone and on several devices."""
    ways = ways_of(TABLE.job_types, CLUSTER.accelerators, (1, 2, 4, 8), placements=True)
    learner, random = Believed(make_estimator(data_sheets=load_data_sheets()), ways), Random(1)
    known = [way for way in ways if way in TABLE.isolated and random.random() < 0.5]
    learner.observe(Measurement(way, TABLE.isolated[way]) for way in known)
    return learner


def all_different() -> Snapshot:
    """Very many jobs, no two of which are alike."""
    random = np.random.default_rng(3)
    speed_JA = random.lognormal(size=(DIFFERENT, len(CLUSTER.accelerators)))
    speeds = {
        Setting(f"job {j}", name): speed
        for j, speed_A in enumerate(speed_JA.tolist())
        for name, speed in zip(CLUSTER.accelerators, speed_A, strict=True)
    }
    jobs = [Job(j, f"job {j}", 1e4 * (1 + j % 7), weight=1.0 + j % 3) for j in range(DIFFERENT)]
    return Snapshot.of(jobs, Cluster.parse("v100=50,p100=30,k80=70"), Throughputs(speeds), PRICES)


def answer(policy: Policy, snapshot: Snapshot) -> None:
    """Shares and certificate, to the last digit."""
    allocation = policy.allocate(snapshot)
    certificate = replace(allocation.certificate, seconds=0.0)
    sys.stdout.write(f"{policy} {certificate} {allocation.share_C.tolist()}\n")


def main() -> None:
    """Everything, one after the other."""
    kernels = {one.get("architecture", "unknown") for one in threadpool_info() if one["user_api"] == "blas"}
    sys.stdout.write(f"{' '.join(sorted(kernels))}\n")
    for name in SIMULATED:
        run(name)
    run("max_min_fairness", estimated=True)
    run_estimated("max_min_fairness")
    run_published("max_min_fairness")
    few, many = Snapshot.of(random_jobs(20, TABLE, seed=2), CLUSTER, TABLE, PRICES), all_different()
    for policy in catalog().values():
        answer(policy, few)
    for name in ("max_min_fairness", "finish_time_fairness", "nash_welfare", "agnostic(max_min_fairness)"):
        answer(load_policy(name), many)


if __name__ == "__main__":
    main()
