"""What an estimator believes, as a table that is kept up to date."""

from collections.abc import Sequence

import pytest

from gavelx.estimator.base import LEVEL
from gavelx.estimator.estimated_table import Believed, throughputs_of, ways_of
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.throughputs import Pairing, Setting
from tests.estimator.guessing import Guessing

WAYS = ways_of([f"job {n}" for n in range(20)], ["v100"])


class Counting(Guessing):
    """Counts how many speeds it was asked for."""

    asked = 0

    def estimate(self, wanted: Sequence[Way], level: float = LEVEL) -> list[Estimate]:
        self.asked += len(wanted)
        return super().estimate(wanted, level)


def test_a_measured_speed_is_in_the_table_at_once_and_the_rest_is_asked_for_ever_more_seldom() -> None:
    estimator = Counting(dict.fromkeys(WAYS, 2.0))
    learner = Believed(estimator, WAYS)
    learner.observe([Measurement(way, 5.0) for way in WAYS[:15]])
    assert learner.throughputs().isolated[WAYS[14]] == 5.0
    assert estimator.asked == 20
    learner.observe([Measurement(WAYS[15], 7.0), Measurement(WAYS[0], 6.0)])  # of 15, one more is few
    table = learner.throughputs()
    assert estimator.asked == 22
    assert table.isolated[WAYS[15]] == 7.0
    assert table.isolated[WAYS[0]] == pytest.approx(5.5)
    assert set(table.ranges) == set(WAYS[16:])
    assert learner.throughputs() is table  # nothing new
    learner.observe([Measurement(WAYS[16], 7.0)])  # now two more
    assert learner.throughputs() == throughputs_of(estimator, WAYS)
    assert estimator.asked == 22 + 20 + 20


def test_a_measured_way_that_nobody_wants_is_left_out() -> None:
    learner = Believed(Guessing({}), WAYS[:2])
    learner.throughputs()
    learner.observe([Measurement(Setting("other", "v100"), 1.0)])
    assert learner.throughputs().isolated == {}


def test_pairs_are_among_the_ways_only_when_asked_for() -> None:
    assert not [way for way in ways_of(["a"], ["v100"], (1, 2)) if isinstance(way, Pairing)]
