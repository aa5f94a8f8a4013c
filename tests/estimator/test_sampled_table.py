"""Tables drawn from the ranges of estimated speeds."""

import math

import numpy as np

from gavelx.estimator.sampled_table import DEVICE, JOB, sampled
from gavelx.throughputs import Pairing, Setting, Throughputs

A, B, WIDE, ELSEWHERE = Setting("a", "x"), Setting("b", "x"), Setting("a", "x", 2), Setting("a", "y")
BESIDE = Pairing("a", "b", "x")
TABLE = Throughputs(
    {A: 10.0, B: 3.0, WIDE: 18.0, ELSEWHERE: 5.0, Setting("c", "x"): 7.0, Setting("d", "x"): 0.0},
    {BESIDE: 4.0},
    "mine",
    {way: (mid / 2, mid * 2) for way, mid in ((A, 10.0), (B, 3.0), (WIDE, 18.0), (ELSEWHERE, 5.0), (BESIDE, 4.0))},
)


def test_a_draw_is_repeated_by_its_seed_and_has_no_ranges() -> None:
    one, again, other = sampled(TABLE, 1), sampled(TABLE, 1), sampled(TABLE, 2)
    assert one == again
    assert one.isolated != other.isolated
    assert not one.ranges


def test_measured_speeds_and_those_that_cannot_run_stay() -> None:
    one = sampled(TABLE, 1)
    assert (one.isolated[Setting("c", "x")], one.isolated[Setting("d", "x")]) == (7.0, 0.0)


def test_nine_in_ten_draws_are_in_the_range_and_errors_on_a_device_are_alike() -> None:
    draws = [sampled(TABLE, seed) for seed in range(400)]
    logs = {
        way: np.log([{**one.isolated, **one.colocated}[way] / (TABLE.ranges[way][0] * 2) for one in draws])
        for way in TABLE.ranges
    }
    for of_way in logs.values():
        assert 0.86 < np.mean(np.abs(of_way) <= math.log(2)) < 0.94
    correlation = {way: np.corrcoef(logs[A], logs[way])[0, 1] for way in TABLE.ranges}
    assert abs(correlation[WIDE] - DEVICE - JOB) < 0.12
    assert abs(correlation[B] - DEVICE) < 0.15
    assert abs(correlation[ELSEWHERE]) < 0.15


def test_a_lopsided_range_is_drawn_on_both_sides() -> None:
    table = Throughputs({A: 10.0}, ranges={A: (9.0, 40.0)})
    drawn = np.array([sampled(table, seed).isolated[A] for seed in range(400)])
    assert 0.02 < np.mean(drawn < 9.0) < 0.09
    assert 0.02 < np.mean(drawn > 40.0) < 0.09
