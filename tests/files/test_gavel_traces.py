from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.gavel_traces import read_gavel_trace
from gavelx.jobs import Job

GOOD = (
    "ResNet-18 (batch size 32)\tpython3 main.py --data %s\timage\t--num_steps\t1"
    "\t1000\t2\t5.000000\t-1.000000\t7.5"
)


def load(folder: Path, *lines: str) -> tuple[Job, ...]:
    path = folder / "jobs.trace"
    path.write_text("\n".join(lines))
    return read_gavel_trace(path)


def with_field(number: int, value: str) -> str:
    fields = GOOD.split("\t")
    fields[number] = value
    return "\t".join(fields)


def test_jobs_are_numbered_in_order(tmp_path: Path) -> None:
    jobs = load(tmp_path, GOOD, "", with_field(8, "1.2"), "")
    first = Job(0, "ResNet-18 (batch size 32)", 1000.0, scale_factor=2, weight=5.0, arrival_s=7.5)
    assert jobs[0] == first
    assert (jobs[1].id, jobs[1].slo) == (1, 1.2)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([GOOD, GOOD.replace("\t", " ")], "row 2: the line has 1 fields between tabs; expected 10: job_type"),
        ([GOOD + "\tmore"], "row 1: the line has 11 fields"),
        ([with_field(0, "")], "row 1, column job_type: the cell is empty"),
        ([with_field(5, "many")], "row 1, column total_steps: 'many' cannot be used"),
        ([with_field(6, "0")], "row 1, column scale_factor: '0' cannot be used"),
        ([with_field(7, "-5")], "row 1, column priority_weight: '-5' cannot be used"),
        ([with_field(8, "soon")], "row 1, column slo: 'soon' cannot be used"),
        ([GOOD, with_field(9, "3")], "row 2, column arrival_s: the job arrives at 3 s, before .* 7.5 s"),
        (["", ""], "the trace has no jobs"),
        ([], "the file is empty"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(InputFileError, match=said) as caught:
        load(tmp_path, *lines)
    assert "jobs.trace" in str(caught.value)
