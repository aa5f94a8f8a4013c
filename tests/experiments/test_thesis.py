"""The thesis's figures: published numbers, like compared with like, and the honest policy seed by seed."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from experiments.command import main
from experiments.cost_objective import COST_OBJECTIVE
from experiments.experiment import Selection
from experiments.mixes import draw_cost_jobs
from experiments.paired import paired
from experiments.points import Limits, Point, Record, jobs_of, measure, speeds
from experiments.published import thesis
from experiments.published.thesis import Setting
from experiments.store import Store
from experiments.thesis.catalog import THESIS
from experiments.thesis.evaluation import CONTINUOUS, COST, STATIC
from experiments.thesis.floor import equal_share_due_s, floor_usd, least_usd
from experiments.thesis.gangs import CONTENDERS, GANGS, SETTINGS
from experiments.thesis.honest import FIRST, HONEST, LOADS, OTHERS
from experiments.thesis.policies import INFORMED
from experiments.thesis.settings import SEEDS, SERIES, point
from gavelx.cluster import Cluster
from gavelx.files.price_tables import load_prices
from gavelx.files.throughput_tables import load_throughputs
from gavelx.metrics import finish_time_fairness
from gavelx.policies import load_policy
from gavelx.published import PUBLISHED
from gavelx.simulator import simulate


def fake(point: Point, **figures: object) -> Record:
    """A finished point that nobody simulated."""
    done = {"stopped": "", "jobs_completed": 10, "jobs_total": 10, "limits": {"cpu_s": 1.0, "patience_h": 1.0}}
    return {"point": point.to_json(), **done, "cpu_seconds": 1.0, "wall_seconds": 1.0, **figures}


def test_published_figures_are_read() -> None:
    allox = Setting("static", "allox", "5:5:5", 500.0)
    assert thesis.figures(allox)["cost_usd"] == 11568.79
    assert "cost_usd" not in thesis.figures(allox._replace(cluster="10:5:5")), "no prices were passed there"
    assert thesis.figures(Setting("continuous", "allox", "10:5:5", 1.0))["jct_mean_s"] == 89087.9
    assert thesis.figures(allox._replace(policy="nobody")) == {}
    assert {row.table for row in thesis.tables()} == {"4.1", "4.2"}


@pytest.mark.parametrize("evaluation", [COST, STATIC, CONTINUOUS], ids=lambda one: one.name)
def test_every_published_setting_has_its_points(evaluation: object) -> None:
    points = [task.point for task in evaluation.tasks(Selection())]  # type: ignore[attr-defined]
    assert len(points) == len(set(points))
    ours = {
        Setting(evaluation.trace, series.published, cluster, load)  # type: ignore[attr-defined]
        for series in SERIES
        for cluster in evaluation.clusters  # type: ignore[attr-defined]
        for load in evaluation.loads  # type: ignore[attr-defined]
    }
    clusters = set(evaluation.clusters)  # type: ignore[attr-defined]
    there = {one for one in thesis.settings(evaluation.trace) if one.cluster in clusters}  # type: ignore[attr-defined]
    assert there <= ours


def test_as_many_jobs_as_were_drawn() -> None:
    jobs = [point(SERIES[0], Setting("static", "allox", "5:5:5", load), 5).jobs for load in (100, 233, 366, 500)]
    assert jobs == [100, 234, 367, 500]
    kept = point(SERIES[0], Setting("continuous", "allox", "5:5:10", 0.25), 8)
    assert (kept.rate, kept.window, kept.jobs, kept.cluster) == (0.25, (500, 1000), None, "v100=5,p100=5,k80=10")


def test_allox_is_equal_as_printed_on_a_published_point() -> None:
    """The CSV: $1676.73, utilization 0.382, mean completion 78,680.565 s, makespan 753,749.520 s."""
    record = measure(point(SERIES[0], Setting("static", "allox", "5:5:5", 100.0), 5), PUBLISHED, Limits())
    printed = (round(record["cost_usd"], 2), round(record["utilization"], 3), round(record["jct_mean_s"], 3))
    assert (*printed, round(record["makespan_s"], 3)) == (1676.73, 0.382, 78680.565, 753749.520)


def test_policies_of_the_page_can_be_named() -> None:
    blind = Point(INFORMED, "v100=1,p100=1,k80=1", rate=0.0, jobs=6)
    aware = Point("finish_time_fairness", "v100=1,p100=1,k80=1", rate=0.0, jobs=6)
    one, other = (measure(run, PUBLISHED, Limits()) for run in (blind, aware))
    assert one["makespan_s"] != other["makespan_s"], "types in another order"


def test_only_means_of_the_same_jobs_are_compared(tmp_path: Path) -> None:
    store, allox = Store(tmp_path / "points.jsonl"), SERIES[0]
    whole, some = (Setting("static", "allox", "5:5:5", load) for load in (100.0, 500.0))
    figures = {"utilization": 0.5487, "jct_mean_s": 110281.51, "makespan_s": 817409.0, "cost_usd": 2620.0}
    for seed in SEEDS:
        store.add(fake(point(allox, whole, seed), **figures))
    store.add(fake(point(allox, some, SEEDS[0]), **figures))
    done, part = COST.rows(store)
    assert (done.seeds, part.seeds) == (3, 1)
    assert done.change("utilization") == done.change("jct_mean_s") == 0.0, "as printed"
    assert done.change("cost_usd") == pytest.approx(2620.0 / 2619.72 - 1.0)
    assert part.change("cost_usd") is None
    assert "1 of 3" in COST.report(store, tmp_path, tiny=False)


def test_the_honest_policy_is_compared_seed_by_seed(tmp_path: Path) -> None:
    store, honest, load = Store(tmp_path / "points.jsonl"), HONEST[0], LOADS[0]
    figures = {"jct_mean_s": 3600.0, "rho_max": 1.0, "mu_max": 0.9, "unfair_fraction": 0.0}
    for seed in range(10, 20):
        store.add(fake(honest.point(FIRST, load, seed), cost_usd=97.0 + 0.1 * seed, **figures))
        for other in OTHERS:
            store.add(fake(honest.point(other, load, seed), cost_usd=100.0 + 0.1 * seed, **figures))
    page = honest.report(store, tmp_path, tiny=False)
    assert "| 40 jobs at the start | Algorithm 5.1 | 10 | 101.5 | -3.0% (-3.0% .. -2.9%) |" in page
    assert "| 0.00098 |" in page, "all ten of one sign: 1 / 2 ** 10"


def test_gangs_are_compared_trace_by_trace(tmp_path: Path) -> None:
    store, figures = Store(tmp_path / "points.jsonl"), {"rho_max": 1.0, "mu_max": 0.9, "unfair_fraction": 0.0}
    for setting, usd in zip(SETTINGS[:3], (97.0, 99.0, 50.0), strict=True):
        costs = {contender: usd if contender is CONTENDERS[0] else 100.0 for contender in CONTENDERS}
        for contender, cost_usd in list(costs.items())[: 2 if usd == 50.0 else None]:
            figures |= {"cost_usd": cost_usd, "total_usd": 2.0 * cost_usd, "jct_mean_s": 36.0 * cost_usd}
            store.add(fake(GANGS.point(contender, setting), **figures))
    page = GANGS.report(store, tmp_path, tiny=False)
    assert f"| {SETTINGS[0].says} | 10 | 100.0 | -3.0% | +0.0% | -3.0% | -3.0% | 1.00 / 1.00 |" in page
    assert "| mean |  |  | -2.0% | +0.0% | -2.0% | -2.0% |" in page
    assert SETTINGS[2].says not in page, "a line of one policy alone compares nothing"


def test_the_jobs_of_a_trace_are_those_that_can_run() -> None:
    point = GANGS.point(CONTENDERS[0], SETTINGS[0])
    jobs = list(jobs_of(point))
    assert [job.id for job in jobs] == list(point.measured) == list(range(8)), "one of the nine can run nowhere"
    assert max(job.scale_factor for job in jobs) > 1


def test_the_interval_is_that_of_the_mean_difference() -> None:
    def records(*dollars: float) -> dict[int, Record]:
        return {
            s: {"jobs_completed": 1, "jobs_total": 1, "stopped": "", "cost_usd": d} for s, d in enumerate(dollars)
        }

    change = paired("cost_usd", records(101.0, 103.0, 99.0), records(100.0, 100.0, 100.0))
    assert change.interval is not None
    # mean 1 %, deviation 2 %, t of 2 degrees 4.3027
    assert change.interval == pytest.approx(
        (0.01 - 4.3027 * 0.02 / 3**0.5, 0.01 + 4.3027 * 0.02 / 3**0.5), rel=1e-4
    )
    assert paired("cost_usd", records(101.0), records(100.0)).interval is None


@pytest.mark.slow
def test_the_page_is_written_of_what_is_done(tmp_path: Path) -> None:
    options = ["--only", "cost", "honest", "--tiny", "--policies", "allox", "shared_cloud_cost_fairness"]
    assert main([*options, "--out", str(tmp_path)], experiments=THESIS, module="experiments.thesis") == 0
    page = (tmp_path / "RESULTS.md").read_text()
    assert "Made by `python -m experiments.thesis`" in page
    assert "| AlloX | 5:5:5 | 100 | 1 of 3 |" in page
    assert "| AWS, which sells no P100 | 0.9, none, 3.06 | 8 | 0 | 18 |" in page
    assert all(
        (tmp_path / f"{one.name}.png").read_bytes().startswith(b"\x89PNG") for one in THESIS if one is not GANGS
    )


@pytest.mark.slow
def test_seeds_of_ones_own_are_reported(tmp_path: Path) -> None:
    """... beside those of the page, and never compared with what was published for other jobs."""
    options = ["--tiny", "--rates", "100", "40", "--seeds", "500", "--out", str(tmp_path)]
    options += ["--policies", "allox", "shared_cloud_cost_fairness", "finish_time_fairness"]
    for words in (options, ["--report", "--tiny", "--out", str(tmp_path)]):  # the report is not told which seeds
        assert main(words, experiments=[COST, HONEST[0]]) == 0
        page = (tmp_path / "RESULTS.md").read_text()
        (line,) = [line for line in page.splitlines() if line.startswith("| AlloX | 5:5:5 | 100 | 500 |")]
        assert "%" not in line and "equal" not in line
        assert "| 40 jobs at the start | **shared_cloud_cost_fairness** | 1 |" in page
        assert "| 40 jobs at the start | finish-time fairness | 1 |" in page
        assert "| 40 jobs at the start | the least with nobody worse off; shared_cloud_cost_fairness | 1 |" in page
        assert "over `rho_cap`, seed 500:" in page and "| 40 jobs at the start | rho_cap 0.9 | 1 |" in page


def test_seeds_of_ones_own_leave_published_means_as_they_are(tmp_path: Path) -> None:
    store, setting = Store(tmp_path / "points.jsonl"), Setting("static", "allox", "5:5:5", 100.0)
    figures = {"utilization": 0.5487, "jct_mean_s": 110281.51, "makespan_s": 817409.0, "cost_usd": 2620.0}
    for seed in SEEDS:
        store.add(fake(point(SERIES[0], setting, seed), **figures))
    before = COST.rows(store)
    store.add(fake(point(SERIES[0], setting, 500), **{name: 2 * value for name, value in figures.items()}))
    own, other = COST.rows(store)
    assert [own] == before
    assert (other.others, other.ours["cost_usd"], other.change("cost_usd")) == ((500,), 5240.0, None)


def test_jobs_of_the_cost_experiment_have_deadlines() -> None:
    table = load_throughputs("simulation")
    jobs = list(islice(draw_cost_jobs(table, rate_per_hour=0.45, seed=0), 300))
    assert {job.job_type for job in jobs} == {"A3C", "ResNet-50 (batch size 64)"}
    assert {job.slo for job in jobs} == {1.2, 2.0, 10.0}
    assert all(job.total_steps == job.duration_s * table.get(job.job_type, "v100", 1) for job in jobs)
    assert jobs[-1].arrival_s == pytest.approx(300 / 0.45 * 3600, rel=0.2)


def test_the_cost_experiment_counts_missed_deadlines(tmp_path: Path) -> None:
    store = Store(tmp_path / "points.jsonl")
    for policy, usd, missed in (
        ("max_sum_throughput", 140.0, 0),
        ("min_cost", 100.0, 3),
        ("min_cost_slo", 112.0, 0),
    ):
        run = COST_OBJECTIVE.point(policy, 0)
        store.add(fake(run, cost_usd=usd, jct_mean_s=3600.0, deadlines=10, deadlines_missed=missed))
    page = COST_OBJECTIVE.report(store, tmp_path, tiny=False)
    assert "| `min_cost` | least cost | 1 | 100 | 1.40 | 1.4 | 3 of 10 | 1.0 |" in page
    assert (
        "| `min_cost_slo` | least cost, deadlines as constraints | 1 | 112 | 1.25 | 1.2 | 0 of 10 | 1.0 |" in page
    )


def test_no_schedule_costs_less_than_the_least() -> None:
    """A run is a schedule that ends when it ends: with these ends as deadlines none need cost more."""
    point = HONEST[0].point(FIRST, LOADS[0], seed=11, tiny=True)
    cluster = Cluster.parse(point.cluster, devices_per_server=1)
    jobs = tuple(jobs_of(point))
    prices = load_prices(point.prices, cluster.accelerators)
    for policy in ("shared_cloud_cost_fairness", "finish_time_fairness", "shared_cloud_cost_fairness_alg51"):
        result = simulate(load_policy(policy), jobs, cluster, speeds(), prices)
        least = least_usd(jobs, cluster, prices.array(cluster.accelerators), result.completion_s_J)
        paid = result.summary()["cost_usd"]
        assert 0.5 * paid < least <= paid * (1.0 + 1e-6)


def test_equal_shares_are_due_at_rho_1() -> None:
    point = HONEST[0].point(FIRST, LOADS[1], seed=12, tiny=True)
    cluster = Cluster.parse(point.cluster, devices_per_server=1)
    jobs = tuple(jobs_of(point))
    due_s_J = equal_share_due_s(jobs, cluster)
    speed_JA = speeds().matrix(jobs, cluster.accelerators, consolidated=True)
    rho_J = finish_time_fairness(jobs, speed_JA, cluster.devices_A, due_s_J, due_s_J.max())
    np.testing.assert_allclose(rho_J, 1.0, rtol=1e-6)
    assert floor_usd(point) > 0
