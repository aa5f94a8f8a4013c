"""What a bill says of its own figures: intervals where speeds are estimated, PUE, energy that is small."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Shell


def usage(busy_s: float, idle_s: float) -> dict[str, Any]:
    prices = [{"from_s": 0.0, "usd_per_hour": {"a100": 2.0}, "idle_device_s": {"a100": idle_s}}]
    idle = {"idle_device_s": {"a100": idle_s}, "prices": {"name": "gcp", "periods": prices}}
    return {**idle, "device_s": {"a100": busy_s}}


SPEEDS = [{"accelerator": "a100", "estimated": 3, "times_wider": 1.5}, {"accelerator": "v100", "estimated": 0}]
RUN = {"policy": "fifo", **usage(3600.0, 36.0), "per_job": [{"job_id": 0, "device_s": {"a100": 3600.0}}]}
ESTIMATED = RUN | {"speeds": SPEEDS, "repetitions": [usage(3600.0 * n, 36.0) for n in (1, 2, 3)]}


@pytest.fixture
def bill(shell: Shell, tmp_path: Path):
    def make(document: dict[str, Any], *options: str):
        path = tmp_path / "run.json"
        path.write_text(json.dumps(document))
        return shell("bill", "--result", path, *options)

    return make


@pytest.mark.parametrize("prices", ["a100=3", "as-run+a100=3"])
def test_a_bill_of_estimated_speeds_has_intervals(bill, prices: str) -> None:
    (found,) = bill(ESTIMATED, "--prices", prices, "--json", "-").json["bills"]
    assert found["estimated_speeds"] == {"a100": 1.5}
    assert found["intervals"]["busy_usd"] == pytest.approx([3.0, 9.0])
    assert found["intervals"]["total_usd"] == pytest.approx([3.03, 9.03])
    assert found["intervals"]["kwh"] == pytest.approx([0.4, 1.2], rel=0.2)
    assert (found["speed_samples"], found["interval_level"]) == (3, 0.5)
    told = " ".join(bill(ESTIMATED, "--prices", prices, "--currency", "EUR=1.5").out.split())
    assert "2.00 - 6.00" in told and "50% interval of 3 repetitions" in told
    assert "Speeds on a100 (typically x/÷ 1.50) are estimated" in told


def test_without_repetitions_it_says_that_there_is_no_interval(bill) -> None:
    document = {name: value for name, value in ESTIMATED.items() if name != "repetitions"}
    ran = bill(document, "--prices", "gcp")
    assert "Speeds on a100" in ran.out and "Without an interval: fifo" in " ".join(ran.out.split())
    (found,) = bill(document, "--prices", "gcp", "--json", "-").json["bills"]
    assert "estimated_speeds" in found and "intervals" not in found
    assert "estimated" not in bill(RUN, "--prices", "gcp").out
    assert "estimated_speeds" not in bill(RUN, "--prices", "gcp", "--json", "-").json["bills"][0]


def test_a_pue_that_is_unknown_is_said(bill, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("cloud,region,accelerator,price_usd_per_hour,as_of\nGCP,us-east1,a100,3,2026-11\n")
    page = tmp_path / "bill.html"
    prices = f"gcp,as-run,{mine},a100=3"
    ran = bill(RUN, "--prices", prices, "--json", "-")
    assert [one["energy"]["pue"] for one in ran.json["bills"]] == [1.1, 1.1, 1.1, None]
    told = bill(RUN, "--prices", prices, "--html", page).out
    unknown = "unknown for a100=3, and taken as 1, for the devices alone (--pue)"
    assert unknown in " ".join(told.split()) and unknown in page.read_text()
    assert "PUE: 1.3 (a100=3)." in " ".join(bill(RUN, "--prices", "a100=3", "--pue", "1.3").out.split())


def test_the_page_draws_the_interval_of_the_total(bill, tmp_path: Path) -> None:
    page = tmp_path / "bill.html"
    for run, drawn in ((ESTIMATED, True), (RUN, False)):
        bill(run, "--prices", "gcp", "--html", page)
        assert ("line: interval of the total" in page.read_text()) == drawn


def test_little_energy_is_not_nothing(bill, tmp_path: Path) -> None:
    page, short_run = tmp_path / "bill.html", RUN | {"per_job": [{"job_id": 0, "device_s": {"a100": 36.0}}]}
    row = bill(short_run, "--prices", "gcp", "--html", page).out
    assert "kWh" in row and "0.00440" in row and "<td>0.00440</td>" in page.read_text()


def test_the_intervals_of_a_bill_as_run_are_those_of_the_run(shell: Shell, tmp_path: Path) -> None:
    changes, out = tmp_path / "changes.csv", tmp_path / "run.json"
    changes.write_text("time_s,accelerator,usd_per_hour\n3600,a100,2\n7200,a100,0.5\n")
    words = ("--cluster", "a100=2", "--jobs", 3, "--prices", "a100=3", "--price-changes", changes)
    ran = shell("simulate", "--policy", "fifo", *words, "--speed-samples", 3, "--json", out)
    assert ran.code == 0, ran.err
    (found,) = shell("bill", "--result", out, "--prices", "as-run", "--json", "-").json["bills"]
    intervals = json.loads(out.read_text())["intervals"]
    for name, figure in {"busy_usd": "cost_usd", "total_usd": "total_usd"}.items():
        assert found["intervals"][name] == pytest.approx(intervals[figure], abs=0.02)
