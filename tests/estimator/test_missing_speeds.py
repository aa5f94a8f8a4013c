"""Which speeds are missing, and how they are filled in."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gavelx.elastic import Elastic
from gavelx.estimator.base import LEVEL, Estimator
from gavelx.estimator.missing_speeds import filled, missing_ways
from gavelx.estimator.sampled_table import sampled
from gavelx.jobs import Job
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.throughputs import Pairing, Setting, Size, Throughputs

TABLE = Throughputs({Setting("a", "old"): 4.0, Setting("a", "old", 2): 7.0}, name="mine")
JOBS = [Job(0, "a", 10.0), Job(1, "a", 10.0, scale_factor=2), Job(2, "b", 10.0)]


class Told(Estimator):
    """2 steps/s everywhere, 0 for gangs, nothing about pairs."""

    def observe(self, measurements: Iterable[Measurement]) -> None:
        """Nothing is learnt."""

    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        unknown = Estimate(float("nan"), float("nan"), float("nan"), "unknown")
        return [
            unknown
            if isinstance(way, Pairing)
            else Estimate(0.0, 0.0, 0.0, "estimated")
            if way.scale_factor > 1
            else Estimate(2.0, 1.0, 3.0, "estimated")
            for way in wanted
        ]


def test_a_shipped_table_is_complete_for_its_own_types() -> None:
    ways = missing_ways(JOBS, ["old", "new"], TABLE, only_new_types=True)
    assert {way.accelerator for way in ways if way.job_type == "a"} == {"new"}
    assert Setting("b", "old") in ways, "the table does not have this job type"
    assert Setting("a", "new", 2, False) in ways


def test_a_users_table_is_filled_wherever_it_has_gaps() -> None:
    ways = missing_ways(JOBS, ["old", "new"], TABLE, only_new_types=False)
    assert Setting("a", "old", 2, False) in ways
    assert Setting("a", "old") not in ways


def test_pairs_are_wanted_on_request() -> None:
    assert not [way for way in missing_ways(JOBS, ["new"], TABLE, only_new_types=True) if isinstance(way, Pairing)]
    ways = missing_ways(JOBS, ["old", "new"], TABLE, only_new_types=True, pairs=True)
    assert {way for way in ways if isinstance(way, Pairing)} == {Pairing(a, b, "new") for a in "ab" for b in "ab"}


def test_estimates_get_ranges_zeros_get_reasons_and_unknown_stays_so() -> None:
    ways = [Setting("a", "new"), Setting("a", "new", 2), Pairing("a", "b", "new")]
    table = filled(TABLE, ways, Told())
    assert table.isolated[ways[0]] == 2.0
    assert table.ranges == {ways[0]: (1.0, 3.0)}
    assert table.isolated[ways[1]] == 0.0
    assert table.reasons == {ways[1]: "a job that needs no more memory failed there"}
    assert not table.colocated
    assert table.name == "mine"
    assert TABLE.isolated.keys() < table.isolated.keys()


def test_the_widths_of_elastic_jobs_are_wanted_too() -> None:
    job = Job(0, "a", 10.0, scale_factor=2, elastic=Elastic.of("workers:1-6"))
    ways = missing_ways([job], ["new"], TABLE, only_new_types=True)
    assert sorted({way.scale_factor for way in ways if isinstance(way, Setting)}) == [1, 2, 4, 6]


def test_sizes_and_noise_scales_stay_when_gaps_are_filled_and_speeds_are_drawn() -> None:
    table = replace(TABLE, sizes={Size("a", "old", 2, 64): 3.0}, noise_scale={"a": 100.0})
    full = filled(table, [Setting("a", "new")], Told())
    drawn = sampled(full, 1)
    assert full.sizes == drawn.sizes == table.sizes
    assert full.noise_scale == drawn.noise_scale == table.noise_scale
    assert drawn.isolated.keys() == full.isolated.keys()
    assert not drawn.ranges
