"""The experiment on what estimated speeds cost, on few jobs."""

from pathlib import Path

import pytest

from experiments.estimation_end_to_end import (
    ALONE_ON_ONE,
    CLUSTER,
    LINES,
    NAME,
    TENTH,
    TRUE,
    Line,
    believed,
    main,
    profiled,
    read_done,
)
from gavelx.files.throughput_tables import load_throughputs
from gavelx.throughputs import Pairing, Setting


@pytest.mark.parametrize("profile", [TENTH, ALONE_ON_ONE])
def test_a_profile_is_a_tenth_of_the_pairs_and_little_else(profile: str) -> None:
    table = load_throughputs("simulation")
    seen = [one.way for one in profiled(table, profile, seed=1)]
    assert len(set(seen)) == len(seen)
    alone = [way for way in seen if isinstance(way, Setting)]
    assert len({way.job_type for way in alone}) == len(table.job_types)
    assert len(alone) == len(table.job_types) * (3 if profile == TENTH else 1)
    runs = {(frozenset((w.job_type, w.partner)), w.accelerator) for w in seen if isinstance(w, Pairing)}
    every = {(frozenset((w.job_type, w.partner)), w.accelerator) for w in table.colocated}
    assert len(runs) == round(0.1 * len(every))
    assert seen != [one.way for one in profiled(table, profile, seed=2)]


def test_only_what_a_profile_measured_is_exact() -> None:
    table = load_throughputs("simulation")
    told = believed(Line("packed(max_min_fairness)", TENTH, "column_mean"), 0)
    assert told is not None
    seen = told if not hasattr(told, "throughputs") else told.throughputs()
    measured = {one.way: one.steps_per_second for one in profiled(table, TENTH, 0)}
    assert {way: speed for way, speed in seen.isolated.items() if way in measured} == {
        way: speed for way, speed in measured.items() if isinstance(way, Setting)
    }
    assert not measured.keys() & seen.ranges.keys()
    assert len(seen.ranges) > 1000


@pytest.mark.slow
def test_it_runs_reports_and_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rates", "1", "--seeds", "0", "--jobs", "3", "--out", str(tmp_path)]
    assert main(words) == 0
    table = capsys.readouterr().out
    done = read_done(tmp_path / f"{NAME}.jsonl")
    assert {run.line for run in done} == set(LINES)
    assert all(hours is not None and hours > 0 for hours in done.values())
    assert CLUSTER in table
    for line in LINES:
        assert f"| `{line.policy}` | {line.knows} |" in table
    assert main(words) == 0
    assert len((tmp_path / f"{NAME}.jsonl").read_text().splitlines()) == len(LINES)
    assert (tmp_path / f"{NAME}.png").read_bytes().startswith(b"\x89PNG")

    assert TRUE in table
