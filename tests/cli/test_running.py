"""`gavelx simulate` and `gavelx compare`, from options to files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Shell

pytestmark = pytest.mark.slow

SMALL = ("--cluster", "v100=2,k80=2", "--jobs", 4, "--seed", 1)
SUMMARY = {
    *("makespan_s", "jct_mean_s", "jct_p50_s", "jct_p99_s", "utilization", "cost_usd", "rounds", "jobs_total"),
    *("jobs_completed", "rho_max", "rho_mean", "unfair_fraction", "policy_seconds", "wall_seconds", "per_job"),
    *("mu_max", "mu_mean", "deadlines", "deadlines_missed", "total_usd"),
}
PER_JOB = {"job_id", "arrival_s", "completion_s", "jct_s", "rho", "mu", "cost_usd", "deadline_s", "restarts"}
TIMED = {"policy_seconds", "wall_seconds"}


def untimed(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key not in TIMED}


def test_simulate_prints_json_and_nothing_else(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", *SMALL, "--prices", "v100=2,p100=1,k80=1", "--json", "-")
    assert ran.code == 0
    assert set(ran.json) >= SUMMARY
    assert len(ran.json["per_job"]) == ran.json["jobs_completed"] == 4
    assert all(set(row) >= PER_JOB for row in ran.json["per_job"])
    assert ran.err == ""


def test_simulate_shows_a_figure_a_line(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "agnostic(max_min_fairness)", *SMALL)
    assert ran.code == 0
    for heading in ("agnostic(max_min_fairness)", "JCT mean (h)", "makespan (h)", "cost", "rho max", "restarts"):
        assert heading in ran.out


def test_fairness_in_dollars_is_shown_and_deadlines_only_where_there_are_any(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", *SMALL, "--prices", "v100=1.6,k80=0.9")
    assert "mu max" in ran.out
    assert "deadlines" not in ran.out, "no job has one"


def test_compare_runs_in_one_process_or_many_with_the_same_result(shell: Shell, tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    for workers, out in ((1, one), (2, two)):
        ran = shell("compare", "--policies", "fifo,max_min_fairness", *SMALL, "--workers", workers, "--json", out)
        assert ran.code == 0, ran.err
    runs = [[untimed(run) for run in json.loads(out.read_text())["runs"]] for out in (one, two)]
    assert runs[0] == runs[1]
    assert [run["policy"] for run in runs[0]] == ["fifo", "max_min_fairness"]


def test_compare_fits_80_columns(shell: Shell) -> None:
    ran = shell("compare", "--policies", "fifo,agnostic(max_min_fairness)", *SMALL, "--workers", 1)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("agnostic(max_min_fairness) ") for line in lines) == 3
    assert "…" not in ran.out


def test_compare_is_one_table_where_there_is_room(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    ran = shell("compare", "--policies", "fifo,isolated", *SMALL, "--workers", 1)
    assert sum(line.startswith("fifo ") for line in ran.out.splitlines()) == 1


def test_report_and_plot_are_written_and_repeat_byte_for_byte(shell: Shell, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        html = tmp_path / folder / "out.report.html"
        ran = shell("compare", "--policies", "fifo,isolated", *SMALL, "--workers", 1, "--html", html)
        assert ran.code == 0, ran.err
    first, second = sorted((tmp_path / "a").iterdir()), sorted((tmp_path / "b").iterdir())
    assert [path.name for path in first] == ["out.report.html", "out.report.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    page = first[0].read_text()
    assert "4 random jobs, seed 1" in page
    assert "--cluster v100=2,k80=2" in page


def test_a_plot_alone(shell: Shell, tmp_path: Path) -> None:
    png = tmp_path / "plot.png"
    assert shell("simulate", "--policy", "fifo", *SMALL, "--png", png).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["plot.png"]


def test_outputs_are_checked_before_the_run(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the run began")

    monkeypatch.setattr("gavelx.cli.running.run_policies", never)
    (tmp_path / "report.png").mkdir()
    for options in (
        ("--json", tmp_path),
        ("--json", tmp_path / "none" / "x.json"),
        ("--html", tmp_path / "report.html"),
        ("--html", ""),
        ("--png", "-"),
        ("--json", tmp_path / "x.png", "--html", tmp_path / "x.html"),
        ("--html", tmp_path / "x.png"),
    ):
        ran = shell("simulate", "--policy", "fifo", *SMALL, *options)
        assert ran.code == 2, options
    assert [path.name for path in tmp_path.iterdir()] == ["report.png"]


def test_a_window_measures_only_its_jobs(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", *SMALL, "--window", "1:3", "--json", "-")
    assert [row["job_id"] for row in ran.json["per_job"] if row["measured"]] == [1, 2]


def test_costs_are_unknown_without_a_price(shell: Shell, tmp_path: Path) -> None:
    table, trace = tmp_path / "table.csv", tmp_path / "trace.csv"
    table.write_text("job_type,scale_factor,accelerator,steps_per_second\nLM,1,abacus,1\n")
    trace.write_text("job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,LM,1,100\n")
    options = ("simulate", "--policy", "fifo", "--cluster", "abacus=1", "--table", table, "--trace", trace)
    assert shell(*options, "--json", "-").json["cost_usd"] is None
    assert "unknown" in shell(*options).out


def test_a_policy_of_the_users_own_runs_in_worker_processes(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from gavelx.policies import Maximize, SumThroughput\nmine = Maximize(SumThroughput())\n")
    ran = shell("compare", "--policies", f"fifo,{file}:mine", *SMALL, "--workers", 2, "--json", "-")
    assert ran.code == 0, ran.err
    assert len(ran.json["runs"]) == 2


def test_a_run_that_carried_an_allocation_over_says_so(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "failing_policy.py"
    file.write_text(
        "from gavelx.errors import SolverError\n"
        "from gavelx.policies import Policy\n"
        "class Failing(Policy):\n"
        "    def allocate(self, snapshot):\n"
        "        raise SolverError('no certified answer')\n"
    )
    ran = shell("compare", "--policies", f"fifo,{file}:Failing", *SMALL, "--workers", 2, "--json", "-")
    assert ran.code == 0
    assert [run["solver_failures"] > 0 for run in ran.json["runs"]] == [False, True]
    times = ran.json["runs"][1]["solver_failures"]
    assert f"Failing: the solvers failed {times} times" in ran.err
    assert "(no certified answer)" in ran.err
    assert "fifo:" not in ran.err


@pytest.mark.parametrize("policy", ["packed(max_min_fairness)", "placed(packed(max_min_fairness))", "gandiva"])
def test_pairs_and_spread_gangs_are_simulated(shell: Shell, policy: str) -> None:
    options = ("--cluster", "v100=8,k80=8", "--devices-per-server", 2, "--jobs", 24, "--multi-gpu")
    ran = shell("simulate", "--policy", policy, *options, "--json", "-")
    assert ran.code == 0, ran.err
    assert ran.json["jobs_completed"] == 24


def test_jobs_that_share_devices_are_done_sooner(shell: Shell) -> None:
    options = ("--cluster", "v100=2,p100=2,k80=2", "--jobs", 20, "--seed", 0, "--json", "-", "--workers", 1)
    ran = shell("compare", "--policies", "max_sum_throughput,packed(max_sum_throughput)", *options)
    alone, packed = ran.json["runs"]
    assert packed["makespan_s"] < alone["makespan_s"]


def test_jobs_that_are_never_done_are_counted(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "max_min_fairness", *SMALL, "--budget", "total=0", "--json", "-")
    assert ran.code == 0
    assert ran.json["jobs_completed"] == 0
    assert ": 4 jobs are not done, and the run ended because no job made progress" in ran.err


def test_what_is_read_is_not_written_over(shell: Shell, tmp_path: Path) -> None:
    trace, result = tmp_path / "trace.csv", tmp_path / "result.json"
    assert shell("trace", "generate", "--jobs", 3, "--out", trace).code == 0
    text = trace.read_text()
    run = ("simulate", "--policy", "fifo", "--cluster", "v100=2", "--trace", trace)
    assert shell(*run, "--json", result).code == 0
    for words, lost in (
        ((*run, "--json", trace), trace),
        ((*run, "--png", trace), trace),
        (("trace", "import", trace, "--out", trace), trace),
        (("bill", "--result", result, "--prices", "gcp", "--json", result), result),
    ):
        ran = shell(*words)
        assert ran.code == 2 and f"{lost.name}: it is read from, and would be lost" in ran.err.replace("\n", "")
    assert trace.read_text() == text and json.loads(result.read_text())["jobs_completed"] == 3


FAILING = """
import json
from pathlib import Path
from gavelx.policies import MaxMinFairness, Policy

class Late(MaxMinFairness):
    def allocate(self, snapshot):
        if snapshot.time_s > 5000:
            raise RuntimeError("too late")
        return super().allocate(snapshot)

class Ours(MaxMinFairness):
    pass
Ours.__module__ = "gavelx.policies.mine"
Ours.allocate = lambda self, snapshot: 1 / 0

class Peeping(MaxMinFairness):
    def allocate(self, snapshot):
        document = json.loads(Path(__file__).with_suffix(".json").read_text())
        assert [run["policy"] for run in document["runs"]] == ["fifo"]
        assert [failed["policy"] for failed in document["failed"]] == ["failing:Late"]
        assert document["waiting"] == ["failing:Peeping", "srtf"]
        return super().allocate(snapshot)
"""


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "failing.py").write_text(FAILING)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("workers", [1, 2])
def test_a_policy_that_fails_is_a_row_that_says_why(shell: Shell, failing: Path, workers: int) -> None:
    outputs = [f"--{kind}={failing / f'out.{kind}'}" for kind in ("json", "html", "png")]
    ran = shell("compare", "--policies", "fifo,failing:Late,srtf", *SMALL, "--workers", workers, *outputs)
    why = "policy Late: allocate() failed with RuntimeError: too late. Try: look at"
    assert ran.code == 2
    assert [line.split()[1] for line in ran.out.splitlines() if line.startswith("failing:Late ")] == [
        "failed",
        "policy",
    ]
    assert "RuntimeError: too late" in ran.out
    assert sum(line.startswith(("fifo ", "srtf ")) for line in ran.out.splitlines()) == 6
    document = json.loads((failing / "out.json").read_text())
    assert [run["policy"] for run in document["runs"]] == ["fifo", "srtf"]
    assert [(each["policy"], each["exit_code"]) for each in document["failed"]] == [("failing:Late", 2)]
    assert document["failed"][0]["message"].startswith(why)
    assert document.keys() == {"runs", "failed"}
    assert why in (failing / "out.html").read_text()
    assert (failing / "out.png").read_bytes().startswith(b"\x89PNG")
    assert f"failing:Late failed: {why}" in ran.err
    assert "fifo is done: 4 of 4 jobs" in ran.err


@pytest.mark.parametrize(
    ("policies", "code"),
    [
        ("fifo,failing:Ours", 1),
        ("failing:Late,failing:Ours", 1),
        ("failing:Late,fifo", 2),
        ("failing:Late", 2),
        ("fifo,srtf", 0),
    ],
)
def test_the_exit_code_says_whose_mistake_it_is(shell: Shell, failing: Path, policies: str, code: int) -> None:
    ran = shell("compare", "--policies", policies, *SMALL, "--workers", 1, "--json", "-", "--html", "out.html")
    assert ran.code == code
    assert len(ran.json["runs"]) + len(ran.json["failed"]) == policies.count(",") + 1
    assert all(each["exit_code"] in (1, 2) for each in ran.json["failed"])
    assert (failing / "out.html").exists() == bool(ran.json["runs"])
    if code == 1:
        ours = ran.json["failed"][-1]
        assert ours["message"].startswith(
            "a mistake of ours: ZeroDivisionError: division by zero (failing.py, line"
        )


def test_what_is_known_is_written_while_others_run(shell: Shell, failing: Path) -> None:
    policies = "fifo,failing:Late,failing:Peeping,srtf"
    ran = shell("compare", "--policies", policies, *SMALL, "--workers", 1, "--json", "failing.json")
    assert ran.code == 2
    document = json.loads((failing / "failing.json").read_text())
    assert [run["policy"] for run in document["runs"]] == ["fifo", "failing:Peeping", "srtf"], document["failed"]
    assert "waiting" not in document


def test_a_bill_is_made_of_the_runs_that_there_are(shell: Shell, failing: Path) -> None:
    shell("compare", "--policies", "fifo,failing:Late", *SMALL, "--workers", 1, "--json", "out.json")
    ran = shell("bill", "--result", "out.json", "--prices", "gcp")
    assert ran.code == 0
    assert "fifo" in ran.out


def test_a_budget_without_which_the_policy_fails_is_still_simulated(shell: Shell, failing: Path) -> None:
    """The second run, without the budget, is only to be compared with."""
    (failing / "barred.py").write_text(
        "from gavelx.policies import MaxMinFairness\n"
        "class Barred(MaxMinFairness):\n"
        "    def state(self, snapshot):\n"
        "        assert self.constraints, 'no budget'\n"
        "        return super().state(snapshot)\n"
    )
    ran = shell("simulate", "--policy", "barred:Barred", *SMALL, "--budget", "total=9", "--json", "out.json")
    assert ran.code == 2
    assert "budgeted(barred:Barred, total=9)" in ran.out
    assert json.loads((failing / "out.json").read_text())["jobs_completed"] == 4
    assert "barred:Barred failed: policy Barred: allocate() failed with AssertionError: no budget" in ran.err
