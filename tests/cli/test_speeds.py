"""``gavelx throughputs show --type``: what is measured, estimated, unknown; of a table and of a scheduler."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gavelx.files.profiles import read_profiles
from gavelx.measurements import Measurement
from gavelx.service.store.records import Entry, Measured
from gavelx.throughputs import Pairing, Setting
from tests.cli.running import Shell
from tests.service.background import Background

TABLE = """\
job_type,scale_factor,accelerator,consolidated,steps_per_second,estimate,lower,upper,relative_error,measured_at,source
mine,1,v100,1,10,,,,0.05,2026-07-01T12:00:00Z,us
mine,1,k80,1,,4,3,5,,,
mine,2,v100,1,19,,,,,,
yours,1,a100,1,7,,,,,,
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "speeds.csv"
    path.write_text(TABLE)
    (tmp_path / "speeds.pairs.csv").write_text(
        "job_type_a,job_type_b,accelerator,steps_per_second_a,steps_per_second_b\nmine,mine,v100,6,6\n"
    )
    return path


def test_a_job_measured_beside_others_alone_is_found(shell: Shell, tmp_path: Path) -> None:
    table = tmp_path / "speeds.csv"
    table.write_text("job_type,scale_factor,accelerator,steps_per_second\nmine,1,v100,9\n")
    (tmp_path / "speeds.pairs.csv").write_text(
        "job_type_a,job_type_b,accelerator,steps_per_second_a,steps_per_second_b\nmine,yours,v100,6,5\n"
    )
    (row,) = shell("throughputs", "show", "--table", table, "--type", "yours", "--json").json["rows"]
    assert (row["partner"], row["steps_per_second"]) == ("mine", 5)


def test_three_kinds_of_knowledge(shell: Shell, table: Path) -> None:
    rows = shell("throughputs", "show", "--table", table, "--type", "mine", "--json").json["rows"]
    origins = {(row.get("scale_factor", "pair"), row["accelerator"]): row["origin"] for row in rows}
    assert origins == {
        (1, "a100"): "unknown",
        (1, "k80"): "estimated",
        (1, "v100"): "measured",
        (2, "a100"): "unknown",
        (2, "k80"): "unknown",
        (2, "v100"): "measured",
        ("pair", "v100"): "measured",
    }
    by = {(row.get("scale_factor"), row["accelerator"]): row for row in rows}
    measured, estimated, bare = by[1, "v100"], by[1, "k80"], by[2, "v100"]
    assert measured["lower"] == pytest.approx(9.21, abs=0.01) and measured["upper"] == pytest.approx(
        10.86, abs=0.01
    )
    assert (measured["measured_at"], measured["source"]) == ("2026-07-01T12:00:00Z", "us")
    assert (estimated["steps_per_second"], estimated["lower"], estimated["upper"]) == (4.0, 3.0, 5.0)
    assert bare["lower"] is bare["measured_at"] is None and bare["steps_per_second"] == 19.0
    out = shell("throughputs", "show", "--table", table, "--type", "mine").out
    assert "3 measured, 1 estimated, 3 unknown" in out and "mine beside mine" in out.replace("\n", " ")


def test_a_published_table_says_whose_it_is(shell: Shell) -> None:
    rows = shell("throughputs", "show", "--type", "A3C", "--json").json["rows"]
    assert {row["source"] for row in rows if row["origin"] == "measured"} == {
        "stanford-futuredata/gavel, published 2022"
    }
    assert any("partner" in row for row in rows)


def seen(way: Any, speed: float) -> Measurement:
    return Measurement(way, speed, 0.01, 60.0, "2026-07-01T12:00:00Z", "a lease")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Background]:
    running = Background(tmp_path / "state")
    net = Setting("net", "v100")
    leases = [seen(net, 60.0 + n) for n in range(3)]
    leases += [seen(Setting("net", "k80"), 50.0), seen(Pairing("net", "net", "v100"), 30.0)]
    scheduler = running.service.scheduler
    running.do(lambda: scheduler.post(lambda now_s: [Entry(Measured(now_s, lease)) for lease in leases]))
    yield running
    running.close()


def test_what_leases_of_a_cluster_measured(service: Background, shell: Shell, tmp_path: Path) -> None:
    where = ("--scheduler", service.address)
    document = shell("throughputs", "show", *where, "--json").json
    rows = {(row["accelerator"], row.get("scale_factor"), "partner" in row): row for row in document["rows"]}
    wrong = rows["v100", 1, False]
    assert (wrong["table"], wrong["in_use"], wrong["wrong"], wrong["measured"]["leases"]) == (100.0, 61.0, True, 3)
    assert not rows["k80", 1, False]["wrong"] and "measured" not in rows["v100", 2, False]
    assert rows["v100", None, True]["table"] is None
    text = shell("throughputs", "show", *where, "--type", "net").out.replace("\n", " ")
    assert "wrong profile: net on v100: the table says 100 steps/s, 3 leases say" in text
    assert shell("throughputs", "show", *where, "--type", "nothing", "--json").json["rows"] == []
    out = tmp_path / "measured.csv"
    assert shell("throughputs", "export", *where, "--out", out, "--json").json["rows"] == 3
    assert {profile.measurement.way for profile in read_profiles(out)} == {
        Setting("net", "v100"),
        Setting("net", "k80"),
        Pairing("net", "net", "v100"),
    }
