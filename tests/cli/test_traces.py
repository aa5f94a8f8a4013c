from pathlib import Path

import pytest

from gavelx.files.traces import read_trace
from tests.cli.running import Shell

GAVEL = "\t".join(
    ("LM (batch size 5)", "python main.py", "lm", "--steps", "0", "100", "2", "1", "-1.000000", "7.5")
)


def test_a_trace_on_stdout_is_the_trace_in_a_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    options = (
        "trace",
        "generate",
        "--jobs",
        5,
        "--seed",
        3,
        "--arrival-rate",
        4,
        "--multi-gpu",
        "--multi-priority",
    )
    text = shell(*options).out
    ran = shell(*options, "--out", file)
    assert file.read_text() == text
    assert "jobs" in ran.out
    assert len(read_trace(file)) == 5


def test_a_generated_trace_runs_like_the_random_jobs(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    shell("trace", "generate", "--jobs", 5, "--seed", 3, "--out", file)
    common = ("simulate", "--policy", "fifo", "--cluster", "v100=2", "--json", "-")
    from_trace = shell(*common, "--trace", file).json
    at_random = shell(*common, "--jobs", 5, "--seed", 3).json
    assert from_trace["per_job"] == at_random["per_job"]


def test_import(shell: Shell, tmp_path: Path) -> None:
    source, file = tmp_path / "small.trace", tmp_path / "small.csv"
    source.write_text(GAVEL + "\n")
    summary = shell("trace", "import", source, "--out", file, "--json").json
    assert summary["scale_factors"] == {"2": 1}
    assert (summary["format"], summary["skipped"], summary["shifted_s"]) == ("gavel", [], 7.5)
    (job,) = read_trace(file)
    assert (job.job_type, job.scale_factor, job.total_steps, job.arrival_s) == ("LM (batch size 5)", 2, 100.0, 0.0)


def list_of_jobs(folder: Path, *durations: object) -> Path:
    """A Philly list of one job per duration, the last on 3 GPUs."""
    path = folder / "philly.csv"
    rows = [f"{i},2017-09-26 22:24:{i:02},{duration},1\n" for i, duration in enumerate(durations)]
    rows[-1] = rows[-1].replace(",1\n", ",3\n")
    path.write_text("job_id,submit_time,duration_s,num_gpus\n" + "".join(rows))
    return path


def test_bad_rows_are_refused_with_their_numbers(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    ran = shell("trace", "import", list_of_jobs(tmp_path, "x", 60, *"abcdefg", 60), "--out", file)
    assert (ran.code, ran.out, file.exists()) == (2, "", False)
    first, *others, last = ran.err.splitlines()
    assert "philly.csv, row 2, column duration_s: 'x' cannot be used; expected a finite number" in first
    assert [line.partition(":")[0].strip() for line in others] == ["row 4", "row 5", "row 6", "row 7"]
    assert last.strip() == "8 of 10 rows cannot be used, 3 of them not shown; --skip-bad-rows leaves them out"


def test_bad_rows_are_skipped_and_listed(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    source = list_of_jobs(tmp_path, "x", 60, 0, 60)
    options = ("trace", "import", source, "--skip-bad-rows", "--out", file)
    lines = shell(*options).err.splitlines()
    assert lines[0] == "format: philly"
    assert "skipped row 2: column duration_s: 'x' cannot be used" in lines[1]
    assert lines[2:] == [
        "left out, took no time: 1",
        "jobs with a drawn job type: 2",
        "jobs with more devices than recorded, for less time (same device-time): 1",
    ]
    figures = shell(*options, "--json").json
    assert [bad["row"] for bad in figures["skipped"]] == [2]
    assert (figures["rows"], figures["jobs"], figures["left_out"]) == (4, 2, {"took no time": 1})
    assert [job.duration_s for job in read_trace(file)] == [60, 45]


def sacct(folder: Path) -> Path:
    """A job that ended well, one that failed, on 16 GPUs, and one that was cancelled."""
    path = folder / "sacct.txt"
    path.write_text(
        "JobID|State|Submit|Start|Elapsed|AllocTRES\n"
        "1|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:30:00|02:00:00|gres/gpu:a100=4\n"
        "2|FAILED|2024-03-01T10:00:00|2024-03-01T11:00:00|00:30:00|gres/gpu:a100=16\n"
        "3|CANCELLED by 7|2024-03-01T10:00:00|2024-03-01T10:00:00|08:00:00|gres/gpu:v100=1\n"
    )
    return path


def test_failed_jobs_are_kept_or_left_out_with_their_device_time(shell: Shell, tmp_path: Path) -> None:
    options = ("trace", "import", sacct(tmp_path), "--out", tmp_path / "out.csv")
    lines = shell(*options).err.splitlines()
    assert "left out, failed: 1 (33.3 % of device-time; --keep failed keeps them)" in lines
    assert "kept, cancelled: 1 (33.3 % of device-time)" in lines
    assert "kept, failed: 1 (33.3 % of device-time)" in shell(*options, "--keep", "failed").err.splitlines()
    figures = shell(*options, "--keep", "completed", "--json").json
    assert (figures["jobs"], figures["left_out"], figures["keep"]) == (
        1,
        {"failed": 1, "cancelled": 1},
        "completed",
    )
    assert figures["endings"]["failed"] == {
        "jobs": 1,
        "device_hours": 8.0,
        "share_of_device_hours": pytest.approx(1 / 3),
        "kept": False,
    }
    ran = shell(*options, "--keep", "everything")
    assert ran.code == 2 and "--keep: 'everything' is not known; expected completed, cancelled, failed" in ran.err


def test_wide_gangs_run_with_the_table_that_is_written(shell: Shell, tmp_path: Path) -> None:
    out, table = tmp_path / "out.csv", tmp_path / "wide.csv"
    ran = shell("trace", "import", sacct(tmp_path), "--keep", "failed", "--table-out", table, "--out", out)
    said = "jobs with a number of devices that the table does not know, at an estimated speed: 1"
    assert said in ran.err.splitlines()
    assert [job.scale_factor for job in read_trace(out)] == [4, 16, 1]
    simulation = ("simulate", "--policy", "fifo", "--cluster", "v100=16", "--trace", out, "--json", "-")
    assert shell(*simulation, "--table", table).json["jobs_completed"] == 3
    assert shell("trace", "import", sacct(tmp_path), "--table-out", out, "--out", out).code == 2


def test_show_says_how_long_recorded_jobs_waited(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    shell("trace", "import", sacct(tmp_path), "--keep", "failed", "--out", out)
    summary = shell("trace", "show", out, "--json").json
    assert (summary["with_recorded_start"], summary["recorded_wait_mean_s"]) == (3, 1800)
    assert summary["requested_accelerators"] == {"a100": 2, "v100": 1}
    assert "a100: 2, v100: 1" in shell("trace", "show", out).out


def test_the_seed_and_the_reference_decide_the_steps(shell: Shell, tmp_path: Path) -> None:
    options = ("trace", "import", list_of_jobs(tmp_path, *[60] * 40))
    once = shell(*options).out
    assert once == shell(*options, "--seed", 0).out
    assert once != shell(*options, "--seed", 1).out != shell(*options, "--seed", 1, "--reference", "K80").out


def test_an_imported_trace_runs(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    shell("trace", "import", list_of_jobs(tmp_path, 6000, 6000), "--out", file)
    ran = shell("simulate", "--policy", "fifo", "--cluster", "v100=4", "--trace", file, "--json", "-")
    assert ran.json["jobs_completed"] == 2


def test_show(shell: Shell) -> None:
    summary = shell("trace", "show", "gavel_max_min_fairness", "--json").json
    assert sum(summary["job_types"].values()) == summary["jobs"] == sum(summary["scale_factors"].values())
    assert "ResNet-18" in shell("trace", "show", "gavel_max_min_fairness").out


def test_shipped_traces_are_listed(shell: Shell) -> None:
    listed = {row["name"]: row["jobs"] for row in shell("trace", "show", "--json").json["traces"]}
    assert (
        listed["gavel_max_min_fairness"] == shell("trace", "show", "gavel_max_min_fairness", "--json").json["jobs"]
    )
    said = shell("trace", "show").out
    assert all(name in said for name in listed)
    missed = shell("trace", "show", "none_such").err
    assert f"({len(listed)} in all: gavelx trace show)" in missed


def test_nothing_is_drawn_when_the_file_cannot_be_written(shell: Shell, tmp_path: Path) -> None:
    ran = shell("trace", "generate", "--jobs", 5, "--out", tmp_path / "none" / "x.csv")
    assert (ran.code, ran.out) == (2, "")
