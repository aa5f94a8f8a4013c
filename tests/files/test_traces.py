from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.errors import InputFileError
from gavelx.files.locate import names
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import find_trace, read_trace, write_trace
from gavelx.jobs import PREEMPTIBLE, WEIGHT_MAX, WEIGHT_MIN, Job

HEADER = "job_id,arrival_s,job_type,scale_factor,total_steps,priority_weight\n"
above_0 = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=20)


@st.composite
def traces(draw: st.DrawFn) -> tuple[Job, ...]:
    ids = draw(st.lists(st.integers(0, 2**53), min_size=1, max_size=6, unique=True))
    arrivals = draw(st.lists(st.floats(0, 1e12), min_size=len(ids), max_size=len(ids)).map(sorted))
    return tuple(
        Job(
            id=job_id,
            job_type=draw(words),
            total_steps=draw(above_0),
            scale_factor=draw(st.integers(1, 1000)),
            weight=draw(st.floats(WEIGHT_MIN, WEIGHT_MAX)),
            arrival_s=arrival_s,
            slo=draw(st.none() | above_0),
            duration_s=draw(st.none() | above_0),
            owner=draw(st.just("") | words),
            preemptible=draw(st.sampled_from(PREEMPTIBLE)),
            checkpoints=draw(st.booleans()),
        )
        for job_id, arrival_s in zip(ids, arrivals, strict=True)
    )


@given(jobs=traces())
def test_what_is_written_is_read_back(jobs: tuple[Job, ...], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("traces") / "trace.csv"
    write_trace(path, jobs)
    assert read_trace(path) == jobs


def test_only_the_columns_that_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    write_trace(path, [Job(0, "A3C", 0.1 + 0.2, owner="lab/ann")])
    assert path.read_text().splitlines() == [
        HEADER.strip() + ",owner",
        "0,0.0,A3C,1,0.30000000000000004,1.0,lab/ann",
    ]


def test_a_trace_says_which_jobs_save_nothing_and_which_are_not_to_be_preempted(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER.strip() + ",preemptible,checkpoints\n0,0,A3C,1,5,1,no,\n1,0,A3C,1,5,1,,no\n")
    assert read_trace(path) == (Job(0, "A3C", 5.0, preemptible="no"), Job(1, "A3C", 5.0, checkpoints=False))
    for cells, problem in (
        ("maybe,yes", "row 2, column preemptible: 'maybe' is not known; expected auto or yes or no"),
        ("no,sometimes", "row 2, column checkpoints: 'sometimes' is not known; expected yes or no"),
    ):
        path.write_text(HEADER.strip() + f",preemptible,checkpoints\n0,0,A3C,1,5,1,{cells}\n")
        with pytest.raises(InputFileError) as error:
            read_trace(path)
        assert problem in str(error.value)


def test_missing_weights_are_1_and_other_columns_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("total_steps,job_id,arrival_s,job_type,scale_factor,v100_duration_s\n5,3,0,A3C,2,9\n")
    assert read_trace(path) == (Job(3, "A3C", 5.0, scale_factor=2),)
    path.write_text(HEADER + "3,0,A3C,2,5,\n")
    assert read_trace(path) == (Job(3, "A3C", 5.0, scale_factor=2),)


@pytest.mark.parametrize("name", names("traces"))
def test_shipped_traces_are_found_and_known(name: str) -> None:
    known = load_throughputs("simulation").job_types
    jobs = read_trace(find_trace(name), known)
    assert jobs[0].arrival_s == 0.0
    assert [job.id for job in jobs] == list(range(len(jobs)))


def test_a_file_comes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_trace("gavel_debug").is_absolute()
    (tmp_path / "gavel_debug").write_text(HEADER + "0,0,A3C,1,1,1\n")
    assert find_trace("gavel_debug") == Path("gavel_debug")


@pytest.mark.parametrize("name", ["gavel_msr_0e4a5", "traces/gavel_msr_0e4a5.csv"])
def test_a_trace_that_is_not_there(name: str) -> None:
    with pytest.raises(
        InputFileError, match=r"gavel_msr_0e4a5.*no such file or shipped trace.*'gavel_msr_0e4a51'"
    ):
        find_trace(name)
    with pytest.raises(InputFileError, match="no such file"):
        find_trace("a\0b")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "trace.csv: the trace has no jobs"),
        ("0,0,A3C,1,5,1\n1,0,A3C,1,5,1\n0,0,A3C,1,5,1\n", "row 4, column job_id: job 0 is in row 2 already"),
        (
            "0,10.5,A3C,1,5,1\n1,3,A3C,1,5,1\n",
            "row 3, column arrival_s: the job arrives at 3 s, before the job above it at 10.5 s",
        ),
        ("0.5,0,A3C,1,5,1\n", "row 2, column job_id: '0.5' cannot be used; expected a whole number"),
        ("-1,0,A3C,1,5,1\n", "row 2, column job_id: '-1' cannot be used"),
        ("0,-1,A3C,1,5,1\n", "row 2, column arrival_s: '-1' cannot be used; expected a finite number, 0 or more"),
        ("0,nan,A3C,1,5,1\n", "row 2, column arrival_s: 'nan' cannot be used"),
        ("0,0,,1,5,1\n", "row 2, column job_type: the cell is empty"),
        ("0,0,A3B,1,5,1\n", "row 2, column job_type: 'A3B' is not known. Try: did you mean 'A3C'"),
        ("0,0,A3C,0,5,1\n", "row 2, column scale_factor: '0' cannot be used"),
        ("0,0,A3C,1e9,5,1\n", "row 2, column scale_factor: '1e9' cannot be used; expected .* from 1 to 1000000"),
        ("0,0,A3C,1,0,1\n", "row 2, column total_steps: '0' cannot be used; expected a finite number above 0"),
        ("0,0,A3C,1,inf,1\n", "row 2, column total_steps: 'inf' cannot be used"),
        ("0,0,A3C,1,5,0\n", "row 2, column priority_weight: '0' cannot be used"),
        ("0,0,A3C,1,5,1e-320\n", "column priority_weight: '1e-320' cannot be used; expected .* 1e-09 or more"),
        ("0,0,A3C,1,5\n", "row 2: the row has 5 cells; expected 6"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, rows: str, said: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + rows)
    with pytest.raises(InputFileError, match=said) as caught:
        read_trace(path, ("A3C", "CycleGAN"))
    assert "trace.csv" in str(caught.value)


@pytest.mark.parametrize("cells", ["0,x", "-1,1", "1,0", "1,nan"])
def test_mistakes_in_optional_columns(tmp_path: Path, cells: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER.strip() + f",slo,duration_s\n0,0,A3C,1,5,1,{cells}\n")
    with pytest.raises(InputFileError, match=r"trace.csv, row 2, column (slo|duration_s): .*cannot be used"):
        read_trace(path)


@pytest.mark.parametrize("column", ["prioritty", "Priority", "priority_wieght", "arival_s", "owners"])
def test_a_column_that_is_nearly_a_known_one_is_a_mistake(tmp_path: Path, column: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"job_id,arrival_s,job_type,scale_factor,total_steps,{column}\n0,0,net,1,10,5\n")
    if column == "arival_s":
        path.write_text("job_id,arrival_s,job_type,scale_factor,total_steps,recorded_strat_s\n0,0,net,1,10,5\n")
    with pytest.raises(InputFileError, match="did you mean"):
        read_trace(path)


def test_columns_of_other_names_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("job_id,arrival_s,job_type,scale_factor,total_steps,comment,queue\n0,0,net,1,10,x,y\n")
    assert len(read_trace(path)) == 1
