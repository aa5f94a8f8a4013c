"""What estimated speeds cost: the same policy with true throughputs and with those estimated from a small profile.

    python -m experiments.estimation_end_to_end [--rates 0.4 ...] [--seeds 0 1 ...] [--jobs 120] [--report]

After the figure of Gavel (OSDI'20), section 7, in which least attained service with space sharing knows true
(oracle) or estimated throughputs on a heterogeneous cluster of 12 devices, jobs of one device. Jobs run at the
speeds of the table ``simulation``; the policy sees the table that an estimator completes from

* ``10 % of pairs``: each job type alone on each accelerator type, and a tenth of all runs of two job types on one
  device, drawn by the seed;
* ``10 %, alone on one``: the same pairs, but each job type alone on one accelerator type only, drawn by the seed.

Those that learn from leases are told how fast each lease ran when it ends, and know that from then on.
Whether two jobs fit one device's memory together is taken to be known, and measurements are exact. Seeds draw the
jobs as well, so differences are between runs of the same jobs. Smaller than the published one: of ``--jobs`` jobs
those after the first quarter are measured, and our rules are used. Finished runs are lines of
``estimation_end_to_end.jsonl`` and are not run again; table and plot are made of them.
"""

import argparse
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations_with_replacement, product
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from experiments.estimation.baselines import estimator_of
from experiments.experiment import markdown_table
from experiments.runner import say
from gavelx.cluster import Cluster
from gavelx.estimator.estimated_table import Believed, ways_of
from gavelx.files.atomic import write_atomically
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.throughput_tables import load_throughputs
from gavelx.measurements import Measurement, Way
from gavelx.policies import load_policy
from gavelx.report.plots import COLORS, DASHES, STYLE
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.throughputs import Pairing, Setting, Throughputs

FOLDER = Path(__file__).parent / "results"
NAME = "estimation_end_to_end"
CLUSTER, RATES, SEEDS, JOBS = "v100=4,p100=4,k80=4", (0.5, 0.8, 1.1), tuple(range(6)), 120
TRUE, TENTH, ALONE_ON_ONE = "true", "10 % of pairs", "10 %, alone on one"
FAIR = "max_min_fairness"

PAGE = """# What estimated speeds cost

`python -m experiments.estimation_end_to_end` on {cluster}, jobs of one device: {jobs} of them, the last three
quarters of which are measured, seeds {seeds}. Mean completion time in hours, mean ± deviation over seeds. The last
column is the mean over rates and seeds of the difference to the same jobs under the same policy with true speeds
(least .. largest); for `agnostic`, to the policy that knows types.
"""


@dataclass(frozen=True)
class Line:
    """A policy with what it knows: of an estimator by name, from a profile, and perhaps from its own leases."""

    policy: str
    profile: str = TRUE
    estimator: str = ""
    learns: bool = False

    @property
    def knows(self) -> str:
        known = f"{self.estimator}, {self.profile}{', and leases' * self.learns}"
        return TRUE if self.profile == TRUE else known

    def __str__(self) -> str:
        return f"{self.policy}: {self.knows}"


LINES = (
    Line(f"packed({FAIR})"),
    Line(f"packed({FAIR})", TENTH, "completion"),
    Line(f"packed({FAIR})", TENTH, "completion", learns=True),
    Line(f"packed({FAIR})", ALONE_ON_ONE, "completion"),
    Line(f"packed({FAIR})", TENTH, "fingerprint"),
    Line(f"optimistic(packed({FAIR}))", TENTH, "completion", learns=True),
    Line(FAIR),
    Line(FAIR, ALONE_ON_ONE, "completion"),
    Line(FAIR, ALONE_ON_ONE, "completion", learns=True),
    Line(f"agnostic({FAIR})"),
)
"""What is compared: those with true speeds are what the others are compared with."""


@dataclass(frozen=True)
class Run:
    """A simulation: a line of the figure at a rate (jobs per hour), with a seed and so many jobs."""

    line: Line
    rate: float
    seed: int
    jobs: int


def profiled(table: Throughputs, profile: str, seed: int) -> list[Measurement]:
    """What a profile measures: both jobs of a pair at once, and 0 where they do not run."""
    rng = np.random.default_rng([seed, 6])
    types, names = table.job_types, table.accelerators
    alone: list[Way] = [Setting(job, name) for job, name in product(types, names)]
    if profile == ALONE_ON_ONE:
        alone = [Setting(job, names[rng.integers(len(names))]) for job in types]
    runs = [
        (Pairing(a, b, name), Pairing(b, a, name))
        for (a, b), name in product(combinations_with_replacement(types, 2), names)
        if Pairing(a, b, name) in table.colocated
    ]
    tenth = [runs[r] for r in rng.choice(len(runs), round(0.1 * len(runs)), replace=False)]
    speed_of: dict[Way, float] = {**table.isolated, **table.colocated}
    ways = [*alone, *dict.fromkeys(way for both in tenth for way in both)]
    return [Measurement(way, speed_of[way]) for way in ways if way in speed_of]


def believed(line: Line, seed: int) -> Throughputs | Believed | None:
    """The table that the policy sees, or who learns it; None where it is the true one."""
    if line.profile == TRUE:
        return None
    if not line.learns:
        return _estimated(line.estimator, line.profile, seed).throughputs()
    return _estimated.__wrapped__(line.estimator, line.profile, seed)


@cache
def _estimated(name: str, profile: str, seed: int) -> Believed:
    """An estimator that has seen the profile; a new one for whoever teaches it more."""
    table = load_throughputs("simulation")
    wanted = ways_of(table.job_types, table.accelerators, pairs=True)
    learner = Believed(estimator_of(name, load_data_sheets()), wanted)
    learner.observe(profiled(table, profile, seed))
    return learner


def mean_jct_h(run: Run, cluster: str = CLUSTER) -> float | None:
    """The mean completion time of the measured jobs in hours; None unless all were completed."""
    table = load_throughputs("simulation")
    result = simulate(
        load_policy(run.line.policy),
        random_jobs(run.jobs, table, arrival_rate_per_hour=run.rate, seed=run.seed),
        Cluster.parse(cluster, devices_per_server=1),
        table,
        window=slice(run.jobs // 4, run.jobs),
        believed=believed(run.line, run.seed),
    )
    summary = result.summary()
    complete = summary["jobs_completed"] == summary["jobs_total"]
    return summary["jct_mean_s"] / 3600.0 if complete else None


def read_done(path: Path) -> dict[Run, float | None]:
    """The runs of a file, and what came of them."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return {
        Run(Line(**record["line"]), record["rate"], record["seed"], record["jobs"]): record["mean_jct_h"]
        for record in records
    }


def report(done: dict[Run, float | None]) -> str:
    """A table: mean completion time by line and rate, and how much more that is than with true speeds."""
    rates = sorted({run.rate for run in done})
    titles = ["policy", "speeds", *(f"{rate:g} jobs/h" for rate in rates), "over true speeds"]
    rows = []
    for line in LINES:
        hours = {(run.rate, run.seed): h for run, h in done.items() if run.line == line and h is not None}
        cells = [_mean([h for (rate, _), h in hours.items() if rate == its]) for its in rates]
        rows.append([f"`{line.policy}`", line.knows, *cells, _over(line, done)])
    jobs, seeds = (
        _listed(sorted(numbers)) for numbers in ({run.jobs for run in done}, {run.seed for run in done})
    )
    about = PAGE.format(cluster=CLUSTER, jobs=jobs, seeds=seeds)
    return f"{about}\n{markdown_table(titles, rows)}\n\n![mean completion time by rate]({NAME}.png)\n"


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _mean(hours: Sequence[float]) -> str:
    spread = f" ± {stdev(hours):.1f}" if len(hours) > 1 else ""
    return f"{fmean(hours):.1f}{spread}" if hours else ""


def _over(line: Line, done: dict[Run, float | None]) -> str:
    """How much longer jobs take than with true speeds, run by run."""
    base = Line(f"packed({FAIR})" if "packed" in line.policy else FAIR)
    if line == base:
        return ""
    pairs = [(h, done.get(Run(base, run.rate, run.seed, run.jobs))) for run, h in done.items() if run.line == line]
    more = [h / true - 1.0 for h, true in pairs if h is not None and true is not None]
    return f"{fmean(more):+.1%} ({min(more):+.1%} .. {max(more):+.1%})" if more else ""


def plot(done: dict[Run, float | None]) -> bytes:
    """A curve for each line, over the rate."""
    with rc_context(STYLE):
        figure = Figure(figsize=(8.4, 7.0), layout="constrained")
        axes = figure.subplots()
        axes.set_title("Least attained service with true and with estimated speeds")
        axes.set_xlabel("jobs per hour")
        axes.set_ylabel("mean completion time, h")
        axes.grid(True)
        policies = list(dict.fromkeys(line.policy for line in LINES))
        for line in LINES:
            hours: dict[float, list[float]] = {}
            for run, h in done.items():
                if run.line == line and h is not None:
                    hours.setdefault(run.rate, []).append(h)
            rates = sorted(hours)
            dashes = (*DASHES, (0, (9, 3)))[[other for other in LINES if other.policy == line.policy].index(line)]
            color = COLORS[policies.index(line.policy)]
            means = [fmean(hours[rate]) for rate in rates]
            axes.plot(rates, means, color=color, linestyle=dashes, linewidth=1.8, label=str(line))
        figure.legend(loc="outside lower center", ncols=1, frameon=False, fontsize=8, handlelength=4)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
        return buffer.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="jobs per hour")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of results")
    parser.add_argument("--report", action="store_true", help="run nothing; write table and plot of what is done")
    options = parser.parse_args(arguments)
    path = options.out / f"{NAME}.jsonl"
    done = read_done(path)
    runs = [
        Run(line, rate, seed, options.jobs)
        for seed, rate, line in product(options.seeds, options.rates, LINES)
        if not options.report
    ]
    todo = [run for run in runs if run not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, run in enumerate(todo, 1):
        done[run] = mean_jct_h(run)
        with path.open("a") as file:
            file.write(json.dumps({**asdict(run), "mean_jct_h": done[run]}) + "\n")
        say(f"[{number}/{len(todo)}] {run.line}, {run.rate:g} jobs/h, seed {run.seed}: {done[run]} h")
    text = report(done)
    write_atomically(options.out / f"{NAME}.md", text)
    write_atomically(options.out / f"{NAME}.png", plot(done))
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
