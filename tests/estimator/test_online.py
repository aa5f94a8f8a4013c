"""Measurements of leases put a table right, and one bad lease does not."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.estimator.online import ENOUGH, KEPT, Online
from gavelx.measurements import Measurement
from gavelx.throughputs import Setting

WAY = Setting("mine", "v100")


def seen(speed: float, n: int = 0, error: float = 0.02) -> Measurement:
    return Measurement(WAY, speed, error, 60.0, f"{n}")


def after(speeds: list[float], table: float | None = 10.0) -> Online:
    online = Online({} if table is None else {WAY: table})
    for n, speed in enumerate(speeds):
        online.observe(seen(speed, n))
    return online


def used(online: Online) -> float:
    """What is used in place of the table's 10."""
    return online.better(WAY, 10.0) or 10.0


def around(speed: float, n: int, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    return [speed * math.exp(chance.gauss(0.0, 0.02)) for _ in range(n)]


def test_a_table_that_is_right_stays() -> None:
    online = after(around(10.1, 20))
    assert used(online) == 10.0 and online.wrong() == []
    found = online.estimate(WAY)
    assert found.lower < 10.1 < found.upper < found.lower * 1.05 and found.origin == "measured"


def test_a_wrong_profile_is_named_and_not_used_any_more() -> None:
    online = after(around(6.0, ENOUGH - 1))
    assert used(online) == 10.0 and online.wrong() == []
    online = after(around(6.0, ENOUGH))
    assert used(online) == pytest.approx(6.0, rel=0.05) and online.wrong() == [WAY]


def test_what_the_table_does_not_know_is_learned() -> None:
    assert after([6.0], None).better(WAY, None) is None
    assert after(around(6.0, 3), None).better(WAY, None) == pytest.approx(6.0, rel=0.05)
    assert after([], None).estimate(WAY).origin == "unknown"


@pytest.mark.parametrize("outlier", [0.01, 3.0, 30.0, 1e6])
def test_one_lease_that_is_off_changes_nothing(outlier: float) -> None:
    for place in (3, 7, 15):
        speeds = around(10.0, 16)
        speeds[place:place] = [outlier]
        online = after(speeds)
        assert used(online) == 10.0
        learned = online.learned(WAY)
        assert learned is not None and learned.drifts == 0


def test_a_third_of_leases_off_does_not_matter() -> None:
    chance = random.Random(3)
    online = after([speed if chance.random() > 0.3 else speed / 2 for speed in around(10.0, KEPT)])
    assert used(online) == 10.0


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25, 2.0])
def test_drift_is_noticed_soon_and_the_old_speed_forgotten(factor: float) -> None:
    online = after(around(10.0, 20) + around(10.0 * factor, 8, seed=1))
    learned = online.learned(WAY)
    assert learned is not None and learned.drifts == 1
    assert int(learned.drifted_at) - 20 <= 4
    assert used(online) == pytest.approx(10.0 * factor, rel=0.05)
    assert learned.count == 28


def test_no_drift_is_seen_where_there_is_none() -> None:
    alarms = 0
    for seed in range(50):
        learned = after(around(10.0, 100, seed)).learned(WAY)
        assert learned is not None
        alarms += learned.drifts
    assert alarms <= 12  # one in 400 leases or so


def test_intervals_hold_the_truth() -> None:
    held = 0
    for seed in range(200):
        found = after(around(10.0, 12, seed)).estimate(WAY)
        held += found.lower <= 10.0 <= found.upper
    assert 170 <= held <= 200


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=60))
def test_whatever_comes_it_stands(pairs: list[tuple[float, float]]) -> None:
    online = Online({WAY: 10.0})
    for speed, error in pairs:
        online.observe(seen(speed, error=error))
    assert 0 < used(online) < math.inf
