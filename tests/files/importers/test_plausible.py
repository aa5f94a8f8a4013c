"""A log is checked against itself, and read in the spellings in which tools write it."""

import json
from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.importers import Imported, import_trace
from gavelx.files.throughput_tables import load_throughputs

TABLE = load_throughputs("simulation")
SACCT = "JobID|State|Submit|Start|End|Elapsed|Suspended|AllocTRES\n"


def load(folder: Path, text: str, **options: object) -> Imported:
    path = folder / "log.txt"
    path.write_text(text)
    return import_trace(path, TABLE, **options)  # type: ignore[arg-type]


def row(
    name: str = "7",
    elapsed: str = "01:00:00",
    end: str = "2024-03-01T11:00:00",
    away: str = "00:00:00",
    gpus: int = 1,
) -> str:
    times = f"2024-03-01T10:00:00|2024-03-01T10:00:00|{end}|{elapsed}|{away}"
    return f"{name}|COMPLETED|{times}|cpu=8,gres/gpu={gpus}\n"


@pytest.mark.parametrize("elapsed", ["49710-06:28:15", "49710-06:28:14", "49709-00:00:00"])
def test_a_wrapped_counter_is_a_bad_row(tmp_path: Path, elapsed: str) -> None:
    with pytest.raises(InputFileError, match=r"row 2: the job lasts .* as where a counter has wrapped"):
        load(tmp_path, SACCT + row(elapsed=elapsed, end="Unknown"))


def test_a_job_that_would_end_after_today_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="would end after today"):
        load(tmp_path, SACCT + row(elapsed="9000-00:00:00", end=""))


def test_a_duration_that_differs_from_start_and_end_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"column Elapsed: '02:00:00' is 7,200 s, .* it is 3,600 s"):
        load(tmp_path, SACCT + row(elapsed="02:00:00"))


def test_suspended_time_may_be_left_out_of_a_duration(tmp_path: Path) -> None:
    (job,) = load(tmp_path, SACCT + row(elapsed="00:20:00", away="00:40:00")).jobs
    assert job.duration_s == 1200


def test_components_of_a_heterogeneous_job_are_one_gang(tmp_path: Path) -> None:
    imported = load(tmp_path, SACCT + row("6+0", gpus=4) + row("6+1", gpus=4) + row("8", gpus=4))
    assert sorted(job.scale_factor for job in imported.jobs) == [4, 8]
    assert imported.changes["gangs_joined"] == 1


def test_all_runs_of_a_requeued_job_have_one_type(tmp_path: Path) -> None:
    ends = ((f"0{h}:00:00", f"2024-03-01T{10 + h}:00:00") for h in range(1, 7))
    imported = load(tmp_path, SACCT + "".join(row(elapsed=elapsed, end=end) for elapsed, end in ends))
    assert len(imported.jobs) == 6 and len({job.job_type for job in imported.jobs}) == 1
    assert imported.changes["run_again"] == 5


@pytest.mark.parametrize("mark", ["\t", ";", ",", "^", "::"])
@pytest.mark.parametrize("column", ["JobID", "JobIDRaw"])
def test_sacct_is_read_with_any_delimiter(tmp_path: Path, mark: str, column: str) -> None:
    text = SACCT + row("7_[1,3]") + row("8", gpus=2)
    imported = load(tmp_path, text.replace("JobID", column).replace("|", mark))
    assert (imported.format, sorted(job.scale_factor for job in imported.jobs)) == ("slurm", [1, 2])


def test_sacct_in_columns_of_fixed_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"fixed width, .* sacct --parsable2"):
        load(tmp_path, SACCT.replace("|", "   ") + row().replace("|", "   "))


@pytest.mark.parametrize("number", [3600, {"set": True, "infinite": False, "number": 3600}])
def test_sacct_json_is_read_in_old_and_new_versions(tmp_path: Path, number: object) -> None:
    job = {
        "job_id": 7,
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": 1709287200, "start": 1709287800, "end": 1709291400, "elapsed": number},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 2}]},
    }
    (found,) = load(tmp_path, json.dumps({"meta": {"a": [1]}, "jobs": [job], "errors": []}, indent=1)).jobs
    assert (found.scale_factor, found.duration_s, found.recorded_start_s) == (2, 3600, 600)
