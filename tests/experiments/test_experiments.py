"""The experiments run end to end on a tiny cluster, go on where they stopped, and compare like with like."""

import json
import math
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import runner
from experiments.command import main
from experiments.compare import Row, compare
from experiments.continuous_multiple import CONTINUOUS_MULTIPLE
from experiments.continuous_single import CONTINUOUS_SINGLE
from experiments.experiment import Selection
from experiments.idle_devices import IDLE_DEVICES, LOADS, RULES
from experiments.makespan import MAKESPAN
from experiments.points import Limits, Point, Record, measure, why_not
from experiments.published import REPLICATION, STORED, series
from experiments.runner import Task
from experiments.store import Store
from gavelx.files.throughput_tables import load_throughputs
from gavelx.published import PUBLISHED
from gavelx.simulator.random_jobs import random_jobs

pytestmark = pytest.mark.slow

SOME = ["--tiny", "--policies", "max_min_fairness", "isolated", "makespan", "--seeds", "0"]
SOME += ["--rates", "0.4", "100", "40"]
FEW = ["--only", "continuous_single", "--tiny", "--policies", "allox", "fifo", "--seeds", "0"]
SMALL = Point("max_min_fairness", "v100=4,p100=4,k80=4", rate=0.5, window=(3, 6))


def lines(folder: Path) -> list[Record]:
    return [json.loads(line) for line in (folder / "points.jsonl").read_text().splitlines()]


def without_seconds(record: Record) -> Record:
    return {key: value for key, value in record.items() if not key.endswith("seconds")}


def fake(point: Point, **figures: object) -> Record:
    """A finished point that nobody simulated."""
    done = {"stopped": "", "jobs_completed": 10, "jobs_total": 10, "limits": {"cpu_s": 1.0, "patience_h": 1.0}}
    return {"point": point.to_json(), **done, "cpu_seconds": 1.0, "wall_seconds": 1.0, **figures}


def test_the_command_simulates_and_writes_plots_tables_and_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SOME, "--out", str(tmp_path)]) == 0
    assert "min left" in (said := capsys.readouterr().err) or "s left" in said
    for name in ("continuous_single", "continuous_multiple", "makespan"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "RESULTS.md").read_text()
    assert "python -m experiments --tiny" in page
    assert "core-hours" in page
    assert page.count("| LAS, aware | 0.4 | published | ") == 2
    assert "| makespan, aware | 100 | published | " in page
    assert "40 jobs at the start" in page
    records = lines(tmp_path)
    assert all(record["jobs_completed"] == record["jobs_total"] for record in records)
    found = {(record["point"]["policy"], record["point"]["rules"]) for record in records}
    assert ("isolated", "published") in found
    assert ("max_min_fairness", "any type") in found
    assert json.loads((tmp_path / "idle_devices.json").read_text())[0]["policy"] == "max_min_fairness"
    assert " points under the published rules are done." in page


def test_what_is_done_is_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path)]
    assert main([*FEW, "--rates", "0.8", *out]) == 0
    assert main([*FEW, *out]) == 0
    assert "2 points to do, 2 done before" in capsys.readouterr().err
    points = [record["point"] for record in lines(tmp_path)]
    assert sorted((point["policy"], point["rate"]) for point in points) == [
        ("allox", 0.4),
        ("allox", 0.8),
        ("fifo", 0.4),
        ("fifo", 0.8),
    ]


@pytest.fixture
def _heard() -> Iterator[None]:
    """Ctrl-C is heard, also where these tests run in the background of a shell, which ignores it there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_goes_on_and_ends_as_if_it_had_not_been(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(point: Point, *args: object) -> Record:
        if (tmp_path / "points.jsonl").exists():
            signal.raise_signal(number)
        return measure(point, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(SystemExit) as exit_:
        patch.setattr(runner, "measure", interrupted)
        main([*FEW, "--out", str(tmp_path)])
    assert exit_.value.code == 130
    assert len(lines(tmp_path)) == 1
    assert json.loads((tmp_path / "sessions.jsonl").read_text())["points"] == 1
    with (tmp_path / "points.jsonl").open("a") as file:
        file.write('{"point": {"policy": "max_mi')  # the power fails while a line is written
    assert main([*FEW, "--out", str(tmp_path)]) == 0
    tasks = CONTINUOUS_SINGLE.tasks(Selection(policies=("allox", "fifo"), seeds=(0,), tiny=True))
    whole = [without_seconds(measure(*task, Limits())) for task in tasks]
    assert [without_seconds(record) for record in lines(tmp_path)] == json.loads(json.dumps(whole))


def test_processes_find_what_one_finds(tmp_path: Path) -> None:
    tasks = [Task(SMALL, PUBLISHED), Task(Point(**{**vars(SMALL), "seed": 1}), PUBLISHED)]
    one, two = Store(tmp_path / "one.jsonl"), Store(tmp_path / "two.jsonl")
    assert runner.run(tasks, one, Limits(), processes=1) == []
    assert runner.run(tasks, two, Limits(), processes=2) == []
    assert {point: without_seconds(record) for point, record in one} == {
        point: without_seconds(record) for point, record in two
    }


def test_a_failing_point_ends_no_other_and_stays_undone(tmp_path: Path) -> None:
    store = Store(tmp_path / "points.jsonl")
    bad = Point(**{**vars(SMALL), "cluster": "v100=0,p100=1"})
    bad_policy = Point(**{**vars(SMALL), "policy": "no_such_policy"})
    tasks = [Task(point, PUBLISHED) for point in (bad_policy, SMALL)]
    (failed,) = runner.run(tasks, store, Limits(), processes=1)
    assert failed.point == bad_policy
    assert "unknown policy" in failed.failure
    assert store.has(SMALL, Limits())
    assert not store.has(bad_policy, Limits())
    assert not store.has(bad, Limits())


@pytest.mark.parametrize(
    ("limits", "why"),
    [(Limits(cpu_s=0.0), "0 s of processor time"), (Limits(patience_h=1.0), "13 simulated hours")],
)
def test_a_point_that_takes_too_long_is_stopped_and_has_no_mean(tmp_path: Path, limits: Limits, why: str) -> None:
    record = measure(SMALL, PUBLISHED, limits)
    assert record["stopped"] == why
    assert record["jobs_completed"] < record["jobs_total"] == 3
    assert "jct_mean_s" not in record
    store = Store(tmp_path / "points.jsonl")
    store.add(record)
    assert store.has(SMALL, limits)
    assert not store.has(SMALL, Limits()), "with wider limits it is tried again"


def test_a_stopped_point_says_how_many_jobs_were_done() -> None:
    whole = measure(SMALL, PUBLISHED, Limits())
    jobs = random_jobs(6, load_throughputs("simulation"), arrival_rate_per_hour=SMALL.rate)[3:]
    ends_h = sorted((job.arrival_s + jct_s) / 3600 for job, jct_s in zip(jobs, whole["jct_s_J"], strict=True))
    due_h = 6 / SMALL.rate
    late = measure(SMALL, PUBLISHED, Limits(patience_h=(ends_h[1] + ends_h[2]) / 2 - due_h))
    assert (whole["jobs_completed"], late["jobs_completed"]) == (3, 2)


def test_jobs_keep_coming_while_those_of_the_window_run() -> None:
    measured = measure(SMALL, PUBLISHED, Limits())
    alone = measure(Point(**{**vars(SMALL), "jobs": 6}), PUBLISHED, Limits())
    assert measured["jct_mean_s"] > alone["jct_mean_s"]


def test_every_published_figure_has_its_points() -> None:
    points = [task.point for task in CONTINUOUS_SINGLE.tasks(Selection())]
    assert len(points) == len(set(points))
    aware = {(point.rate, point.seed) for point in points if point.policy == "max_min_fairness"}
    assert aware == {(round(0.4 * k, 1), seed) for k in range(1, 21) for seed in (0, 1, 2)}
    assert all(point.window == (4000, 5000) and point.cluster == "v100=36,p100=36,k80=36" for point in points)
    assert {point.seed for point in points if point.policy == "isolated"} == {0}
    for sweep in (CONTINUOUS_SINGLE, CONTINUOUS_MULTIPLE, MAKESPAN):
        assert all(sweep.loads(curve) for curve in sweep.curves)
    assert {task.point.jobs for task in MAKESPAN.tasks(Selection())} == set(range(100, 800, 100))
    assert all(
        task.point.multi_gpu for task in [*CONTINUOUS_MULTIPLE.tasks(Selection()), *MAKESPAN.tasks(Selection())]
    )


def test_published_figures_are_read() -> None:
    assert series(STORED, "continuous-single", "avg_jct_hours", "max_min_fairness_perf")[2.8] == 16.04
    assert series(REPLICATION, "continuous-single", "avg_jct_hours", "max_min_fairness_perf")[2.8] == 15.979
    assert series(REPLICATION, "continuous-multiple", "avg_jct_hours", "finish_time_fairness")[4.4] == 95.231
    assert series(STORED, "static-multiple", "makespan_hours", "Gavel")[700] == 244.23147
    assert series(STORED, "continuous-single", "avg_ftf", "nobody") == {}


def rows(tmp_path: Path, *records: Record) -> list[Row]:
    store = Store(tmp_path / "points.jsonl")
    for record in records:
        store.add(record)
    return compare(CONTINUOUS_SINGLE, store, tiny=False)


def at(policy: str, seed: int) -> Point:
    curve = next(curve for curve in CONTINUOUS_SINGLE.curves if curve.policy == policy)
    return CONTINUOUS_SINGLE.point(curve, 2.8, seed, "published", tiny=False)


def test_ours_is_compared_with_both_published_figures(tmp_path: Path) -> None:
    hours = [15.0, 16.0, 17.0]
    records = [
        fake(at("max_min_fairness", seed), jct_mean_s=3600 * h, rho_mean=0.8, jct_s_J=[1.0, 3.0])
        for seed, h in enumerate(hours)
    ]
    alone = fake(at("isolated", 0), jct_mean_s=3600.0, jct_s_J=[2.0, 3.0])
    elsewhere = fake(Point("max_min_fairness", "v100=1", rate=2.8, window=(4000, 5000)), jct_mean_s=1.0)
    (row,) = rows(tmp_path, *records, alone, elsewhere)
    assert (row.curve.label, row.load, row.completed) == ("LAS, aware", 2.8, 1.0)
    assert row.mean_h == pytest.approx(16.0)
    assert row.deviation_h == pytest.approx(1.0)
    assert row.change(row.stored_h) == pytest.approx(16.0 / 16.04 - 1)
    assert row.change(row.replication_h) == pytest.approx(16.0 / 15.979 - 1)
    assert row.ratio == pytest.approx((1 / 2 + 3 / 3) / 2)
    assert row.ratio_stored == 0.73
    assert row.rho == pytest.approx(0.8)


def test_there_is_no_mean_where_a_seed_was_stopped(tmp_path: Path) -> None:
    done = fake(at("max_min_fairness", 0), jct_mean_s=3600.0)
    stopped = {**fake(at("max_min_fairness", 1)), "stopped": "300 s", "jobs_completed": 4}
    (row,) = rows(tmp_path, done, stopped)
    assert row.mean_h is None
    assert row.change(16.0) is None
    assert row.completed == pytest.approx(0.7)
    assert row.stopped == "300 s"


def test_rules_for_idle_devices_are_compared_seed_by_seed(tmp_path: Path) -> None:
    store, (first, other) = Store(tmp_path / "points.jsonl"), list(RULES)[:2]
    for seed in range(10, 20):
        for rule, usd in ((first, 100.0 + seed), (other, (100.0 + seed) * (1.01 + 0.001 * seed))):
            point = IDLE_DEVICES.point("max_min_fairness", LOADS[0], seed, rule, tiny=False)
            same = seed < 19 or rule == first
            figures = {"cost_usd": usd, "jct_mean_s": 3600.0, "makespan_s": 7200.0}
            store.add({**fake(point, **figures), "jobs_completed": 10 if same else 9})
    cost, jct, _ = IDLE_DEVICES.differences(store, tiny=False)
    assert (cost.figure, cost.seeds, len(cost.changes)) == ("cost_usd", 10, 9)
    assert cost.changes == pytest.approx([0.01 + 0.001 * seed for seed in range(10, 19)])
    assert cost.p == pytest.approx(1 / 2**9), "all nine of one sign"
    assert (jct.mean, jct.first, jct.p) == (1.0, 1.0, None)
    assert not math.isnan(cost.mean or math.nan)


def test_a_policy_that_cannot_run_is_named() -> None:
    assert why_not("no_such_policy") == "unknown policy 'no_such_policy'"
    assert why_not("max_min_fairness") == ""


def test_options_that_choose_nothing_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--policies", "nonsense"]) == 2
    assert "choose no point" in capsys.readouterr().err
