import doctest
from dataclasses import replace
from pathlib import Path

import pytest

from gavelx.cli import scenario
from gavelx.cli.parallel import Run, run_policy
from gavelx.cli.run_options import RunOptions
from gavelx.cli.scenario import load_scenario, parse_window
from gavelx.errors import OptionError
from gavelx.throughputs import Setting


def test_examples() -> None:
    assert doctest.testmod(scenario).failed == 0


@pytest.mark.parametrize(
    "text", ["", ":", "1", "1:", ":2", "2:2", "3:1", "0:11", "-1:3", "1:2:3", "a:b", "１:２", "1" * 40]
)
def test_a_window_that_is_none(text: str) -> None:
    with pytest.raises(OptionError, match="--window"):
        parse_window(text, 10)


def test_windows() -> None:
    assert parse_window(None, 10) is None
    assert parse_window("0:10", 10) == slice(0, 10)
    assert parse_window(" 3 : 4 ", 10) == slice(3, 4)


def test_prices_that_nobody_asked_for_may_be_missing(tmp_path: Path) -> None:
    table, trace = tmp_path / "table.csv", tmp_path / "trace.csv"
    table.write_text("job_type,scale_factor,accelerator,steps_per_second\nLM,1,abacus,1\nLM,1,v100,2\n")
    trace.write_text("job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,LM,1,100\n")
    typed = {"cluster": "abacus=1,v100=1", "table": str(table), "trace": str(trace)}
    assert list(load_scenario(RunOptions(**typed)).prices.usd_per_hour) == ["v100"]
    with pytest.raises(OptionError, match="no price of abacus"):
        load_scenario(RunOptions(**typed, prices="gcp"))


def test_the_options_reach_the_scenario() -> None:
    made = load_scenario(
        RunOptions(
            "v100=8,k80=4",
            devices_per_server=8,
            jobs=5,
            arrival_rate=2.0,
            seed=3,
            multi_gpu=True,
            window="1:3",
            rules="published",
            round_s=60.0,
            prices="v100=2,k80=1",
        )
    )
    assert [server.device_count for server in made.cluster.servers] == [8, 4]
    assert len(made.jobs) == 5
    assert made.jobs[4].arrival_s > 0
    assert made.window == slice(1, 3)
    assert (made.rules.name, made.rules.round_s) == ("published", 60.0)
    assert made.prices.usd_per_hour == {"v100": 2.0, "k80": 1.0}


def test_a_run_can_be_repeated_from_its_command() -> None:
    typed = RunOptions("v100=1", trace="my jobs.csv", multi_gpu=True, round_s=60.0, window="0:2")
    assert typed.command("gavelx simulate --policy fifo") == (
        "gavelx simulate --policy fifo --cluster v100=1 --trace 'my jobs.csv' --multi-gpu"
        " --window 0:2 --round 60.0"
    )


MEASURED = "job_type,scale_factor,accelerator,steps_per_second\n"
TRACE = "job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,A3C,1,2000\n1,0,LM (batch size 20),1,90000\n"


def told(tmp_path: Path, *rows: str) -> RunOptions:
    """Two jobs on two types, and what was measured of them."""
    measured, trace = tmp_path / "measured.csv", tmp_path / "trace.csv"
    measured.write_text(MEASURED + "".join(row + "\n" for row in rows))
    trace.write_text(TRACE)
    return RunOptions("v100=1,k80=1", trace=str(trace), measured=str(measured))


def test_policies_know_what_was_measured_and_estimate_the_rest(tmp_path: Path) -> None:
    scenario = load_scenario(told(tmp_path, "A3C,1,v100,1", "A3C,1,k80,0.5", "LM (batch size 20),1,v100,60"))
    learner = scenario.believed(frozenset())
    assert learner is not None
    table = learner.throughputs()
    assert table.get("A3C", "v100", 1) == 1.0
    assert not table.colocated
    estimated = Setting("LM (batch size 20)", "k80")
    assert table.ranges[estimated][0] < table.isolated[estimated] < table.ranges[estimated][1]
    assert scenario.believed(frozenset({"pairs"})).throughputs().colocated  # type: ignore[union-attr]
    result = run_policy(Run(0, "max_min_fairness"), scenario, lambda *_: None)
    assert result.summary()["jobs_completed"] == 2


def test_all_is_known_unless_one_says_otherwise(tmp_path: Path) -> None:
    assert load_scenario(replace(told(tmp_path), measured=None)).believed(frozenset()) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "there is no measurement in .*; expected each job type of the run on one accelerator at least"),
        (["A3C,1,v100,1"], r"says nothing about the speed of 'LM \(batch size 20\)'"),
    ],
)
def test_a_job_type_of_which_nothing_is_known_is_named(tmp_path: Path, rows: list[str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        load_scenario(told(tmp_path, *rows))
