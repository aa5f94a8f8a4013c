"""python -m experiments.sia [--write]: Sia's program, Pollux's fitness and Gavel in the rounds of Sia's simulator.

The workloads and job models of ``reference.json`` are ours; its runs are what the public simulator of Sia
(SOSP'23) made of them, whose rules are in `rounds`. ``--reference`` reads another file of its kind.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.experiment import markdown_table
from experiments.sia.belief import Learnt
from experiments.sia.gavel import Gavel
from experiments.sia.program import (
    HAS_CBC,
    RigidProgram,
    Solver,
    any_optimum,
    as_at_present,
    at_random,
    by_cbc,
)
from experiments.sia.rounds import (
    HOMOGENEOUS,
    MIXED,
    Application,
    Belief,
    Known,
    Running,
    Scheduler,
    Servers,
    play,
)
from experiments.sia.schedulers import Growth, WholeDevices
from experiments.sia.workload import drawn
from gavelx.files.atomic import write_atomically
from gavelx.policies import Goodput, Pollux
from gavelx.policies.base import Policy

REFERENCE = Path(__file__).with_name("reference.json")
RESULTS = Path(__file__).parents[1] / "results" / "sia.md"
CLUSTERS = {"hom": HOMOGENEOUS, "het": MIXED}
TIE_SEEDS, WORKLOAD_SEEDS = range(8), range(1, 6)


class Run(NamedTuple):
    """One of our runs, the reference that it is beside, what is believed of speeds, and the seconds of a round."""

    says: str
    reference: str
    scheduler: Callable[[Servers], Scheduler]
    belief: Callable[[Application], Belief] = Known
    elastic: bool = True
    round_s: int = 60


def whole(policy: Policy, growth: Growth) -> Callable[[Servers], Scheduler]:
    """Our policy in their rounds."""
    return lambda servers: WholeDevices(policy, servers, growth)


def rigid(says: str, solver: Solver) -> Run:
    """Sia's program for rigid jobs, by this solver."""
    return Run(says, "rigid", lambda servers: RigidProgram(servers, solver), elastic=False)


EXACT = (
    Run("Gavel, raw steps", "gavel", lambda servers: Gavel(servers, 360), elastic=False, round_s=360),
    *((rigid("Sia's program, rigid jobs, their solver", by_cbc),) if HAS_CBC else ()),
)
OURS = (
    Run("`goodput`, rigid jobs", "rigid", whole(Goodput(), "at once"), elastic=False),
    Run("`goodput`, handicapped, speeds learnt", "sia", whole(Goodput(), "doubling"), Learnt),
    Run("`goodput`, first on one device, speeds known", "siaoracle", whole(Goodput(), "first on one")),
    Run("`goodput`, any size at once, speeds known", "siaoracle", whole(Goodput(), "at once")),
    Run("`goodput`, handicapped, learnt, 300 s", "sia300", whole(Goodput(), "doubling"), Learnt, round_s=300),
    Run("`pollux`, handicapped, learnt, 300 s", "pollux300", whole(Pollux(), "doubling"), Learnt, round_s=300),
)
RUNS = EXACT + OURS
TITLES = (
    *("workload", "cluster", "run", "mean, s", "theirs", "", "p99, s", "theirs", ""),
    *("jobs that end in the same second", "a job differs by (median), s", "most, s", "restarts a job", "theirs"),
)


def jobs_of(rows: list[list[Any]], models: Mapping[str, Any], run: Run) -> list[Running]:
    """The jobs of a workload, not begun."""
    applications = {name: Application(name, facts) for name, facts in models.items()}
    return [
        Running(name, arrival_s, application, devices, 0 if run.elastic else batch, run.belief(application))
        for name, arrival_s, of, devices, batch in rows
        for application in [applications[of]]
    ]


def played(run: Run, rows: list[list[Any]], models: Mapping[str, Any], cluster: str) -> list[Running]:
    """The jobs of a workload, done."""
    return play(jobs_of(rows, models, run), run.scheduler(CLUSTERS[cluster]), run.round_s)


def key(workload: str, cluster: str, run: Run) -> str:
    """The name of the reference beside it."""
    return f"{workload.replace('-', '')}_{cluster}_{run.reference}"


def jct_of(jobs: list[Running]) -> dict[str, float]:
    return {job.name: job.end_s - job.arrival_s for job in jobs}


def beside(run: Run, reference: Mapping[str, Any], workload: str, cluster: str) -> list[str]:
    """A row of the table."""
    theirs = reference["runs"][key(workload, cluster, run)]
    jobs = played(run, reference["workloads"][workload], reference["models"], cluster)
    jct = jct_of(jobs)
    off = [abs(jct[name] - seconds) for name, seconds in theirs["jct_s"].items()]
    mean, p99 = float(np.mean(list(jct.values()))), float(np.percentile(list(jct.values()), 99))
    return [
        *(workload, cluster, run.says, f"{mean:,.0f}", f"{theirs['mean_jct_s']:,.0f}"),
        *(f"{mean / theirs['mean_jct_s'] - 1:+.1%}", f"{p99:,.0f}", f"{theirs['p99_jct_s']:,.0f}"),
        *(f"{p99 / theirs['p99_jct_s'] - 1:+.1%}", f"{off.count(0.0)} of {len(off)}"),
        *(f"{np.median(off):,.0f}", f"{max(off):,.0f}"),
        *(f"{np.mean([job.starts - 1 for job in jobs]):.1f}", f"{theirs['restarts']:.1f}"),
    ]


def ties(reference: Mapping[str, Any], workload: str, cluster: str) -> list[str]:
    """How far the mean may be off where only the choice among equally good answers differs."""
    rows, models = reference["workloads"][workload], reference["models"]

    def mean_s(solver: Solver) -> float:
        return float(np.mean(list(jct_of(played(rigid("", solver), rows, models, cluster)).values())))

    theirs = reference["runs"][key(workload, cluster, rigid("", by_cbc))]["mean_jct_s"]
    anew = [mean_s(at_random(seed)) for seed in TIE_SEEDS]
    solved, present = mean_s(any_optimum), mean_s(as_at_present)
    least, most = min(*anew, solved, present), max(*anew, solved, present)
    return [
        *(workload, cluster, f"{theirs:,.0f}", f"{present:,.0f}", f"{solved:,.0f}"),
        *(f"{np.mean(anew):,.0f} ({min(anew):,.0f} .. {max(anew):,.0f})",),
        f"{least / theirs - 1:+.1%} .. {most / theirs - 1:+.1%}",
    ]


def against_pollux(reference: Mapping[str, Any]) -> tuple[list[list[str]], float]:
    """`pollux` beside `goodput` on the homogeneous cluster, workload by workload, and the mean difference."""

    @cache
    def mean_s(policy: Policy, seed: int) -> float:
        run = Run("", "", whole(policy, "doubling"), Learnt)
        return float(np.mean(list(jct_of(played(run, drawn(seed), reference["models"], "hom")).values())))

    pairs = [(mean_s(Pollux(), seed), mean_s(Goodput(), seed)) for seed in WORKLOAD_SEEDS]
    rows = [
        [str(seed), f"{pollux:,.0f}", f"{sia:,.0f}", f"{pollux / sia - 1:+.1%}"]
        for seed, (pollux, sia) in zip(WORKLOAD_SEEDS, pairs, strict=True)
    ]
    return rows, float(np.mean([pollux / sia - 1 for pollux, sia in pairs]))


def page(reference: Mapping[str, Any]) -> str:
    """All of it."""
    pairs = [*product(reference["workloads"], CLUSTERS)]
    there = [(run, *pair) for pair in pairs for run in RUNS if key(*pair, run) in reference["runs"]]
    with_rigid = [pair for pair in pairs if key(*pair, rigid("", by_cbc)) in reference["runs"]]
    seeds, mean = against_pollux(reference)
    return "\n\n".join(
        [
            "# In the rounds of Sia's simulator",
            "Handicapped: first on one device, at best doubled at a restart. Learnt: a model fitted to what each "
            "job reported. The references of elastic jobs are handicapped alike, and their `pollux` searches.",
            markdown_table(TITLES, [beside(run, reference, *pair) for run, *pair in there]),
            "## Sia's program for rigid jobs: other answers that are as good\n\n"
            "Costs are rounded to 0.01, so a job that runs and one of its width that waits are worth the same. "
            "Mean completion (s) by solver; all of these answers are optimal in each round:",
            markdown_table(
                ("workload", "cluster", "theirs", "present places first", "HiGHS", "at random", "all of them"),
                [ties(reference, *pair) for pair in with_rigid],
            ),
            "## `pollux` beside `goodput`\n\n"
            "Homogeneous cluster, both handicapped and learning, workloads drawn like own-1 (mean completion, s):",
            markdown_table(("seed", "`pollux`", "`goodput`", ""), [*seeds, ["mean", "", "", f"{mean:+.1%}"]]),
            f"Python {platform.python_version()}. `python -m experiments.sia --write`"
            + ("" if HAS_CBC else "; without their solver, CBC (`pip install cylp`)")
            + "\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.sia", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="models, workloads and runs (JSON)")
    parser.add_argument("--write", action="store_true", help="write experiments/results/sia.md")
    typed = parser.parse_args()
    text = page(json.loads(typed.reference.read_text()))
    sys.stdout.write(text)
    if typed.write:
        write_atomically(RESULTS, text)


if __name__ == "__main__":
    main()
