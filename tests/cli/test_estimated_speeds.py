"""Runs on accelerator types that the table lacks."""

import json
import random
import re
from pathlib import Path

import pytest

from gavelx import Cluster, Job, Prices, Snapshot, write_snapshot
from gavelx.cli.drawing import TODAYS_JOBS
from gavelx.cli.intervals import intervals_of
from gavelx.cli.run_options import RunOptions
from gavelx.cli.scenario import load_scenario
from gavelx.elastic import Elastic
from gavelx.errors import InputFileError, UserError
from gavelx.estimated_speeds import with_estimates
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import read_trace
from gavelx.throughputs import Setting
from tests.cli.running import Shell

MODERN = ("--cluster", "a100-80gb=4,h100-80gb=4", "--jobs", 4)
TODAY = (
    "job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,llama-7b-lora-bs16,1,200\n1,0,vit-b16-bs64,2,9000\n"
)


def test_a_modern_cluster_is_compared_with_intervals(shell: Shell, tmp_path: Path) -> None:
    out, html = tmp_path / "c.json", tmp_path / "c.html"
    ran = shell("compare", "--policies", "fifo,isolated", *MODERN, "--json", out, "--html", html, "--workers", 1)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    for run in document["runs"]:
        assert (run["speed_samples"], run["interval_level"]) == (19, 0.9)
        low, high = run["intervals"]["jct_mean_s"]
        assert low < high
        assert low < run["jct_mean_s"] * 1.5
    assert sum(run["best_jct_mean_share"] for run in document["runs"]) >= 1.0
    assert "90% interval of 19 repetitions" in " ".join(ran.out.split())
    rows = {row["accelerator"]: row for row in document["speeds"]}
    assert set(rows) == {"a100-80gb", "h100-80gb"}
    assert all(row["estimated"] > 0 and row["measured"] == 0 and row["times_wider"] > 1 for row in rows.values())
    assert "speeds on" in ran.out
    assert "Lowest mean JCT: " in ran.out
    assert "Which speeds are measured" in html.read_text()


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_figures(shell: Shell, tmp_path: Path) -> None:
    runs = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.json"
        options = ("--speed-samples", 4, "--workers", workers, "--json", out)
        assert shell("compare", "--policies", "fifo,isolated", *MODERN, *options).code == 0
        runs.append(
            [(run["jct_mean_s"], run["intervals"]["jct_mean_s"]) for run in json.loads(out.read_text())["runs"]]
        )
    assert runs[0] == runs[1]


def test_known_types_are_run_as_ever(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", "--cluster", "v100=2,k80=2", "--jobs", 4, "--json", "-")
    assert not {"intervals", "speeds", "speed_samples"} & set(ran.json)
    scenario = load_scenario(RunOptions("v100=2,k80=2", jobs=4))
    assert scenario.throughputs == load_throughputs("simulation")
    assert scenario.speed_samples == 0


def test_strict_speeds_refuses_as_before(shell: Shell) -> None:
    ran = shell("compare", "--policies", "fifo", *MODERN, "--strict-speeds")
    assert ran.code == 2
    assert "no throughput is known for accelerator type 'a100-80gb'" in ran.err


@pytest.mark.parametrize("strict", [(), ("--strict-speeds",)])
def test_a_type_without_a_data_sheet_is_refused(shell: Shell, strict: tuple[str, ...]) -> None:
    """Far from any known name, it is told which there are, and how speeds on it are told."""
    ran = shell("compare", "--policies", "fifo", "--cluster", "gtx960=4", "--jobs", 4, *strict)
    assert ran.code == 2
    assert (
        "--cluster: nothing is known of accelerator type 'gtx960'; expected one of rtx6000, rtx3060, " in ran.err
    )
    assert "in all: gavelx docs your_gpus)" in ran.err
    assert ran.err.rstrip().endswith("Try: --table FILE, with speeds on 'gtx960'")


def test_todays_jobs_run(shell: Shell, tmp_path: Path) -> None:
    trace = tmp_path / "today.csv"
    trace.write_text(TODAY)
    ran = shell("simulate", "--policy", "max_min_fairness", *MODERN[:2], "--trace", trace, "--speed-samples", 2)
    assert ran.code == 0, ran.err
    assert "2/2" in ran.out


@pytest.mark.parametrize(
    ("job_type", "said"),
    [
        ("llama-7b-lorra-bs16", "'lorra' is not understood. Try: did you mean 'lora'"),
        ("llama-7b-lora", "does not say the batch size"),
        ("lama-7b-lora-bs16", "did you mean llama-7b-lora-bs16?"),
        ("ResNet-49", "unknown job type 'ResNet-49'"),
        ("llama-405b-full-bs8", "needs 3496 GB, has 80"),
    ],
)
def test_a_job_that_cannot_be_estimated_is_explained(
    shell: Shell, tmp_path: Path, job_type: str, said: str
) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text(TODAY.replace("llama-7b-lora-bs16", job_type))
    ran = shell("simulate", "--policy", "fifo", *MODERN[:2], "--trace", trace)
    assert ran.code == 2
    assert said in ran.err


def test_a_cluster_too_small_says_what_is_needed(shell: Shell, tmp_path: Path) -> None:
    trace = tmp_path / "big.csv"
    trace.write_text(TODAY.replace("llama-7b-lora-bs16", "llama-13b-full-bs16"))
    ran = shell("simulate", "--policy", "fifo", "--cluster", "rtx4090=4,h100-80gb=2", "--trace", trace)
    assert ran.code == 2
    assert re.search(r"needs 1\d\d GB, has 24", ran.err)


def test_allocate_estimates_new_types(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    cluster = Cluster.of({"v100": 1, "a100-80gb": 1})
    jobs = [Job(0, "ResNet-50 (batch size 64)", 1e5), Job(1, "ResNet-50 (batch size 32)", 1e5)]
    write_snapshot(path, Snapshot.of(jobs, cluster, load_throughputs("simulation"), Prices({})))
    ran = shell("allocate", "--policy", "max_sum_throughput", "--snapshot", path, "--json", "-")
    assert ran.code == 0, ran.err
    assert [row["estimated"] for row in ran.json["speeds"]] == [0, 2]
    strict = shell("allocate", "--policy", "max_sum_throughput", "--snapshot", path, "--strict-speeds")
    assert strict.code == 0
    assert "speeds on" not in strict.out


def test_the_sizes_of_elastic_jobs_are_estimated_on_new_types(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    cluster = Cluster.of({"v100": 2, "a100-80gb": 4})
    jobs = [Job(0, "ResNet-50 (batch size 64)", 1e5, elastic=Elastic.of("workers:1-4"))]
    write_snapshot(path, Snapshot.of(jobs, cluster, load_throughputs("simulation"), Prices({}), sizes=True))
    ran = shell("allocate", "--policy", "elastic(max_sum_throughput)", "--snapshot", path, "--json", "-")
    assert ran.code == 0, ran.err
    ways = [(row["accelerator"], row["devices"]) for row in ran.json["configurations"]]
    assert ways == [("a100-80gb", 4)]


def test_what_estimate_writes_is_a_table(shell: Shell, tmp_path: Path) -> None:
    measured, wanted, out = (tmp_path / name for name in ("m.csv", "w.csv", "e.csv"))
    measured.write_text("job_type,accelerator,steps_per_second\nA3C,v100,7\nA3C,k80,3\nmine,v100,2\n")
    wanted.write_text(
        "job_type,job_type_a,job_type_b,accelerator\nA3C,,,v100\nmine,,,a100-80gb\nA3C,,,a100-80gb\n,A3C,mine,v100\n"
    )
    assert shell("throughputs", "estimate", "--observed", measured, "--wanted", wanted, "--out", out).code == 0
    table = load_throughputs(out)
    assert table.isolated[Setting("A3C", "v100")] == 7.0
    lower, upper = table.ranges[Setting("mine", "a100-80gb")]
    assert lower < table.isolated[Setting("mine", "a100-80gb")] < upper
    assert len(table.colocated) == 2
    trace = tmp_path / "t.csv"
    trace.write_text("job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,mine,1,900\n1,0,A3C,1,900\n")
    options = ("--cluster", "v100=1,a100-80gb=1", "--trace", trace, "--table", out, "--speed-samples", 3)
    ran = shell("simulate", "--policy", "packed(max_min_fairness)", *options, "--json", "-")
    assert ran.code == 0, ran.err
    assert ran.json["speed_samples"] == 3


def test_todays_jobs_are_estimated_by_name(shell: Shell, tmp_path: Path) -> None:
    nothing, wanted = tmp_path / "m.csv", tmp_path / "w.csv"
    nothing.write_text("job_type,accelerator,steps_per_second\n")
    wanted.write_text("job_type,accelerator\nllama-7b-lora-bs16,h100\nllama-7b-lora-bs16,t4\nmine,h100\n")
    options = ("--observed", nothing, "--wanted", wanted, "--json", "--estimator")
    ran = shell("throughputs", "estimate", *options, "combined")
    assert [row["origin"] for row in ran.json["rows"]] == ["estimated", "estimated", "unknown"]
    fast, cannot, _ = (row["estimate"] for row in ran.json["rows"])
    assert fast > 0
    assert cannot == 0
    assert {row["origin"] for row in shell("throughputs", "estimate", *options, "completion").json["rows"]} == {
        "unknown"
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "job_type,scale_factor,accelerator,samples_per_second\na,1,v100,9\n",
            "divide by the samples of one step",
        ),
        ("job_type,scale_factor,accelerator,images/s\na,1,v100,9\n", "divide by the images of one step"),
        ("job_type,scale_factor,accelerator,tokens_per_s\na,1,v100,9\n", "divide by the tokens of one step"),
        ("job_type,scale_factor,accelerator,throughput\na,1,v100,9\n", "write optimizer steps per second"),
        ("job_type,accelerator,estimate\na,v100,9\n", "column lower: the cell is empty"),
        ("job_type,accelerator,estimate,lower,upper\na,v100,9,10,11\n", "expected lower, estimate, upper"),
        ("job_type,accelerator,estimate,lower,upper\na,v100,x,1,2\n", "column estimate"),
        ("job_type,accelerator,estimate,lower,upper\na,v100,,,\n", "no row has a speed"),
    ],
)
def test_a_table_in_another_unit_is_explained(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputFileError, match=said):
        load_throughputs(path)


def test_a_users_gaps_are_estimated_from_what_it_measured() -> None:
    table = load_throughputs("simulation")
    jobs = load_scenario(RunOptions("v100=1", jobs=3)).jobs
    estimated = with_estimates(table, jobs, ["v100", "mi300x"])
    assert {way.accelerator for way in estimated.ranges} == {"mi300x"}
    assert with_estimates(table, jobs, ["v100", "mi300x"]) is estimated, "kept in memory"


def test_intervals_of_few_repetitions() -> None:
    figures = {(0, k): {"jct_mean_s": float(k), "policy": "p", "cost_usd": None} for k in range(1, 20)}
    made = intervals_of(figures)[0]
    assert made.of == {"jct_mean_s": (1.0, 19.0)}
    assert made.samples == 19
    assert made.best is None
    few = intervals_of({key: figures[key] for key in list(figures)[:3]})[0]
    assert few.of == {"jct_mean_s": (1.0, 3.0)}
    assert (made.level, few.level) == (0.9, 0.5)


def test_a_hundred_odd_tables_are_read_or_refused_with_a_reason(tmp_path: Path) -> None:
    draw, path = random.Random(0), tmp_path / "t.csv"
    cells = ["", "0", "-1", "nan", "1e400", "a", "v100", "9", "1,", '"', "ok", "absent", "\u0661", "9.5"]
    headers = [
        "job_type",
        "accelerator",
        "scale_factor",
        "steps_per_second",
        "estimate",
        "lower",
        "upper",
        "job_type_a",
    ]
    for _ in range(300):
        header = draw.sample(headers, draw.randint(1, len(headers)))
        rows = [",".join(draw.choices(cells, k=len(header))) for _ in range(draw.randint(0, 3))]
        path.write_text("\n".join([",".join(header), *rows]) + "\n")
        try:
            load_throughputs(path)
        except UserError as error:
            assert "t.csv" in str(error)


def test_a_type_of_the_table_is_found_under_another_spelling(shell: Shell) -> None:
    """With its measured speeds and its price, so nothing is estimated and every figure is the same."""
    run = ("simulate", "--policy", "max_min_fairness", "--jobs", "6", "--prices", "gcp", "--json", "-")
    usual = shell(*run, "--cluster", "v100=2,k80=2").json
    spelled = shell(*run, "--cluster", "Tesla-V100-SXM2-16GB=2,nvidia-tesla-k80=2").json
    assert "speeds" not in spelled
    for name in ("jct_mean_s", "makespan_s", "cost_usd", "total_usd", "rho_max"):
        assert spelled[name] == usual[name]
    assert set(spelled["per_job"][0]["device_s"]) <= {"tesla-v100-sxm2-16gb", "nvidia-tesla-k80"}


def test_a_misspelt_type_is_told_what_it_may_mean(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", "--jobs", "1", "--cluster", "a1000=2")
    assert ran.code == 2
    assert "--cluster: nothing is known of accelerator type 'a1000'. Try: did you mean 'a100'?" in ran.err


def test_random_jobs_may_be_of_todays_types(shell: Shell, tmp_path: Path) -> None:
    """Their length is that on an A100 with 80 GB; only types that fit on several devices are gangs."""
    trace = tmp_path / "today.csv"
    ran = shell(
        "trace", "generate", "--jobs", 30, "--job-types", "today", "--multi-gpu", "--seed", 3, "--out", trace
    )
    assert ran.code == 0, ran.err
    jobs = read_trace(trace)
    assert {job.job_type for job in jobs} <= set(TODAYS_JOBS) and len({job.job_type for job in jobs}) > 6
    assert {job.scale_factor for job in jobs} > {1, 2}
    assert all(1800 < job.duration_s <= 600_000 for job in jobs if job.duration_s is not None)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("llama-7b-lorra-bs16", "did you mean 'lora'"),
        ("llama-70b-full-bs16", "does not run on one a100-80gb"),
        ("today,,x", "has an empty name"),
        ("resnet", "unknown job type 'resnet'"),
    ],
)
def test_job_types_that_cannot_be_drawn(shell: Shell, names: str, words: str) -> None:
    ran = shell("simulate", "--policy", "fifo", "--cluster", "h100=4", "--jobs", 2, "--job-types", names)
    assert ran.code == 2 and words in ran.err and not ran.out


def test_job_types_are_of_random_jobs(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", "--cluster", "v100=4", "--trace", "x.csv", "--job-types", "A3C")
    assert ran.code == 2 and "--job-types: it says how random jobs are made" in ran.err


def test_a_slip_in_today_is_seen(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", "--cluster", "h100=2", "--jobs", "3", "--job-types", "todya")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "gavelx: --job-types: unknown job type 'todya'. Try: did you mean 'today'?\n"


def test_a_type_without_a_data_sheet_is_left_out_of_estimates(shell: Shell, tmp_path: Path) -> None:
    table, trace = tmp_path / "table.csv", tmp_path / "trace.csv"
    rows = ["job_type,scale_factor,accelerator,steps_per_second", "m,1,k80,0.5"]
    trace.write_text("job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,m,1,1000\n1,0,m,1,2000\n")
    runs = []
    for more in ([], ["m,1,nvidia.com/gpu,1", "m,1,h1000,7"]):
        table.write_text("\n".join([*rows, *more]) + "\n")
        files = ("--table", table, "--trace", trace, "--speed-samples", 0)
        runs.append(shell("simulate", "--policy", "fifo", "--cluster", "v100=1,k80=1", *files))
        assert runs[-1].code == 0, runs[-1].err
    assert "data sheet" not in runs[0].err
    assert "'nvidia.com/gpu' is in no data sheet, and its speeds were left out of estimates" in runs[1].err
    assert "'h1000' is in no data sheet" in runs[1].err and "did you mean 'h100" in runs[1].err
    assert runs[0].out == runs[1].out
