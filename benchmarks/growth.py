"""How the processor time of one allocation grows with the jobs: times, exponents and a log-log plot.

    python -m benchmarks.growth [POLICY ...] [--types 8] [--budget-s 3] [--out benchmarks/results/growth]

Jobs all differ (`instances.all_distinct`), so nothing collapses. Each policy is asked at 64, 128, ... jobs, until
an answer takes longer than the budget. The exponent is the slope of log time over log jobs for the last three
sizes: 1 is in proportion, 2 is four times the time for twice the jobs. Writes OUT.json and OUT.png.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import report
from benchmarks.instances import all_distinct, snapshot_of
from gavelx.errors import GavelxError
from gavelx.files.atomic import write_atomically
from gavelx.policies import Policy, load_policy
from gavelx.policies.loading import catalog

SMALLEST, LARGEST = 64, 65_536
LAST = 3
"""Sizes by which the exponent is fitted."""


def seconds_of(policy: Policy, jobs: int, types: int) -> float:
    """Processor time of one allocation; the lesser of two, if they are short."""
    least = np.inf
    while True:
        snapshot = snapshot_of(all_distinct(jobs, seed=1, types=types))
        started = time.process_time()
        policy.allocate(snapshot)
        took = time.process_time() - started
        if np.isfinite(least) or took > 0.5:
            return float(min(took, least))
        least = took


def growth(name: str, types: int, budget_s: float) -> dict[str, list[float]]:
    """Jobs and seconds, until one answer takes longer than the budget or there is none."""
    policy, jobs, sizes, seconds = load_policy(name), SMALLEST, list[float](), list[float]()
    try:
        while jobs <= LARGEST and (not seconds or seconds[-1] <= budget_s):
            seconds.append(seconds_of(policy, jobs, types))
            sizes.append(jobs)
            jobs *= 2
    except GavelxError as error:
        print(f"{name}: no answer for {jobs} jobs: {error}"[:120])
    return {"jobs": sizes, "seconds": seconds}


def exponent(row: dict[str, list[float]]) -> float | None:
    """The slope over the last sizes; None of fewer."""
    if len(row["jobs"]) < LAST:
        return None
    jobs, seconds = (np.log(row[key][-LAST:]) for key in ("jobs", "seconds"))
    return float(np.polyfit(jobs, seconds, 1)[0])


def draw(rows: dict[str, dict[str, list[float]]], path: Path) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415  # an extra

    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots()
    slowest_first = sorted(rows.items(), key=lambda each: -_at_last(each[1]))
    for number, (name, row) in enumerate(slowest_first):
        slope = exponent(row)
        label = name if slope is None else f"{name} ({slope:.1f})"
        axes.loglog(row["jobs"], row["seconds"], marker="oxds^v"[number % 6], ms=3, lw=1, label=label)
    axes.set(xlabel="jobs, all different", ylabel="processor seconds of one allocation")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=7, title="policy (exponent),\nslowest first")
    figure.savefig(path, dpi=110)


def _at_last(row: dict[str, list[float]]) -> float:
    """Seconds a job, at the most jobs that were tried."""
    return row["seconds"][-1] / row["jobs"][-1] if row["jobs"] else np.inf


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.split("\n")[0])
    parser.add_argument("policies", nargs="*", help="default: every policy of the catalog")
    parser.add_argument("--types", type=int, default=8)
    parser.add_argument("--budget-s", type=float, default=3.0, help="an answer that takes longer is the last")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/growth"))
    options = parser.parse_args(arguments)
    rows = dict[str, dict[str, list[float]]]()
    for name in options.policies or sorted(catalog()):
        rows[name] = growth(name, options.types, options.budget_s)
        slope, row = exponent(rows[name]), rows[name]
        last = f"{row['jobs'][-1]:>7,.0f} jobs {row['seconds'][-1]:8.3f} s" if row["jobs"] else "no answer"
        print(f"{name:<32} {last}  exponent {'-' if slope is None else f'{slope:.2f}'}", flush=True)
    said = {name: row | {"exponent": exponent(row)} for name, row in rows.items()}
    about = {"machine": report.machine(), "types": options.types, "policies": said}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out.with_suffix(".json"), json.dumps(about, indent=1) + "\n")
    draw(rows, options.out.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
