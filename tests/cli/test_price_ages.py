"""Every command that makes money of prices names those that are old."""

from pathlib import Path

import pytest

from gavelx.cli.cluster_options import ServeOptions
from gavelx.cli.prices import told_of_age
from gavelx.cli.serving import _configure
from tests.cli.running import Shell

OLD = "prices more than a year old: k80 of 2020-03; prices without a date: v100; gavelx prices refresh"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text("accelerator,price_usd_per_hour,as_of\nk80,1,2020-03\nv100,2,\np100,2,9000-01\n")
    return path


def test_the_line() -> None:
    dates = {"k80": "2020-03", "p100": "2020-03", "v100": "2021-01-01", "t4": ""}
    assert told_of_age(dates, "mine", "2021-02") == (
        "mine: prices without a date: t4; gavelx prices refresh makes a table of newer lists"
    )
    old = "mine: prices more than a year old: k80, p100 of 2020-03, v100 of 2021-01-01; prices without a date: t4"
    assert told_of_age(dates, "mine", "2022-02").startswith(old)
    assert told_of_age({"k80": "2020-03"}, "mine", "2021-03") == told_of_age({}, "mine") == ""


def test_a_run_and_its_bill_name_them(shell: Shell, table: Path, tmp_path: Path) -> None:
    cluster, out = ("--cluster", "v100=1,k80=1,p100=1", "--jobs", 2, "--prices", table), tmp_path / "run.json"
    assert f"{table}: {OLD}" in shell("simulate", "--policy", "fifo", *cluster, "--json", out).err
    assert OLD in shell("compare", "--policies", "fifo", *cluster, "--workers", 1).err
    assert OLD in shell("bill", "--result", out, "--prices", table).err
    assert "old" not in shell("bill", "--result", out, "--prices", "as-run").err
    yours = ("--cluster", "v100=1", "--jobs", 2, "--prices", "v100=2")
    assert not shell("simulate", "--policy", "fifo", *yours).err


def test_with_a_history_only_those_on_demand_count(shell: Shell) -> None:
    spot = ("--spot-history", "spot_history", "--spot-place", "aws", "--prices", "gcp", "--jobs", 2)
    assert "year old" not in shell("simulate", "--policy", "fifo", "--cluster", "v100=1", *spot).err
    both = shell("simulate", "--policy", "fifo", "--cluster", "v100=1,p100=1", *spot).err
    assert "gcp: prices more than a year old: p100 of 2020-03" in both


def test_a_scheduler_names_them_when_it_takes_a_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure = _configure(ServeOptions(prices=str(table)))
    configure(None)
    told = capsys.readouterr().err
    assert "prices more than a year old: k80 of 2020-03; prices without a date: v100" in told
    _configure(ServeOptions())(configure(None))
    assert capsys.readouterr().err == told  # of the line above alone: a log holds no dates
