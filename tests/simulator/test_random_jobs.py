"""The published recipe: our jobs are theirs, to the last bit.

``tests/data/jobs/gen_*.csv`` holds job lists of the published generator; the file name says seed, number of jobs
or mean seconds between arrivals, and whether jobs may have several devices (mgpu) and priorities (prio).
"""

import re
from functools import cache
from pathlib import Path

import pytest

from gavelx.errors import OptionError, WorkloadError
from gavelx.files.csvs import read_rows
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import read_trace
from gavelx.simulator.random_jobs import JOB_TYPES, random_jobs
from gavelx.throughputs import Setting, Throughputs

LISTS = sorted((Path(__file__).parents[1] / "data" / "jobs").glob("gen_*.csv"))
NAME = re.compile(r"gen_s(\d+)_(?:static_n\d+|cont_lam(\d+))_mgpu([01])_prio([01])")


@cache
def simulation() -> Throughputs:
    return load_throughputs("simulation")


def drawn(path: Path):
    """Our jobs with the settings that the file's name states."""
    name = NAME.fullmatch(path.stem)
    assert name is not None
    seed, mean_gap_s, multi_gpu, multi_priority = name.groups()
    return random_jobs(
        len(read_trace(path)),
        simulation(),
        arrival_rate_per_hour=3600.0 / float(mean_gap_s) if mean_gap_s else 0.0,
        seed=int(seed),
        multi_gpu=multi_gpu == "1",
        multi_priority=multi_priority == "1",
    )


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_published_list_is_drawn_exactly(path: Path) -> None:
    jobs = drawn(path)
    durations = [row.number("v100_duration_s") for row in read_rows(path, ["v100_duration_s"])]
    assert [job.duration_s for job in jobs] == durations
    fields = ("id", "job_type", "total_steps", "scale_factor", "weight", "arrival_s")
    for ours, theirs in zip(jobs, read_trace(path), strict=True):
        assert [getattr(ours, name) for name in fields] == [getattr(theirs, name) for name in fields]


def test_there_are_lists_of_every_kind() -> None:
    kinds = {tuple(part is not None for part in NAME.fullmatch(path.stem).groups()) for path in LISTS}
    assert len(LISTS) == 10
    assert len(kinds) == 2


def test_a_job_is_the_same_at_every_rate() -> None:
    some, more = (random_jobs(20, simulation(), arrival_rate_per_hour=rate) for rate in (0.5, 4.0))
    for a, b in zip(some, more, strict=True):
        assert (a.job_type, a.total_steps) == (b.job_type, b.total_steps)
        assert a.arrival_s == pytest.approx(8.0 * b.arrival_s)


def test_a_longer_list_begins_with_the_shorter() -> None:
    assert random_jobs(50, simulation(), seed=3)[:20] == random_jobs(20, simulation(), seed=3)


def test_one_device_unless_asked_for_more() -> None:
    assert {job.scale_factor for job in random_jobs(200, simulation())} == {1}
    wide = random_jobs(200, simulation(), multi_gpu=True)
    assert {job.scale_factor for job in wide} == {1, 2, 4, 8}
    assert {job.weight for job in wide} == {1.0}
    assert {job.weight for job in random_jobs(200, simulation(), multi_priority=True)} == {1.0, 5.0}


def test_the_job_types_are_those_of_the_table() -> None:
    assert set(JOB_TYPES) == set(simulation().job_types)
    assert len(JOB_TYPES) == 26


@pytest.mark.parametrize(
    ("count", "rate", "said"),
    [(0, 0.0, "--jobs: 0 jobs; expected at least 1"), (-1, 0.0, "--jobs"), (1, -1.0, "--arrival-rate: -1.0")]
    + [(1, rate, "--arrival-rate") for rate in (float("nan"), float("inf"))],
)
def test_what_cannot_be_drawn(count: int, rate: float, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        random_jobs(count, simulation(), arrival_rate_per_hour=rate)


def test_a_table_that_does_not_know_the_jobs() -> None:
    other = Throughputs({Setting("mine", "v100"): 1.0}, name="mine.csv")
    with pytest.raises(
        WorkloadError, match=r"throughputs mine.csv: no speed of '.*' on 1 v100.*--table simulation"
    ):
        random_jobs(1, other)
