"""Slurm's job completion log."""

from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.importers import Imported, import_trace
from gavelx.files.throughput_tables import load_throughputs
from tests.files.importers.samples import SAMPLES, record

TABLE = load_throughputs("simulation")
GOOD = record(7, "ann", "train", "COMPLETED", 0, 5, 65, "cpu=8,gres/gpu=4")


def load(folder: Path, text: str, **options: object) -> Imported:
    path = folder / "jobcomp.log"
    path.write_text(text)
    return import_trace(path, TABLE, **options)  # type: ignore[arg-type]


def test_the_fields_of_a_record(tmp_path: Path) -> None:
    imported = load(tmp_path, SAMPLES["jobcomp"].text)
    first, second = imported.jobs
    assert (first.arrival_s, first.scale_factor, first.duration_s, first.owner) == (0, 4, 3600, "nlp/ann")
    assert (second.arrival_s, second.scale_factor, second.duration_s, second.owner) == (240, 8, 2400, "nlp/bob")
    assert imported.left_out == {"never started": 2, "failed": 1, "no GPUs": 1}


def test_a_record_that_slurm_cut_costs_only_itself(tmp_path: Path) -> None:
    """It has no line end, so the next record is on its line."""
    cut = GOOD.replace("/home/ann", "/home/ann" * 200)[:1023]
    other = GOOD.replace("JobId=7", "JobId=8")
    assert "SubmitTime" not in cut
    said = r"row 1: the record lacks .*Tres; expected a whole record. Try: sacct"
    with pytest.raises(InputFileError, match=said):
        load(tmp_path, cut + other)
    imported = load(tmp_path, cut + other + other.replace("=8 ", "=9 "), skip_bad_rows=True)
    assert (imported.rows, len(imported.jobs), [bad.row for bad in imported.skipped]) == (3, 2, [1])


def test_a_rotated_log_may_begin_in_the_middle_of_a_record(tmp_path: Path) -> None:
    imported = load(tmp_path, "Tres=gres/gpu=1 Account=a ExitCode=0:0\n" + GOOD, skip_bad_rows=True)
    assert (len(imported.jobs), [bad.row for bad in imported.skipped]) == (1, [1])


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("Tres=cpu=8,gres/gpu:a100=4", 4),
        ("Tres=cpu=8,gres/gpu=4,gres/gpu:a100=4", 4),
        ("Gres=gpu:4", 4),  # older Slurm, summed over both nodes
        ("Gres=gpu:tesla:2,gpu:k80:2", 4),
        ("Gres=cpu=8,gres/gpu=4", 4),
    ],
)
def test_gpus(tmp_path: Path, tres: str, gpus: int) -> None:
    (job,) = load(tmp_path, GOOD.replace("Tres=cpu=8,gres/gpu=4", tres)).jobs
    assert job.scale_factor == gpus


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Name=train", "Name=x StartTime=5", "StartTime is there twice, perhaps in the name of the job"),
        ("JobState=COMPLETED", "JobState=DONE", "column JobState: 'DONE' is not known; expected a state of Slurm"),
        ("JobState=COMPLETED ", "", "the record lacks JobState; expected a whole record"),
        ("JobState=COMPLETED", "JobState=", "column JobState: the cell is empty"),
        ("SubmitTime=2024-03-01T10:00:00", "SubmitTime=unknown", "column SubmitTime: 'unknown' cannot be used"),
        ("EndTime=2024-03-01T11:05:00", "EndTime=Unknown", "column EndTime: 'Unknown' cannot be used"),
        (
            "EndTime=2024-03-01T11",
            "EndTime=2024-03-01T09",
            "EndTime: '2024-03-01T09:05:00' comes before the start",
        ),
        ("gres/gpu=4", "gres/gpu=four", "column Tres: 'gres/gpu=four' cannot be used; expected gres/gpu=4"),
        ("gres/gpu=4", "gres/gpu=99999999", "99999999 GPUs; expected 1000000 at most"),
        ("Tres=", "Trees=", "the record lacks Tres"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    bad = GOOD.replace("=7 ", "=8 ").replace(old, new)
    with pytest.raises(InputFileError, match=rf"jobcomp.log, row 2.*{said}"):
        load(tmp_path, GOOD + bad)
    assert len(load(tmp_path, GOOD + bad, skip_bad_rows=True).jobs) == 1


def test_a_name_may_look_like_a_field(tmp_path: Path) -> None:
    (job,) = load(tmp_path, GOOD.replace("Name=train", "Name=train lr=0.1 x= Het")).jobs
    assert job.scale_factor == 4


def test_records_that_are_there_twice_are_one_job(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD + GOOD).left_out == {"there already": 1}
