"""The recorded start and the requested type of accelerator: read, kept, written and read back."""

from pathlib import Path

import pytest

from gavelx.cluster import Cluster
from gavelx.errors import InputFileError
from gavelx.files.importers import import_trace
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import read_trace, write_trace
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from tests.files.importers.samples import SAMPLES, write

TABLE = load_throughputs("simulation")
HEADER = "JobID|State|Submit|Start|Elapsed|ReqTRES|AllocTRES\n"


@pytest.mark.parametrize(
    ("name", "waited", "asked"),
    [
        ("slurm", [10, 300], ["a100", "a100"]),
        ("jobcomp", [300, 0], ["a100", "v100"]),
        ("helios", [0, 3600], ["", ""]),
        ("philly_log", [31, 21, 491], ["", "", ""]),
        ("alibaba2020", [None, None], ["v100", "misc"]),
        ("alibaba2023", [10, 0], ["", "v100m16|v100m32"]),
        ("tiresias", [None] * 3, [""] * 3),
    ],
)
def test_the_start_and_the_type(tmp_path: Path, name: str, waited: list[float], asked: list[str]) -> None:
    jobs = import_trace(write(tmp_path, name), TABLE).jobs
    starts = [job.recorded_start_s for job in jobs]
    assert [None if s is None else s - job.arrival_s for s, job in zip(starts, jobs, strict=True)] == waited
    assert [job.requested_accelerator for job in jobs] == asked


def sacct(folder: Path, *rows: str) -> Path:
    path = folder / "jobs.txt"
    path.write_text(HEADER + "".join(row + "\n" for row in rows))
    return path


def row(start: str = "2024-03-01T10:05:00", asked: str = "gres/gpu:a100=1", got: str = "gres/gpu:h100=1") -> str:
    return f"7|COMPLETED|2024-03-01T10:00:00|{start}|01:00:00|{asked}|{got}"


@pytest.mark.parametrize(
    ("asked", "got", "type_"),
    [
        ("gres/gpu:a100=1", "gres/gpu:h100=1", "a100"),
        ("gres/gpu=1,gres/gpu:A100=1", "gres/gpu=1", "a100"),
        ("gres/gpu=1", "gres/gpu:h100=1", ""),
        ("", "gres/gpu:h100=1", "h100"),
        ("gres/gpu:a100=1,gres/gpu:t4=1", "gres/gpu=2", ""),
    ],
)
def test_what_was_asked_for_comes_before_what_it_got(tmp_path: Path, asked: str, got: str, type_: str) -> None:
    (job,) = import_trace(sacct(tmp_path, row(asked=asked, got=got)), TABLE).jobs
    assert job.requested_accelerator == type_


@pytest.mark.parametrize("start", ["", "Unknown", "None"])
def test_no_start_is_no_mistake(tmp_path: Path, start: str) -> None:
    (job,) = import_trace(sacct(tmp_path, row(start)), TABLE).jobs
    assert job.recorded_start_s is None


def test_a_start_before_the_submission_is_not_kept_and_counted(tmp_path: Path) -> None:
    imported = import_trace(sacct(tmp_path, row("2024-03-01T09:05:00")), TABLE)
    assert imported.jobs[0].recorded_start_s is None
    assert imported.changes["starts_left_out"] == 1


def test_a_start_that_is_no_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="row 2, column Start: 'soon' cannot be used; expected a time"):
        import_trace(sacct(tmp_path, row("soon")), TABLE)


def test_a_trace_of_ours_keeps_both_and_simulates_as_without(tmp_path: Path) -> None:
    plain, full = tmp_path / "plain.csv", tmp_path / "full.csv"
    imported = import_trace(write(tmp_path, "slurm"), TABLE).jobs
    write_trace(full, imported)
    assert read_trace(full) == imported == import_trace(full, TABLE).jobs
    lines = [line.rsplit(",", 2)[0] for line in full.read_text().splitlines()]
    assert full.read_text().startswith(lines[0] + ",recorded_start_s,requested_accelerator")
    plain.write_text("\n".join(lines) + "\n")
    cluster = Cluster.parse("v100=8,k80=8")
    runs = (
        simulate(load_policy("max_min_fairness"), read_trace(path), cluster, TABLE).summary()
        for path in (full, plain)
    )
    with_both, without = (
        {name: figure for name, figure in run.items() if not name.endswith("seconds")} for run in runs
    )
    assert with_both == without


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("5", "the job starts at 5 s, before it arrives at 10 s; expected a start at or after the arrival"),
        ("soon", "'soon' cannot be used"),
        ("-1", "'-1' cannot be used"),
        ("1e13", "'1e13' cannot be used"),
    ],
)
def test_mistakes_in_a_trace_of_ours_are_named(tmp_path: Path, cell: str, said: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"job_id,arrival_s,job_type,scale_factor,total_steps,recorded_start_s\n0,10,A3C,1,5,{cell}\n")
    with pytest.raises(InputFileError, match=f"trace.csv, row 2, column recorded_start_s: {said}"):
        read_trace(path)


def test_parts_of_one_job_have_one_type_or_none(tmp_path: Path) -> None:
    text = SAMPLES["alibaba2020"].text.replace("29.3,100.0,V100", "29.3,100.0,T4", 1)
    path = tmp_path / "tasks.csv"
    path.write_text(text)
    assert [job.requested_accelerator for job in import_trace(path, TABLE).jobs] == ["", "misc"]
