"""``gavelx throughputs estimate``, as a shell sees it."""

import csv
import io
from pathlib import Path

import pytest

from tests.cli.running import Shell

MEASURED = """job_type,scale_factor,accelerator,consolidated,steps_per_second
LM (batch size 10),1,V100,1,80
LM (batch size 10),1,K80,1,25.125
A3C,1,V100,1,7
A3C,1,L4,1,0
"""
PAIRS = "job_type_a,job_type_b,accelerator,steps_per_second_a,steps_per_second_b\nA3C,A3C,V100,3.5,3.5\n"
WANTED = """job_type,scale_factor,accelerator,consolidated,note
LM (batch size 10),1,K80,1,known
A3C,1,K80,1,to be estimated
A3C,1,L4,1,in vain
nobody's,1,K80,1,never seen
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    paths = tuple(tmp_path / name for name in ("measured.csv", "pairs.csv", "wanted.csv"))
    for path, text in zip(paths, (MEASURED, PAIRS, WANTED), strict=True):
        path.write_text(text)
    return paths[0], paths[1], paths[2]


def test_wanted_rows_come_back_with_bounds(shell: Shell, files: tuple[Path, Path, Path]) -> None:
    measured, _, wanted = files
    ran = shell("throughputs", "estimate", "--observed", measured, "--wanted", wanted)
    known, estimated, in_vain, unseen = csv.DictReader(io.StringIO(ran.out))
    assert known["note"] == "known"
    assert (known["estimate"], known["lower"], known["upper"], known["origin"]) == ("25.125",) * 3 + ("measured",)
    assert float(estimated["lower"]) < float(estimated["estimate"]) < float(estimated["upper"])
    assert 1 < float(estimated["estimate"]) < 5
    assert (in_vain["estimate"], in_vain["origin"]) == ("0.0", "measured")
    assert (unseen["estimate"], unseen["origin"]) == ("", "unknown")
    assert "2 measured" in ran.err


def test_several_files(shell: Shell, files: tuple[Path, Path, Path]) -> None:
    measured, pairs, wanted = files
    wanted.write_text("job_type_a,job_type_b,accelerator\nA3C,LM (batch size 10),V100\nA3C,A3C,v100\n")
    options = ("--observed", measured, "--observed", pairs, "--wanted", wanted, "--estimator", "completion")
    document = shell("throughputs", "estimate", *options, "--json").json
    mixed, same = document["rows"]
    assert document["estimator"] == "completion"
    assert 0 < mixed["lower_a"] < mixed["estimate_a"] < 7 * 1.5
    assert mixed["lower_b"] < mixed["estimate_b"] < mixed["upper_b"]
    assert same["estimate_a"] == same["estimate_b"] == 3.5


def test_out_and_level(shell: Shell, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    measured, _, wanted = files
    widths = []
    for level in (0.5, 0.99):
        out = tmp_path / f"{level}.csv"
        options = ("--observed", measured, "--wanted", wanted, "--out", out, "--level", level)
        assert shell("throughputs", "estimate", *options).out == ""
        row = list(csv.DictReader(out.read_text().splitlines()))[1]
        widths.append(float(row["upper"]) / float(row["lower"]))
    assert widths[1] > widths[0] > 1


@pytest.mark.parametrize(("options", "says"), [
    (("--level", "1"), "--level: 1 cannot be used; expected a share between 0 and 1"),
    (("--level", "nan"), "--level: nan cannot be used"),
    (("--estimator", "completeon"), "did you mean 'completion'?"),
    (("--out", "no/such/folder/out.csv"), "out.csv"),
    (("--observed", "missing.csv"), "missing.csv"),
])  # fmt: skip
def test_mistakes(shell: Shell, files: tuple[Path, Path, Path], options: tuple[str, str], says: str) -> None:
    measured, _, wanted = files
    ran = shell("throughputs", "estimate", "--observed", measured, "--wanted", wanted, *options)
    assert ran.code == 2
    assert says in " ".join(ran.err.split())
