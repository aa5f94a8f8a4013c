"""The workload of ONES and the page that compares policies on it."""

import numpy as np
import pytest

from experiments.ones.figures import beliefs, clusters
from experiments.ones.jobs import DEVICE, KINDS, NETWORKS, WIDEST, draw, update_s
from experiments.ones.page import document, report, stored
from experiments.ones.ways import AT_ONE_SECOND, BASE, NARROW, WAYS, Point, Setting, points, run
from gavelx.sizes import speed

SMALL = Setting(8, True, 1.0)


def test_there_are_fifty_kinds_and_jobs_are_drawn_from_all() -> None:
    assert len(set(KINDS)) == 50
    drawn = {job.job_type.split(" #")[0] for seed in range(12) for job in draw(seed).jobs}
    assert drawn == {f"{name} {samples}" for name, samples in KINDS}


@pytest.mark.parametrize("noise", [False, True])
def test_a_job_is_the_same_work_whatever_its_user_asked_for(noise: bool) -> None:
    """On one device it takes as long; more devices are faster, and with a noise scale less so."""
    asked = [draw(3, noise=noise, request=n) for n in (1, 4, 16)]
    for jobs in zip(*(one.jobs for one in asked), strict=True):
        alone_s = [
            job.total_steps / speed(job, DEVICE, 1, job.elastic.batch_least, one.table)
            for job, one in zip(jobs, asked, strict=True)
        ]
        assert alone_s == pytest.approx([alone_s[0]] * 3)
        assert alone_s[0] < 2.5 * 3600.0


def test_a_wider_job_updates_slower_and_samples_faster() -> None:
    for network in NETWORKS.values():
        times = np.array([update_s(network, n, network.batch * n) for n in range(1, WIDEST + 1)])
        assert (np.diff(times) > 0).all()
        assert ((np.arange(1, WIDEST + 1) / times)[[1, 3, 7, 15]] > 1.0 / times[0]).all()


@pytest.mark.parametrize(
    "way",
    [
        *("ones", "ones_published", "ones, training reported", "las_2d 1000, all ask for 16", "gang_fifo"),
        *("sized once, 4 to 8", "sized once, batch grows", "optimus, planned each ten minutes"),
        "optimus, the same, free devices at once",
    ],
)
def test_a_point_completes_its_jobs_and_is_the_same_twice(way: str) -> None:
    setting = Setting(16, True, 1.0)
    one, other = (run(Point(setting, way, 0), count=6) for _ in range(2))
    assert one == other
    assert one["jobs_completed"] == 6


def test_every_row_is_run_at_the_full_size_and_some_beside_it() -> None:
    every = list(points((16, 64), 2, (15.0,)))
    assert len(every) == len(set(every)) == 8 * len(WAYS) - 4 * len(AT_ONE_SECOND) + 8 * len(NARROW)
    assert set(NARROW) <= set(WAYS)


def test_a_size_that_is_decided_once_never_changes_and_a_plan_is_waited_for() -> None:
    setting = Setting(16, True, 1.0)
    assert run(Point(setting, "sized once, 4 to 8", 0), count=9)["changes"] == 0.0
    jct_s = [
        run(Point(setting, f"optimus, {how}", 0), count=6)["jct_mean_s"]
        for how in ("the same, free devices at once", "planned each ten minutes")
    ]
    assert jct_s[1] > jct_s[0] + 200.0


@pytest.mark.parametrize("part", [0.0, 0.3, 1.0])
def test_a_job_reports_as_much_as_it_has_done(part: float) -> None:
    for curve in draw(2).curves.values():
        report = curve.report(part * curve.steps)
        assert report.epochs == pytest.approx(part * curve.epochs)
        assert report.accuracy == pytest.approx(curve.target * (part > 0), abs=0.5 if part == 0.3 else 0.07)
        assert 0.0 <= report.loss <= report.first_loss


def test_what_is_stored_is_not_run_again() -> None:
    every = list(points((64,), 2, ()))
    record = {"jobs_total": 1, "jobs_completed": 1, "stopped": 0}
    records = {
        point: record | {"jct_mean_s": 100.5 + n, "jct_max_s": 200.0, "changes": 0.25}
        for n, point in enumerate(every)
        if point.way != "goodput"
    }
    assert stored(document(records), every) == records


def test_the_page_has_differences_seed_by_seed() -> None:
    def record(jct_s: float) -> dict[str, float]:
        return {"jobs_total": 6, "jobs_completed": 6, "stopped": 0, "jct_mean_s": jct_s, "changes": 1.5}

    setting = Setting(64, False, 1.0)
    records = {Point(setting, BASE, seed): record(100.0 + seed) for seed in range(5)}
    records |= {Point(setting, "goodput", seed): record(2 * (100.0 + seed)) for seed in range(5)}
    page = report(records, 5)
    (row,) = [line for line in page.splitlines() if line.startswith("| `goodput`")]
    assert row == "| `goodput` | elastic | 204 | 1.5 | -50% | 0.03 |"


def test_plots_are_drawn_from_what_there_is() -> None:
    records = {
        Point(Setting(devices, noise, 1.0, gap_s), way, 0): {"jct_mean_s": 100.0 + devices}
        for devices, gap_s in ((64, 30.0), (16, 30.0), (64, 60.0))
        for noise in (False, True)
        for way in ("ones", "goodput")
    }
    assert clusters(records)[1:4] == b"PNG"
    assert beliefs(0, (3, 4))[1:4] == b"PNG"
