"""Measurements in tables: written, read back, added to what is there."""

from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.profiles import Profile, read_profiles, write_profiles
from gavelx.files.throughput_tables import load_throughputs
from gavelx.measurements import Measurement
from gavelx.throughputs import Pairing, Setting

ALONE = Profile(Measurement(Setting("a", "v100"), 2.5, 0.01, 60.0, "2026-07-01T12:00:00Z", "us"), 512.0, 0.9)
PAIR = [
    Profile(Measurement(Pairing("a", "b", "v100"), 1.5, 0.02, 30.0, "2026-07-01T12:00:00Z", "us"), 700.0, 1.0),
    Profile(Measurement(Pairing("b", "a", "v100"), 4.0, 0.03, 30.0, "2026-07-01T12:00:00Z", "us"), 700.0, 1.0),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "speeds.csv"


def test_what_was_written_is_read_back(table: Path) -> None:
    profiles = [ALONE, *PAIR]
    write_profiles(table, profiles)
    write_profiles(table, profiles)
    assert read_profiles(table) == profiles
    loaded = load_throughputs(table)
    assert loaded.isolated == {Setting("a", "v100"): 2.5}
    assert loaded.colocated == {Pairing("a", "b", "v100"): 1.5, Pairing("b", "a", "v100"): 4.0}


def test_a_job_beside_one_of_its_own_type(table: Path) -> None:
    alike = Profile(Measurement(Pairing("a", "a", "v100"), 1.5, 0.02))
    write_profiles(table, [ALONE, alike])
    assert load_throughputs(table).colocated == {Pairing("a", "a", "v100"): 1.5}
    assert read_profiles(table) == [ALONE, alike]


def test_newer_takes_the_place_of_older_and_all_else_stays(table: Path) -> None:
    table.write_text(
        "job_type,note,scale_factor,accelerator,steps_per_second\na,mine,1,V100,9.0\nb,other,2,k80,1.25\n"
    )
    write_profiles(table, [ALONE, *PAIR])
    assert load_throughputs(table).isolated == {Setting("a", "v100"): 2.5, Setting("b", "k80", 2): 1.25}
    lines = table.read_text().splitlines()
    assert lines[0].startswith("job_type,note,scale_factor,accelerator,steps_per_second,")
    assert lines[1].startswith("a,mine,1,v100,2.5,") and lines[2].startswith("b,other,2,k80,1.25,")
    write_profiles(table, [PAIR[1], PAIR[0]])
    assert load_throughputs(table).colocated == {Pairing("a", "b", "v100"): 1.5, Pairing("b", "a", "v100"): 4.0}


def test_what_cannot_run_is_written_as_such(table: Path) -> None:
    write_profiles(table, [Profile(Measurement(Setting("big", "k80"), 0.0))])
    assert load_throughputs(table).get("big", "k80") == 0.0
    assert "not_runnable" in table.read_text()


def test_a_shipped_table_says_whose_it_is() -> None:
    profiles = read_profiles("simulation")
    assert len(profiles) == 492 + 3 * 26 * 26
    assert {profile.measurement.source for profile in profiles} == {"stanford-futuredata/gavel, published 2022"}


def test_pairs_are_checked(table: Path) -> None:
    write_profiles(table, [ALONE, *PAIR])
    pairs = table.with_name("speeds.pairs.csv")
    pairs.write_text(pairs.read_text() + pairs.read_text().splitlines()[1] + "\n")
    with pytest.raises(InputFileError, match=r"speeds.pairs.csv, row 3: the same pair is in a row before"):
        load_throughputs(table)
