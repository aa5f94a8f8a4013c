"""``--lending``: what servers lend when, by a day or by a file, and what cannot be meant."""

from pathlib import Path

import pytest

from gavelx.cli.run_options import RunOptions
from gavelx.cli.scenario import Scenario, load_scenario
from gavelx.errors import UserError
from gavelx.simulator.capacity import HORIZON_S, diurnal

HEADER = "time_s,accelerator,devices\n"


def scenario(lending: str | None, **more: object) -> Scenario:
    options = {"cluster": "v100=8,k80=4", "devices_per_server": 8, "jobs": 3, "lending": lending} | more
    return load_scenario(RunOptions(**options))  # type: ignore[arg-type]


def test_a_day_of_inference_holds_for_all_types() -> None:
    made = scenario("least=0.25,most=0.5,step=3600,busiest=0", lending_notice=5.0).capacities
    assert [(one.accelerator, one.notice_s, one.of) for one in made] == [
        ("v100", 5.0, "devices"),
        ("k80", 5.0, "devices"),
    ]
    assert all(one.shares == diurnal(0.25, 0.5, step_s=3600.0, busiest_s=0.0) for one in made)
    (first, _) = scenario("least=0").capacities
    assert (first.shares, first.notice_s) == (diurnal(0.0, 1.0), 30.0)


def test_offers_of_a_file_hold_until_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "offers.csv"
    file.write_text(HEADER + "100,V100-16GB,2\n0,k80,3\n100,a100,5\n700,v100,6\n")
    v100, k80 = scenario(str(file)).capacities
    assert v100.shares == [(100.0, 1.0), (600.0, 0.25), (HORIZON_S, 0.75)]
    assert k80.shares == [(HORIZON_S, 0.75)]
    assert [change for change, _ in zip(v100.changes(), range(2), strict=False)] == [(100.0, 0.25), (700.0, 0.75)]


def test_offers_of_a_file_hold_for_a_smaller_server_too(tmp_path: Path) -> None:
    file = tmp_path / "offers.csv"
    file.write_text(HEADER + "0,v100,1\n")
    (lends,) = scenario(str(file), cluster="v100=5", devices_per_server=4).capacities
    assert [lends.left(devices, 0.25) for devices in (4, 1)] == [1, 1]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("most=1", "--lending: 'most=1' does not say least"),
        ("least=0.5,most=0.25", "--lending: least=0.5 is more than most=0.25"),
        ("least=2", "'least=2' cannot be used; expected a number from 0 to 1"),
        ("least=-1", "'least=-1' cannot be used"),
        ("least=nan", "'least=nan' cannot be used"),
        ("least=0,step=0", "step=0; expected 60 to 86400 seconds"),
        ("least=0,least=1", "'least' is there twice"),
        ("leest=0", "did you mean 'least'"),
        ("least=0,most=0", "--lending: job 0 needs 1 devices"),
        ("nothing.csv", "nothing.csv: there is no such file"),
        ("", "is a folder"),
    ],
)
def test_days_and_names_that_make_no_sense(spec: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        scenario(spec)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("time_s,devices\n1,2\n", "the column 'accelerator' is missing"),
        (HEADER, "has no offer of v100, k80"),
        (HEADER + "0,a100,4\n", "has no offer of v100, k80"),
        (HEADER + "0,v100,9\n", "row 2, column devices: '9' cannot be used; expected a whole number, from 0 to 8"),
        (HEADER + "0,v100,1.5\n", "row 2, column devices: '1.5' cannot be used"),
        (HEADER + "0,v100,-1\n", "row 2, column devices: '-1' cannot be used"),
        (HEADER + "-5,v100,1\n", "row 2, column time_s: '-5' cannot be used"),
        (HEADER + "inf,v100,1\n", "row 2, column time_s: 'inf' cannot be used"),
        (HEADER + "9,v100,1\n9,V100,8\n", "row 3, column time_s: 9 s is not after 9 s"),
        (HEADER + "0,,1\n", "row 2, column accelerator: the cell is empty"),
        (HEADER + "9,v100,0\n9,k80,0\n", "--lending: job 0 needs 1 devices"),
    ],
)
def test_files_that_make_no_sense(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "offers.csv"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        scenario(str(file))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rules": "published"}, "--lending: the rules 'published'"),
        ({"lending_notice": 1e6}, "--lending-notice: a notice of 1e"),
        ({"lending": None, "lending_notice": 5.0}, "--lending-notice: no device is taken back"),
        ({"spot_availability": "x.csv"}, "--spot-availability and --lending: both say"),
    ],
)
def test_what_does_not_go_together(more: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        scenario(**({"lending": "least=0.5"} | more))  # type: ignore[arg-type]
