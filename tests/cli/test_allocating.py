import json
from pathlib import Path

import pytest

from gavelx.files.snapshots import write_snapshot
from tests.cli.running import Shell
from tests.explain.allocations import instant

GOLDEN = Path(__file__).parents[1] / "data" / "golden_instances.json"


def test_one_decision_as_json(shell: Shell) -> None:
    ran = shell("allocate", "--policy", "max_min_fairness", "--snapshot", GOLDEN, "--index", 0, "--json", "-")
    instance = json.loads(GOLDEN.read_text())[0]
    assert ran.code == 0, ran.err
    assert set(ran.json["allocation"]) == {str(job["id"]) for job in instance["jobs"]}
    certificate = ran.json["certificate"]
    assert set(certificate) == {"objective", "bound", "violation", "path", "classes", "seconds"}
    assert certificate["objective"] == pytest.approx(instance["exact_optimum"]["max_min_fairness_perf"], rel=1e-6)


def test_one_decision_for_people(shell: Shell) -> None:
    ran = shell("allocate", "--policy", "fifo", "--snapshot", GOLDEN, "--index", 3)
    assert ran.code == 0, ran.err
    for words in ("fifo", "objective", "violation", "steps/s", "cluster"):
        assert words in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("explain", [(), ("--explain",)])
def test_a_decision_in_a_file_draws_no_table(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explain: tuple[str, ...]
) -> None:
    """It would take longer than the answer where there are very many jobs."""
    monkeypatch.delattr("gavelx.cli.allocation_tables.print_allocation")
    monkeypatch.delattr("gavelx.cli.explaining.print_explanation")
    out = tmp_path / "allocation.json"
    ran = shell("allocate", "--policy", "fifo", "--snapshot", GOLDEN, "--index", 3, "--json", out, *explain)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert set(json.loads(out.read_text())) == {
        *("allocation", "configurations", "certificate", "prices", "notes"),
        *["explanation"] * len(explain),
    }


@pytest.mark.parametrize("index", [(), ("--index", 999)])
def test_an_index_that_is_missing_or_too_high(shell: Shell, index: tuple[object, ...]) -> None:
    ran = shell("allocate", "--policy", "fifo", "--snapshot", GOLDEN, *index)
    assert ran.code == 2
    assert "--index" in ran.err


def test_an_explained_decision_for_people(shell: Shell) -> None:
    ran = shell("allocate", "--policy", "max_sum_throughput", "--snapshot", GOLDEN, "--index", 9, "--explain")
    assert ran.code == 0, ran.err
    lines = {line[:17].strip(): line for line in ran.out.splitlines()}
    assert lines["sharing incentive"].split()[2:6] == ["no,", "11", "of", "16"]
    assert "job 1 has nothing" in lines["envy"]
    assert "yes" in lines["Pareto efficient"]
    for words in ("$/hour per 1%", "+6.5%", "why no faster", "runs all the time"):
        assert words in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(("wide", "weight"), [(2, 1.0), (1, 1.0), (1, 5.0)])
def test_that_only_wide_or_light_jobs_are_below_is_said(
    shell: Shell, tmp_path: Path, wide: int, weight: float
) -> None:
    """A gang, or a job beside a heavier one, may have less than an equal share of a policy that promises it."""
    snapshot = instant({"fast": 2, "slow": 4}, [[9.0, 1.0], [4.0, 3.0], [9.0, 1.0]], [1, wide, 1], [1, 1, weight])
    write_snapshot(tmp_path / "s.json", snapshot)
    ran = shell("allocate", "--policy", "max_sum_throughput", "--snapshot", tmp_path / "s.json", "--explain")
    assert ran.code == 0, ran.err
    assert "1 of 3 jobs are below" in ran.out
    assert ("several devices, or less weight" in " ".join(ran.out.split())) == (wide > 1 or weight > 1)


def test_a_device_that_leaves_the_objective_alone_may_still_help(shell: Shell, tmp_path: Path) -> None:
    """Max-min fairness counts the job that is worst off, and that may have all it can use."""
    snapshot = instant({"fast": 1, "slow": 3}, [[2.0, 1.0], [9.0, 1.0], [9.0, 1.0]])
    write_snapshot(tmp_path / "s.json", snapshot)
    few = shell("allocate", "--policy", "max_min_fairness", "--snapshot", tmp_path / "s.json", "--explain")
    assert "One more device leaves the objective as it is" not in few.out
    write_snapshot(tmp_path / "s.json", instant({"fast": 1, "slow": 3}, [[1.0, 1.0], [9.0, 8.0], [9.0, 8.0]]))
    enough = shell("allocate", "--policy", "max_min_fairness", "--snapshot", tmp_path / "s.json", "--explain")
    assert "One more device leaves the objective as it is" in enough.out


def test_of_many_jobs_the_worst_off_are_explained(shell: Shell) -> None:
    ran = shell("allocate", "--policy", "isolated", "--snapshot", GOLDEN, "--index", 22, "--explain")
    assert "The 20 worst off; 44 more jobs are not shown." in ran.out
    assert "one more would" not in ran.out  # an equal share has no prices
    assert ran.out.count("+0.0%") == 20 + 1


def test_an_explained_decision_as_json(shell: Shell) -> None:
    options = ("allocate", "--policy", "max_min_fairness", "--snapshot", GOLDEN, "--index", 9, "--json", "-")
    plain, explained = shell(*options).json, shell(*options, "--explain").json
    assert "explanation" not in plain
    assert explained["allocation"] == plain["allocation"]
    jobs = explained["explanation"]["jobs"]
    assert [job["job_id"] for job in jobs] == [int(job_id) for job_id in plain["allocation"]]
    assert explained["explanation"]["pareto_efficiency"]["holds"]
    key = set(explained["explanation"]) | set(jobs[0]) | set(explained["explanation"]["accelerators"]["k80"])
    assert not [word for word in key - {"jobs", "job_id", "steps_per_s"} if word not in _help(shell)]


def _help(shell: Shell) -> str:
    return shell("allocate", "--help").out


@pytest.mark.parametrize("solver", ["highs", "clarabel", "ecos", "scs"])
def test_a_solver_of_ones_choice(shell: Shell, solver: str) -> None:
    for package in {"highs": (), "clarabel": ("cvxpy",)}.get(solver, ("cvxpy", solver)):
        pytest.importorskip(package)
    options = ("allocate", "--policy", "makespan", "--snapshot", GOLDEN, "--index", 1, "--json", "-")
    expected = shell(*options).json["certificate"]["objective"]
    ran = shell(*options, "--solver", solver)
    assert ran.code == 0, ran.err
    assert ran.json["certificate"]["objective"] == pytest.approx(expected, rel=1e-4)
    word = {"highs": "prices"}.get(solver, solver)  # the programs of the price engine are for HiGHS
    assert word in ran.json["certificate"]["path"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--solver", "exos"), "there is no solver 'exos'. Try: did you mean 'ecos'?"),
        (("--time-budget", "0"), "a budget of 0 s; expected 0.001 to"),
        (("--time-budget", "nan"), "a budget of nan s"),
        (("--time-budget", "-1"), "a budget of -1 s"),
    ],
)
def test_a_solver_or_a_budget_that_cannot_be(shell: Shell, options: tuple[str, str], words: str) -> None:
    for command in (
        ("allocate", "--policy", "fifo", "--snapshot", GOLDEN, "--index", 0),
        ("simulate", "--policy", "fifo", "--cluster", "v100=1", "--jobs", 1),
        ("compare", "--cluster", "v100=1", "--jobs", 1),
    ):
        ran = shell(*command, *options)
        assert ran.code == 2
        assert words in ran.err


def test_a_solver_that_is_not_installed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavelx.cli.solving.available", lambda solver: False)
    ran = shell("allocate", "--policy", "fifo", "--snapshot", GOLDEN, "--index", 0, "--solver", "ecos")
    assert ran.code == 2
    assert "--solver: ecos is not installed. Try: pip install 'gavelx[ecos]'" in ran.err


def test_out_of_time_is_our_failure(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavelx.solvers.lp.highs.time_is_up", lambda: True)
    monkeypatch.setattr("gavelx.solvers.conic.reference.left_s", lambda: 0.0)
    ran = shell("allocate", "--policy", "max_sum_throughput", "--snapshot", GOLDEN, "--index", 0)
    assert ran.code == 1
    assert "highs failed (time limit reached); highs interior point failed (time limit reached)" in ran.err


@pytest.mark.parametrize("policy", ["min_cost_slo", "agnostic(min_cost_slo)"])
def test_a_deadline_that_was_given_up_is_shown(shell: Shell, tmp_path: Path, policy: str) -> None:
    instance = json.loads(GOLDEN.read_text())[0]
    first = instance["jobs"][0]["id"]
    prices = dict.fromkeys(instance["cluster"], 1.0)
    path = tmp_path / "hurried.json"
    path.write_text(json.dumps(instance | {"slos": {str(first): 1e-3}, "prices_usd_per_hour": prices}))
    ran = shell("allocate", "--policy", policy, "--snapshot", path)
    assert ran.code == 0, ran.err
    assert f"note: the deadline of job {first} " in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_nothing_is_not_minus_nothing(shell: Shell) -> None:
    policy = "Minimize(Sum(Devices()), [Sum(TimeShare()) >= 1])"
    ran = shell("allocate", "--policy", policy, "--snapshot", GOLDEN, "--index", 0)
    assert ran.code == 0, ran.err
    (line,) = (line for line in ran.out.splitlines() if line.startswith("one more device"))
    assert "changes the objective by" in line
    assert " -0" not in line
