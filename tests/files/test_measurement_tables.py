"""Measured and wanted speeds in files: both kinds of rows, and every mistake with its file, row and column."""

from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.measurement_tables import estimated_rows, read_measurements, read_wanted, rows_as_csv
from gavelx.measurements import Estimate, Measurement
from gavelx.throughputs import Pairing, Setting

ALONE = "job_type,scale_factor,accelerator,consolidated,steps_per_second\n"
PAIRS = "job_type_a,scale_factor,job_type_b,accelerator,steps_per_second_a,steps_per_second_b\n"
BOTH = "job_type,job_type_a,job_type_b,accelerator,steps_per_second,steps_per_second_a,steps_per_second_b\n"


def file(folder: Path, text: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(text)
    return path


def speeds(folder: Path, text: str) -> dict[object, float]:
    return {one.way: one.steps_per_second for one in read_measurements(file(folder, text))}


def test_job_types_alone(tmp_path: Path) -> None:
    assert speeds(tmp_path, ALONE + "LM,2,V100,0,3.5\nLM,1,k80,,0\nLM,1,p100,1,\n") == {
        Setting("LM", "v100", 2, False): 3.5,
        Setting("LM", "k80"): 0.0,
    }


def test_pairs_and_both_kinds_in_one_file(tmp_path: Path) -> None:
    expected = {Pairing("LM", "A3C", "v100"): 2.0, Pairing("A3C", "LM", "v100"): 1.0}
    assert speeds(tmp_path, PAIRS + "LM,1,A3C,V100,2,1\n") == expected
    assert speeds(tmp_path, BOTH + "LM,,,v100,3,,\n,LM,A3C,v100,,2,1\n") == {
        Setting("LM", "v100"): 3.0,
        **expected,
    }


def test_one_speed_of_a_pair_is_enough(tmp_path: Path) -> None:
    assert speeds(tmp_path, PAIRS + "LM,,A3C,V100,2,\n") == {Pairing("LM", "A3C", "v100"): 2.0}


def test_statuses(tmp_path: Path) -> None:
    text = "job_type,accelerator,steps_per_second,status\na,v100,,not_runnable\nb,v100,2,absent\nc,v100,2,ok\n"
    assert speeds(tmp_path, text) == {Setting("a", "v100"): 0.0, Setting("c", "v100"): 2.0}


def test_what_else_a_measurement_says(tmp_path: Path) -> None:
    header = "job_type,accelerator,steps_per_second,relative_error,seconds,measured_at,source\n"
    text = header + "a,T4,2,0.1,60,2026-01-01,me\n"
    (one,) = read_measurements(file(tmp_path, text))
    assert one == Measurement(Setting("a", "t4"), 2.0, 0.1, 60.0, "2026-01-01", "me")


@pytest.mark.parametrize(("text", "says"), [
    ("", "the file is empty"),
    ("job_type,steps_per_second\nLM,1\n", "the column 'accelerator' is missing"),
    ("accelerator,steps_per_second\nv100,1\n", "no column of job types"),
    (ALONE + ",1,v100,1,2\n", "row 2, column job_type: the cell is empty"),
    (ALONE + "LM,1,,1,2\n", "row 2, column accelerator: the cell is empty"),
    (ALONE + "LM,1,v100,1,2\nLM,0,v100,1,2\n", "row 3, column scale_factor: '0' cannot be used"),
    (ALONE + "LM,1,v100,2,2\n", "column consolidated: '2' cannot be used"),
    (ALONE + "LM,1,v100,1,-2\n", "column steps_per_second: '-2' cannot be used"),
    (ALONE + "LM,1,v100,1,nan\n", "column steps_per_second: 'nan' cannot be used"),
    (ALONE + "LM,1,v100,1,1e999\n", "column steps_per_second: '1e999' cannot be used"),
    (ALONE + "LM,1,v100,1,fast\n", "column steps_per_second: 'fast' cannot be used"),
    (ALONE + "LM,1,v100\n", "row 2: the row has 3 cells"),
    (PAIRS + "LM,1,,v100,2,1\n", "row 2, column job_type_b: the cell is empty"),
    (PAIRS + "LM,2,A3C,v100,2,1\n", "row 2, column scale_factor: '2' cannot be used"),
    (BOTH + "LM,LM,A3C,v100,1,1,1\n", "row 2, column job_type: the row names both a job type and a pair"),
    ("job_type,accelerator,steps_per_second,status\na,v100,2,good\n", "column status: 'good' is not known"),
    ("job_type,accelerator,steps_per_second,relative_error\na,v100,2,-1\n", "column relative_error: '-1'"),
])  # fmt: skip
def test_every_mistake_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputFileError) as error:
        read_measurements(file(tmp_path, text))
    assert says in str(error.value) and "mine.csv" in str(error.value)


def test_nothing_wanted(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no row says what is wanted"):
        read_wanted(file(tmp_path, "job_type,accelerator\n"))


def test_wanted_rows_keep_their_columns_and_get_bounds(tmp_path: Path) -> None:
    text = "job_type,job_type_a,job_type_b,accelerator,note\nLM,,,V100,mine\n,LM,A3C,V100,\n"
    wanted = read_wanted(file(tmp_path, text))
    nan = float("nan")
    estimate_of = {
        Setting("LM", "v100"): Estimate(2.0, 1.0, 4.0, "estimated"),
        Pairing("LM", "A3C", "v100"): Estimate(1.5, 1.5, 1.5, "measured"),
        Pairing("A3C", "LM", "v100"): Estimate(nan, nan, nan, "unknown"),
    }
    assert rows_as_csv(estimated_rows(wanted, estimate_of)).splitlines() == [
        "job_type,job_type_a,job_type_b,accelerator,note,estimate,lower,upper,origin,"
        "estimate_a,lower_a,upper_a,origin_a,estimate_b,lower_b,upper_b,origin_b",
        "LM,,,V100,mine,2.0,1.0,4.0,estimated,,,,,,,,",
        ",LM,A3C,V100,,,,,,1.5,1.5,1.5,measured,,,,unknown",
    ]


def test_a_pair_has_an_error_for_each_job(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(
        "job_type_a,job_type_b,accelerator,steps_per_second_a,steps_per_second_b,relative_error_a,relative_error_b\n"
        "a,b,cpu,3,5,0.1,0.2\n"
    )
    assert [one.relative_error for one in read_measurements(file)] == [0.1, 0.2]
