"""Spot prices and spot nodes as they were: read, put on the clock of a run, and refused where they are no such."""

import json
from pathlib import Path

import pytest

from gavelx.errors import InputFileError, OptionError, UserError
from gavelx.files.spot_availability import load_availability
from gavelx.files.spot_history import load_spot_history
from gavelx.prices import Prices
from tests.files.price_importers.price_samples import AWS

HEADER = "timestamp,cloud,region,zone,instance_type,accelerator,accelerator_count,price_usd_per_hour\n"
HISTORY = """\
2020-01-01T10:00:00Z,aws,us-east-1,us-east-1a,p3.2xlarge,V100-16GB,1,0.95
2020-01-01T11:00:00Z,aws,us-east-1,us-east-1a,p3.2xlarge,V100-16GB,1,0.90
2020-01-01T09:00:00Z,aws,us-east-1,us-east-1a,p3.8xlarge,V100-16GB,4,4.0
2020-01-01T12:00:00Z,aws,us-east-1,us-east-1a,p3.8xlarge,V100-16GB,4,1.0
2020-01-01T10:30:00Z,aws,us-west-2,us-west-2b,p2.xlarge,K80,1,0.30
2020-01-01T11:00:00Z,aws,us-west-2,us-west-2b,p2.xlarge,K80,1,0.27
"""
NODES = "cloud,zone,accelerator,nodes_requested,offset_s,duration_s,nodes_available\n"


def save(folder: Path, text: str) -> Path:
    path = folder / "spot.csv"
    path.write_text(text)
    return path


def test_prices_on_the_clock_of_a_run(tmp_path: Path) -> None:
    path = save(tmp_path, HEADER + HISTORY)
    spot = load_spot_history(path, Prices({"p100": 1.35, "v100": 3.0}), ["v100", "p100", "k80"])
    assert spot.prices.usd_per_hour == {"p100": 1.35, "v100": 0.95, "k80": 0.30}  # from 10:30, when both are sold
    assert "v100 in aws us-east-1a p3.2xlarge, k80 in aws us-west-2b p2.xlarge" in spot.prices.name
    assert [(time_s, later.usd_per_hour) for time_s, later in spot.changes] == [
        (1800.0, {"p100": 1.35, "v100": 0.90, "k80": 0.27})
    ]


def test_times_are_shown_in_utc_whatever_offset_they_were_written_with(tmp_path: Path) -> None:
    path = save(tmp_path, "timestamp,accelerator,price_usd_per_hour\n2024-03-10T01:30:00-05:00,v100,1\n")
    assert load_spot_history(path, Prices({}), ["v100"]).prices.name.startswith(
        f"{path} from 2024-03-10 06:30 UTC on"
    )
    assert load_spot_history(path, Prices({}), ["v100"], start="2024-03-10T07:30:00+01:00").prices.usd_per_hour
    with pytest.raises(OptionError, match="at 2024-03-10 06:00 UTC; the first is of 2024-03-10 06:30 UTC"):
        load_spot_history(path, Prices({}), ["v100"], start="2024-03-10T06:00")


def test_a_start_and_a_place(tmp_path: Path) -> None:
    path = save(tmp_path, HEADER + HISTORY)
    early = load_spot_history(path, Prices({}), ["v100"], start="2020-01-01T09:30")
    assert early.prices.usd_per_hour == {"v100": 1.0} and "p3.8xlarge" in early.prices.name
    assert [time_s for time_s, _ in early.changes] == [9000.0]
    west = load_spot_history(
        path, Prices({"v100": 3.0}), ["v100", "k80"], place="us-west-2", start="2020-01-01T11:00"
    )
    assert west.prices.usd_per_hour == {"v100": 3.0, "k80": 0.27} and west.changes == ()
    with pytest.raises(OptionError, match=r"--spot-start: 2021-01-01 is after the last price"):
        load_spot_history(path, Prices({}), ["v100"], start="2021-01-01")
    with pytest.raises(
        OptionError, match=r"--spot-start: no spot price of k80 at 2020-01-01 09:00 UTC; the first is of"
    ):
        load_spot_history(path, Prices({}), ["k80"], start="2020-01-01T09:00")
    with pytest.raises(OptionError, match=r"--spot-start: 'soon' is no time"):
        load_spot_history(path, Prices({}), ["k80"], start="soon")


def test_what_aws_prints(tmp_path: Path) -> None:
    spot = load_spot_history(save(tmp_path, AWS), Prices({}), ["v100"])
    assert spot.prices.usd_per_hour == {"v100": 0.925}
    assert [(time_s, later.usd_per_hour["v100"]) for time_s, later in spot.changes] == [(7200.0, 0.918)]


def test_the_shipped_history() -> None:
    spot = load_spot_history("spot_history", Prices({}), ["v100", "p100", "k80"])
    assert set(spot.prices.usd_per_hour) == {"v100", "p100", "k80"}
    times_s = [time_s for time_s, _ in spot.changes]
    assert len(times_s) > 10 and times_s == sorted(set(times_s)) and times_s[0] > 0


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("2020,aws,r,z,i,V100,1,1", "row 2, column timestamp: '2020' is no time"),
        ("2020-01-01,aws,r,z,i,V100,0,1", "row 2, column accelerator_count: '0' cannot be used"),
        ("2020-01-01,aws,r,z,i,V100,1e-320,1", "row 2, column accelerator_count: '1e-320' cannot be used"),
        (
            "2020-01-01,aws,r,z,i,V100,4,8\n2020-01-01T01:00+01:00,aws,r,z,i,V100,4,2",
            "spot.csv, aws z i: two prices of a v100 at 2020-01-01 00:00 UTC: \\$2 and \\$0.5 an hour",
        ),
        ("2020-01-01,aws,r,z,i,V100,1,-1", "row 2, column price_usd_per_hour: '-1' cannot be used"),
        ("2020-01-01,aws,r,z,i,V100,1,0", "row 2, column price_usd_per_hour: '0' cannot be used"),
        ("2020-01-01,aws,r,z,i,V100,1,nan", "row 2, column price_usd_per_hour: 'nan' cannot be used"),
        ("2020-01-01,aws,r,z,i,T4,1,1", "has no price of v100; it has t4"),
    ],
)
def test_histories_that_cannot_be_used(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(InputFileError, match=said) as caught:
        load_spot_history(save(tmp_path, HEADER + row), Prices({}), ["v100"])
    assert "spot.csv" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"SpotPriceHistory": [{}]}), HEADER, ""])
def test_files_that_are_no_history(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"spot\.csv"):
        load_spot_history(save(tmp_path, text), Prices({}), ["v100"])


def test_which_part_of_the_nodes_was_there(tmp_path: Path) -> None:
    rows = "aws,a,V100,4,0,100,2\naws,a,V100,4,150,50,4\naws,b,V100,1,0,9999,1\naws,b,K80,1,0,10,0\n"
    rows += "aws,b,K80,1,10,5,1\n"
    path = save(tmp_path, NODES + rows)
    shares = load_availability(path, ["v100", "k80", "p100"])
    assert shares == {"v100": ((150.0, 0.5), (50.0, 1.0)), "k80": ((10.0, 0.0), (5.0, 1.0))}
    assert load_availability(path, ["v100"], place="B") == {"v100": ((9999.0, 1.0),)}


def test_before_the_first_row_all_nodes_were_there(tmp_path: Path) -> None:
    path = save(tmp_path, NODES + "aws,a,V100,4,3600,1800,0\n")
    assert load_availability(path, ["v100"]) == {"v100": ((3600.0, 1.0), (1800.0, 0.0))}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("aws,a,V100,4,0,100,5", "row 2, column nodes_available: 5 nodes, and 4 were asked for"),
        (
            "aws,a,V100,4,0,100,1\naws,a,V100,4,50,100,1",
            "row 3, column offset_s: 50 s is before the end of the row",
        ),
        ("aws,a,V100,4,0,0,1", "row 2, column duration_s: '0' cannot be used"),
        ("aws,a,V100,4,-1,1,1", "row 2, column offset_s: '-1' cannot be used"),
        ("aws,a,V100,4,0,1,0", "there is never a node with V100"),
        ("aws,a,T4,4,0,1,0", "has no node with v100; it has t4"),
    ],
)
def test_availability_that_cannot_be_used(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(InputFileError, match=said):
        load_availability(save(tmp_path, NODES + rows), ["v100"])


def test_several_answers_of_aws(tmp_path: Path) -> None:
    later = AWS.replace("2024-03-01", "2024-03-02").replace("2024-02-29", "2024-03-02")
    for text in (AWS + later, f"[{AWS},{later}]"):
        spot = load_spot_history(save(tmp_path, text), Prices({}), ["v100"])
        assert spot.prices.usd_per_hour == {"v100": 0.925}
        assert spot.changes[-1][0] >= 86400.0


def test_a_place_whose_record_goes_on_comes_first(tmp_path: Path) -> None:
    rows = HISTORY + "2021-01-01T10:00:00Z,aws,us-east-1,us-east-1c,p3.2xlarge,V100-16GB,1,5.0\n"
    rows += "2021-01-02T10:00:00Z,aws,us-east-1,us-east-1c,p3.2xlarge,V100-16GB,1,6.0\n"
    spot = load_spot_history(save(tmp_path, HEADER + rows), Prices({}), ["v100", "k80"])
    assert spot.prices.usd_per_hour == {"v100": 5.0, "k80": 0.27}  # of K80 there is no other


def test_nodes_of_a_region(tmp_path: Path) -> None:
    path = save(tmp_path, NODES + "aws,us-east-1a,V100,1,0,10,1\naws,us-west-2b,V100,2,0,20,1\n")
    assert load_availability(path, ["v100"], place="us-east-1") == {"v100": ((10.0, 1.0),)}
