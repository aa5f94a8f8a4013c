"""Every trap that was seen in a real table raises its alarm, and a sound table raises none."""

import re
from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.locate import data_path
from gavelx.pricing.check import ERROR, WARNING, Checked, check_table

HEADER = "cloud,region,instance_type,accelerator,accelerator_count,price_usd_per_hour,price_kind,as_of,currency\n"
SOUND = (
    "aws,us-east-1,p3.2xlarge,V100-16GB,1,3.06,on_demand,2020-03,",
    "aws,us-east-1,p3.8xlarge,V100-16GB,4,12.24,on_demand,2020-03,USD",
    "aws,us-east-1,p3.2xlarge,V100-16GB,1,0.92,spot,2020-03,",
    "aws,eu-west-1,p3.2xlarge,V100-16GB,1,3.3,on_demand,2020-03,",
    "aws,us-east-1,p2.8xlarge,K80,8,7.2,on_demand,2020-03,",
)


def check(folder: Path, *rows: str) -> Checked:
    path = folder / "mine.csv"
    path.write_text(HEADER + "\n".join((*SOUND, *rows)))
    return check_table(path)


def test_a_sound_table(tmp_path: Path) -> None:
    assert check(tmp_path) == Checked(5, ())


@pytest.mark.parametrize(
    ("row", "level", "trap", "seen"),
    [
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,700.0,on_demand,2020-03,", ERROR, "sentinel", r"\$700.0 for aws"),
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,0,on_demand,2020-03,", ERROR, "sentinel", r"\$0 for aws"),
        ("aws,us-east-1,p3.2xlarge,V100-16GB,1,1.0,on_demand,2020-03,", ERROR, "without_devices", "3.06 in row 2"),
        ("aws,us-east-1,p3.2xlarge,V100-16GB,1,3.10,on_demand,2020-03,", ERROR, "disagree", "3.06 in row 2"),
        (
            "aws,us-east-1,p3.8xlarge,V100-16GB,8,12.24,on_demand,2020-03,",
            ERROR,
            "disagree",
            "holds 8 v100-16gb here",
        ),
        (
            "aws,us-east-1,p3.8xlarge,V100-16GB,4,12.24,spot,2020-03,",
            WARNING,
            "spot_not_below",
            r"on demand \$12.24",
        ),
        ("gcp,us-east1,g4-standard-12,RTXPRO6000,0.25,0.9,on_demand,2026-07,", WARNING, "fraction", "holds 0.25"),
        ("aws,eu-west-1,p2.8xlarge,K80,4,7.2,on_demand,2020-03,", ERROR, "boards", "holds 4 k80"),
        ("aws,eu-west-1,p3.8xlarge,V100-16GB,4,12.3,on_demand,,", WARNING, "no_date", "no date for aws eu-west-1"),
        ("x,there,b,B200,1,0.01,on_demand,2026-01,", ERROR, "outlier", r"\$0.01 for one b200"),
        ("aws,us-west-2,p3.16xlarge,V100-16GB,8,1.2,on_demand,2020-03,", ERROR, "outlier", r"\$0.15 for one v100"),
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,33,on_demand,2020-03,", ERROR, "outlier", r"\$33 for one v100"),
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,-1,on_demand,2020-03,", ERROR, "unreadable", "'-1' cannot be used"),
        (
            "aws,us-west-2,p3.2xlarge,V100-16GB,1,nan,on_demand,2020-03,",
            ERROR,
            "unreadable",
            "'nan' cannot be used",
        ),
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,3,on_demand,2020-03,EUR", ERROR, "unreadable", "'EUR' has no rate"),
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,3,on_demand,2023-02-30,", ERROR, "unreadable", "is no date"),
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,3,monthly,2020-03,", ERROR, "unreadable", "'monthly' is not known"),
        ("aws,us-west-2,p3.2xlarge,,1,3,on_demand,2020-03,", ERROR, "unreadable", "the cell is empty"),
        ("aws,us-west-2,p3.2xlarge,V100-16GB,1,3", ERROR, "unreadable", "the line has 6 fields"),
    ],
)
def test_each_trap(tmp_path: Path, row: str, level: str, trap: str, seen: str) -> None:
    checked = check(tmp_path, row)
    assert [(alarm.level, alarm.trap, alarm.row) for alarm in checked.alarms] == [(level, trap, 7)]
    alarm = checked.alarms[0]
    assert checked.errors == (level == ERROR)
    assert alarm.expected and alarm.hint and re.search(seen, alarm.seen), alarm


def test_a_price_is_not_strange_for_standing_beside_sentinels(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(
        "accelerator,price_usd_per_hour,instance_type,as_of\nv100,0,a,2020-01\nv100,0,b,2020-01\nv100,2.48,c,2020-01\n"
    )
    assert [(alarm.trap, alarm.row) for alarm in check_table(path).alarms] == [("sentinel", 2), ("sentinel", 3)]


def test_the_shipped_table_has_no_error() -> None:
    checked = check_table(data_path("prices", "prices"))
    assert checked.errors == 0
    assert {alarm.trap for alarm in checked.alarms} == {"fraction"}


def test_what_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("accelerator,price\nv100,1\n")
    with pytest.raises(InputFileError, match="the column 'price_usd_per_hour' is missing"):
        check_table(path)
