"""How well the elastic job model predicts steps that it has not seen.

    python -m experiments.estimation_elastic PROFILES.csv [--seed 0]

Half of the rows of each model on each accelerator type are hidden; the model is fitted to the others and asked for
the hidden ones. PROFILES.csv has the columns ``model, accelerator, local_batch_size, num_nodes, num_gpus,
placement, step_time_s, sync_time_s`` (those of the artifact of Sia (SOSP'23), which states no licence, so they are
not shipped). Doubled rows are taken once. Where the time for gradients is longer than the step in any row of a
model on a type, its steps do not include it, and it is added to them.
"""

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.experiment import markdown_table
from gavelx.estimator.step_time import Profile, fit_step_time, held_out_errors
from gavelx.files.atomic import write_atomically

OUT = Path(__file__).parent / "results" / "estimation_elastic.md"
LEVEL = 0.9


class Row(NamedTuple):
    """A model on a type: errors of the hidden half (relative), and how often the stated range held the truth."""

    model: str
    accelerator: str
    profiles: int
    median: float
    p90: float
    overlap: float
    covered: float


def read_profiles(path: Path) -> dict[tuple[str, str], list[Profile]]:
    """The profiles of each model and accelerator type."""
    found: dict[tuple[str, str], dict[Profile, None]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            times = float(row["step_time_s"]), float(row["sync_time_s"])
            profile = Profile(_placement(row), float(row["local_batch_size"]), *times)
            found.setdefault((row["model"], row["accelerator"]), {})[profile] = None
    return {key: _with_sync(list(profiles)) for key, profiles in found.items()}


def _placement(row: Mapping[str, str]) -> tuple[int, ...]:
    """Devices on each server; spread evenly where the file says no more than how many."""
    if row["placement"]:
        return tuple(int(part) for part in row["placement"].split("+"))
    servers, devices = int(row["num_nodes"]), int(row["num_gpus"])
    return tuple(devices // servers + (server < devices % servers) for server in range(servers))


def _with_sync(profiles: list[Profile]) -> list[Profile]:
    """The same with the sync in the step."""
    if all(one.sync_s < one.step_s for one in profiles):
        return profiles
    return [one._replace(step_s=one.step_s + one.sync_s) for one in profiles]


def assess(profiles: Mapping[tuple[str, str], Sequence[Profile]], seed: int) -> list[Row]:
    """Each model on each type, half of it hidden."""
    rows = []
    for (model, accelerator), all_of_it in sorted(profiles.items()):
        order = np.random.default_rng(seed).permutation(len(all_of_it))
        seen, hidden = ([all_of_it[n] for n in part] for part in np.array_split(order, 2))
        fitted = fit_step_time(seen)
        predicted = np.array([fitted.seconds(one.placement, one.local_batch) for one in hidden])
        log_error = np.log(predicted / np.array([one.step_s for one in hidden]))
        within = np.quantile(np.abs(held_out_errors(seen)), LEVEL)
        error = np.abs(np.expm1(log_error))
        covered = float(np.mean(np.abs(log_error) <= within))
        figures = (float(np.median(error)), float(np.quantile(error, 0.9)), fitted.overlap, covered)
        rows.append(Row(model, accelerator, len(all_of_it), *figures))
    return rows


def table(rows: Sequence[Row], seed: int) -> str:
    titles = ["model", "accelerator", "profiles", "median error", "p90 error", "p", "90 % range held"]
    cells = [_cells(row) for row in rows]
    weights = np.array([r.profiles for r in rows], dtype=float)
    held = float(np.average([r.covered for r in rows], weights=weights))
    middle = [f"{np.median([r.median for r in rows]):.1%}", f"{np.median([r.p90 for r in rows]):.1%}"]
    cells.append(["**median of rows**", "", str(int(weights.sum())), *middle, "", f"{held:.0%} of profiles"])
    return (
        "# Steps of elastic jobs, predicted\n\n"
        f"`python -m experiments.estimation_elastic PROFILES.csv --seed {seed}`: half of the profiles of each\n"
        "model on each type are hidden. Errors are relative, of the whole step; p is the exponent of the fitted\n"
        "overlap (1: none, 10: all).\n\n" + markdown_table(titles, cells) + "\n"
    )


def _cells(row: Row) -> list[str]:
    errors = f"{row.median:.1%}", f"{row.p90:.1%}"
    return [row.model, row.accelerator, str(row.profiles), *errors, f"{row.overlap:.1f}", f"{row.covered:.0%}"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("profiles", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    text = table(assess(read_profiles(options.profiles), options.seed), options.seed)
    write_atomically(options.out, text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
