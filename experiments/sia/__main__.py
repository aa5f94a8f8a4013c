"""python -m experiments.sia [--write]: Sia's program, Pollux's fitness and Gavel in the rounds of Sia's simulator.

The workloads and job models of ``reference.json`` are ours; its runs are what the public simulator of Sia
(SOSP'23) made of them, whose rules are in `rounds`.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.experiment import markdown_table
from experiments.sia.rounds import HOMOGENEOUS, MIXED, Application, Running, Scheduler, Servers, play
from experiments.sia.schedulers import Growth, Shares, WholeDevices
from gavelx.files.atomic import write_atomically
from gavelx.policies import Goodput, Pollux

REFERENCE = Path(__file__).with_name("reference.json")
RESULTS = Path(__file__).parents[1] / "results" / "sia.md"
CLUSTERS = {"hom": HOMOGENEOUS, "het": MIXED}


class Run(NamedTuple):
    """One of our runs, the reference that it is beside, whether jobs may change, and the seconds of a round."""

    says: str
    reference: str
    scheduler: Callable[[Servers], Scheduler]
    elastic: bool = True
    round_s: float = 60.0


def goodput(growth: Growth) -> Callable[[Servers], Scheduler]:
    """Our policy in their rounds."""
    return lambda servers: WholeDevices(Goodput(), servers, growth)


RUNS = (
    Run("Gavel, raw steps", "gavel", Shares, elastic=False, round_s=360.0),
    Run("`goodput`, rigid jobs", "rigid", goodput("at once"), elastic=False),
    Run("`goodput`, first on one device, doubling; theirs learns speeds", "sia", goodput("doubling")),
    Run("`goodput`, first on one device; theirs knows speeds", "siaoracle", goodput("first on one")),
    Run("`goodput`, any size at once; theirs knows speeds", "siaoracle", goodput("at once")),
    Run(
        "`pollux`, first on one device, doubling; theirs learns speeds, and searches",
        "pollux300",
        lambda servers: WholeDevices(Pollux(), servers, "doubling"),
        round_s=300.0,
    ),
)
TITLES = (
    *("workload", "cluster", "run", "mean, s", "theirs", "", "p99, s", "theirs"),
    *("a job differs by (median), s", "most, s", "restarts a job", "theirs"),
)


def jobs_of(reference: Mapping[str, Any], workload: str, *, elastic: bool) -> list[Running]:
    """The jobs of a workload, not begun."""
    applications = {name: Application(facts) for name, facts in reference["models"].items()}
    return [
        Running(name, arrival_s, applications[of], devices, 0 if elastic else batch)
        for name, arrival_s, of, devices, batch in reference["workloads"][workload]
    ]


def beside(run: Run, reference: Mapping[str, Any], workload: str, cluster: str) -> list[str]:
    """A row of the table."""
    servers = CLUSTERS[cluster]
    theirs = reference["runs"][f"{workload.replace('-', '')}_{cluster}_{run.reference}"]
    jobs = play(jobs_of(reference, workload, elastic=run.elastic), run.scheduler(servers), servers, run.round_s)
    jct = {job.name: job.end_s - job.arrival_s for job in jobs}
    off = [abs(jct[name] - seconds) for name, seconds in theirs["jct_s"].items()]
    mean, p99 = float(np.mean(list(jct.values()))), float(np.percentile(list(jct.values()), 99))
    restarts = float(np.mean([job.starts - 1 for job in jobs]))
    return [
        *(workload, cluster, run.says, f"{mean:,.0f}", f"{theirs['mean_jct_s']:,.0f}"),
        *(f"{mean / theirs['mean_jct_s'] - 1:+.1%}", f"{p99:,.0f}", f"{theirs['p99_jct_s']:,.0f}"),
        *(f"{np.median(off):,.0f}", f"{max(off):,.0f}", f"{restarts:.1f}", f"{theirs['restarts']:.1f}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.sia", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write experiments/results/sia.md")
    typed = parser.parse_args()
    reference = json.loads(REFERENCE.read_text())
    rows = [
        beside(run, reference, workload, cluster)
        for workload, cluster, run in product(reference["workloads"], CLUSTERS, RUNS)
        if f"{workload.replace('-', '')}_{cluster}_{run.reference}" in reference["runs"]
    ]
    machine = f"Python {platform.python_version()}. `python -m experiments.sia --write`"
    text = f"# In the rounds of Sia's simulator\n\n{markdown_table(TITLES, rows)}\n\n{machine}\n"
    sys.stdout.write(text)
    if typed.write:
        write_atomically(RESULTS, text)


if __name__ == "__main__":
    main()
