from pathlib import Path

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
    (job,) = read_trace(file)
    assert (job.job_type, job.scale_factor, job.total_steps, job.arrival_s) == ("LM (batch size 5)", 2, 100.0, 7.5)


def test_show(shell: Shell) -> None:
    summary = shell("trace", "show", "gavel_max_min_fairness", "--json").json
    assert sum(summary["job_types"].values()) == summary["jobs"] == sum(summary["scale_factors"].values())
    assert "ResNet-18" in shell("trace", "show", "gavel_max_min_fairness").out


def test_nothing_is_drawn_when_the_file_cannot_be_written(shell: Shell, tmp_path: Path) -> None:
    ran = shell("trace", "generate", "--jobs", 5, "--out", tmp_path / "none" / "x.csv")
    assert (ran.code, ran.out) == (2, "")
