"""The workload of EasyScale and the page that compares policies on it."""

from collections import Counter

import pytest

from experiments.easyscale.__main__ import BASE, SETTINGS, WAYS, Point, document, points, report, run, simulated
from experiments.easyscale.jobs import DEVICES, GAP_S, MODELS, WIDTHS, draw
from experiments.easyscale.plots import bars, over_time
from gavelx.sizes import speed


def test_jobs_are_drawn_with_the_proportions_that_are_told() -> None:
    jobs = [job for seed in range(30) for job in draw(seed).jobs]
    widths, models = (
        Counter(job.scale_factor for job in jobs),
        Counter(job.job_type.split(" #")[0] for job in jobs),
    )
    assert set(widths) == set(WIDTHS)
    assert set(models) == set(MODELS)
    assert widths[32] / len(jobs) == pytest.approx(0.53 * 0.77, abs=0.04)  # P100 and T4 have 16
    last_s = [draw(seed).jobs[-1].arrival_s for seed in range(30)]
    assert sum(last_s) / 30 == pytest.approx(62 * GAP_S, rel=0.1)


def test_speeds_are_those_of_plans_and_exchange_only_slows() -> None:
    free, charged = draw(1), draw(1, exchange=True)
    for job in free.jobs[:8]:
        for name in DEVICES:
            for n in range(1, min(job.scale_factor, DEVICES[name]) + 1):
                fast, slow = (speed(job, name, n, 0, one.table) for one in (free, charged))
                assert fast is not None
                assert slow is not None
                assert slow <= fast * (1 + 1e-12)
        one, two = (speed(job, "v100", n, 0, free.table) for n in (1, 2))
        assert two == pytest.approx(2 * one)


def test_a_job_is_asked_for_one_type() -> None:
    workload = draw(2)
    for job in workload.jobs:
        assert len({way.accelerator for way in workload.asked.isolated if way.job_type == job.job_type}) == 1


def test_a_point_completes_its_jobs_and_is_the_same_twice() -> None:
    one, other = (run(Point(0, BASE, 0), jobs=8) for _ in range(2))
    assert one == other
    assert one["jobs_completed"] == 8


def test_the_page_and_the_plots() -> None:
    def record(jct_s: float) -> dict[str, float]:
        return {
            "jobs_total": 6,
            "jobs_completed": 6,
            "stopped": 0,
            "jct_mean_s": jct_s,
            "makespan_s": 9 * jct_s,
            "changes": 1.5,
        }

    records = {point: record(100.0 + point.seed if point.way == BASE else 250.0) for point in points(3)}
    assert len(records) == len(SETTINGS) * len(WAYS) * 3
    page = report(records, 3)
    assert "| `gang_fifo` | asked | 250 | 2.48x (2.45 .. 2.50) |" in page
    assert "one job at a time" in page
    assert document(records)[0]["jct_mean_s"] == "250 250 250"
    assert bars({BASE: [record(1.0)], "other": [record(2.0), record(3.0)]}).startswith(b"\x89PNG")
    assert over_time({BASE: simulated(Point(0, BASE, 0), 3)}).startswith(b"\x89PNG")
