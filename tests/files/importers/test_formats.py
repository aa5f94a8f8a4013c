"""Every family: recognised, imported, and its jobs can run."""

from pathlib import Path

import pytest

from gavelx.cluster import Cluster
from gavelx.errors import InputFileError, OptionError
from gavelx.files.importers import FORMATS, import_trace
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import read_trace, write_trace
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from tests.files.importers.samples import SAMPLES, write

TABLE = load_throughputs("simulation")


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("how", ["auto", "by name"])
def test_a_file_is_known_by_its_content(tmp_path: Path, name: str, how: str) -> None:
    sample = SAMPLES[name]
    named = "auto" if how == "auto" else sample.format
    imported = import_trace(write(tmp_path, name), TABLE, format=named)
    assert (imported.format, len(imported.jobs)) == (sample.format, sample.jobs)
    assert imported.jobs[0].arrival_s == 0
    assert list(imported.jobs) == sorted(imported.jobs, key=lambda job: job.arrival_s)


def test_every_format_has_a_sample() -> None:
    assert {sample.format for sample in SAMPLES.values()} == set(FORMATS)


@pytest.mark.parametrize("name", SAMPLES)
def test_imported_jobs_run_to_the_end(tmp_path: Path, name: str) -> None:
    out = tmp_path / "trace.csv"
    write_trace(out, import_trace(write(tmp_path, name), TABLE).jobs)
    jobs = read_trace(out, TABLE.job_types)
    result = simulate(load_policy("fifo"), jobs, Cluster.parse("v100=8,k80=8"), TABLE)
    assert result.summary()["jobs_completed"] == len(jobs) == SAMPLES[name].jobs


@pytest.mark.parametrize("name", SAMPLES)
def test_a_duration_is_that_on_the_reference(tmp_path: Path, name: str) -> None:
    for job in import_trace(write(tmp_path, name), TABLE, reference="P100").jobs:
        if SAMPLES[name].format not in ("gavel", "shockwave", "csv"):
            speed = TABLE.get(job.job_type, "p100", job.scale_factor)
            assert speed and job.duration_s == pytest.approx(job.total_steps / speed, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no,such\n1,2\n", "the format is not known; the file begins with 'no,such'"),
        ("{}", "the format is not known"),
        ("\n\n", "the format is not known"),
        ("", "the file is empty"),
        ("a\0b", "NUL bytes"),
    ],
)
def test_an_unknown_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(InputFileError, match=said) as caught:
        import_trace(path, TABLE)
    notes = "".join(getattr(caught.value, "__notes__", ()))
    assert not notes or all(f"{name}: " in notes for name in FORMATS)


def test_a_quoted_header_is_known(tmp_path: Path) -> None:
    path = tmp_path / "quoted.csv"
    path.write_text('"submit_time","duration_s","num_gpus"\n"2017-09-26 22:24:39","60","1"\n')
    assert import_trace(path, TABLE).jobs[0].duration_s == 60


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="did you mean 'philly'"):
        import_trace(write(tmp_path, "pollux"), TABLE, format="phily")


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="row 1: the column 'time' is missing"):
        import_trace(write(tmp_path, "philly_list"), TABLE, format="pollux")
    with pytest.raises(InputFileError, match="format is not known"):
        import_trace(write(tmp_path, "pollux"), TABLE, format="philly")
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|Submit|AllocTRES\n1|2024-03-01T10:00:00|gres/gpu=1\n")
    with pytest.raises(
        InputFileError, match="row 1: a column is missing; expected a column Elapsed or ElapsedRaw"
    ):
        import_trace(path, TABLE, format="slurm")
